"""Real controllers, each with a directory, keys and a port of its own, and the real command beside them."""

import getpass
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from iris_fed.cli.demo.sweep import sweep
from iris_fed.cli.setup import new_key_pair, write_new
from tests.e2e.command import COMMAND, Ended, Running, all_at_once, clean_environment, iris_fed, poll

START_LIMIT_S = 60.0
STOP_LIMIT_S = 40.0
CALL_LIMIT_S = 30.0
HEARTBEATS = {"heartbeat_interval_s": 0.5, "heartbeat_timeout_s": 0.4}
RETENTION = {"interval_s": 1.0}
"""Each round also empties the write-ahead log."""

OWN_METHODS = frozenset({"ListJobEvents", "GetClusterInfo"})
ME = getpass.getuser()


def whole_id(job: str) -> str:
    return job if job.startswith("/") else f"/{ME}/{job}"


def processes_naming(directory: Path) -> list[psutil.Process]:
    """Live processes that have the directory in their command line, environment or working directory."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values(), process.cwd()]
            dead = process.status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        if process.pid != os.getpid() and not dead and any(str(directory) in word for word in words):
            found.append(process)
    return found


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass(slots=True)
class Cluster:
    """`settings` is its configuration but for name, port and state directory."""

    name: str
    directory: Path
    settings: dict[str, Any] = field(default_factory=dict)
    public_key: str = ""
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    state_name: str = "state"

    @classmethod
    def make(cls, root: Path, name: str, directory: str = "", **settings: Any) -> "Cluster":
        """With fresh keys, in a directory of its own below `root`."""
        home = root / (directory or name)
        home.mkdir()
        private, public = new_key_pair()
        write_new(home / "signing-key.pem", private, 0o600)
        write_new(home / "nonce.key", os.urandom(32).hex(), 0o600)
        keys = {"signing_key": "file:signing-key.pem", "nonce_key": "file:nonce.key"}
        auth = keys | settings.pop("auth", {})
        backends = settings.pop("backends", [{"id": "local", "kill_grace_s": 1.0, "shared_uid": "accept"}])
        usual = {"federation": HEARTBEATS, "auth": auth, "backends": backends, "retention": RETENTION}
        return cls(name, home, {**usual, **settings}, public)

    @property
    def state_dir(self) -> Path:
        return self.directory / self.state_name

    @property
    def config(self) -> Path:
        return self.directory / "iris-fed.yaml"

    @property
    def url(self) -> str:
        return (self.state_dir / "controller.url").read_text().strip()

    @property
    def log(self) -> str:
        return (self.directory / "controller.log").read_text()

    def write_config(self) -> Path:
        whole = {
            "cluster": {"name": self.name},
            "state_dir": self.state_name,
            "listen": {"port": self.port},
            "shutdown_grace_s": 5.0,
            **self.settings,
        }
        self.config.write_text(json.dumps(whole, indent=1))
        return self.config

    def launch(self) -> None:
        """Start the controller; `until_ready` waits for it."""
        (self.state_dir / "controller.url").unlink(missing_ok=True)
        self.write_config()
        self.serve_as_it_is()

    def serve_as_it_is(self, **variables: str) -> None:
        """As `launch`, with the configuration that lies there."""
        with (self.directory / "controller.log").open("ab") as log:
            self.process = subprocess.Popen(
                [COMMAND, "serve", "--exit-with-parent", "--config", str(self.config)],
                env=clean_environment(**variables),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def until_ready(self) -> None:
        """The port it gets the first time it keeps."""
        poll(self._is_ready, f"{self.name} is ready", START_LIMIT_S)
        self.port = int(self.url.rpartition(":")[2])

    def start(self) -> "Cluster":
        self.launch()
        self.until_ready()
        return self

    def kill(self) -> None:
        """kill -9, as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.collect()

    def stop(self) -> int:
        """SIGTERM; its exit code. One that does not go is killed, and then the wait has failed."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.collect()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_LIMIT_S)
            raise

    def env(self, **more: str) -> dict[str, str]:
        """Of somebody who speaks to this controller."""
        token_file = str(self.state_dir / "admin.token")
        return clean_environment(IRIS_FED_CONTROLLER=self.url, IRIS_FED_TOKEN_FILE=token_file, **more)

    def run(self, *arguments: str, **more: str) -> Ended:
        return iris_fed(*arguments, env=self.env(**more))

    def run_all(self, *commands: Sequence[str]) -> list[Ended]:
        return all_at_once([partial(self.run, *arguments) for arguments in commands])

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one document on the standard output of `<noun> <verb> --json ...`."""
        ended = self.run(*arguments[:2], "--json", *arguments[2:])
        assert ended.code == code, ended
        return json.loads(ended.out)

    def call(self, method: str, **fields: Any) -> Any:
        """One RPC of the controller's, spoken in JSON without our client."""
        service = "irisfed.v1.ClusterService" if method in OWN_METHODS else "iris.cluster.ControllerService"
        request = urllib.request.Request(
            f"{self.url}/{service}/{method}",
            data=json.dumps(fields).encode(),
            headers={
                "content-type": "application/json",
                "authorization": f"Bearer {(self.state_dir / 'admin.token').read_text().strip()}",
            },
        )
        with urllib.request.urlopen(request, timeout=CALL_LIMIT_S) as answer:
            return json.load(answer)

    def state(self, job: str) -> str:
        """`RUNNING` and the like, of a job of this user's."""
        state: str = self.call("GetJobStatus", jobId=whole_id(job))["job"]["state"]
        return state.removeprefix("JOB_STATE_")

    def until(self, job: str, state: str) -> None:
        poll(lambda: self.state(job) == state, f"{job} is {state}")

    def task(self, job: str, index: int = 0) -> dict[str, Any]:
        task: dict[str, Any] = self.call("GetTaskStatus", taskId=f"{whole_id(job)}/{index}")["task"]
        return task

    def begin(self, *arguments: str, **more: str) -> "Running":
        return Running([COMMAND, *arguments], self.env(**more))

    def submit(self, *arguments: str) -> str:
        """`job run --no-wait` with these; the id that it printed."""
        ended = self.run("job", "run", "--no-wait", *arguments)
        assert ended.code == 0, ended
        return ended.out.strip()

    def cancel(self, job: str) -> None:
        self.call("TerminateJob", jobId=whole_id(job))

    def attempt(self, job: str, index: int = 0) -> dict[str, Any]:
        """The last attempt of a task, in the wire's names."""
        last: dict[str, Any] = self.task(job, index)["attempts"][-1]
        return last

    def launchers(self) -> list[psutil.Process]:
        return [one for one in processes_naming(self.directory) if any("launcher.py" in w for w in one.cmdline())]

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        if not (self.state_dir / "controller.url").exists():
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2.0) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def collect(self) -> int:
        """The exit code of a controller that is about to end."""
        assert self.process is not None
        assert self.process.stdin is not None
        code = self.process.wait(STOP_LIMIT_S)
        self.process.stdin.close()
        self.process = None
        return code


