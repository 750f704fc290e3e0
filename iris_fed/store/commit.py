"""The one door for changes of jobs, tasks and attempts: a draft's difference becomes rows.

The changelog follows by itself: triggers write it below this (migration 0003).
"""

from dataclasses import replace

from iris_fed.decide.draft import Draft
from iris_fed.store.db import Tx
from iris_fed.store.jobs import attempt_columns, insert, insert_event, task_columns
from iris_fed.store.rows import ATTEMPT_COLUMNS, JOB_COLUMNS, TASK_COLUMNS, Columns, changed_columns


class StaleDraft(Exception):
    """The rows are no longer what the draft was made from: a defect, since one writer decides in
    the transaction in which it commits."""


def commit(tx: Tx, draft: Draft) -> bool:
    """Write what the draft changed; True if anything did."""
    uid = draft.job.uid
    job = replace(draft.job, queued_tasks=draft.queued_tasks)
    changed = _update(
        tx,
        "jobs",
        changed_columns(draft.job_before, job, JOB_COLUMNS),
        {"uid": uid, "state": draft.job_before.state.value},
    )
    for index, task in draft.tasks.items():
        before = draft.tasks_before.get(index)
        if before is None:
            insert(tx, "tasks", task_columns(task))
            changed = True
        elif task != before:
            key = {"job_uid": uid, "idx": index, "state": before.state.value}
            changed |= _update(tx, "tasks", changed_columns(before, task, TASK_COLUMNS), key)
    for (index, number), attempt in draft.attempts.items():
        old = draft.attempts_before.get((index, number))
        if old is None:
            insert(tx, "attempts", attempt_columns(attempt))
            changed = True
        elif attempt != old:
            key = {"job_uid": uid, "task_index": index, "number": number, "state": old.state.value}
            changed |= _update(tx, "attempts", changed_columns(old, attempt, ATTEMPT_COLUMNS), key)
    for event in draft.events:
        insert_event(tx, uid, event)
    return changed


def _update(tx: Tx, table: str, columns: Columns, key: Columns) -> bool:
    if not columns:
        return False
    assignments = ", ".join(f"{name} = ?" for name in columns)
    condition = " AND ".join(f"{name} = ?" for name in key)
    cursor = tx.execute(f"UPDATE {table} SET {assignments} WHERE {condition}", [*columns.values(), *key.values()])
    if cursor.rowcount != 1:
        raise StaleDraft(f"{table} {key} changed under a decision")
    return True
