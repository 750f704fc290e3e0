"""Members of a gang run together or not at all."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from iris_fed.backends.base import LaunchRequest
from iris_fed.controller.launching import Launch, with_siblings
from iris_fed.decide import lifecycle
from iris_fed.decide.draft import AttemptKey, Draft
from iris_fed.decide.newjob import new_job
from iris_fed.decide.placement import Patience, Place, Plan, choose_places
from iris_fed.model.jobs import DemandQueue, Job, QueuedJob, Task
from iris_fed.model.observed import AttemptEnd, Building, Ended, EndKind, Running
from iris_fed.model.resources import BackendSummary, NodeFree, NodeShape, Resources
from iris_fed.model.spec import JobSpec, Submission
from iris_fed.model.states import JobState, TaskState

OK = AttemptEnd(EndKind.EXITED, 0)
CRASH = AttemptEnd(EndKind.EXITED, 3)
PREEMPTED = AttemptEnd(EndKind.PREEMPTED)
KILLED = AttemptEnd(EndKind.KILLED, 143, 15)
HOUR_MS = 3_600_000


def gang(replicas: int = 3, **spec: Any) -> Draft:
    submission = Submission("/a/g", JobSpec(("true",), replicas=replicas, coscheduling_group_by="rack", **spec))
    job = new_job(submission, "/a/g", "a", "a@lab", 1_000)
    return Draft(job, [Task(job_uid=0, index=index, submitted_ms=1_000) for index in range(replicas)])


def start_round(draft: Draft, at: int = 2_000) -> list[AttemptKey]:
    """Start every member that waits."""
    keys = []
    for index, task in sorted(draft.tasks.items()):
        if task.state is TaskState.PENDING:
            attempt = lifecycle.assign(draft, index, f"u{index}.{at}", "local", "n", at)
            keys.append((index, attempt.number))
            lifecycle.on_running(draft, keys[-1], Running(attempt.attempt_uid, at, "n"), at)
    return keys


def end(draft: Draft, key: AttemptKey, how: AttemptEnd, at: int = 3_000) -> None:
    lifecycle.on_ended(draft, key, Ended(draft.attempts[key].attempt_uid, how, 2_000, at), at, 0.5)
    if lifecycle.failing(draft):
        lifecycle.stop_failing(draft, at)


def states(draft: Draft) -> list[TaskState]:
    return [task.state for _, task in sorted(draft.tasks.items())]


def attempt_states(draft: Draft, keys: list[AttemptKey]) -> list[TaskState]:
    return [draft.attempts[key].state for key in keys]


def test_one_crash_ends_the_round_and_is_charged_once() -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[1], CRASH)
    assert [draft.attempts[key].kill_requested_ms for key in keys] == [3_000, None, 3_000]
    end(draft, keys[0], KILLED, 3_100)
    end(draft, keys[2], KILLED, 3_200)
    assert attempt_states(draft, keys) == [TaskState.COSCHED_FAILED, TaskState.FAILED, TaskState.COSCHED_FAILED]
    assert states(draft) == [TaskState.PENDING] * 3
    assert (draft.job.state, draft.job.failure_count, draft.job.preemption_count) == (JobState.PENDING, 1, 0)
    assert [task.failure_count for task in draft.tasks.values()] == [0, 1, 0]
    assert all(task.not_before_ms > 3_000 for task in draft.tasks.values())


def test_the_next_round_has_new_attempts_for_all() -> None:
    draft = gang(max_retries_failure=1)
    first = start_round(draft)
    end(draft, first[0], CRASH)
    for key in first[1:]:
        end(draft, key, KILLED)
    assert start_round(draft, 9_000) == [(0, 1), (1, 1), (2, 1)]
    for key in [(0, 1), (1, 1), (2, 1)]:
        end(draft, key, OK, 9_500)
    assert (draft.job.state, draft.job.exit_code, draft.job.failure_count) == (JobState.SUCCEEDED, 0, 1)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_members_that_crash_because_another_did_are_not_charged_whatever_the_order(order: tuple[int, ...]) -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    for index in order:
        end(draft, keys[index], CRASH)
    assert draft.job.failure_count == 1
    assert draft.tasks[order[0]].failure_count == 1
    assert states(draft) == [TaskState.PENDING] * 3


def test_a_gang_whose_budget_is_used_up_fails_and_the_rest_is_stopped() -> None:
    draft = gang(max_retries_failure=0)
    keys = start_round(draft)
    end(draft, keys[2], CRASH)
    assert (draft.job.stop_state, draft.ended) == (JobState.FAILED, False)
    end(draft, keys[0], KILLED)
    end(draft, keys[1], KILLED)
    assert states(draft) == [TaskState.KILLED, TaskState.KILLED, TaskState.FAILED]
    assert (draft.job.state, draft.job.exit_code) == (JobState.FAILED, 3)
    assert draft.job.error == "task 2 exited with code 3"


def test_no_number_of_allowed_task_failures_lets_a_gang_go_on_without_a_member() -> None:
    draft = gang(max_task_failures=2)
    keys = start_round(draft)
    end(draft, keys[0], CRASH)
    assert draft.job.stop_state is JobState.FAILED


def test_a_member_that_succeeded_stays_so_and_is_not_started_again() -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[0], OK)
    end(draft, keys[1], CRASH)
    end(draft, keys[2], KILLED)
    assert states(draft) == [TaskState.SUCCEEDED, TaskState.PENDING, TaskState.PENDING]
    again = start_round(draft, 9_000)
    assert again == [(1, 1), (2, 1)]
    for key in again:
        end(draft, key, OK, 9_500)
    assert draft.job.state is JobState.SUCCEEDED


def test_a_member_that_exits_well_while_the_round_is_being_ended_has_succeeded() -> None:
    draft = gang(max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[0], CRASH)
    end(draft, keys[1], OK)
    end(draft, keys[2], KILLED)
    assert states(draft) == [TaskState.PENDING, TaskState.SUCCEEDED, TaskState.PENDING]


def test_a_preempted_member_charges_the_preemption_budget_of_its_own() -> None:
    draft = gang(max_retries_preemption=1)
    keys = start_round(draft)
    end(draft, keys[1], PREEMPTED)
    end(draft, keys[0], KILLED)
    end(draft, keys[2], KILLED)
    assert (draft.job.failure_count, draft.job.preemption_count) == (0, 1)
    assert [task.preemption_count for task in draft.tasks.values()] == [0, 1, 0]
    assert states(draft) == [TaskState.PENDING] * 3
    again = start_round(draft, 9_000)
    end(draft, again[1], PREEMPTED)
    assert draft.job.stop_state is JobState.WORKER_FAILED


def test_a_round_that_ends_while_members_are_set_up_ends_them_too() -> None:
    draft = gang(2, max_retries_failure=1, setup_commands=("make",))
    for index in range(2):
        attempt = lifecycle.assign(draft, index, f"u{index}", "local", "n", 2_000)
        lifecycle.on_building(draft, (index, 0), Building(attempt.attempt_uid, 2_000, "n"), 2_000)
    end(draft, (0, 0), CRASH)
    assert draft.attempts[1, 0].kill_requested_ms == 3_000
    end(draft, (1, 0), KILLED)
    assert states(draft) == [TaskState.PENDING] * 2


def test_a_cancelled_gang_ends_as_cancelled_not_as_a_broken_round() -> None:
    draft = gang(2, max_retries_failure=1)
    keys = start_round(draft)
    end(draft, keys[0], CRASH)
    lifecycle.request_cancel(draft, "bob", 3_050)
    end(draft, keys[1], KILLED)
    assert states(draft) == [TaskState.KILLED, TaskState.KILLED]
    assert draft.job.state is JobState.KILLED


# --- placement ---


def waiting(uid: int, cpus: int, replicas: int = 1, *, together: bool = False, at: int = 0) -> Job:
    group = "x" if together else None
    spec = JobSpec(("true",), Resources(cpus * 1000, 0), replicas=replicas, coscheduling_group_by=group)
    return replace(new_job(Submission("x", spec), f"/a/{uid}", "a", "a", at), uid=uid)


def node(name: str, free: int, total: int) -> NodeFree:
    return NodeFree(name, free * 1000, 2**40, {}, NodeShape(total * 1000, 2**40))


def place(backend: str, *nodes: NodeFree) -> Place:
    largest = max((one.total for one in nodes if one.total is not None), key=lambda shape: shape.cpu_millicores)
    return Place(BackendSummary(backend, backend, "local", largest_node=largest), nodes)


def plan(
    jobs: list[Job], *places: Place, now: int = 0, hold_after: int = HOUR_MS, not_before: tuple[int, int] = (-1, 0)
) -> Plan:
    """`not_before`: one task index of the first job, and its back-off."""
    queues = []
    for number, job in enumerate(jobs):
        tasks = (
            Task(
                job_uid=job.uid,
                index=index,
                submitted_ms=0,
                not_before_ms=not_before[1] if number == 0 and index == not_before[0] else 0,
            )
            for index in range(job.task_count)
        )
        queues.append(DemandQueue(job.demand, iter([QueuedJob(job, tasks)])))
    return choose_places(queues, places, now, Patience(256, hold_after))


def where(found: Plan) -> list[tuple[int, int, str]]:
    return [(one.job_uid, one.task_index, one.node) for one in found.placed]


def test_a_gang_is_placed_whole_over_several_nodes() -> None:
    found = plan([waiting(1, 4, 3, together=True)], place("p", node("n1", 8, 8), node("n2", 4, 4)))
    assert sorted(where(found)) == [(1, 0, "n2"), (1, 1, "n1"), (1, 2, "n1")]
    assert found.waiting == {}


def test_a_gang_of_which_only_some_would_fit_starts_none_and_smaller_jobs_behind_it_go_on() -> None:
    big, small = waiting(1, 4, 3, together=True), waiting(2, 1, at=5)
    found = plan([big, small], place("p", node("n", 8, 16)))
    assert where(found) == [(2, 0, "n")]
    assert found.waiting == {big.demand: "waiting for room for all 3 replicas at once; 2 would fit now"}


def test_a_gang_does_not_spread_over_backends() -> None:
    big = waiting(1, 4, 2, together=True)
    assert where(plan([big], place("p", node("n", 4, 8)), place("q", node("m", 4, 8)))) == []
    assert where(plan([big], place("p", node("n", 4, 8)), place("q", node("m", 8, 8)))) == [(1, 0, "m"), (1, 1, "m")]


def test_what_a_gang_was_given_is_not_given_again() -> None:
    found = plan([waiting(1, 4, 2, together=True), waiting(2, 1, at=5)], place("p", node("n", 8, 8)))
    assert [uid for uid, _, _ in where(found)] == [1, 1]


def test_a_gang_waits_until_the_last_back_off_of_its_members_is_over() -> None:
    big = waiting(1, 1, 2, together=True)
    room = place("p", node("n", 8, 8))
    assert where(plan([big], room, now=99, not_before=(1, 100))) == []
    assert [index for _, index, _ in where(plan([big], room, now=100, not_before=(1, 100)))] == [0, 1]


def test_room_is_held_for_a_gang_that_has_waited_long_on_every_node_that_it_may_use() -> None:
    big, small = waiting(1, 4, 3, together=True), waiting(2, 1, at=HOUR_MS)
    found = plan([big, small], place("p", node("n1", 4, 8), node("n2", 0, 4)), now=HOUR_MS)
    assert where(found) == []
    assert "what is freed is held for it" in found.waiting[big.demand]
    assert "held for a stronger job" in found.waiting[small.demand]


def test_nothing_is_held_for_a_gang_that_could_not_run_if_all_were_free() -> None:
    big, small = waiting(1, 4, 4, together=True), waiting(2, 1, at=HOUR_MS)
    found = plan([big, small], place("p", node("n1", 4, 8), node("n2", 0, 4)), now=10 * HOUR_MS)
    assert where(found) == [(2, 0, "n1")]
    assert "held" not in found.waiting[big.demand]


# --- what members are told of each other ---


def launch(index: int, *ports: str) -> Launch:
    request = LaunchRequest(f"u{index}", f"/a/g/{index}", ("true",), {"OWN": "1"}, Resources(), ports)
    return Launch("local", request, index, "/a/g")


def test_members_learn_addresses_and_ports_in_the_order_of_their_indexes() -> None:
    ports = {"u0": {"rdzv": 10, "http-2": 11}, "u1": {"rdzv": 20, "http-2": 21}}
    told = with_siblings([launch(0, "rdzv", "http-2"), launch(1, "rdzv", "http-2")], ["h0", "h1"], ports)
    for number, member in enumerate(told):
        env = member.request.env
        assert (env["OWN"], env["IRIS_GANG_ADDRESSES"]) == ("1", "h0,h1")
        assert (env["IRIS_GANG_PORTS_RDZV"], env["IRIS_GANG_PORTS_HTTP_2"]) == ("10,20", "11,21")
        assert member.request.given_ports == ports[f"u{number}"]
    assert [member.gang for member in told] == ["", ""]


def test_the_place_of_a_member_that_succeeded_before_stays_empty() -> None:
    told = with_siblings([launch(1, "rdzv"), launch(3, "rdzv")], ["h1", "h3"], {"u1": {"rdzv": 1}, "u3": {"rdzv": 3}})
    assert told[0].request.env["IRIS_GANG_ADDRESSES"] == ",h1,,h3"
    assert told[0].request.env["IRIS_GANG_PORTS_RDZV"] == ",1,,3"