@dataclass(frozen=True, slots=True)
class Federation:
    """`hub` has CPUs only and hands over to `lab`, which has eight declared H100."""

    hub: Cluster
    lab: Cluster


def start_federation(root: Path) -> Federation:
    hub = Cluster.make(root, "hub")
    trust = {"hub": {"public_keys": [hub.public_key], "allowed_submitters": ["*"]}}
    lab_backends = [{"id": "local", "devices": {"h100": 8}, "kill_grace_s": 1.0, "shared_uid": "accept"}]
    lab = Cluster.make(root, "lab", auth={"federation_peers": trust}, backends=lab_backends)
    try:
        lab.start()
        hub.settings["peers"] = [{"name": "lab", "address": lab.url}]
        hub.start()
        poll(lambda: hub.json("peer", "list")["peers"][0].get("reachable"), "hub has reached lab")
    except BaseException:
        sweep(root)
        raise
    return Federation(hub, lab)


def end_all(root: Path, clusters: Iterable[Cluster]) -> None:
    """Stop controllers and launchers as an operator would, and see that nothing is left."""
    try:
        for cluster in clusters:
            if cluster.process is not None:
                assert cluster.stop() == 0, cluster.log
        for launcher in processes_naming(root):
            if "launcher.py" in " ".join(launcher.cmdline()):
                launcher.terminate()
        poll(lambda: not processes_naming(root), f"no process names {root}")
    finally:
        sweep(root)
