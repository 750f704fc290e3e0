"""Real controllers, real jobs, and everything that can happen to them: rounds of kill -9, stops, pauses and a bad
network, after which every execution is counted.

Each execution of a task appends one line to a file. In the end each accepted job has ended as it was meant to, with
exactly one line per attempt that the records say has run, and both clusters tell the same of it.
"""

import contextlib
import random
import signal
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iris_fed.cli.demo.sweep import sweep
from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from tests.chaos.relay import Mode, Relay
from tests.e2e.clusters import Cluster, whole_id
from tests.e2e.command import poll

# Appending a short line is atomic. The first attempt of each task exits with `$FIRST`.
WORK = (
    'echo "$IRIS_ATTEMPT_UID $IRIS_TASK_ID" >> "$LINES"; sleep "$LASTS"; '
    'case "$IRIS_TASK_ID" in *:0) exit "$FIRST";; esac'
)
FEDERATION = {
    "heartbeat_interval_s": 0.5,
    "heartbeat_timeout_s": 0.4,
    "call_timeout_s": 1.0,
    "max_backoff_s": 1.0,
    "poll_interval_s": 0.5,
    "long_poll_ms": 2_000,
}
SETTLES_WITHIN_S = 60.0
ROUND_S = (0.5, 2.5)
ENDED = frozenset({"SUCCEEDED", "FAILED", "KILLED", "WORKER_FAILED", "UNSCHEDULABLE"})
Say = Callable[[str], None]


@dataclass(slots=True)
class Planned:
    """A submission. `accepted` None = its answer was lost, so that it may exist or not."""

    name: str
    replicas: int
    first_exit: int
    retries: int
    federated: bool
    accepted: bool | None = None
    cancelled: bool = False

    @property
    def should_end(self) -> str:
        return "FAILED" if self.first_exit and not self.retries else "SUCCEEDED"


