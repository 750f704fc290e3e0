"""A reader that stops reading: what its log costs the two clusters between it and the task."""

import hashlib
import time

import psutil

from tests.e2e.clusters import Cluster, Federation, whole_id
from tests.e2e.command import COMMAND, POLL_S, Running, clean_environment, poll

LINES = 7_000
LINE = "x" * 7_999
SIZE = LINES * (len(LINE) + 1)
MOST_ON_THE_WAY = SIZE * 4 // 5
"""Sockets hold up to ten MiB a hop, pages and pipes a few more; what is not held back is all of it."""
QUIET_S = 1.5
PROGRAM = f"print(('{LINE}' + chr(10)) * {LINES}, end='')"


def taken_by(cluster: Cluster) -> int:
    """Bytes that its controller has read from anywhere."""
    assert cluster.process is not None
    counters = psutil.Process(cluster.process.pid).io_counters()
    return int(counters.read_chars)


def settled(cluster: Cluster, beyond: int) -> int:
    """What it has taken once that grows no more than heartbeats make it."""
    last, since = taken_by(cluster), time.monotonic()

    def look() -> int | None:
        nonlocal last, since
        now = taken_by(cluster)
        if now - last > 256 * 1024:
            last, since = now, time.monotonic()
        return last if last > beyond and time.monotonic() - since > QUIET_S else None

    return poll(look, f"{cluster.name} takes no more", 30.0 + POLL_S)


def test_a_reader_that_stops_holds_the_whole_way_back_and_loses_nothing(federation: Federation) -> None:
    hub, lab = federation.hub, federation.lab
    hub.submit("--name", "loud", "--gpu", "H100", "--", "python3", "-c", PROGRAM)
    assert hub.run("job", "wait", "loud").code == 0
    before = {cluster.name: taken_by(cluster) for cluster in (hub, lab)}
    rss = {cluster.name: resident(cluster) for cluster in (hub, lab)}
    env = clean_environment(IRIS_FED_CONTROLLER=hub.url, IRIS_FED_TOKEN_FILE=str(hub.state_dir / "admin.token"))
    with Running([COMMAND, "job", "logs", whole_id("loud")], env) as reader:
        # The command's own output is a pipe that nobody reads yet.
        settled(hub, before["hub"] + 65_536)
        for cluster in (hub, lab):
            assert taken_by(cluster) - before[cluster.name] < MOST_ON_THE_WAY, cluster.name
            assert resident(cluster) - rss[cluster.name] < 2 * SIZE, cluster.name
        ended = reader.end()
    assert ended.code == 0, ended.err
    expected = ((LINE + "\n") * LINES).encode()
    assert hashlib.sha256(ended.out.encode()).digest() == hashlib.sha256(expected).digest()


def resident(cluster: Cluster) -> int:
    assert cluster.process is not None
    return int(psutil.Process(cluster.process.pid).memory_info().rss)
