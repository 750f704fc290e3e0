"""Whether this cluster takes a job that another hands it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_fed.decide.admission import (
    Replay,
    Trust,
    check_handoff,
    check_replay,
    check_taken,
    submitter_allowed,
    unhostable,
)
from iris_fed.decide.existing import Existing
from iris_fed.decide.newjob import new_job, received_from
from iris_fed.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    IrisFedError,
    PermissionDenied,
)
from iris_fed.model.federation import ReceivedHandle
from iris_fed.model.jobs import Job
from iris_fed.model.limits import REPLAY_WINDOW_MS
from iris_fed.model.spec import Handoff, JobSpec, Submission
from iris_fed.model.states import ExistingJobPolicy, JobState, ReceivedState

NOW = 1_000_000
TRUST = Trust("hub", ("*@lab.org",), frozenset({"moon"}))
HANDOFF = Handoff("hub", "alice", "alice@lab.org", "n1", "db-1", NOW + 60_000)
SUBMISSION = Submission("/alice/hub.train", JobSpec(("true",)), handoff=HANDOFF)


def known(state: ReceivedState) -> ReceivedHandle:
    return ReceivedHandle(nonce="n1", requester="hub", job_id="/alice/hub.train", state=state, created_ms=1)


def held(state: JobState = JobState.RUNNING, requester: str = "hub") -> Job:
    job = new_job(SUBMISSION, SUBMISSION.name, "alice", "alice@lab.org", 1)
    if requester:
        job = received_from(job, requester, "n0")
    return replace(job, state=state)


def check(handoff: Handoff = HANDOFF, trust: Trust = TRUST, name: str = SUBMISSION.name) -> None:
    check_handoff(replace(SUBMISSION, name=name), handoff, trust, "db-1", NOW)


# --- replays ---


@pytest.mark.parametrize("state", [ReceivedState.ADMITTED, ReceivedState.PRUNED])
def test_an_incarnation_that_was_taken_is_acknowledged_again(state: ReceivedState) -> None:
    assert check_replay(HANDOFF, known(state)) is Replay.ACK


@pytest.mark.parametrize(
    ("state", "words"),
    [(ReceivedState.FENCED, "was cancelled before it arrived"), (ReceivedState.SUPERSEDED, "has a newer incarnation")],
)
def test_an_incarnation_that_must_not_run_is_refused_for_ever(state: ReceivedState, words: str) -> None:
    with pytest.raises(AlreadyExists, match=words):
        check_replay(HANDOFF, known(state))


def test_what_was_never_seen_is_new() -> None:
    assert check_replay(HANDOFF, None) is Replay.NEW


# --- the order of the rules ---


def test_a_sound_handoff_is_taken() -> None:
    check()
    check(replace(HANDOFF, database_id="", expires_ms=None))


def test_a_parent_that_speaks_to_another_database_must_sync_before_anything_else_counts() -> None:
    worst = Handoff("hub", "x", "nobody@evil", "n1", "db-0", NOW - 1)
    with pytest.raises(Aborted, match="sync first"):
        check(worst, name="/alice/moon.train")
    with pytest.raises(InvalidArgument, match="expired"):
        check(replace(worst, database_id="db-1"), name="/alice/moon.train")
    with pytest.raises(PermissionDenied):
        check(replace(worst, database_id="db-1", expires_ms=None), name="/alice/moon.train")
    with pytest.raises(InvalidArgument, match=r"'moon\.' are kept for cluster moon"):
        check(name="/alice/moon.train")


@pytest.mark.parametrize(
    ("expires_ms", "refused"),
    [(NOW, True), (NOW + 1, False), (NOW + REPLAY_WINDOW_MS, False), (NOW + REPLAY_WINDOW_MS + 1, True)],
)
def test_a_handoff_must_expire_in_the_future_and_within_the_replay_window(expires_ms: int, refused: bool) -> None:
    handoff = replace(HANDOFF, expires_ms=expires_ms)
    if not refused:
        check(handoff)
        return
    with pytest.raises(InvalidArgument) as error:
        check(handoff)
    assert error.value.field == "federation.expires_ms"


def test_a_refused_submitter_is_named_and_told_who_decides() -> None:
    with pytest.raises(PermissionDenied, match=r"no jobs of eve@evil\.org from hub; .* auth\.federation_peers"):
        check(replace(HANDOFF, submitting_user="eve@evil.org"))
    with pytest.raises(PermissionDenied, match="an unnamed submitter"):
        check(replace(HANDOFF, submitting_user=""))


@pytest.mark.parametrize("name", ["train", "", "/", "/alice", "//x", "/alice/../x", "/alice/moon.x/0"])
def test_a_name_that_is_no_job_id_is_the_requesters_mistake_and_nothing_worse(name: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        check(name=name)
    assert error.value.field == "name"


@pytest.mark.parametrize("name", ["/alice/moon", "/alice/mars.x", "/moon.x/train", "/alice/train.moon.x"])
def test_only_names_that_begin_with_a_trusted_cluster_and_a_dot_are_kept(name: str) -> None:
    check(name=name)


# --- a taken id ---


@pytest.mark.parametrize("policy", ExistingJobPolicy)
@pytest.mark.parametrize("requester", ["", "moon"])
@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED])
def test_no_policy_takes_a_name_from_another_owner(policy: ExistingJobPolicy, requester: str, state: JobState) -> None:
    with pytest.raises(AlreadyExists, match="belongs to somebody else"):
        check_taken(replace(SUBMISSION, policy=policy), HANDOFF, held(state, requester))


def test_the_requesters_own_job_gives_way_by_policy() -> None:
    def decide(policy: ExistingJobPolicy, state: JobState) -> Existing:
        return check_taken(replace(SUBMISSION, policy=policy), HANDOFF, held(state))

    assert decide(ExistingJobPolicy.KEEP, JobState.RUNNING) is Existing.KEEP
    assert decide(ExistingJobPolicy.RECREATE, JobState.RUNNING) is Existing.STOP
    assert decide(ExistingJobPolicy.UNSPECIFIED, JobState.FAILED) is Existing.REPLACE
    with pytest.raises(AlreadyExists, match=r"/alice/hub\.train exists already \(RUNNING\)"):
        decide(ExistingJobPolicy.UNSPECIFIED, JobState.RUNNING)


# --- submitters ---


@pytest.mark.parametrize(
    ("submitter", "patterns", "allowed"),
    [
        ("alice@lab.org", (), False),
        ("alice@lab.org", ("alice@lab.org",), True),
        ("Alice@LAB.org", ("alice@lab.ORG",), True),
        ("alice@lab.org", ("*@lab.org",), True),
        ("alice@lab.org.evil", ("*@lab.org",), False),
        ("alice@evil-lab.org", ("*@lab.org",), False),
        ("alice@lab.org", ("bob@lab.org", "*@x", "*"), True),
        ("", ("*",), True),
        ("", ("*@lab.org", "?", ""), False),
    ],
)
def test_a_submitter_is_let_in_by_name_by_domain_or_with_everyone(
    submitter: str, patterns: tuple[str, ...], allowed: bool
) -> None:
    assert submitter_allowed(submitter, patterns) is allowed


@given(st.text(max_size=20))
def test_nothing_configured_lets_nobody_in(submitter: str) -> None:
    assert not submitter_allowed(submitter, ())


def test_what_cannot_be_hosted_is_refused_for_good_in_the_words_of_the_miss() -> None:
    error: IrisFedError = unhostable(FailedPrecondition("no h100 here"))
    assert isinstance(error, InvalidArgument)
    assert error.message == "this cluster cannot host it: no h100 here"
