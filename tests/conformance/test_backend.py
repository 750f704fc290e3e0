"""What every backend promises, whatever it drives."""

import asyncio
import signal

import pytest

from iris_fed.backends.base import Backend, EndKind, Intake, LogLine, Owner, Running
from iris_fed.model.resources import Device, DeviceKind, Resources
from tests.conformance.harness import NO_PROGRAM, OUTPUT_BYTES, PATIENCE_S, Harness, Witness, request

PAGE = 1 << 20


def h100(count: int) -> Resources:
    return Resources(device=Device(DeviceKind.GPU, "h100", count))


async def finish(harness: Harness, witness: Witness, uid: str, code: int = 0) -> None:
    await witness.until_running(uid)
    await harness.exit(uid, code)
    await witness.until_ended(uid)


async def whole_log(backend: Backend, uid: str, offset: int = 0, max_bytes: int = PAGE) -> list[LogLine]:
    lines: list[LogLine] = []
    while True:
        page = await backend.read_log(uid, offset, max_bytes)
        lines.extend(page.lines)
        offset = page.next_offset
        if page.complete:
            return lines
        assert page.lines, "an ended attempt's page is complete or holds something"


async def log_up_to(backend: Backend, uid: str, size: int) -> bytes:
    """Follow a running attempt's log until `size` bytes are there."""
    told, offset = b"", 0
    while len(told) < size:
        assert await backend.wait_log(uid, offset, PATIENCE_S)
        page = await backend.read_log(uid, offset, PAGE)
        told += b"".join(line.data for line in page.lines)
        offset = page.next_offset
    return told


