"""The program that runs on the nodes: it keeps one attempt within its Slurm job, or a command beside it.

    python -I -S node.py run SHARED_DIR UID [gang]
    python -I -S node.py exec SHARED_DIR UID TIMEOUT_S PROGRAM ARGUMENT...

The first exits with 0 whatever became of the attempt, which is in its `exit.json`; an attempt that has begun
before, or was cancelled, is not run. The second exits as the command did. Standard library only.
"""

import os
import signal
import socket
import sys
import time

if __name__ == "__main__":
    # Run as a file, so that neither an installed package nor site-packages is needed.
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from iris_fed.backends.posix import files, procfs
from iris_fed.backends.posix.attempts import Attempts
from iris_fed.backends.posix.children import become_subreaper, reap
from iris_fed.backends.posix.environment import task_environment
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.loop import Loop
from iris_fed.backends.posix.ports import free_ports
from iris_fed.backends.posix.spawn import NO_PROGRAM, NOT_EXECUTABLE, RESET_SIGNALS, find_program
from iris_fed.backends.slurm import layout

_RENDEZVOUS_S = 600.0
_RENDEZVOUS_PAUSE_S = 0.1
_USAGE_EVERY_S = 10.0
_ROUND_S = 5.0
_ENVIRON_TRIES = 50
_ENVIRON_PAUSE_S = 0.02
_INHERITED = ("SLURM_", "SLURMD_", "ROCR_", "GPU_DEVICE_", "ZE_AFFINITY", "CUDA_VISIBLE_DEVICES")
_DEVICE_LISTS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES")
_ANY_ADDRESS = "0.0.0.0"
NOT_RUNNING = 225
OUT_OF_TIME = 224
"""Exit codes of `exec` by which we mean no command's own; one that has them is misunderstood."""


class Gone(Exception):
    """The attempt is not to be run here; the message says why."""


def main(argv: list[str]) -> int:
    """Gives the exit code. Raises OSError when the shared directory cannot be used."""
    what, shared_dir, uid, *rest = argv
    os.umask(0o077)
    os.chdir(shared_dir)
    if what == "exec":
        return _exec(uid, float(rest[0]), rest[1:])
    if rest == ["gang"]:
        members = _read(uid, layout.GANG)["uids"]
        uid = members[int(os.environ["SLURM_PROCID"])]
    else:
        members = [uid]
    try:
        _run(uid, members)
    except Gone as reason:
        sys.stderr.write(f"attempt {uid} is not run: {reason}\n")
    return 0


def _run(uid: str, members: list[str]) -> None:
    folder = files.attempt_folder("", uid)
    if os.path.exists(os.path.join(folder, layout.CANCELLED)):
        raise Gone("it was cancelled before it began")
    if not layout.create(os.path.join(folder, layout.BEGUN), os.environ.get("SLURM_JOB_ID", "")):
        raise Gone("it has begun before")
    asked = _read(uid, layout.LAUNCH)
    os.unlink(os.path.join(folder, layout.LAUNCH))
    place = _take_place(folder, asked)
    gang = {} if len(members) == 1 else _meet(members)
    keeper = Keeper(uid, folder)
    keeper.keep({**asked, "env": _environment(folder, asked, place, gang), "uid": uid, "account": None})


class Keeper:
    """Starts the attempt and stays until nothing of it runs."""

    def __init__(self, uid: str, folder: str) -> None:
        self._uid = uid
        self._folder = folder
        self._usage_s = 0.0
        self._loop = Loop()
        become_subreaper()
        self._attempts = Attempts(self._loop, self._tell, lambda _: None, use_cgroups=False)
        self._attempts.start(self._loop.stop, self._told_to_end)

    def keep(self, request: Record) -> None:
        # What is forked now keeps it blocked: Slurm tells every process of a job to end, and who holds the
        # attempt together must outlive it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._attempts.launch(request)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        if self._attempts.alive:
            self._loop.run()
        _tell_news(self._uid)

    def _told_to_end(self) -> None:
        layout.create(os.path.join(self._folder, layout.TOLD))
        self._attempts.end(self._uid, "TOLD", "was told to end by Slurm")

    def _tell(self, event: Record) -> None:
        if event["event"] == "sampled":
            if time.monotonic() < self._usage_s:
                return
            self._usage_s = time.monotonic() + _USAGE_EVERY_S
            files.write_record(self._folder, layout.USAGE, event["usage"], durable=False)
        _tell_news(self._uid)


def _take_place(folder: str, asked: Record) -> Record:
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    ports = free_ports(_ANY_ADDRESS, asked["ports"], ())
    devices = _devices() if asked["chips"] else []
    place = {
        "job_id": os.environ.get("SLURM_JOB_ID", ""),
        "node": node,
        "address": asked["address"].replace("{node}", node),
        "ports": ports,
        "devices": devices,
        "index": asked["index"],
    }
    files.write_record(folder, layout.PLACE, place, durable=False)
    return place


