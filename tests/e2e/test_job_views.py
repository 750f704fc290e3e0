"""Looking at jobs: `job list`, `describe`, `events`, `logs`, `wait`, `cancel`."""

import asyncio
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyqwest import Request, Response

from iris_fed.cli.job_wait import wait_for_all
from iris_fed.client import Client, Replaced
from iris_fed.rpc.connect_client import open_transport
from tests.e2e.clusters import ME, Cluster, Federation
from tests.e2e.command import all_at_once
from tests.e2e.terminal import CTRL_C, Terminal

TWO_DAYS_MS = 2 * 24 * 3600 * 1000
# Colours, a title that would stay on the terminal, a bell, and a byte that is no UTF-8.
WILD_SCRIPT = r"printf '\033[31mred\033[0m\n\033]0;title\007bell\007\n\377end\n'"
WILD_BYTES = "\x1b[31mred\x1b[0m\n\x1b]0;title\x07bell\x07\n\udcffend\n"


@pytest.fixture(scope="module")
def jobs(hub: Cluster) -> Iterator[None]:
    """/me/done (2 tasks, on lab), /me/running, /me/old (two days ago), /bob/his and /me/wild."""
    submitted = (
        ["--name", "done", "--replicas", "2", "--gpu", "H100", "--", "sh", "-c", "echo 1; echo 2; echo 3"],
        ["--name", "running", "--", "sh", "-c", "echo on; exec sleep 300"],
        ["--name", "old", "--", "true"],
        ["--name", "/bob/his", "--", "true"],
        ["--name", "wild", "--", "sh", "-c", WILD_SCRIPT],
    )
    all_at_once([partial(hub.submit, *arguments) for arguments in submitted])
    for job, state in (("done", "SUCCEEDED"), ("running", "RUNNING"), ("old", "SUCCEEDED"), ("wild", "SUCCEEDED")):
        hub.until(job, state)
    with sqlite3.connect(hub.state_dir / "controller.db") as database:
        database.execute(
            "UPDATE jobs SET submitted_ms = submitted_ms - ? WHERE job_id = ?", (TWO_DAYS_MS, f"/{ME}/old")
        )
    database.close()
    yield
    hub.cancel("running")
    hub.until("running", "KILLED")


def _rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split() for line in text.splitlines()[1:]}


@pytest.mark.usefixtures("jobs")
def test_the_list_holds_mine_that_are_active_or_of_the_last_day(hub: Cluster) -> None:
    rows = _rows(hub.run("job", "list").out)
    assert set(rows) == {f"/{ME}/done", f"/{ME}/running", f"/{ME}/wild"}
    assert rows[f"/{ME}/done"][1:4] == ["SUCCEEDED", "lab/local", "2/2"]
    assert rows[f"/{ME}/running"][1:4] == ["RUNNING", "local", "0/1"]


@pytest.mark.usefixtures("jobs")
def test_the_list_of_all_holds_everybodys_of_any_age_newest_first(hub: Cluster) -> None:
    whole, bobs, running, limited = hub.run_all(
        *(
            ("job", "list", *flags)
            for flags in (["-A"], ["-A", "--user", "bob"], ["--state", "running"], ["-A", "--limit", "2"])
        )
    )
    ids = list(_rows(whole.out))
    assert set(ids) == {f"/{ME}/{name}" for name in ("done", "running", "wild", "old")} | {"/bob/his"}
    assert ids[-1] == f"/{ME}/old"
    assert list(_rows(bobs.out)) == ["/bob/his"]
    assert list(_rows(running.out)) == [f"/{ME}/running"]
    assert list(_rows(limited.out)) == ids[:2]
    assert "2 of 5 jobs" in limited.err


def test_a_watched_list_shows_a_change_while_it_stands(hub: Cluster) -> None:
    with Terminal("job", "list", "--watch", env=hub.env()) as terminal:
        terminal.until("REASON")
        hub.submit("--name", "appears", "--", "sh", "-c", "exit 3")
        terminal.until(f"/{ME}/appears")
        terminal.until("code 3")
        terminal.type(CTRL_C)
        assert terminal.end() == 0
    assert "\x1b[?25h" in terminal.shown[-20:], "the cursor is visible again"


