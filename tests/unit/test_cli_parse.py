import pytest

from iris_fed.cli.parse import (
    UsageError,
    exit_code,
    name_from_command,
    parse_constraint,
    parse_cpu,
    parse_duration,
    parse_env,
    parse_gpu,
    parse_size,
)
from iris_fed.model.constraints import Constraint, Op


@pytest.mark.parametrize(
    ("text", "variant", "count"),
    [
        ("H100x8", "h100", 8),
        ("H100", "h100", 1),
        ("h100:8", "h100", 8),
        ("8", "", 8),
        ("rtx4090", "rtx4090", 1),
        ("gtx1080x2", "gtx1080", 2),
        ("mi300x:4", "mi300x", 4),
        ("a100-80gbx16", "a100-80gb", 16),
    ],
)
def test_a_gpu_is_read_as_variant_and_count(text: str, variant: str, count: int) -> None:
    assert parse_gpu(text) == (variant, count)


@pytest.mark.parametrize("text", ["", "H100x0", "0", "x8:", "H100:", "H100 8", ":8", "-1", f"h100:{2**31}"])
def test_a_gpu_that_makes_no_sense_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--gpu"):
        parse_gpu(text)


@pytest.mark.parametrize(("text", "millicores"), [("2", 2000), ("0.5", 500), ("500m", 500), ("1.25", 1250)])
def test_cores_are_read_as_thousandths(text: str, millicores: int) -> None:
    assert parse_cpu(text) == millicores


@pytest.mark.parametrize("text", ["0", "-1", "many", "1e3", "0m", "9999999999"])
def test_an_impossible_number_of_cores_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--cpu"):
        parse_cpu(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("8g", 8 * 10**9),
        ("8GiB", 8 * 2**30),
        ("8Gi", 8 * 2**30),
        ("1.5 MB", 1_500_000),
        ("4096", 4096),
        ("512KiB", 512 * 1024),
    ],
)
def test_a_size_counts_in_thousands_unless_it_says_i(text: str, size: int) -> None:
    assert parse_size(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "0", "-8GB", "8XB", "GB", "8iB", "1e9", "99999999999PB"])
def test_a_size_that_makes_no_sense_names_its_option(text: str) -> None:
    with pytest.raises(UsageError, match="--disk"):
        parse_size(text, "--disk")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("90s", 90_000), ("2h", 7_200_000), ("1h30m", 5_400_000), ("45", 45_000), ("250ms", 250), ("1.5h", 5_400_000)],
)
def test_a_duration_is_read_as_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_duration(text, "--timeout") == milliseconds


@pytest.mark.parametrize("text", ["", "0", "2 hours", "h", "-5s", "1h 30", "400d", "1h;30m"])
def test_a_duration_that_makes_no_sense_names_its_option(text: str) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        parse_duration(text, "--timeout")


def test_an_environment_pair_may_hold_more_equal_signs_and_the_last_of_a_key_wins() -> None:
    assert parse_env(["A=1", "OPTS=--x=1 --y=2", "A=2", "EMPTY="], {}) == {
        "A": "2",
        "OPTS": "--x=1 --y=2",
        "EMPTY": "",
    }


def test_a_bare_key_takes_its_value_from_here() -> None:
    assert parse_env(["HOME"], {"HOME": "/root"}) == {"HOME": "/root"}


@pytest.mark.parametrize("pair", ["=x", "A B=1", "1A=2", "MISSING", ""])
def test_an_environment_pair_without_a_legal_key_or_value_is_a_usage_error(pair: str) -> None:
    with pytest.raises(UsageError, match="-e"):
        parse_env([pair], {})


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("region=eu-west4", Constraint("region", Op.EQ, ("eu-west4",))),
        ("zone != a", Constraint("zone", Op.NE, ("a",))),
        ("driver>=550", Constraint("driver", Op.GE, (550,))),
        ("load < 0.5", Constraint("load", Op.LT, (0.5,))),
        ("region in eu-west4, us-east1", Constraint("region", Op.IN, ("eu-west4", "us-east1"))),
        ("region in (a,b)", Constraint("region", Op.IN, ("a", "b"))),
        ("infiniband exists", Constraint("infiniband", Op.EXISTS)),
        ("preemptible not exists", Constraint("preemptible", Op.NOT_EXISTS)),
        ("count=8", Constraint("count", Op.EQ, ("8",))),
    ],
)
def test_a_constraint_is_read(text: str, constraint: Constraint) -> None:
    assert parse_constraint(text) == constraint


@pytest.mark.parametrize("text", ["region", "=eu", "region=", "driver>new", "driver>nan", "region in a,,b", "a b=c"])
def test_a_malformed_constraint_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--constraint"):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train-7f3a2c"),
        (["python3.11", "-u", "src/eval_all.py"], "eval-all-7f3a2c"),
        (["python", "-m", "lab.finetune"], "finetune-7f3a2c"),
        (["bash", "-c", "echo hello world"], "bash-7f3a2c"),
        (["./bin/Do It!"], "do-it-7f3a2c"),
        (["/"], "job-7f3a2c"),
        (["x" * 200], "x" * 40 + "-7f3a2c"),
    ],
)
def test_a_job_is_named_after_what_it_runs(argv: list[str], name: str) -> None:
    assert name_from_command(argv, "7f3a2c") == name


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([(False, 0), (True, 3), (True, 7)], 3),
        ([(False, 143), (True, 3)], 3),
        ([(True, None), (True, 9)], 9),
        ([(False, 137)], 137),
        ([(True, -9)], 137),
        ([(True, 4000)], 255),
        ([(True, None)], 125),
        ([(False, 0)], 125),
        ([], 125),
    ],
)
def test_the_first_failed_task_with_a_code_decides_how_the_command_exits(
    ends: list[tuple[bool, int | None]], code: int
) -> None:
    assert exit_code(False, ends, 125) == code


def test_a_job_that_succeeded_exits_0_whatever_its_tasks_went_through() -> None:
    assert exit_code(True, [(True, 3), (False, 0)], 125) == 0
