"""A cgroup v2 directory per attempt, where this process may make one: exact, and killed at one blow.

Standard library only: it runs beside the tasks.
"""

import contextlib
import os

_MOUNTS = "/proc/self/mountinfo"


class CgroupRoot:
    """The directory below which attempts get theirs, and the one this process came from."""

    def __init__(self, home: str, base: str) -> None:
        self._home = home
        self.base = base

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(self.base)

    def make(self, uid: str) -> str:
        """A fresh, empty cgroup. Raises OSError."""
        path = self.path(uid)
        os.mkdir(path)
        return path

    def path(self, uid: str) -> str:
        return os.path.join(self.base, uid)

    def enter(self, path: str) -> None:
        """From here on this process starts its children in `path`. Raises OSError."""
        _write(os.path.join(path, "cgroup.procs"), b"0")

    def leave(self) -> None:
        _write(os.path.join(self._home, "cgroup.procs"), b"0")


def find_root(name: str) -> CgroupRoot | None:
    """Try whether cgroups can be made, entered and killed here; None when not.

    `name` keeps launchers apart; the directory is removed by `CgroupRoot.close`.
    """
    home = _own_cgroup()
    if home is None:
        return None
    root = CgroupRoot(home, os.path.join(home, name))
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(root.base)
        if not os.path.exists(os.path.join(root.base, "cgroup.kill")):
            root.close()
            return None
        root.enter(root.base)
        root.leave()
    except OSError:
        root.close()
        return None
    return root


def processes(path: str) -> list[int]:
    """Of the cgroup itself and those that a task made below it."""
    found: list[int] = []
    for folder, _, names in os.walk(path):
        if "cgroup.procs" in names:
            found.extend(int(pid) for pid in _read(os.path.join(folder, "cgroup.procs")).split())
    return found


def is_empty(path: str) -> bool:
    events = _read(os.path.join(path, "cgroup.events"))
    return "populated 1" not in events


def kill(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        _write(os.path.join(path, "cgroup.kill"), b"1")


def remove(path: str) -> None:
    """Take an empty cgroup away, with those that a task made below it."""
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def cpu_us(path: str) -> int:
    """CPU time of all that ever ran in it, in microseconds."""
    text = _read(os.path.join(path, "cpu.stat"))
    return int(text.split()[1]) if text.startswith("usage_usec ") else 0


def _own_cgroup() -> str | None:
    mount = _mount_point()
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::") and mount is not None:
            return os.path.normpath(mount + line[len("0::") :])
    return None


def _mount_point() -> str | None:
    for line in _read(_MOUNTS).splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return before.split()[4]
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read()
    except OSError:
        return ""


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