def test_a_watched_list_outlives_an_outage_and_says_that_it_is_stale(own: list[Cluster], tmp_path: Path) -> None:
    alone = Cluster.make(tmp_path, "alone").start()
    own.append(alone)
    alone.submit("--name", "first", "--", "true")
    with Terminal("job", "list", "--watch", env=alone.env()) as terminal:
        terminal.until(f"/{ME}/first")
        assert alone.stop() == 0
        terminal.until("stale, ")
        terminal.until(f"cannot reach the controller at {alone.url}: connection refused")
        terminal.until(f"/{ME}/first")
        alone.start()
        alone.submit("--name", "second", "--", "true")
        terminal.until(f"/{ME}/second")
        terminal.type(CTRL_C)
        assert terminal.end() == 0
    unreachable = alone.run("job", "list", "--watch", "--controller", "http://127.0.0.1:1")
    assert (unreachable.code, "connection refused" in unreachable.err) == (125, True)


@pytest.mark.usefixtures("jobs")
def test_a_description_has_status_request_tasks_and_events(hub: Cluster) -> None:
    page = hub.run("job", "describe", "done").out
    for expected in (
        "state:        SUCCEEDED",
        "runs on:      lab",
        "resources:    h100 x1",
        "tasks:        2 of 2 done",
    ):
        assert expected in page
    assert re.search(r"^1 +SUCCEEDED +lab/local +0 +0 ", page, re.MULTILINE)
    assert f"lab accepted the job as /{ME}/hub.done" in page


@pytest.mark.usefixtures("jobs")
def test_events_are_told_oldest_first(hub: Cluster) -> None:
    kinds = [line.split()[2] for line in hub.run("job", "events", "done").out.splitlines()[1:]]
    assert (kinds[0], kinds[-1]) == ("job.submitted", "job.ended")


@pytest.mark.usefixtures("jobs")
def test_a_log_is_cut_to_its_tail_and_bears_times_when_asked(hub: Cluster) -> None:
    assert hub.run("job", "logs", "done/1").out == "1\n2\n3\n"
    tail = hub.run("job", "logs", "done", "--tail", "1", "--timestamps").out.splitlines()
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
    assert sorted(re.sub(stamp, "AT", line) for line in tail) == ["AT [0] 3", "AT [1] 3"]


@pytest.mark.usefixtures("jobs")
def test_a_tasks_bytes_are_its_own_in_a_pipe_and_harmless_on_a_terminal(hub: Cluster) -> None:
    assert hub.run("job", "logs", "wild").out == WILD_BYTES
    with Terminal("job", "logs", "wild", env=hub.env()) as terminal:
        assert terminal.end() == 0
    assert terminal.shown == "red\r\nbell\r\n\N{REPLACEMENT CHARACTER}end\r\n"


@pytest.mark.usefixtures("jobs")
def test_waiting_ends_with_the_first_failures_code_or_when_the_time_is_up(hub: Cluster) -> None:
    failing = hub.submit("--", "sh", "-c", "exit 6")
    waited = hub.run("job", "wait", "done", failing)
    assert (waited.code, waited.out) == (6, "")
    assert f"{failing} FAILED" in waited.err
    late = hub.run("job", "wait", "running", "--timeout", "100ms")
    assert late.code == 124
    assert "running" in late.err
    assert hub.run("job", "wait", "nowhere").code == 125


class Noticing:
    """A real transport that tells when a job's status was answered."""

    def __init__(self, address: str) -> None:
        self._real = open_transport(address)
        self.looked = asyncio.Event()

    async def execute(self, request: Request) -> Response:
        response = await self._real.execute(request)
        if request.url.endswith("/GetJobStatus"):
            self.looked.set()
        return response

    async def __aexit__(self, *_: object) -> None:
        await self._real.__aexit__(None, None, None)

    async def __aenter__(self) -> "Noticing":
        return self


