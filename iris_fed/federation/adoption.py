"""Takes over what a peer runs for this cluster and this database does not know: after the database was
lost, or restored from an older copy. Also takes back that a job was lost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from iris_fed.decide import adoption
from iris_fed.decide.adoption import Adoption, Terms
from iris_fed.federation.apart import apply_apart
from iris_fed.model.federation import Delta, SentHandle
from iris_fed.model.ids import JobId, parse_job_id, unfold_local_id
from iris_fed.model.jobs import Job
from iris_fed.model.states import TERMINAL_JOB_STATES
from iris_fed.store.commit import commit
from iris_fed.store.db import Tx
from iris_fed.store.handles import insert_sent, open_sent_by_job, reopen_sent, sent_by_nonce, update_sent
from iris_fed.store.jobs import delete_job, delete_mirrored_parts, insert_job, job_by_id, load_draft
from iris_fed.store.tree import unfinished_below
from iris_fed.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """How a parent knows its own: its name, and whether it minted a nonce for a remote job id."""

    cluster: str
    minted: Callable[[str, str], bool]


@dataclass(slots=True)
class Adopted:
    """`changed` job uids; `passed` nonces of ours that are of no use any more; `later`: how many are to be
    asked for again; `found_again`: a lost job was taken back, and all of it is to be told anew; `orphans`:
    remote ids of what runs there although its name is used here;
    `replaced_attempts` of jobs here that gave way, whose files may go."""

    changed: set[int] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    later: int = 0
    found_again: bool = False
    orphans: set[str] = field(default_factory=set)
    replaced_attempts: list[str] = field(default_factory=list)


def adopt_unknown(tx: Tx, deltas: Sequence[Delta], database_id: str, origin: Origin, terms: Terms) -> Adopted:
    """Before the rows are applied: afterwards each row of ours that is to be followed has its handle."""
    result = Adopted()
    for delta in deltas:
        handle = sent_by_nonce(tx, terms.peer, delta.nonce)
        if not delta.nonce and not database_id:
            handle = last_acknowledged(tx, delta, origin, terms.peer, terms.asked_ms)
        if handle is not None:
            job = job_by_id(tx, handle.job_id) if handle.lost else None
            if adoption.shows_lost_again(delta, handle, job):
                assert job is not None
                result.changed |= apply_apart(tx, handle, partial(_take_back, tx, handle, job, terms)) or set()
                result.found_again = True
            continue
        root = parse_job_id(delta.job_id).root
        local = unfold_local_id(root, origin.cluster)
        if not delta.nonce or local is None or not origin.minted(delta.nonce, str(root)):
            continue
        if str(root) != delta.job_id:
            _weigh_child(delta, terms, result)
        else:
            _adopt_one(tx, delta, local, database_id, terms, result)
    return result


def last_acknowledged(tx: Tx, delta: Delta, origin: Origin, peer: str, asked_ms: int) -> SentHandle | None:
    """What a row of a peer without our extensions, which names no incarnation, speaks of: the last one of the name,
    if the peer had acknowledged it before it was asked. It may be over here."""
    local = unfold_local_id(parse_job_id(delta.job_id).root, origin.cluster)
    job = job_by_id(tx, str(local)) if local is not None else None
    handle = sent_by_nonce(tx, peer, job.nonce) if job is not None else None
    acked_ms = handle.acked_ms if handle is not None else None
    return handle if acked_ms is not None and acked_ms < asked_ms else None


def _weigh_child(delta: Delta, terms: Terms, result: Adopted) -> None:
    """A child whose root is not known (yet): it counts only while its root may still be adopted."""
    report = delta.report
    over = report is None or delta.tombstone or report.state in TERMINAL_JOB_STATES
    old = report is None or terms.now_ms - (report.finished_ms or 0) > terms.retention_ms
    if over and old:
        result.passed.add(delta.nonce)


def _adopt_one(tx: Tx, delta: Delta, local: JobId, database_id: str, terms: Terms, result: Adopted) -> None:
    job_id = str(local)
    job, old = job_by_id(tx, job_id), open_sent_by_job(tx, job_id)
    choice = adoption.choose_adoption(delta, job, old, terms)
    handle = adoption.adopted_handle(delta, job_id, local.user, database_id, terms)
    match choice:
        case Adoption.ADOPT if job is not None and not job.cluster and unfinished_below(tx, job.uid):
            result.later += 1
        case Adoption.ADOPT:
            done = apply_apart(tx, handle, partial(_insert, tx, delta, handle, job, terms, result))
            result.changed |= done or set()
        case Adoption.GIVE_WAY:
            assert job is not None
            assert old is not None
            done = apply_apart(tx, handle, partial(_replace, tx, delta, old, handle, job, terms))
            result.changed |= done or set()
        case Adoption.ORPHAN:
            result.passed.add(delta.nonce)
            result.orphans.add(delta.job_id)
            log.warning("sync.orphan", peer=terms.peer, job=delta.job_id, nonce=delta.nonce)
        case Adoption.LATER:
            result.passed.add(delta.nonce)
            result.later += 1
        case Adoption.PASS:
            result.passed.add(delta.nonce)


def _insert(tx: Tx, delta: Delta, handle: SentHandle, former: Job | None, terms: Terms, result: Adopted) -> set[int]:
    assert delta.report is not None
    if former is not None:
        result.replaced_attempts += delete_job(tx, former.uid)
    job, event = adoption.adopted_job(handle, delta.report, terms.now_ms)
    insert_sent(tx, handle)
    log.info("sync.adopted", peer=terms.peer, job=handle.job_id, nonce=handle.nonce)
    return {insert_job(tx, job, [event]).uid}


def _replace(tx: Tx, delta: Delta, old: SentHandle, handle: SentHandle, job: Job, terms: Terms) -> set[int]:
    assert delta.report is not None
    delete_mirrored_parts(tx, job.uid)
    draft = load_draft(tx, job, [])
    closed = adoption.give_way(old, handle, draft, delta.report, terms.now_ms)
    update_sent(tx, old, closed)
    insert_sent(tx, adoption.inherit_cancel(old, handle))
    commit(tx, draft)
    log.info("sync.adopted", peer=terms.peer, job=handle.job_id, nonce=handle.nonce, instead_of=old.nonce)
    return {job.uid}


def _take_back(tx: Tx, handle: SentHandle, job: Job, terms: Terms) -> set[int]:
    # Its tasks and children were ended here when it was lost.
    delete_mirrored_parts(tx, job.uid)
    draft = load_draft(tx, job, [])
    reopen_sent(tx, handle, adoption.take_back_lost(handle, draft, terms.now_ms))
    commit(tx, draft)
    log.info("sync.lost_job_found", peer=terms.peer, job=handle.job_id, nonce=handle.nonce)
    return {job.uid}