@dataclass(slots=True)
class Chaos:
    """`root` is an empty directory; `say` is told what is done."""

    root: Path
    seed: int
    say: Say
    jobs: list[Planned] = field(default_factory=list)
    dice: random.Random = field(init=False)
    hub: Cluster = field(init=False)
    lab: Cluster = field(init=False)
    relay: Relay = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def run(self, rounds: int) -> list[str]:
        """What was found wrong, one sentence each; nothing = all is well."""
        try:
            self._start()
            faults = [self._kill_hub, self._kill_lab, self._kill_both, self._stop_lab, self._pause_lab, self._network]
            for number in range(rounds):
                self._submit_some(self.dice.randint(2, 5))
                fault = self._empty_lab if number == rounds // 2 else self.dice.choice(faults)
                self.say(f"round {number}: {fault.__name__.strip('_')}")
                fault()
                self._cancel_some()
            self.relay.become(Mode.PASS)
            return self._settle()
        finally:
            self._end()

    # --- the clusters ---

    def _start(self) -> None:
        lab_backend = {"id": "local", "cpu": 64, "devices": {"h100": 64}, "kill_grace_s": 1.0, "shared_uid": "accept"}
        self.hub = Cluster.make(self.root, "hub", federation=FEDERATION, backends=[{"id": "local", "cpu": 64}])
        trust = {"hub": {"public_keys": [self.hub.public_key], "allowed_submitters": ["*"]}}
        self.lab = Cluster.make(self.root, "lab", auth={"federation_peers": trust}, backends=[lab_backend])
        self.lab.start()
        self.relay = Relay(self.lab.port)
        self.hub.settings["peers"] = [{"name": "lab", "address": f"http://127.0.0.1:{self.relay.port}"}]
        self.hub.start()
        poll(self._in_contact, "hub has reached lab")

    def _in_contact(self) -> bool:
        (peer,) = self.hub.call("ListPeers")["peers"]
        return bool(peer.get("reachable"))

    def _end(self) -> None:
        for cluster in (self.hub, self.lab):
            if cluster.process is not None:
                cluster.process.kill()
                cluster.collect()
        with contextlib.suppress(AttributeError):
            self.relay.close()
        sweep(self.root)

    # --- what users do ---

    @property
    def _lines(self) -> Path:
        return self.root / "lines"

    def _submit_some(self, count: int) -> None:
        for _ in range(count):
            first_exit = self.dice.choice([0, 0, 0, 3])
            planned = Planned(
                name=f"job-{len(self.jobs)}",
                replicas=self.dice.choice([1, 1, 1, 2]),
                first_exit=first_exit,
                retries=self.dice.choice([0, 1]) if first_exit else 0,
                federated=self.dice.random() < 0.75,
            )
            self.jobs.append(planned)
            try:
                self.hub.call("LaunchJob", **self._request(planned, self.dice.choice([0.0, 0.2, 1.0, 3.0])))
                planned.accepted = True
            except urllib.error.HTTPError as error:
                planned.accepted = False
                self.say(f"{planned.name} refused: {error.read()[:200]!r}")
            except OSError:
                self.say(f"{planned.name}: no answer")

    def _request(self, planned: Planned, lasts_s: float) -> dict[str, Any]:
        variables = {"LINES": str(self._lines), "LASTS": str(lasts_s), "FIRST": str(planned.first_exit)}
        resources: dict[str, Any] = {"cpuMillicores": 100}
        if planned.federated:
            resources["device"] = {"gpu": {"variant": "h100", "count": 1}}
        return {
            "name": planned.name,
            "entrypoint": {"runCommand": {"argv": ["sh", "-c", WORK]}},
            "environment": {"envVars": variables},
            "resources": resources,
            "replicas": planned.replicas,
            "maxRetriesFailure": planned.retries,
        }

    def _cancel_some(self) -> None:
        for planned in self.jobs:
            if planned.accepted and not planned.cancelled and self.dice.random() < 0.04:
                with contextlib.suppress(OSError):
                    planned.cancelled = True
                    self.hub.cancel(planned.name)
                    self.say(f"{planned.name} cancelled")

    # --- what happens to the clusters ---

    def _a_while(self) -> None:
        time.sleep(self.dice.uniform(*ROUND_S))

    def _crash(self, *clusters: Cluster) -> None:
        self._a_while()
        for cluster in clusters:
            cluster.kill()
        if self.dice.random() < 0.5:
            self._a_while()
        for cluster in clusters:
            cluster.launch()
        for cluster in clusters:
            cluster.until_ready()

    def _kill_hub(self) -> None:
        self._crash(self.hub)

    def _kill_lab(self) -> None:
        self._crash(self.lab)

    def _kill_both(self) -> None:
        self._crash(self.hub, self.lab)

    def _stop_lab(self) -> None:
        self._a_while()
        assert self.lab.stop() == 0, self.lab.log
        self.lab.start()

    def _pause_lab(self) -> None:
        assert self.lab.process is not None
        self.lab.process.send_signal(signal.SIGSTOP)
        try:
            self._submit_some(2)
            self._a_while()
        finally:
            self.lab.process.send_signal(signal.SIGCONT)

    def _network(self) -> None:
        mode = self.dice.choice(list(Mode))
        self.say(f"network: {mode}")
        self.relay.become(mode, self.dice.uniform(0.02, 0.6))
        self._submit_some(3)
        self._a_while()
        if self.dice.random() < 0.5:
            self.relay.cut()
        self.relay.become(Mode.PASS)

    def _empty_lab(self) -> None:
        """Somebody starts the peer on an empty state directory, sees it, and corrects it."""
        planned = Planned("job-over-empty", 1, 0, 0, True, accepted=True)
        self.jobs.append(planned)
        self.hub.call("LaunchJob", **self._request(planned, 4.0))
        self.hub.until(planned.name, "RUNNING")
        self.lab.kill()
        self.lab.state_name = "empty"
        self.lab.start()
        poll(lambda: "does not show" in self._job(self.hub, planned.name).get("pendingReason", ""), "it is missed")
        self.lab.kill()
        self.lab.state_name = "state"
        self.lab.start()
        poll(self._in_contact, "hub has reached lab again")

    # --- the count ---

    def _job(self, cluster: Cluster, name: str) -> dict[str, Any]:
        job: dict[str, Any] = cluster.call("GetJobStatus", jobId=whole_id(name))["job"]
        return job

    def _settle(self) -> list[str]:
        wrong: list[str] = []
        for planned in self.jobs:
            if planned.accepted is None:
                planned.accepted = self._exists(planned.name)
        known = [planned for planned in self.jobs if planned.accepted]
        deadline = time.monotonic() + SETTLES_WITHIN_S
        for planned in known:
            left_s = max(1.0, deadline - time.monotonic())
            try:
                poll(lambda p=planned: _state(self._job(self.hub, p.name)) in ENDED, planned.name, left_s)  # type: ignore[misc]
            except AssertionError:
                wrong.append(f"{planned.name} is stuck: {self._job(self.hub, planned.name)}")
        executed = Counter(line.split()[0] for line in self._read_lines())
        claimed: set[str] = set()
        for planned in known:
            wrong += self._judge(planned, executed, claimed)
        wrong += [f"attempt {uid}, which nobody knows, has run" for uid in executed.keys() - claimed]
        wrong += [f"attempt {uid} ran {count} times" for uid, count in executed.items() if count > 1]
        for cluster in (self.hub, self.lab):
            problems = check_database(cluster.state_dir / DATABASE_NAME)
            wrong += [f"{cluster.name}: {problem}" for problem in problems]
        self.say(f"{len(known)} jobs, {sum(executed.values())} executions, {len(wrong)} faults")
        return wrong

    def _exists(self, name: str) -> bool:
        try:
            self._job(self.hub, name)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        return True

    def _judge(self, planned: Planned, executed: Counter[str], claimed: set[str]) -> list[str]:
        here = self._job(self.hub, planned.name)
        ends = {planned.should_end, "KILLED"} if planned.cancelled else {planned.should_end}
        wrong = [] if _state(here) in ends else [f"{planned.name} is {_state(here)}: {here.get('error')}"]
        for task in here.get("tasks", []):
            for attempt in task.get("attempts", []):
                uid, state = attempt["attemptUid"], attempt["state"].removeprefix("TASK_STATE_")
                claimed.add(uid)
                if state in ("SUCCEEDED", "FAILED") and executed[uid] != 1:
                    wrong.append(f"{planned.name}: attempt {uid} is {state} and ran {executed[uid]} times")
        if len(here.get("tasks", [])) != planned.replicas and not planned.cancelled:
            wrong.append(f"{planned.name} has {len(here.get('tasks', []))} tasks, not {planned.replicas}")
        if here.get("cluster"):
            wrong += self._compare(planned, here)
        return wrong

    def _compare(self, planned: Planned, here: dict[str, Any]) -> list[str]:
        try:
            there = self._job(self.lab, f"hub.{planned.name}")
        except urllib.error.HTTPError as error:
            never_arrived = planned.cancelled and error.code == 404
            return [] if never_arrived else [f"{planned.name} is not on lab"]
        same = (_shape(here), _shape(there))
        return [] if same[0] == same[1] else [f"{planned.name} differs: {same[0]} here, {same[1]} there"]

    def _read_lines(self) -> list[str]:
        return self._lines.read_text().splitlines() if self._lines.exists() else []


def _state(job: dict[str, Any]) -> str:
    return str(job["state"]).removeprefix("JOB_STATE_")


def _shape(job: dict[str, Any]) -> tuple[Any, ...]:
    """What both sides must tell alike."""
    tasks = [
        (
            task["taskId"].rpartition("/")[2],
            task["state"],
            task.get("exitCode"),
            [(one["attemptUid"], one["state"], one.get("exitCode")) for one in task.get("attempts", [])],
        )
        for task in job.get("tasks", [])
    ]
    return _state(job), job.get("exitCode"), tasks
