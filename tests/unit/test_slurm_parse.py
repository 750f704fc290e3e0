"""What Slurm's commands print, as values; the samples are written after its manuals, of several versions."""

import pytest

from iris_fed.backends.slurm import parse
from iris_fed.backends.slurm.parse import Garbled, SlurmJob, SlurmNode

GIB = 2**30
TAG = "iris-fed cluster=lab database=db-1"


def line(columns: parse.Columns, *values: str) -> str:
    return "".join(value[:width].ljust(width) for (_, width), value in zip(columns, values, strict=True))


def job(*values: str) -> str:
    return line(parse.QUEUE_COLUMNS, *values)


def node(*values: str) -> str:
    return line(parse.NODE_COLUMNS, *values)


class TestQueue:
    def test_a_running_job_of_ours_is_read_whole(self) -> None:
        text = job("4711", "u1", "RUNNING", "cpu=4,mem=6G,node=2,billing=4,gres/gpu=2", TAG, "n[1-2]", "None") + "\n"
        (found,) = parse.parse_queue(text)
        assert found == SlurmJob("4711", "u1", "RUNNING", "None", "lab", "db-1", ("n1", "n2"), 4, 6 * GIB)

    def test_jobs_of_others_are_passed_over(self) -> None:
        text = "\n".join(
            [
                job("1", "train", "RUNNING", "cpu=1,mem=1G", "(null)", "n1", "None"),
                job("2_[1-50]", "array", "PENDING", "N/A", "mine", "", "Priority"),
                job("3", "u", "PENDING", "N/A", TAG, "", "Resources"),
            ]
        )
        assert [(one.job_id, one.cpus, one.nodes) for one in parse.parse_queue(text)] == [("3", 0, ())]

    def test_a_job_that_is_asked_for_by_name_counts_though_a_site_writes_comments_of_its_own(self) -> None:
        text = job("3", "u", "PENDING", "N/A", "project=x", "", "Resources")
        assert [one.name for one in parse.parse_queue(text, {"u"})] == ["u"]
        assert list(parse.parse_queue(text, {"v"})) == []

    @pytest.mark.parametrize(
        "garbage",
        [
            "slurm_load_jobs error: Unexpected message received",
            "\x00\x01\x02",
            job("", "u", "RUNNING", "", TAG, "", ""),
        ],
    )
    def test_what_is_no_list_of_jobs_does_not_say_that_there_are_none(self, garbage: str) -> None:
        with pytest.raises(Garbled, match="squeue printed"):
            list(parse.parse_queue(garbage))

    def test_no_output_is_no_job(self) -> None:
        assert list(parse.parse_queue("")) == []

    @pytest.mark.parametrize(("shown", "state"), [("CANCELLED", "CANCELLED"), ("CANCELLED by 1000", "CANCELLED")])
    def test_a_state_is_its_first_word(self, shown: str, state: str) -> None:
        assert [one.state for one in parse.parse_queue(job("1", "u", shown, "", TAG, "", ""))] == [state]


class TestNodes:
    def test_a_machine_that_several_partitions_list_counts_once(self) -> None:
        row = ("n1", "mixed", "2/6/0/8", "8192", "2048", "gpu:h100:8(S:0-1)", "gpu:h100:2(IDX:0-1)", "fast,ib")
        expected = SlurmNode("n1", True, 8, 8 * GIB, {"h100": 8}, 2, 2 * GIB, {"h100": 2}, ("fast", "ib"))
        assert parse.parse_nodes(node(*row) + "\n" + node(*row) + "\n") == (expected,)

    @pytest.mark.parametrize(
        ("state", "usable"),
        [
            *(
                (state, True)
                for state in ("idle", "mixed", "allocated", "completing", "planned", "idle~", "mixed#", "mixed-")
            ),
            *((state, False) for state in ("down", "down*", "idle*", "drained", "draining", "drained-", "fail")),
            *((state, False) for state in ("maint", "reserved", "unknown", "reboot", "inval", "future")),
        ],
    )
    def test_only_what_may_run_jobs_is_usable(self, state: str, usable: bool) -> None:
        row = node("n1", state, "0/8/0/8", "8192", "0", "(null)", "gpu:0", "(null)")
        (found,) = parse.parse_nodes(row)
        assert (found.usable, found.gpus, found.used_gpus, found.features) == (usable, {}, {}, ())

    @pytest.mark.parametrize("row", ["no machine", node("n1", "idle", "0/8", "8192", "0", "", "", "")])
    def test_what_is_no_list_of_machines_is_told(self, row: str) -> None:
        with pytest.raises(Garbled, match="sinfo printed"):
            parse.parse_nodes(row)


@pytest.mark.parametrize(
    ("gres", "counts"),
    [
        ("gpu:h100:8", {"h100": 8}),
        ("gpu:h100:8(S:0-1),gpu:a100:2(S:0,1)", {"h100": 8, "a100": 2}),
        ("gpu:4", {"": 4}),
        ("gpu:h100:0(IDX:N/A)", {}),
        ("gres/gpu:nvidia_h100_80gb_hbm3:4(IDX:0-3),shard:10", {"nvidia_h100_80gb_hbm3": 4}),
        ("(null)", {}),
    ],
)
def test_gpus_are_counted_by_type(gres: str, counts: dict[str, int]) -> None:
    assert parse.parse_gpus(gres) == counts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("n[1-3,07],gpu1", ("n1", "n2", "n3", "n07", "gpu1")),
        ("a[08-10]x", ("a08x", "a09x", "a10x")),
        ("n1,n[2-", ("n1",)),
        ("(null)", ()),
    ],
)
def test_a_list_of_machines_names_each(text: str, names: tuple[str, ...]) -> None:
    assert parse.expand_nodes(text) == names


@pytest.mark.parametrize(
    ("text", "size"),
    [("2G", 2 * GIB), ("2048M", 2 * GIB), ("2048", 2 * GIB), ("1.5T", 1536 * GIB), ("N/A", 0)],
)
def test_sizes_have_slurms_units(text: str, size: int) -> None:
    assert parse.parse_size(text) == size


def test_the_id_of_a_new_job_may_come_with_its_clusters_name_and_after_a_banner() -> None:
    assert [parse.parse_job_id(text) for text in ("12\n", "12;big\n", "Welcome!\n12\n")] == ["12", "12", "12"]
    with pytest.raises(Garbled):
        parse.parse_job_id("Submitted batch job 12")


def test_the_accounting_tells_the_state_of_each_name() -> None:
    text = "u1|CANCELLED by 1000\nu2|OUT_OF_MEMORY\nu1|TIMEOUT\n"
    assert parse.parse_accounting(text) == {"u1": "TIMEOUT", "u2": "OUT_OF_MEMORY"}
    with pytest.raises(Garbled):
        parse.parse_accounting("Slurm accounting storage is disabled")