def _devices() -> list[int]:
    """The indexes of the GPUs that Slurm gave, on their machine; empty where it does not say."""
    for name in _DEVICE_LISTS:
        numbers = os.environ.get(name, "").split(",")
        if numbers != [""] and all(number.isdecimal() for number in numbers):
            return [int(number) for number in numbers]
    return []


def _meet(members: list[str]) -> Record:
    """Once all have a place: where each is, by the variables that tell a gang's members of each other."""
    places: list[Record] = []
    deadline = time.monotonic() + _RENDEZVOUS_S
    for uid in members:
        while (place := files.read_record(os.path.join(files.attempt_folder("", uid), layout.PLACE))) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{uid} of the gang did not come within {_RENDEZVOUS_S:g} s")
            time.sleep(_RENDEZVOUS_PAUSE_S)
        places.append(place)
    by_index = {place["index"]: place for place in places}
    order = range(1 + max(by_index))
    empty: Record = {"address": "", "ports": {}}
    told = {"IRIS_GANG_ADDRESSES": ",".join(by_index.get(index, empty)["address"] for index in order)}
    for name in places[0]["ports"]:
        numbers = (str(by_index.get(index, empty)["ports"].get(name, "")) for index in order)
        told["IRIS_GANG_PORTS_" + "".join(c if c.isalnum() else "_" for c in name.upper())] = ",".join(numbers)
    return told


def _environment(folder: str, asked: Record, place: Record, gang: Record) -> dict[str, str]:
    """Slurm's variables first, so that MPI and the like find their job."""
    inherited = {name: value for name, value in os.environ.items() if name.startswith(_INHERITED)}
    devices = place["devices"]
    if not asked["chips"] or devices:
        shown: list[int] | None = [_as_cuda(index, devices) for index in devices]
    else:
        shown = None
    work = os.path.abspath(os.path.join(folder, files.WORK))
    asked_env = {**inherited, **asked["env"], **gang}
    return task_environment(asked_env, work, place["address"], place["ports"], shown)


def _as_cuda(index: int, devices: list[int]) -> int:
    """Where Slurm confines a job to its devices, programs count from 0: it says so itself."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if len(visible) == len(devices) and all(number.isdecimal() for number in visible):
        return int(visible[devices.index(index)])
    return index


def _tell_news(uid: str) -> None:
    try:
        os.close(os.open(os.path.join(layout.NEWS, uid), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        # Only a hint: the controller looks by itself, later.
        sys.stderr.write(f"no news of {uid}: {error}\n")


def _read(uid: str, name: str) -> Record:
    record = files.read_record(os.path.join(files.attempt_folder("", uid), name))
    if record is None:
        raise FileNotFoundError(f"{name} of attempt {uid} cannot be read")
    return record


def _exec(uid: str, timeout_s: float, argv: list[str]) -> int:
    """In the attempt's work directory and environment."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    become_subreaper()
    try:
        env = _environment_of(_read(uid, files.PROCESS)["pid"], uid)
        os.chdir(os.path.join(files.attempt_folder("", uid), files.WORK))
    except (OSError, KeyError):
        return NOT_RUNNING
    try:
        program = find_program(argv[0], env.get("PATH", ""))
        pid = os.posix_spawn(program, argv, env, setsid=True, setsigmask=[], setsigdef=RESET_SIGNALS)
    except OSError as error:
        os.write(2, os.fsencode(f"{argv[0]}: {error.strerror}\n"))
        return NO_PROGRAM if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    status = _wait_for(pid, time.monotonic() + timeout_s)
    while not procfs.kill_all(lambda: procfs.descendants(os.getpid()), reap, _ROUND_S):
        continue
    if status is None:
        return OUT_OF_TIME
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _wait_for(pid: int, deadline: float) -> "int | None":
    """The command's wait(2) status; None when it is out of time or told to end."""
    while (left := deadline - time.monotonic()) > 0:
        told = signal.sigtimedwait({signal.SIGCHLD, signal.SIGTERM}, left)
        if told is not None and told.si_signo == signal.SIGTERM:
            break
        ended = reap().get(pid)
        if ended is not None:
            return ended[0]
    return None


def _environment_of(pid: int, uid: str) -> dict[str, str]:
    """Raises OSError when the attempt does not run (any more)."""
    env: dict[str, str] = {}
    for _ in range(_ENVIRON_TRIES):
        with open(f"/proc/{pid}/environ", "rb") as stream:
            pairs = (entry.partition(b"=") for entry in stream.read().split(b"\0") if b"=" in entry)
            env = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
        if env.get("IRIS_ATTEMPT_UID") == uid:
            return env
        # It is just becoming its program.
        time.sleep(_ENVIRON_PAUSE_S)
    return {"PATH": os.defpath, **env}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
