"""Slurm away, slow, garbled or forgetful: nothing is lost, doubled or falsely failed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from iris_fed.backends.base import BackendUnavailable, Ended, EndKind, Owner, Running
from tests.slurm.real import poll
from tests.slurm.world import World

MANY = 500
FORGETS = "exit 0"
TIMED_OUT = "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1"


GARBAGE = (
    "head -c 3000 /dev/urandom; exit 0",
    "echo 'squeue: symbol lookup error'; exit 0",
    "printf '%280s%s\\n' '' 'iris-fed cluster=hub database=db-1'; exit 0",
)


def until_called(world: World, times: int) -> None:
    poll(lambda: world.calls("squeue") >= times, f"squeue was called {times} times")


@pytest.fixture
async def unbroken(world: World) -> AsyncIterator[World]:
    """Stand-ins do as the commands do again before anybody cleans up."""
    yield world
    for name in ("sbatch", "squeue", "sacct"):
        world.act(name, "")


class TestLostAnswers:
    async def test_an_sbatch_whose_answer_was_lost_is_found_again_and_not_repeated(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("sbatch")
        backend, witness = await world.open()
        asked = world.sleeper("lost-answer")
        world.act("sbatch", f'$REAL "$@"; {TIMED_OUT}')
        with pytest.raises(BackendUnavailable, match="Socket timed out"):
            await backend.launch(asked)
        assert "Socket timed out" in (await witness.until_queued("lost-answer")).reason
        world.act("sbatch", "")
        await backend.launch(asked)
        await witness.until_running("lost-answer")
        assert len(world.slurm.job_ids("lost-answer")) == 1

    async def test_an_sbatch_that_hangs_is_ended_and_its_job_found_again(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("sbatch")
        first, _ = await world.open(command_timeout_s=1.0)
        asked = world.sleeper("hung")
        world.act("sbatch", '$REAL "$@"; exec sleep 1000')
        with pytest.raises(BackendUnavailable, match="did not answer within 1 s"):
            await first.launch(asked)
        await world.crash(first)
        world.act("sbatch", "")
        second, witness = await world.open()
        (state,) = (await second.recover(["hung"])).observations
        assert state.attempt_uid == "hung"
        await second.launch(asked)
        await witness.until_running("hung")
        assert len(world.slurm.job_ids("hung")) == 1

    async def test_two_jobs_of_one_attempt_run_it_once(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("sbatch")
        backend, witness = await world.open()
        world.act("sbatch", f'cat > {world.folder}/script; $REAL "$@" < {world.folder}/script; REAL="$REAL"\n'
                  f'exec $REAL "$@" < {world.folder}/script')  # fmt: skip
        gate = world.folder / "gate"
        await backend.launch(world.task("twice", f"while [ ! -e {gate} ]; do sleep 0.05; done"))
        await witness.until_running("twice")
        await asyncio.to_thread(poll, lambda: len(world.slurm.active()) == 1, "the other has come to nothing")
        gate.touch()
        assert (await witness.until_ended("twice")).end.exit_code == 0
        assert (world.runs("twice"), len(world.slurm.job_ids("twice"))) == (1, 2)

    async def test_killing_one_of_which_the_answer_was_lost_ends_it(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("sbatch")
        backend, witness = await world.open(poll_interval_s=60.0)
        world.act("sbatch", f'$REAL "$@"; {TIMED_OUT}')
        with pytest.raises(BackendUnavailable):
            await backend.launch(world.sleeper("lost-kill"))
        await backend.kill("lost-kill")
        assert (await witness.until_ended("lost-kill")).end.kind is EndKind.KILLED
        await asyncio.to_thread(poll, lambda: not world.slurm.active(), "its job is gone")


class TestController:
    async def test_while_slurmctld_is_down_nothing_is_lost_and_ends_are_learned_without_it(self, world: World) -> None:
        gate = world.folder / "gate"
        backend, witness = await world.open(command_timeout_s=1.0)
        for uid in ("ends", "stays"):
            await backend.launch(world.task(uid, f"while [ ! -e {gate}-{uid} ]; do sleep 0.05; done; exit 7"))
            await witness.until_running(uid)
        await asyncio.to_thread(world.slurm.end, "slurmctld")
        try:
            await asyncio.to_thread(poll, lambda: backend.intake().closed, "it is known to be away")
            assert "squeue" in backend.intake().closed or "sinfo" in backend.intake().closed
            with pytest.raises(BackendUnavailable):
                await backend.launch(world.sleeper("waits"))
            (world.folder / "gate-ends").touch()
            assert (await witness.until_ended("ends")).end.exit_code == 7
            second, again = await world.open(command_timeout_s=1.0)
            with pytest.raises(BackendUnavailable):
                await second.recover(["stays"])
        finally:
            await asyncio.to_thread(world.slurm.start_controller)
        await asyncio.to_thread(poll, lambda: not backend.intake().closed, "it is back")
        (state,) = (await second.recover(["stays"])).observations
        assert isinstance(state, Running)
        await backend.launch(world.sleeper("waits"))
        await witness.until_running("waits")
        (world.folder / "gate-stays").touch()
        assert (await again.until_ended("stays")).end.exit_code == 7
        assert [world.runs(uid) for uid in ("ends", "stays", "waits")] == [1, 1, 1]

    async def test_what_squeue_should_not_print_changes_nothing(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("squeue")
        backend, witness = await world.open()
        await backend.launch(world.sleeper("a"))
        await witness.until_running("a")
        for garbage in GARBAGE:
            world.act("squeue", garbage)
            wanted = world.calls("squeue") + 3
            await asyncio.to_thread(until_called, world, wanted)
        assert "a" not in witness.ended
        assert "squeue printed" in backend.intake().closed


class TestForgotten:
    async def test_what_slurm_forgot_and_left_no_result_is_lost_after_its_time(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("squeue")
        backend, witness = await world.open(lost_after_s=0.5)
        await backend.launch(world.sleeper("a"))
        await witness.until_running("a")
        world.act("squeue", FORGETS)
        end = (await witness.until_ended("a")).end
        assert (end.kind, end.exit_code) == (EndKind.LOST, None)
        assert end.message.startswith("was lost: Slurm does not know it")

    async def test_the_accounting_tells_what_the_queue_has_forgotten(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("squeue", "sacct")
        backend, witness = await world.open(accounting=True, lost_after_s=60.0)
        await backend.launch(world.sleeper("a"))
        await witness.until_running("a")
        world.act("sacct", "echo 'a|TIMEOUT'; exit 0")
        world.act("squeue", FORGETS)
        assert (await witness.until_ended("a")).end.kind is EndKind.TIMED_OUT

    @pytest.mark.parametrize(
        "trouble",
        ["exec sleep 1000", "echo 'sacct: error: Problem talking to the database' >&2; exit 1", "echo garbage; exit 0"],
        ids=["hangs", "fails", "garbled"],
    )
    async def test_a_troubled_accounting_holds_nobody_up_and_fails_nobody(self, unbroken: World, trouble: str) -> None:
        world = unbroken
        world.stand_in("squeue", "sacct")
        backend, witness = await world.open(accounting=True, lost_after_s=0.1, command_timeout_s=1.0)
        await backend.launch(world.sleeper("a"))
        await witness.until_running("a")
        world.act("sacct", trouble)
        world.act("squeue", FORGETS)
        await asyncio.to_thread(poll, lambda: world.calls("sacct"), "the accounting is asked")
        # Others come and go meanwhile.
        gate = world.folder / "gate"
        await backend.launch(world.task("b", f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 5"))
        gate.touch()
        assert (await witness.until_ended("b")).end.exit_code == 5
        assert "a" not in witness.ended


class TestStrangers:
    async def test_a_job_whose_record_is_gone_is_found_by_its_tag_and_can_be_ended(self, world: World) -> None:
        first, before = await world.open(Owner("hub", "db-old"))
        await first.launch(world.sleeper("orphan"))
        await before.until_running("orphan")
        await world.crash(first)
        (world.settings.shared_dir / "records" / "orphan" / "attempt.json").unlink()
        second, _ = await world.open()
        (stranger,) = (await second.recover([])).strangers
        assert (stranger.attempt_uid, stranger.database_id) == ("orphan", "db-old")
        await second.kill("orphan")
        await asyncio.to_thread(poll, lambda: not world.slurm.active(), "its job is gone")
        assert (await second.recover([])).strangers == ()

    async def test_jobs_of_another_cluster_are_none_of_ours(self, world: World) -> None:
        first, before = await world.open(Owner("lab", "db-2"))
        await first.launch(world.sleeper("theirs"))
        await before.until_running("theirs")
        second, _ = await world.open(shared_dir=world.folder / "elsewhere")
        assert (await second.recover([])).strangers == ()


class TestMany:
    async def test_five_hundred_at_once_cost_one_sbatch_each_and_few_questions(self, unbroken: World) -> None:
        world = unbroken
        world.stand_in("sbatch", "squeue", "scancel")
        await world.fill()
        backend, witness = await world.open(poll_interval_s=1.0)
        uids = [f"many{number}" for number in range(MANY)]
        await asyncio.gather(*(backend.launch(world.sleeper(uid)) for uid in uids))
        assert world.calls("sbatch") == MANY
        for uid in uids:
            await witness.until_queued(uid)
        assert backend.intake().room == world.settings.max_pending - MANY
        questions = world.calls("squeue")
        assert questions < MANY / 5
        await asyncio.gather(*(backend.kill(uid) for uid in uids))
        for uid in uids:
            assert (await witness.until_ended(uid)).end.kind is EndKind.KILLED
        assert world.calls("scancel") < MANY / 20
        assert all(isinstance(one, Ended) for one in (await backend.recover(uids)).observations)
