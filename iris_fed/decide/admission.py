"""Whether this cluster takes a job that another hands it (design, "Receive at the peer"). Order matters."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from iris_fed.decide.existing import Existing, choose_existing
from iris_fed.errors import Aborted, AlreadyExists, InvalidArgument, IrisFedError, PermissionDenied
from iris_fed.model.federation import ReceivedHandle
from iris_fed.model.ids import parse_job_id
from iris_fed.model.jobs import Job
from iris_fed.model.limits import REPLAY_WINDOW_MS
from iris_fed.model.spec import Handoff, Submission
from iris_fed.model.states import Band, ReceivedState


class Replay(StrEnum):
    """ACK: the same answer again. NEW: never seen."""

    ACK = "ACK"
    NEW = "NEW"


@dataclass(frozen=True, slots=True)
class Trust:
    """What the operator allows one requester: whose submissions (patterns), and which names it owns."""

    requester: str
    allowed_submitters: tuple[str, ...]
    other_requesters: frozenset[str]
    strongest_band: Band = Band.PRODUCTION


def check_replay(handoff: Handoff, known: ReceivedHandle | None) -> Replay:
    """Raises AlreadyExists for an incarnation that is fenced or superseded: it must not run (again)."""
    if known is None:
        return Replay.NEW
    if known.state in (ReceivedState.ADMITTED, ReceivedState.PRUNED):
        return Replay.ACK
    words = "was cancelled before it arrived" if known.state is ReceivedState.FENCED else "has a newer incarnation"
    raise AlreadyExists(f"this handoff of {known.job_id} {words}")


def check_handoff(submission: Submission, handoff: Handoff, trust: Trust, database_id: str, now_ms: int) -> None:
    """Raises Aborted when the parent speaks of another database, else what is wrong with the handoff."""
    if handoff.database_id and handoff.database_id != database_id:
        raise Aborted("this cluster's database is not the one you last heard of; sync first, then try again")
    expires = handoff.expires_ms
    if expires is not None and expires <= now_ms:
        raise InvalidArgument("this handoff has expired by this cluster's clock", "federation.expires_ms")
    if expires is not None and expires > now_ms + REPLAY_WINDOW_MS:
        raise InvalidArgument("this handoff would outlive the replay window", "federation.expires_ms")
    if not submitter_allowed(handoff.submitting_user, trust.allowed_submitters):
        raise PermissionDenied(
            f"this cluster takes no jobs of {handoff.submitting_user or 'an unnamed submitter'} from "
            f"{trust.requester}; its operator decides that in auth.federation_peers"
        )
    first, dot, _ = parse_job_id(submission.name, "name").root.name.partition(".")
    if dot and first in trust.other_requesters:
        raise InvalidArgument(f"names that begin with {first + '.'!r} are kept for cluster {first}", "name")


def check_taken(submission: Submission, handoff: Handoff, old: Job) -> Existing:
    """What to do when the id is taken. Raises AlreadyExists when it is another owner's, or by policy."""
    if old.requester != handoff.requester:
        raise AlreadyExists(f"{old.job_id} belongs to somebody else on this cluster")
    decision = choose_existing(submission.policy, old.state)
    if decision is Existing.REFUSE:
        raise AlreadyExists(f"{old.job_id} exists already ({old.state.value})")
    return decision


def submitter_allowed(submitter: str, patterns: Iterable[str]) -> bool:
    """Exact, `*@domain`, or `*`. Nothing configured admits nobody."""
    wanted = submitter.casefold()
    return any(pattern == "*" or (wanted and fnmatchcase(wanted, pattern.casefold())) for pattern in patterns)


def unhostable(miss: IrisFedError) -> IrisFedError:
    """This cluster cannot host it: final, in the words of the nearest miss."""
    return InvalidArgument(f"this cluster cannot host it: {miss.message}")
