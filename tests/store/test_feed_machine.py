"""Whatever happens on the peer, whatever it prunes and wherever its parents stand: who reads on, page by page, ends
with the present state."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from iris_fed.decide.newjob import child_of
from iris_fed.federation.changes import build_answer, heard_from
from iris_fed.model.federation import ReceivedHandle, ServedChanges, ServedDelta, SyncRequest
from iris_fed.model.limits import DAY_MS
from iris_fed.model.states import ReceivedState
from iris_fed.store.changelog import touch
from iris_fed.store.changelog_prune import (
    MAX_AGE_MS,
    SUPERSEDED_AFTER_MS,
    bound_of,
    remove_superseded,
    remove_up_to,
    requesters_with_rows,
)
from iris_fed.store.connection import Tx, connect_sqlite
from iris_fed.store.handles import insert_received, supersede_received
from iris_fed.store.handles_prune import START, remove_received
from iris_fed.store.invariants_federation import FEDERATION_INVARIANTS
from iris_fed.store.jobs import delete_job, insert_job, job_by_id
from iris_fed.store.migrate import load_migrations, migrate
from iris_fed.store.prune import remove_job
from iris_fed.store.requesters import Heard, save_heard
from tests.store.samples import add_received, local_job

DB = "db-1"
Key = tuple[str, str]
"""Nonce and job id."""
REQUESTERS = ("hub", "moon")
AT_ONCE = 10_000
requesters = st.sampled_from(REQUESTERS)
names = st.sampled_from(("x", "y"))


class Hand:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = DAY_MS

    def now_ms(self) -> int:
        return self.ms


@dataclass
class Parent:
    """What one requester has made of the feed. `full` is the set being read, None = none."""

    name: str
    cursor: str = ""
    mirror: dict[Key, Any] = field(default_factory=dict)
    full: dict[Key, Any] | None = None
    page_cursor: str = ""

    def request(self, size: int) -> SyncRequest:
        return SyncRequest(requester=self.name, cursor=self.page_cursor or self.cursor, max_deltas=size)

    def apply(self, answer: ServedChanges) -> None:
        if answer.cursor_stale:
            self.full = {}
        mirror = self.mirror if self.full is None else self.full
        for delta in answer.deltas:
            follow(mirror, delta)
        self.page_cursor = answer.next_cursor if answer.more else ""
        if self.full is not None and answer.more:
            return
        self.cursor = answer.next_cursor
        if self.full is not None:
            self.mirror, self.full = self.full, None


def follow(mirror: dict[Key, Any], delta: ServedDelta) -> None:
    key = (delta.nonce, delta.job_id)
    if delta.view is None:
        for known in [known for known in mirror if known[0] == key[0] and known[1].startswith(delta.job_id)]:
            del mirror[known]
        if delta.job_id.count("/") == 2:
            mirror[key] = delta.end and (delta.end.state, delta.end.error)
        return
    tasks = mirror[key][2] if isinstance(mirror.get(key), list) else {}
    tasks |= {view.task.index: view.task.error for view in delta.tasks}
    mirror[key] = [delta.view.job.state, delta.view.job.error, tasks]


class Feed(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Hand()
        self.tx = connect_sqlite(Path(":memory:"), self.clock, set())
        migrate(self.tx, load_migrations(), 1)
        self.parents = {name: Parent(name) for name in REQUESTERS}
        self.backups = {name: [Parent(name)] for name in REQUESTERS}
        self.heard: dict[str, Heard] = {}
        self.looked_to = 0
        self.count = 0

    # --- what happens to jobs ---

    @rule(requester=requesters, name=names)
    def hand_over(self, requester: str, name: str) -> None:
        old = job_by_id(self.tx, job_id(requester, name))
        if old is not None and old.finished_ms is None:
            touch(self.tx, requester, old.nonce, old.job_id)
            return
        if old is not None:
            supersede_received(self.tx, old, self.clock.ms)
            delete_job(self.tx, old.uid)
        add_received(self.tx, job_id(requester, name), 2, self.fresh(), requester)

    @rule(requester=requesters, name=names, task=st.sampled_from((None, 0, 1)), below=st.booleans())
    def change(self, requester: str, name: str, task: int | None, below: bool) -> None:
        of = job_id(requester, name) + ("/child" if below else "")
        if task is None:
            self.tx.execute("UPDATE jobs SET error = ? WHERE job_id = ?", (self.fresh(), of))
            return
        self.tx.execute(
            "UPDATE tasks SET error = ? WHERE idx = ? AND job_uid = (SELECT uid FROM jobs WHERE job_id = ?)",
            (self.fresh(), task, of),
        )

    @rule(requester=requesters, name=names)
    def submit_child(self, requester: str, name: str) -> None:
        """Anew if it was there, as a child that has ended may be."""
        root = job_by_id(self.tx, job_id(requester, name))
        if root is None or root.finished_ms is not None:
            return
        old = job_by_id(self.tx, root.job_id + "/child")
        if old is not None:
            delete_job(self.tx, old.uid)
        insert_job(self.tx, child_of(root, local_job(root.job_id + "/child", 2), inherits_band=True))

    @rule(requester=requesters, name=names)
    def end(self, requester: str, name: str) -> None:
        self.tx.execute(
            "UPDATE jobs SET state = 'FAILED', finished_ms = ? WHERE job_id = ? AND finished_ms IS NULL",
            (self.clock.ms, job_id(requester, name)),
        )

    @rule(requester=requesters, name=names)
    def prune_job(self, requester: str, name: str) -> None:
        job = job_by_id(self.tx, job_id(requester, name))
        if job is not None:
            remove_job(self.tx, job.uid, self.clock.ms)

    @rule(requester=requesters, name=names)
    def fence(self, requester: str, name: str) -> None:
        handle = ReceivedHandle(
            nonce=self.fresh(), requester=requester, job_id=job_id(requester, name), state=ReceivedState.FENCED,
            created_ms=self.clock.ms, closed_ms=self.clock.ms,
        )  # fmt: skip
        insert_received(self.tx, handle)

    @rule(days=st.sampled_from((0.0001, 0.05, 8.0, 31.0, 130.0)))
    def let_time_pass(self, days: float) -> None:
        self.clock.ms += int(days * DAY_MS)

    # --- what the peer does about it ---

    @rule(limit=st.sampled_from((1, 3, 1_000)))
    def remove_rows_that_were_read_or_are_too_old(self, limit: int) -> None:
        save_heard(self.tx, self.heard)
        for requester in requesters_with_rows(self.tx):
            bound = bound_of(self.tx, requester, self.clock.ms - MAX_AGE_MS)
            self.atomically(partial(remove_up_to, self.tx, requester, bound, self.told, limit))

    @rule(limit=st.sampled_from((1, 3, 1_000)))
    def remove_repeated_rows(self, limit: int) -> None:
        before_ms = self.clock.ms - SUPERSEDED_AFTER_MS
        self.looked_to = remove_superseded(self.tx, self.looked_to, before_ms, self.told, limit)

    @rule()
    def remove_handles(self) -> None:
        self.atomically(partial(remove_received, self.tx, START, self.clock.ms, 1_000))

    @rule()
    def restart(self) -> None:
        self.heard, self.looked_to = {}, 0

    # --- what the parents do ---

    @rule(requester=requesters, size=st.sampled_from((1, 2, 3, AT_ONCE)))
    def read_page(self, requester: str, size: int) -> None:
        self.ask(self.parents[requester], size)

    @rule(requester=requesters)
    def back_up(self, requester: str) -> None:
        backup = deepcopy(self.parents[requester])
        backup.full, backup.page_cursor = None, ""
        self.backups[requester].append(backup)

    @precondition(lambda self: any(len(made) > 1 for made in self.backups.values()))
    @rule(requester=requesters, which=st.integers(0, 5))
    def restore(self, requester: str, which: int) -> None:
        made = self.backups[requester]
        self.parents[requester] = deepcopy(made[which % len(made)])

    @rule(requester=requesters, size=st.sampled_from((1, 2, AT_ONCE)))
    def catch_up(self, requester: str, size: int) -> None:
        """Nothing else happens meanwhile: it must come to the present state, and soon."""
        parent = self.parents[requester]
        for _ in range(1_000):
            answer = self.ask(parent, size)
            if not answer.deltas and not answer.more and not answer.cursor_stale:
                break
        else:
            raise AssertionError("the feed does not come to an end")
        present, over = self.present(requester)
        assert {key: told for key, told in parent.mirror.items() if key[0] not in over} == present

    def teardown(self) -> None:
        for requester in REQUESTERS:
            self.catch_up(requester, 2)
        for rule_text, query in FEDERATION_INVARIANTS.items():
            assert self.tx.execute(query).fetchall() == [], rule_text
        self.tx.close()

    # --- the rest ---

    def fresh(self) -> str:
        self.count += 1
        return f"w{self.count}"

    @property
    def told(self) -> frozenset[int]:
        return frozenset(one.told_seq for one in self.heard.values())

    def atomically(self, change: Callable[[], object]) -> None:
        self.tx.execute("BEGIN")
        change()
        self.tx.execute("COMMIT")

    def ask(self, parent: Parent, size: int) -> ServedChanges:
        request = parent.request(size)
        answer = build_answer(self.tx, request, DB)
        self.heard[parent.name] = heard_from(request, answer, self.heard.get(parent.name), self.clock.ms)
        parent.apply(answer)
        return answer

    def present(self, requester: str) -> tuple[dict[Key, Any], set[str]]:
        """The state as the tables have it, and the incarnations of which nothing has to be known any more."""
        present: dict[Key, Any] = {}
        known = set()
        for row in self.tx.execute("SELECT * FROM federated_jobs WHERE counterpart = ?", (requester,)).fetchall():
            if row["state"] in ("PRUNED", "FENCED"):
                fenced = ("KILLED", "cancelled before it arrived")
                end = fenced if row["state"] == "FENCED" else (row["end_state"], row["end_error"])
                present[row["nonce"], row["job_id"]] = end
            if row["state"] != "SUPERSEDED":
                known.add(row["nonce"])
        for job in self.tx.execute("SELECT * FROM jobs WHERE requester = ?", (requester,)).fetchall():
            tasks = self.tx.execute("SELECT idx, error FROM tasks WHERE job_uid = ?", (job["uid"],))
            told = [job["state"], job["error"], {task["idx"]: task["error"] for task in tasks}]
            present[job["nonce"], job["job_id"]] = told
        return present, {nonce for nonce, _ in self.parents[requester].mirror} - known


def job_id(requester: str, name: str) -> str:
    return f"/a/{requester}.{name}"


TestFeed = Feed.TestCase
TestFeed.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@pytest.fixture(scope="module")
def served() -> Iterator[Tx]:
    """A peer with one received job; nothing of it changes."""
    tx = connect_sqlite(Path(":memory:"), Hand(), set())
    migrate(tx, load_migrations(), 1)
    add_received(tx, job_id("hub", "x"), 1, "n1", "hub")
    yield tx
    tx.close()


@given(st.from_regex(r"[0-9]{0,20}\.?[0-9a-f]{0,4}/?[0-9]{0,20}\.?[0-9]{0,20}", fullmatch=True) | st.text(max_size=40))
def test_a_cursor_that_is_none_of_ours_starts_a_full_set_whatever_it_is(served: Tx, cursor: str) -> None:
    answer = build_answer(served, SyncRequest(requester="hub", cursor=cursor, max_deltas=10), DB)
    assert answer.cursor_stale
    assert [delta.nonce for delta in answer.deltas] == ["n1"]
