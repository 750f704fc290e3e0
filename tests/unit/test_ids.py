"""Names of jobs and tasks, and how they fold into a peer's."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iris_fed.errors import InvalidArgument
from iris_fed.model.ids import (
    MAX_COMPONENT_CHARS,
    JobId,
    check_cluster_name,
    check_component,
    fold_remote_id,
    is_task_id,
    parse_job_id,
    parse_task_id,
    task_id,
    unfold_local_id,
)

CLUSTERS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
PARTS = st.text(
    st.characters(codec="utf-8", exclude_characters="/", exclude_categories=("C", "Z")), min_size=1, max_size=12
).filter(lambda part: part not in (".", ".."))
ROOTS = st.builds(lambda user, name: JobId((user, name)), PARTS, PARTS)
ALIKE = st.builds(lambda name: JobId(("u", name)), st.text("ab.-", min_size=1, max_size=6))
"""Names close enough to each other to collide, if anything could."""


def test_a_job_id_is_taken_apart_and_put_together_again() -> None:
    child = parse_job_id("/alice@lab.org/train.v2/eval/deep")
    assert str(child) == "/alice@lab.org/train.v2/eval/deep"
    assert (child.user, child.name, str(child.root), str(child.parent)) == (
        "alice@lab.org",
        "deep",
        "/alice@lab.org/train.v2",
        "/alice@lab.org/train.v2/eval",
    )
    assert not child.is_root
    assert child.root.is_root
    assert child.root.parent is None


@given(ROOTS)
def test_every_legal_name_parses_to_itself(job: JobId) -> None:
    assert parse_job_id(str(job)) == job


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "train",
        "alice/train",
        "/alice",
        "//train",
        "/alice/",
        "/alice//eval",
        "/alice/.",
        "/alice/..",
        "/../train",
        "/alice/tr\nain",
        "/alice/tr\x00ain",
        "/alice/\x1b[31mtrain",
        "/alice/ train",
        "/alice/train ",
        "/alice/train/0",
        "/alice/train/007",
        "/alice/train/12/eval",
        "/alice/\u202etrain",
        "/alice/\ud800",
        "/alice/" + "x" * 129,
        "/" + "/".join(["x" * 100] * 6),
    ],
)
def test_an_illegal_name_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_job_id(text, "name")
    assert refused.value.field == "name"
    assert "\n" not in refused.value.message
    assert "\x1b" not in refused.value.message


def test_digits_are_a_job_name_at_the_root_and_a_task_below_it() -> None:
    assert parse_job_id("/alice/42").name == "42"
    assert is_task_id("/alice/train/0")
    assert not is_task_id("/alice/42")
    assert not is_task_id("/alice/train/00")
    assert parse_task_id("/alice/42/7") == (JobId(("alice", "42")), 7)


@given(ROOTS, st.integers(0, 999_999_999))
def test_a_task_id_parses_to_its_job_and_index(job: JobId, index: int) -> None:
    text = task_id(str(job), index)
    assert parse_task_id(text) == (job, index)
    assert is_task_id(text)


@pytest.mark.parametrize("text", ["", "/alice/train", "/alice/train/-1", "/alice/train/01", "/alice/train/1e3", "0"])
def test_what_names_no_task_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_task_id(text)


@pytest.mark.parametrize("name", ["hub", "a", "0", "gpu-lab", "a" * 32])
def test_a_plain_cluster_name_is_taken(name: str) -> None:
    check_cluster_name(name, "cluster.name")


@pytest.mark.parametrize(
    "name", ["", "local", "Hub", "-hub", "hub-", "hub.a", "hub_a", "a" * 33, "hüb", "hub\n", "hub/x"]
)
def test_a_cluster_name_that_could_be_misread_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^cluster\.name: "):
        check_cluster_name(name, "cluster.name")


@given(ROOTS, CLUSTERS)
def test_folding_into_a_peers_name_is_undone_by_unfolding(job: JobId, cluster: str) -> None:
    remote = fold_remote_id(job, cluster)
    check_component(remote.name, "name")
    assert parse_job_id(str(remote)) == remote
    assert unfold_local_id(remote, cluster) == job


@given(ALIKE, st.sampled_from(["a", "a-b", "b"]), ALIKE, st.sampled_from(["a", "a-b", "b"]))
def test_two_jobs_never_fold_into_one_name(one: JobId, hub: str, other: JobId, lab: str) -> None:
    assume((one, hub) != (other, lab))
    assert fold_remote_id(one, hub) != fold_remote_id(other, lab)


@given(ROOTS, CLUSTERS, CLUSTERS)
def test_a_name_of_one_requester_is_never_another_ones(job: JobId, hub: str, lab: str) -> None:
    assume(hub != lab)
    assert unfold_local_id(fold_remote_id(job, hub), lab) is None


def test_a_job_whose_folded_name_is_too_long_is_refused_with_the_length_that_fits() -> None:
    longest = MAX_COMPONENT_CHARS - len("hub.")
    assert len(fold_remote_id(JobId(("alice", "x" * longest)), "hub").name) == MAX_COMPONENT_CHARS
    with pytest.raises(InvalidArgument, match=f"at most {longest} characters"):
        fold_remote_id(JobId(("alice", "x" * (longest + 1))), "hub")


def test_children_of_a_remote_job_keep_their_place_when_unfolded() -> None:
    assert unfold_local_id(parse_job_id("/alice/hub.train/eval"), "hub") == parse_job_id("/alice/train/eval")
    assert unfold_local_id(parse_job_id("/alice/train/hub.eval"), "hub") is None
    assert unfold_local_id(parse_job_id("/alice/hub."), "hub") is None
