"""What holds between jobs, tasks and attempts in a sound database. Each query names what breaks its rule."""

_TERMINAL = (
    "('SUCCEEDED', 'FAILED', 'KILLED', 'WORKER_FAILED', 'UNSCHEDULABLE', 'PREEMPTED', 'COSCHED_FAILED', 'MISSING')"
)
_TASKS_HERE = "FROM tasks t JOIN jobs j ON j.uid = t.job_uid WHERE j.cluster = ''"
_ATTEMPTS_OF_TASK = "FROM attempts a WHERE a.job_uid = t.job_uid AND a.task_index = t.idx"

JOB_INVARIANTS = {
    "a job's id does not fit its place in the tree": (
        "SELECT j.job_id AS name FROM jobs j LEFT JOIN jobs p ON p.uid = j.parent_uid WHERE CASE"
        " WHEN p.uid IS NULL THEN length(j.job_id) - length(replace(j.job_id, '/', '')) <> 2"
        " ELSE substr(j.job_id, 1, length(p.job_id) + 1) <> p.job_id || '/'"
        " OR instr(substr(j.job_id, length(p.job_id) + 2), '/') > 0 END"
    ),
    "a child belongs to another cluster or incarnation than its parent": (
        "SELECT j.job_id AS name FROM jobs j JOIN jobs p ON p.uid = j.parent_uid"
        " WHERE (j.requester, j.nonce, j.cluster) IS NOT (p.requester, p.nonce, p.cluster)"
    ),
    "a task belongs to another cluster or incarnation than its job": (
        "SELECT j.job_id || '/' || t.idx AS name FROM tasks t JOIN jobs j ON j.uid = t.job_uid"
        " WHERE t.requester <> j.requester OR j.requester <> '' AND t.nonce <> j.nonce"
    ),
    "a finished job has an unfinished task": (
        f"SELECT j.job_id AS name {_TASKS_HERE} AND j.finished_ms IS NOT NULL AND t.state NOT IN {_TERMINAL}"
    ),
    "an unfinished job here has only finished tasks": (
        "SELECT job_id AS name FROM jobs j WHERE cluster = '' AND finished_ms IS NULL AND NOT EXISTS"
        f" (SELECT 1 FROM tasks t WHERE t.job_uid = j.uid AND t.state NOT IN {_TERMINAL})"
    ),
    "a job here does not have the tasks it should": (
        "SELECT job_id AS name FROM jobs j WHERE cluster = ''"
        " AND task_count <> (SELECT count(*) FROM tasks t WHERE t.job_uid = j.uid)"
    ),
    "a job's count of waiting tasks is wrong": (
        "SELECT job_id AS name FROM jobs j WHERE queued_tasks <> CASE WHEN cluster <> '' OR finished_ms IS NOT NULL"
        " OR stop_state IS NOT NULL THEN 0 ELSE"
        " (SELECT count(*) FROM tasks t WHERE t.job_uid = j.uid AND t.state = 'PENDING') END"
    ),
    "a job's counts of failures are not those of its tasks": (
        "SELECT job_id AS name FROM jobs j WHERE cluster = '' AND (failure_count, preemption_count) IS NOT"
        " (SELECT coalesce(sum(t.failure_count), 0), coalesce(sum(t.preemption_count), 0)"
        " FROM tasks t WHERE t.job_uid = j.uid)"
    ),
    "a task's end does not fit its state": (
        f"SELECT j.job_id || '/' || t.idx AS name {_TASKS_HERE}"
        f" AND (t.finished_ms IS NOT NULL) <> (t.state IN {_TERMINAL})"
    ),
    "a task's counts of failures are not those of its attempts": (
        f"SELECT j.job_id || '/' || t.idx AS name {_TASKS_HERE} AND (t.failure_count, t.preemption_count) IS NOT"
        f" (SELECT coalesce(sum(a.state = 'FAILED'), 0), coalesce(sum(a.is_worker_failure), 0) {_ATTEMPTS_OF_TASK})"
    ),
    "a task's attempts are not numbered from 0 to its current one": (
        f"SELECT j.job_id || '/' || t.idx AS name {_TASKS_HERE} AND (t.current_attempt, t.current_attempt + 1)"
        f" IS NOT (SELECT coalesce(max(a.number), -1), count(*) {_ATTEMPTS_OF_TASK})"
    ),
    "an attempt's end does not fit its state": (
        "SELECT j.job_id || '/' || a.task_index AS name FROM attempts a JOIN jobs j ON j.uid = a.job_uid"
        f" WHERE a.mirrored = 0 AND (a.finished_ms IS NOT NULL) <> (a.state IN {_TERMINAL})"
    ),
    "a finished task has an unfinished attempt": (
        f"SELECT j.job_id || '/' || t.idx AS name {_TASKS_HERE} AND t.state IN {_TERMINAL}"
        f" AND EXISTS (SELECT 1 {_ATTEMPTS_OF_TASK} AND a.finished_ms IS NULL)"
    ),
    "a task has two unfinished attempts": (
        "SELECT j.job_id || '/' || a.task_index AS name FROM attempts a JOIN jobs j ON j.uid = a.job_uid"
        " WHERE a.mirrored = 0 AND a.finished_ms IS NULL GROUP BY a.job_uid, a.task_index HAVING count(*) > 1"
    ),
}