class TestEnds:
    @pytest.mark.parametrize("code", [0, 3, 255])
    async def test_a_program_ends_with_its_own_exit_code(self, harness: Harness, code: int) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await finish(harness, witness, "a", code)
        ended = witness.ended["a"]
        assert (ended.end.kind, ended.end.exit_code, ended.end.signal) == (EndKind.EXITED, code, None)
        assert ended.started_ms is not None
        assert ended.started_ms <= ended.finished_ms

    async def test_a_program_ended_by_a_signal_says_which(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.die("a", signal.SIGUSR1)
        end = (await witness.until_ended("a")).end
        assert (end.kind, end.exit_code, end.signal) == (EndKind.SIGNALED, 128 + signal.SIGUSR1, signal.SIGUSR1)
        assert "SIGUSR1" in end.message

    async def test_running_is_told_before_the_end(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await finish(harness, witness, "a")
        told = [kind for kind in witness.order["a"] if kind not in ("Sampled", "Queued")]
        assert told == ["Running", "Ended"]
        assert "Queued" not in witness.order["a"][1:]

    async def test_a_program_that_is_not_there_never_starts(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(request("a", NO_PROGRAM))
        ended = await witness.until_ended("a")
        assert (ended.end.kind, ended.end.exit_code, ended.started_ms) == (EndKind.NOT_STARTED, 127, None)
        assert NO_PROGRAM in ended.end.message
        assert "a" not in witness.running

    async def test_an_attempt_over_its_time_is_ended_for_it(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a", timeout_ms=300))
        await witness.until_running("a")
        await harness.expire("a")
        end = (await witness.until_ended("a")).end
        assert end.kind is EndKind.TIMED_OUT
        assert "limit" in end.message


class TestIdempotence:
    async def test_a_uid_launched_twice_runs_once(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await asyncio.gather(backend.launch(harness.puppet("a")), backend.launch(harness.puppet("a")))
        await backend.launch(harness.puppet("a"))
        await finish(harness, witness, "a")
        assert harness.runs("a") == 1

    async def test_a_uid_launched_again_after_its_end_does_not_run_again(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await finish(harness, witness, "a", 4)
        del witness.ended["a"]
        await backend.launch(harness.puppet("a"))
        assert (await witness.until_ended("a")).end.exit_code == 4
        assert harness.runs("a") == 1

    async def test_a_uid_launched_again_by_the_next_controller_runs_once(self, harness: Harness) -> None:
        first, before = await harness.open()
        await first.launch(harness.puppet("a"))
        await before.until_running("a")
        await harness.crash(first)
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await finish(harness, witness, "a")
        assert harness.runs("a") == 1


class TestKill:
    async def test_a_killed_attempt_ends_as_killed(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await backend.kill("a")
        await backend.kill("a")
        assert (await witness.until_ended("a")).end.kind is EndKind.KILLED

    async def test_an_attempt_that_ignores_the_polite_signal_is_killed_too(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a", ignores_term=True))
        await witness.until_running("a")
        await harness.say("a", b"deaf\n")
        await log_up_to(backend, "a", 5)
        await backend.kill("a")
        assert (await witness.until_ended("a")).end.kind is EndKind.KILLED

    async def test_a_kill_straight_after_the_launch_is_not_lost(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        launch = asyncio.create_task(backend.launch(harness.puppet("a")))
        await asyncio.sleep(0)
        await backend.kill("a")
        await launch
        assert (await witness.until_ended("a")).end.kind is EndKind.KILLED

    async def test_killing_what_has_ended_or_never_was_changes_nothing(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await finish(harness, witness, "a", 5)
        await backend.kill("a")
        await backend.kill("nobody")
        recovery = await backend.recover(["a", "nobody"])
        assert recovery.observations == (witness.ended["a"],)
        assert recovery.unknown == {"nobody"}


class TestLogs:
    async def test_output_is_whole_in_order_and_addressed_by_offset(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.say("a", b"one\ntwo\n")
        await harness.say("a", b"three")
        await finish(harness, witness, "a")
        lines = await whole_log(backend, "a")
        assert b"".join(line.data for line in lines) == b"one\ntwo\nthree"
        assert [(line.offset, line.data) for line in lines] == [(0, b"one\n"), (4, b"two\n"), (8, b"three")]
        ended = witness.ended["a"]
        assert ended.started_ms is not None
        assert all(ended.started_ms <= line.time_ms <= ended.finished_ms for line in lines)

    async def test_reading_goes_on_where_it_stopped_however_small_the_pages(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        said = b"".join(b"line %d\n" % number for number in range(200))
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.say("a", said)
        await finish(harness, witness, "a")
        lines = await whole_log(backend, "a", max_bytes=50)
        assert [line.data for line in lines] == said.splitlines(keepends=True)
        assert b"".join(line.data for line in await whole_log(backend, "a", offset=8)) == said[8:]

    async def test_a_follower_is_woken_by_output_and_by_the_end(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        waiting = asyncio.create_task(backend.wait_log("a", 0, PATIENCE_S))
        await harness.say("a", b"first\n")
        assert await waiting
        assert await log_up_to(backend, "a", 6) == b"first\n"
        waiting = asyncio.create_task(backend.wait_log("a", 6, PATIENCE_S))
        await harness.exit("a", 0)
        assert await waiting
        await witness.until_ended("a")
        assert (await backend.read_log("a", 6, PAGE)).complete

    async def test_a_follower_waits_no_longer_than_it_said(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        assert not await backend.wait_log("a", 0, 0.05)

    async def test_a_running_attempts_page_is_never_complete(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        page = await backend.read_log("a", 0, PAGE)
        assert (page.lines, page.next_offset, page.complete) == ((), 0, False)

    async def test_bytes_that_are_no_text_come_unchanged(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        said = bytes(range(256)) * 4 + b"\r\n\x00\xff\n"
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.say("a", said)
        await finish(harness, witness, "a")
        assert b"".join(line.data for line in await whole_log(backend, "a")) == said

    async def test_a_very_long_line_comes_in_parts(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        said = b"x" * (OUTPUT_BYTES // 4) + b"\n"
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.say("a", said)
        await finish(harness, witness, "a")
        lines = await whole_log(backend, "a", max_bytes=1000)
        assert len(lines) > 1
        assert b"".join(line.data for line in lines) == said

    async def test_output_over_its_limit_loses_its_middle_and_says_how_much(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        said = b"".join(b"%07d\n" % number for number in range(OUTPUT_BYTES // 2))
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.say("a", said)
        await finish(harness, witness, "a")
        lines = await whole_log(backend, "a")
        kept = sum(len(line.data) for line in lines)
        assert lines[0].data == b"0000000\n"
        assert lines[-1].data == said[-8:]
        assert OUTPUT_BYTES // 2 < kept <= OUTPUT_BYTES + OUTPUT_BYTES // 8
        assert kept + sum(line.dropped_bytes for line in lines) == len(said)
        assert [line.dropped_bytes > 0 for line in lines].count(True) == 1
        assert all(said[line.offset : line.offset + len(line.data)] == line.data for line in lines)

    async def test_the_last_lines_can_be_asked_for(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.say("a", b"".join(b"%d\n" % number for number in range(100)))
        await finish(harness, witness, "a")
        page = await backend.read_log("a", 0, PAGE, tail_lines=3)
        assert [line.data for line in page.lines] == [b"97\n", b"98\n", b"99\n"]
        assert len((await backend.read_log("a", 0, PAGE, tail_lines=1000)).lines) == 100

    async def test_an_attempt_that_never_was_has_an_empty_complete_log(self, harness: Harness) -> None:
        backend, _ = await harness.open()
        page = await backend.read_log("nobody", 0, PAGE)
        assert (page.lines, page.complete) == ((), True)
        assert await backend.wait_log("nobody", 0, PATIENCE_S)


class TestCapacity:
    async def test_what_an_attempt_takes_is_not_free_until_it_ends(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        asked = Resources(1500, 2 * 1024**3, device=Device(DeviceKind.GPU, "h100", 3))
        launch = asyncio.create_task(backend.launch(harness.puppet("a", resources=asked)))
        await asyncio.sleep(0)
        (free,) = backend.nodes()
        assert (free.cpu_millicores, free.memory_bytes, free.devices) == (2500, 6 * 1024**3, {"h100": 5})
        await launch
        availability = backend.summary().availability
        assert availability is not None
        assert (availability.amounts, availability.total_amounts) == ({"h100": 5}, {"h100": 8})
        await finish(harness, witness, "a")
        (free,) = backend.nodes()
        assert (free.cpu_millicores, free.memory_bytes, free.devices) == (4000, 8 * 1024**3, {"h100": 8})

    async def test_devices_are_handed_out_lowest_first_and_never_twice(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        for uid, count in (("a", 2), ("b", 3)):
            await backend.launch(harness.puppet(uid, resources=h100(count)))
            await witness.until_running(uid)
        assert witness.running["a"].devices == (0, 1)
        assert witness.running["b"].devices == (2, 3, 4)
        await finish(harness, witness, "a")
        await backend.launch(harness.puppet("c", resources=h100(3)))
        assert (await witness.until_running("c")).devices == (0, 1, 5)

    @pytest.mark.parametrize(
        "asked",
        [Resources(cpu_millicores=4001), Resources(memory_bytes=9 * 1024**3), h100(9)],
        ids=["cpu", "mem", "gpu"],
    )
    async def test_a_request_beyond_what_is_free_is_not_started(self, harness: Harness, asked: Resources) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a", resources=asked))
        ended = await witness.until_ended("a")
        assert (ended.end.kind, ended.started_ms) == (EndKind.NO_CAPACITY, None)
        assert "free" in ended.end.message
        assert harness.runs("a") == 0

    async def test_what_found_no_room_may_be_placed_again(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a", resources=h100(8)))
        await witness.until_running("a")
        await backend.launch(harness.puppet("b", resources=h100(1)))
        assert (await witness.until_ended("b")).end.kind is EndKind.NO_CAPACITY
        await finish(harness, witness, "a")
        await backend.launch(harness.puppet("b", resources=h100(1)))
        await witness.until_running("b")

    async def test_ports_are_distinct_across_attempts(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await asyncio.gather(
            *(backend.launch(harness.puppet(uid, ports=("http", "grpc-2"))) for uid in ("a", "b", "c"))
        )
        seen: list[int] = []
        for uid in ("a", "b", "c"):
            running = await witness.until_running(uid)
            assert set(running.ports) == {"http", "grpc-2"}
            seen.extend(running.ports.values())
        assert len(set(seen)) == len(seen)

    async def test_a_summary_tells_shape_attributes_and_counts(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        summary = backend.summary()
        assert summary.attributes == {"device-type": ("cpu", "gpu"), "device-variant": ("h100",), "region": ("here",)}
        assert summary.largest_node is not None
        assert summary.largest_node.devices == {"h100": 8}
        assert (summary.worker_count, summary.running_task_count) == (1, 1)
        earlier, later = summary.availability, backend.summary().availability
        assert earlier is not None
        assert later is not None
        assert earlier.observation_epoch_ms < later.observation_epoch_ms


class TestReattachment:
    @pytest.mark.parametrize("crashes", [False, True], ids=["closed", "crashed"])
    async def test_a_running_attempt_is_found_again_and_its_end_learned(self, harness: Harness, crashes: bool) -> None:
        first, before = await harness.open()
        await first.launch(harness.puppet("a", resources=h100(2), ports=("http",)))
        told = await before.until_running("a")
        await (harness.crash(first) if crashes else first.close())
        backend, witness = await harness.open()
        recovery = await backend.recover(["a"])
        assert recovery.observations == (told,)
        assert (recovery.unknown, recovery.strangers) == (frozenset(), ())
        (free,) = backend.nodes()
        assert free.devices == {"h100": 6}
        await finish(harness, witness, "a", 7)
        assert witness.ended["a"].end.exit_code == 7
        assert harness.runs("a") == 1

    async def test_an_end_that_no_controller_saw_is_not_lost(self, harness: Harness) -> None:
        first, before = await harness.open()
        await first.launch(harness.puppet("a"))
        await before.until_running("a")
        await harness.crash(first)
        await harness.say("a", b"alone\n")
        await harness.exit("a", 9)
        backend, witness = await harness.open()
        (state,) = (await backend.recover(["a"])).observations
        ended = await witness.until_ended("a") if isinstance(state, Running) else state
        assert ended.end.exit_code == 9  # type: ignore[union-attr]
        assert [line.data for line in await whole_log(backend, "a")] == [b"alone\n"]

    async def test_what_the_caller_does_not_name_is_a_stranger_with_its_owners_name(self, harness: Harness) -> None:
        first, before = await harness.open(Owner("lab", "db-old"))
        await first.launch(harness.puppet("a"))
        await before.until_running("a")
        await harness.crash(first)
        backend, _ = await harness.open()
        recovery = await backend.recover(["b"])
        assert recovery.unknown == {"b"}
        (stranger,) = recovery.strangers
        assert (stranger.attempt_uid, stranger.cluster, stranger.database_id) == ("a", "lab", "db-old")
        assert stranger.task_id == "/ann/train/0"

    async def test_a_stranger_can_be_killed(self, harness: Harness) -> None:
        first, before = await harness.open()
        await first.launch(harness.puppet("a"))
        await before.until_running("a")
        await harness.crash(first)
        backend, witness = await harness.open()
        await backend.kill("a")
        assert (await witness.until_ended("a")).end.kind is EndKind.KILLED


class TestForget:
    async def test_a_forgotten_attempt_leaves_nothing_behind(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await harness.say("a", b"something\n")
        await finish(harness, witness, "a")
        await backend.forget("a")
        assert (await backend.read_log("a", 0, PAGE)).lines == ()
        assert (await backend.recover(["a"])).unknown == {"a"}

    async def test_a_running_attempt_is_not_forgotten(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch(harness.puppet("a"))
        await witness.until_running("a")
        await backend.forget("a")
        await finish(harness, witness, "a", 2)
        assert witness.ended["a"].end.exit_code == 2


class TestGangs:
    async def test_members_of_a_gang_are_started_together_and_once(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        members = [harness.puppet(uid) for uid in ("a", "b")]
        await asyncio.gather(backend.launch_gang(members), backend.launch_gang(members))
        for uid, code in (("a", 3), ("b", 4)):
            await finish(harness, witness, uid, code)
            assert witness.ended[uid].end.exit_code == code
            assert harness.runs(uid) == 1

    async def test_a_killed_gang_ends_whole(self, harness: Harness) -> None:
        backend, witness = await harness.open()
        await backend.launch_gang([harness.puppet(uid) for uid in ("a", "b")])
        for uid in ("a", "b"):
            await witness.until_running(uid)
        for uid in ("a", "b"):
            await backend.kill(uid)
        for uid in ("a", "b"):
            assert (await witness.until_ended(uid)).end.kind is EndKind.KILLED


class TestIntake:
    async def test_without_a_queue_of_its_own_an_engine_takes_what_is_free(self, harness: Harness) -> None:
        backend, _ = await harness.open()
        assert backend.intake() == Intake()
