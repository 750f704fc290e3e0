"""What the Slurm backend owes beyond the suite of all backends, on a real Slurm."""

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from iris_fed.backends.base import BackendUnavailable, EndKind, Queued
from tests.conformance.harness import PATIENCE_S, request
from tests.slurm.real import poll
from tests.slurm.world import World, h100

PAGE = 1 << 20


async def eventually(look: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(poll, look, what)


class TestQueue:
    async def test_what_is_not_free_waits_in_slurms_queue_and_says_why(self, world: World) -> None:
        theirs = await world.fill()
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a"))
        assert "(Slurm job" in (await witness.until_queued("a")).reason
        assert backend.intake().room == world.settings.max_pending - 1
        (state,) = (await backend.recover(["a"])).observations
        assert isinstance(state, Queued)
        world.slurm.ask("scancel", theirs)
        await witness.until_running("a")
        assert backend.intake().room == world.settings.max_pending

    async def test_one_that_waits_is_killed_without_ever_having_run(self, world: World) -> None:
        await world.fill()
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a"))
        await witness.until_queued("a")
        await backend.kill("a")
        ended = await witness.until_ended("a")
        assert (ended.end.kind, ended.started_ms) == (EndKind.KILLED, None)
        assert world.runs("a") == 0

    async def test_what_no_machine_could_run_is_refused_in_slurms_words(self, world: World) -> None:
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a", h100(9)))
        end = (await witness.until_ended("a")).end
        assert end.kind is EndKind.NOT_STARTED
        assert end.message.startswith("Slurm refused it: ")
        assert end.message.endswith("Requested node configuration is not available")

    async def test_what_cannot_be_laid_out_is_told_and_told_again(self, world: World) -> None:
        backend, witness = await world.open()
        asked = dataclasses.replace(world.sleeper("a"), files={"f": b"1", "f/g": b"2"})
        for _ in range(2):
            witness.ended.clear()
            await backend.launch(asked)
            end = (await witness.until_ended("a")).end
            assert end.kind is EndKind.NOT_STARTED
            assert end.message.startswith("its work directory cannot be filled: ")
        assert not world.slurm.active()

    async def test_a_job_gets_what_its_constraints_choose(self, world: World) -> None:
        backend, witness = await world.open(partitions=("main",))
        choices = {"slurm-feature": "fast", "color": "red"}
        await backend.launch(dataclasses.replace(world.sleeper("a"), choices=choices))
        assert (await witness.until_running("a")).node == "n2"


class TestCapacity:
    async def test_machines_that_are_drained_do_not_count(self, world: World) -> None:
        backend, _ = await world.open()

        def totals() -> object:
            availability = backend.summary().availability
            return None if availability is None else dict(availability.total_amounts)

        assert (totals(), backend.summary().worker_count) == ({"h100": 12}, 3)
        world.slurm.ask("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
        try:
            await eventually(lambda: backend.summary().worker_count == 2, "the drained machine is gone")
            assert totals() == {"h100": 4}
            assert backend.summary().attributes["slurm-feature"] == ("fast",)
        finally:
            world.slurm.ask("scontrol", "update", "nodename=n1", "state=resume")
        await eventually(lambda: backend.summary().worker_count == 3, "it is back")

    async def test_what_others_use_is_not_free(self, world: World) -> None:
        backend, _ = await world.open()
        words = ("sbatch", "--parsable", "--gres=gpu:h100:3", "--output=/dev/null")
        world.slurm.ask(*words, text="#!/bin/sh\nsleep 1000\n")

        def free() -> int:
            availability = backend.summary().availability
            return 0 if availability is None else availability.amounts["h100"]

        await eventually(lambda: free() == 9, "three are in use")


class TestGangs:
    async def test_a_gang_is_one_job_whose_members_know_each_other_and_share_nothing(self, world: World) -> None:
        backend, witness = await world.open()
        variables = "$IRIS_GANG_ADDRESSES $IRIS_GANG_PORTS_RDZV $IRIS_PORT_RDZV $CUDA_VISIBLE_DEVICES"
        members = [world.task(f"m{index}", f"echo {variables}; exec sleep 99", h100(3), index) for index in range(3)]
        await backend.launch_gang([dataclasses.replace(one, ports=("rdzv",)) for one in members])
        running = [await witness.until_running(f"m{index}") for index in range(3)]
        assert len(world.slurm.active()) == 1
        assert len({(one.node, device) for one in running for device in one.devices}) == 9
        ports = ",".join(str(one.ports["rdzv"]) for one in running)
        for index, one in enumerate(running):
            assert await backend.wait_log(f"m{index}", 0, PATIENCE_S)
            (line,) = (await backend.read_log(f"m{index}", 0, PAGE)).lines
            devices = ",".join(map(str, one.devices))
            assert line.data.decode() == f"127.0.0.1,127.0.0.1,127.0.0.1 {ports} {one.ports['rdzv']} {devices}\n"
        said = await backend.exec("m2", ["sh", "-c", "echo $IRIS_TASK_INDEX $SLURMD_NODENAME"], PATIENCE_S, PAGE)
        assert said.stdout.decode() == f"2 {running[2].node}\n"
        await backend.kill("m0")
        for index in range(3):
            assert (await witness.until_ended(f"m{index}")).end.kind is EndKind.KILLED

    async def test_members_end_each_with_its_own_code_and_the_others_go_on(self, world: World) -> None:
        backend, witness = await world.open()
        gate = world.folder / "gate"
        waits = f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 4"
        await backend.launch_gang([world.task("m0", "exit 3", index=0), world.task("m1", waits, index=1)])
        assert (await witness.until_ended("m0")).end.exit_code == 3
        await witness.until_running("m1")
        assert "m1" not in witness.ended
        gate.touch()
        assert (await witness.until_ended("m1")).end.exit_code == 4

    async def test_a_gang_without_room_for_all_starts_none(self, world: World) -> None:
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a", h100(6)))
        await witness.until_running("a")
        await backend.launch_gang([world.sleeper(f"m{index}", h100(4), index) for index in range(3)])
        await witness.until_queued("m2")
        assert {"m0", "m1", "m2"}.isdisjoint(witness.running)
        await backend.kill("a")
        for index in range(3):
            await witness.until_running(f"m{index}")

    async def test_a_gang_of_which_a_layout_failed_is_laid_out_anew_and_starts_whole(self, world: World) -> None:
        backend, witness = await world.open()
        in_the_way = world.settings.shared_dir / "attempts" / "m1"
        in_the_way.write_text("")
        members = [world.sleeper(f"m{index}", index=index) for index in range(2)]
        for _ in range(2):
            with pytest.raises(BackendUnavailable, match="could not be laid out"):
                await backend.launch_gang(members)
            assert (await backend.recover(["m0", "m1"])).unknown == {"m0", "m1"}
        in_the_way.unlink()
        await backend.launch_gang(members)
        for index in range(2):
            await witness.until_running(f"m{index}")
        await backend.kill("m1")
        for index in range(2):
            assert (await witness.until_ended(f"m{index}")).end.kind is EndKind.KILLED

    async def test_a_gang_that_was_never_submitted_is_killed_whole(self, world: World) -> None:
        world.stand_in("sbatch")
        world.act("sbatch", "echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1")
        backend, witness = await world.open()
        with pytest.raises(BackendUnavailable):
            await backend.launch_gang([world.sleeper(f"m{index}", index=index) for index in range(2)])
        # Its account may already write there.
        (world.settings.shared_dir / "attempts" / "m0" / "begun").touch()
        await eventually(lambda: "m1" not in witness.ended, "it is not over")
        await backend.kill("m1")
        for index in range(2):
            assert (await witness.until_ended(f"m{index}")).end.kind is EndKind.KILLED

    async def test_a_gang_that_was_laid_out_and_given_up_never_begins_late(self, world: World) -> None:
        world.stand_in("sbatch")
        world.act("sbatch", "echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1")
        first, _ = await world.open()
        with pytest.raises(BackendUnavailable):
            await first.launch_gang([world.sleeper(f"late{index}", index=index) for index in range(2)])
        await world.crash(first)
        second, _ = await world.open()
        assert (await second.recover(["late0", "late1"])).unknown == {"late0", "late1"}
        # Should it have reached Slurm after all, it finds that it was given up.
        (keeper,) = (world.settings.shared_dir / "keeper").glob("*/iris_fed/backends/slurm/node.py")
        run = f"{world.settings.python} -I -S {keeper} run {world.settings.shared_dir} late0 gang"
        out = world.folder / "late.out"
        words = ("sbatch", "--wait", "--ntasks=2", f"--output={out}")
        await asyncio.to_thread(world.slurm.ask, *words, text=f"#!/bin/sh\nexec srun -n2 {run}\n")
        assert out.read_text().count("was cancelled before it began") == 2
        assert world.runs("late0") == world.runs("late1") == 0


class TestForged:
    async def test_a_task_that_declares_its_own_end_is_ended_in_slurm_before_its_files_go(self, world: World) -> None:
        backend, witness = await world.open()
        record = '{"kind":"EXITED","exit_code":3,"signal":null,"message":"","started_ms":1,"finished_ms":2,"usage":{}}'
        await backend.launch(world.task("forger", f"echo '{record}' > ../exit.json; trap '' TERM; sleep 1000 & wait"))
        assert (await witness.until_ended("forger")).end.exit_code == 3
        with pytest.raises(BackendUnavailable, match="may still run"):
            await backend.forget("forger")
        assert (world.settings.shared_dir / "attempts" / "forger").is_dir()
        await asyncio.to_thread(poll, lambda: not world.slurm.active(), "its job was ended", 40.0)
        await backend.forget("forger")
        assert not (world.settings.shared_dir / "attempts" / "forger").exists()

    async def test_an_end_that_was_taken_before_a_restart_is_found_out_after_it(self, world: World) -> None:
        first, before = await world.open()
        await first.launch(world.sleeper("forger"))
        await before.until_running("forger")
        await world.crash(first)
        record = world.settings.shared_dir / "records" / "forger" / "end.json"
        record.write_text('{"kind":"EXITED"}')
        second, _ = await world.open()
        await asyncio.to_thread(poll, lambda: not world.slurm.active(), "its job was ended", 40.0)
        await second.forget("forger")
        assert not record.exists()


class TestOthers:
    async def test_a_job_that_somebody_else_cancels_says_so(self, world: World) -> None:
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a"))
        await witness.until_running("a")
        world.slurm.ask("scancel", *world.slurm.job_ids("a"))
        end = (await witness.until_ended("a")).end
        assert end.kind is EndKind.CANCELLED
        assert "was cancelled in Slurm, not by this cluster" in end.message

    async def test_a_waiting_job_that_somebody_else_cancels_says_so(self, world: World) -> None:
        await world.fill()
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a"))
        await witness.until_queued("a")
        world.slurm.ask("scancel", *world.slurm.job_ids("a"))
        ended = await witness.until_ended("a")
        assert (ended.end.kind, ended.started_ms) == (EndKind.CANCELLED, None)

    async def test_a_node_that_goes_down_takes_its_attempt_along_as_lost(self, world: World) -> None:
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a"))
        node = (await witness.until_running("a")).node
        world.slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        try:
            end = (await witness.until_ended("a")).end
        finally:
            # It may have come back by itself.
            world.slurm.ask("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        assert (end.kind, end.message) == (EndKind.LOST, "was lost: a node that it ran on failed")

    async def test_what_an_administrator_requeues_is_not_run_twice(self, world: World) -> None:
        backend, witness = await world.open()
        await backend.launch(world.sleeper("requeued"))
        await witness.until_running("requeued")
        (job,) = world.slurm.job_ids("requeued")
        world.slurm.ask("scontrol", "update", f"jobid={job}", "requeue=1")
        world.slurm.ask("scontrol", "requeue", job)
        end = (await witness.until_ended("requeued")).end
        assert end.kind is EndKind.CANCELLED
        world.slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now", check=False)
        await eventually(lambda: not world.slurm.active(), "the requeued job has come to nothing")
        assert world.runs("requeued") == 1


class TestAccounts:
    async def test_a_task_runs_as_its_users_account_in_a_place_that_is_that_accounts_alone(self, world: World) -> None:
        # Where others may pass through, as they may not through a test's own folder.
        shared = world.slurm.folder / "shared"
        become = ("setpriv", "--reuid={user}", "--regid=nogroup", "--clear-groups", "--")
        backend, witness = await world.open(
            submit_command=become, shared_dir=shared, run_as={"ann": "nobody"}, python="/usr/bin/python3"
        )
        asked = request(
            "mapped",
            "sh",
            "-c",
            'id -un; cat "$IRIS_SECRETS_DIR/key"; cat f; ln -s /etc/shadow ../usage.json; exec sleep 99',
        )
        asked = dataclasses.replace(asked, owner="ann", files={"f": b"file\n"}, secret_files={"key": "secret\n"})
        await backend.launch(asked)
        await witness.until_running("mapped")
        said = b""
        while said.count(b"\n") < 3:
            assert await backend.wait_log("mapped", len(said), PATIENCE_S)
            said = b"".join(line.data for line in (await backend.read_log("mapped", 0, PAGE)).lines)
        assert said == b"nobody\nsecret\nfile\n"
        assert (await backend.exec("mapped", ["id", "-un"], PATIENCE_S, PAGE)).stdout == b"nobody\n"
        place = shared / "attempts" / "mapped"
        assert (place.owner(), place.stat().st_mode & 0o777, (shared / "records").stat().st_mode & 0o777) == (
            "nobody",
            0o700,
            0o700,
        )
        await backend.kill("mapped")
        assert (await witness.until_ended("mapped")).end.kind is EndKind.KILLED
        await backend.launch(dataclasses.replace(world.sleeper("nobodys"), owner="bob"))
        end = (await witness.until_ended("nobodys")).end
        assert (end.kind, "no account for the tasks of bob" in end.message) == (EndKind.NOT_STARTED, True)
