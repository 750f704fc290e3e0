"""How a controller ends when it is told to: at any moment, whatever its clients do."""

import contextlib
import signal
import socket
import sqlite3
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from tests.e2e.clusters import Cluster, runs
from tests.e2e.command import poll

GRACE_S = 3.0
MARGIN_S = 2.0
"""For the start of an interpreter's end on a loaded machine."""


@pytest.fixture
def lab(tmp_path: Path, own: list[Cluster]) -> Cluster:
    own.append(Cluster.make(tmp_path, "lab", shutdown_grace_s=GRACE_S, log={"level": "debug"}))
    return own[0]


def is_closed_clean(cluster: Cluster) -> bool:
    """The log is in the database, and all agrees."""
    path = cluster.state_dir / DATABASE_NAME
    assert not path.with_name(path.name + "-wal").exists()
    return check_database(path) == []


def hanging_request(cluster: Cluster) -> socket.socket:
    """A request whose body never comes."""
    connection = socket.create_connection(("127.0.0.1", cluster.port), timeout=10.0)
    token = (cluster.state_dir / "admin.token").read_text().strip()
    head = (
        "POST /iris.cluster.ControllerService/ListJobs HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n"
        "expect: 100-continue\r\n\r\n"
    )
    connection.sendall(head.encode())
    # The server asks for the body when the handler does: the request is under way.
    assert connection.recv(64).startswith(b"HTTP/1.1 100")
    return connection


def test_a_request_that_hangs_does_not_keep_the_controller_beyond_its_grace(lab: Cluster) -> None:
    lab.start()
    job = lab.submit("--", "sh", "-c", "echo $$; exec sleep 300")
    lab.until(job, "RUNNING")
    pid = int(lab.run("job", "logs", job).out)
    with contextlib.closing(hanging_request(lab)):
        began = time.monotonic()
        assert lab.stop() == 0
        assert 1.0 < time.monotonic() - began < GRACE_S + MARGIN_S
    assert runs(pid), "the task goes on"
    assert is_closed_clean(lab)
    lab.start()
    assert lab.state(job) == "RUNNING"
    lab.cancel(job)


def test_nobody_new_is_let_in_once_it_stops_and_a_second_signal_waits_for_no_request(lab: Cluster) -> None:
    lab.start()
    with contextlib.closing(hanging_request(lab)):
        assert lab.process is not None
        lab.process.terminate()
        poll(lambda: not accepts(lab.port), "it has stopped listening")
        began = time.monotonic()
        assert lab.stop() == 0
        assert time.monotonic() - began < MARGIN_S
    assert is_closed_clean(lab)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5.0).close()
    except OSError:
        return False
    return True


def test_a_signal_during_the_start_undoes_it(lab: Cluster) -> None:
    lab.start()
    assert lab.stop() == 0
    started = lab.log.count("controller.starting")
    with contextlib.closing(sqlite3.connect(lab.state_dir / DATABASE_NAME, isolation_level=None)) as other:
        # The start waits for the database, as long as its patience lasts.
        other.execute("BEGIN IMMEDIATE")
        lab.launch()
        poll(lambda: lab.log.count("controller.starting") > started, "it is starting")
        assert lab.process is not None
        lab.process.send_signal(signal.SIGTERM)
        poll(lambda: lab.log.count("controller.stopping") == 2, "it was told")
    assert lab.collect() == 0
    assert lab.log.count("controller.serving") == 1
    assert "Traceback" not in lab.log
    assert is_closed_clean(lab)
    lab.start()


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10.0) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_controller_that_hangs_is_gone_after_its_grace_and_shows_where(lab: Cluster) -> None:
    lab.start()
    with contextlib.closing(sqlite3.connect(lab.state_dir / DATABASE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        # A write that waits for the database longer than the grace lasts.
        poll(lambda: _status(f"{lab.url}/readyz") == 503, "it says that it is not ready")
        began = time.monotonic()
        assert lab.stop() == 1
        assert GRACE_S <= time.monotonic() - began < GRACE_S + MARGIN_S
    assert "Timeout (0:00:03)!" in lab.log
    assert "connection.py" in lab.log
    lab.start()
