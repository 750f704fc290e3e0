"""A task under another account, in a cgroup or under a warden: whole, held, and able to fail like any other."""

import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from iris_fed.backends.base import EndKind, LaunchRequest
from iris_fed.backends.local.backend import LocalBackend
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.clock import SystemClock
from iris_fed.model.files import NoSuchFile
from iris_fed.model.resources import Resources
from tests.conformance.harness import OWNER, Witness

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts tasks as others")
NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture(params=["cgroup", "warden"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[tuple[LocalBackend, Witness]]:
    root = Path(tempfile.mkdtemp(prefix="iris-fed-accounts-"))
    os.chmod(root, 0o755)
    settings = LocalSettings(run_as="nobody", use_cgroup=request.param == "cgroup", kill_grace_s=0.2)
    backend = LocalBackend(settings, root / "state", SystemClock())
    await backend.start(OWNER)
    witness = Witness(backend)
    yield backend, witness
    await witness.close()
    await backend.destroy()
    shutil.rmtree(root)


def asked(uid: str, *argv: str) -> LaunchRequest:
    return LaunchRequest(uid, "/a/b/0", argv, {"LD_PRELOAD": ""}, Resources(cpu_millicores=1), owner="a")


async def test_it_runs_as_that_account_and_what_it_left_is_removed(place: tuple[LocalBackend, Witness]) -> None:
    backend, witness = place
    await backend.launch(asked("a", "/bin/sh", "-c", "mkdir -p x/y && id -u > x/y/id && chmod 500 x && exit 7"))
    assert (await witness.until_ended("a")).end.exit_code == 7
    assert (await backend.read_file("a", "x/y/id", 0, 100)).data == f"{NOBODY}\n".encode()
    await backend.forget("a")
    with pytest.raises(NoSuchFile):
        await backend.read_file("a", "x/y/id", 0, 100)


async def test_it_is_killed_whole(place: tuple[LocalBackend, Witness]) -> None:
    backend, witness = place
    await backend.launch(asked("a", "/bin/sh", "-c", "trap '' TERM; setsid sleep 1000 & sleep 1000"))
    await witness.until_running("a")
    await backend.kill("a")
    ended = await witness.until_ended("a")
    assert ended.end.kind is EndKind.KILLED


@pytest.mark.parametrize(("program", "code"), [("/nothing/here", 127), ("/etc/passwd", 126), ("/root", 126)])
async def test_what_cannot_be_started_is_told_as_for_any_task(
    place: tuple[LocalBackend, Witness], program: str, code: int
) -> None:
    backend, witness = place
    await backend.launch(asked("a", program))
    end = (await witness.until_ended("a")).end
    assert (end.kind, end.exit_code) == (EndKind.NOT_STARTED, code)
