"""What is left open of a mirrored job when it ends here by another way than its peer's report."""

from iris_fed.decide.draft import Draft
from iris_fed.model.states import TERMINAL_TASK_STATES, TaskState


def end_open_tasks(draft: Draft, state: TaskState, error: str, now_ms: int) -> None:
    """Ends the draft's tasks and attempts that are not over: nothing more will be heard of them."""
    for index, task in draft.tasks.items():
        if task.state not in TERMINAL_TASK_STATES:
            draft.set_task(index, state=state, error=error, finished_ms=now_ms, pending_reason="")
    for key, attempt in draft.attempts.items():
        if attempt.finished_ms is None:
            draft.set_attempt(key, state=state, error=error, finished_ms=now_ms)