async def _replaced_while_waited_for(hub: Cluster, names: list[str], replaced: str) -> None:
    token = (hub.state_dir / "admin.token").read_text().strip()
    async with Noticing(hub.url) as transport, Client(hub.url, token=token, transport=transport) as client:
        waiting = asyncio.create_task(wait_for_all(client, names, 30.0, False))
        await transport.looked.wait()
        recreate = ("job", "run", "--name", replaced, "--if-exists", "recreate", "--no-wait", "--", "sleep", "300")
        assert (await asyncio.to_thread(hub.run, *recreate)).code == 0
        await waiting


@pytest.mark.usefixtures("jobs")
def test_waiting_for_a_job_that_is_replaced_says_so_and_does_not_wait_for_the_other(hub: Cluster) -> None:
    replaced = hub.submit("--name", "replaced", "--", "sleep", "300")
    hub.until(replaced, "RUNNING")
    with pytest.raises(Replaced, match=f"^{replaced} was replaced by another submission while it was followed$"):
        asyncio.run(_replaced_while_waited_for(hub, [replaced, f"/{ME}/running"], "replaced"))
    assert hub.state("replaced") in ("PENDING", "RUNNING"), "the wait did not last until the other's end"
    hub.cancel("replaced")
    hub.until("replaced", "KILLED")


@pytest.mark.usefixtures("jobs")
def test_a_followed_log_says_when_its_job_was_replaced(hub: Cluster) -> None:
    hub.submit("--name", "spoken", "--", "sh", "-c", "echo on; exec sleep 300")
    with hub.begin("job", "logs", "-f", "spoken") as log:
        assert log.line() == "on\n"
        # Halted, so that it cannot look between the two.
        log.interrupt(signal.SIGSTOP)
        assert hub.run("job", "run", "--name", "spoken", "--if-exists", "recreate", "--", "true").code == 0
        log.interrupt(signal.SIGCONT)
        ended = log.end()
    assert ended.code == 125
    assert ended.err == f"iris-fed: /{ME}/spoken was replaced by another submission while it was followed\n"


@pytest.mark.usefixtures("jobs")
def test_a_cancel_reaches_each_job_that_it_can(hub: Cluster) -> None:
    job = hub.submit("--", "sleep", "300")
    ended = hub.run("job", "cancel", "nowhere", job)
    assert ended.code == 125
    assert ended.err.splitlines() == [f"iris-fed: there is no job /{ME}/nowhere", f"{job} is being cancelled"]
    hub.until(job, "KILLED")


DOCUMENTS = (
    (("job", "list", "-A"), "jobs"),
    (("job", "describe", "done"), "request"),
    (("job", "events", "done"), "events"),
    (("job", "logs", "wild"), "lines"),
    (("job", "wait", "done"), "jobs"),
    (("peer", "list"), "peers"),
    (("peer", "check", "lab"), "steps"),
    (("backend", "list"), "backends"),
    (("cluster", "info"), "cluster"),
    (("context", "list"), "contexts"),
)
"""Each reading command, and a key of its document."""


@pytest.mark.usefixtures("jobs")
def test_json_is_exactly_one_document(hub: Cluster) -> None:
    documents = all_at_once([partial(hub.json, *arguments) for arguments, _ in DOCUMENTS])
    for (arguments, key), document in zip(DOCUMENTS, documents, strict=True):
        assert key in document, arguments


def test_places_are_listed_with_what_they_offer(federation: Federation) -> None:
    peers = _rows(federation.hub.run("peer", "list").out)["lab"]
    assert (peers[1], peers[-1]) == ("yes", federation.lab.url)
    assert re.search(r"h100 \d/8", federation.lab.run("backend", "list").out)
    info = federation.hub.run("cluster", "info").out
    assert f"you are:    {ME} (admin)" in info
    assert "peers:      lab" in info


def test_what_a_mirror_tells_is_what_the_peer_knows(federation: Federation, tmp_path: Path) -> None:
    started = time.time()
    federation.hub.run("job", "run", "--name", "both", "--gpu", "H100", "--", "sh", "-c", "exit 9")
    here = federation.hub.task("both")
    there = federation.lab.task(f"/{ME}/hub.both")
    for field in ("state", "exitCode", "startedAt", "finishedAt", "error"):
        assert here[field] == there[field]
    assert int(here["startedAt"]["epochMs"]) / 1000 >= started - 1
