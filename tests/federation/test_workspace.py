"""Files that a job brings along: checked at submit, kept by content, and carried to the peer."""

import asyncio
import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from iris_fed.errors import InvalidArgument
from iris_fed.rpc.gen.job import job_pb2
from iris_fed.store.check import check_database
from iris_fed.store.opening import DATABASE_NAME
from tests.federation.world import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Cluster,
    Pair,
    World,
    as_peer,
    cpu_job,
    gpu_job,
    handoff,
    in_contact,
    job_of,
    seen,
    started,
    until,
)


def archive(*names: str, size: int = 10) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as bundle:
        for name in names:
            bundle.writestr(zipfile.ZipInfo(name), name[:1].encode() * size)
    return raw.getvalue()


BUNDLE = archive("main.py", "lib/a.py")
ID = hashlib.sha256(BUNDLE).hexdigest()


def kept(cluster: Cluster) -> dict[str, bytes]:
    folder = cluster.state_dir / "bundles"
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def entry(**fields: object) -> job_pb2.RuntimeEntrypoint:
    return job_pb2.RuntimeEntrypoint(**fields)  # type: ignore[arg-type]


def bundle_of(cluster: Cluster, number: int = 0) -> bytes:
    """What the engine was told to unpack."""
    path = cluster.engine.launched[number].bundle
    assert path is not None
    return Path(path).read_bytes()


class TestHere:
    async def test_equal_bundles_of_many_jobs_are_kept_once_and_reach_the_engine(self, world: World) -> None:
        solo = await world.add("solo")
        await asyncio.gather(*(solo.client.submit(cpu_job(f"j{n}", bundle_blob=BUNDLE)) for n in range(5)))
        await started(solo, 5)
        assert kept(solo) == {ID: BUNDLE}
        assert [bundle_of(solo, number) for number in range(5)] == [BUNDLE] * 5
        assert check_database(solo.state_dir / DATABASE_NAME) == []

    async def test_the_id_alone_names_a_bundle_that_is_known_and_is_refused_otherwise(self, world: World) -> None:
        solo = await world.add("solo")
        with pytest.raises(InvalidArgument, match="bundle_id: you have no such bundle on this cluster; send its bytes"):
            await solo.client.submit(cpu_job("early", bundle_id=ID))
        await solo.client.submit(cpu_job("first", bundle_blob=BUNDLE))
        job_id = await solo.client.submit(cpu_job("second", bundle_id=ID))
        await started(solo, 2)
        assert bundle_of(solo, 1) == BUNDLE
        assert (await solo.client.job(job_id)).request.bundle_id == ID
        assert (await solo.client.job(job_id)).request.bundle_blob == b""

    @pytest.mark.parametrize("bundle_id", ["../../etc/passwd", "x", ID.upper(), ID[:-1]])
    async def test_what_is_no_bundle_id_is_refused(self, world: World, bundle_id: str) -> None:
        solo = await world.add("solo")
        with pytest.raises(InvalidArgument, match="bundle_id: is the SHA-256"):
            await solo.client.submit(cpu_job(bundle_id=bundle_id))

    async def test_bytes_and_id_must_agree(self, world: World) -> None:
        solo = await world.add("solo")
        with pytest.raises(InvalidArgument, match="bundle_id: does not match"):
            await solo.client.submit(cpu_job(bundle_blob=BUNDLE, bundle_id="a" * 64))
        assert await solo.client.submit(cpu_job(bundle_blob=BUNDLE, bundle_id=ID))

    @pytest.mark.parametrize("bundle", [b"no zip", archive("../evil"), archive("a\\b"), archive("/etc/passwd")])
    async def test_an_unsafe_bundle_is_refused_at_submit_here_and_for_a_peer(self, pair: Pair, bundle: bytes) -> None:
        for request in (cpu_job(bundle_blob=bundle), gpu_job(bundle_blob=bundle)):
            with pytest.raises(InvalidArgument, match=r"^bundle_blob: "):
                await pair.hub.client.submit(request)
        assert kept(pair.hub) == {}
        assert await pair.hub.rows("SELECT 1 FROM jobs") == []
        assert "LaunchJob" not in pair.wire.seen

    async def test_a_bundle_over_the_limit_is_refused_and_one_at_it_is_taken(self, world: World) -> None:
        solo = await world.add("solo", limits={"bundle_bytes": len(BUNDLE)})
        await solo.client.submit(cpu_job("at", bundle_blob=BUNDLE))
        with pytest.raises(InvalidArgument, match=f"bundle_blob: has .* bytes; at most {len(BUNDLE)} are accepted"):
            await solo.client.submit(cpu_job("over", bundle_blob=archive("main.py", "lib/ab.py")))

    async def test_single_files_reach_the_engine(self, world: World) -> None:
        solo = await world.add("solo")
        files = {"conf/train.yaml": b"lr: 1", "raw": b"\0\xff"}
        await solo.client.submit(cpu_job(entrypoint=entry(workdir_files=files)))
        await started(solo)
        assert dict(solo.engine.launched[0].files) == files

    @pytest.mark.parametrize("path", ["../x", "/x", "a/../b", "", "a//b", "a/", ".", "a\nb", "n" * 256, "x" * 2000])
    async def test_a_single_file_may_not_leave_the_work_directory(self, world: World, path: str) -> None:
        solo = await world.add("solo")
        with pytest.raises(InvalidArgument, match=r"workdir_files: .* is no file below the work directory"):
            await solo.client.submit(cpu_job(entrypoint=entry(workdir_files={path: b"x"})))

    async def test_a_name_is_not_a_file_and_a_folder(self, world: World) -> None:
        solo = await world.add("solo")
        with pytest.raises(InvalidArgument, match="'a/b' is named as a file and as a folder"):
            await solo.client.submit(cpu_job(entrypoint=entry(workdir_files={"a/b": b"1", "a/b/c/d": b"2"})))

    async def test_what_is_beside_the_bundle_is_bounded_on_its_own(self, world: World) -> None:
        solo = await world.add("solo", limits={"request_bytes": 65_536})
        await solo.client.submit(cpu_job("fits", bundle_blob=archive("a", size=100_000)))
        with pytest.raises(InvalidArgument, match="beside its bundle; at most 65536 are taken"):
            await solo.client.submit(cpu_job("large", entrypoint=entry(workdir_files={"a": bytes(70_000)})))


class TestAcross:
    async def test_a_bundle_and_files_travel_with_the_job(self, pair: Pair) -> None:
        files = {"conf": b"lr: 1"}
        await pair.hub.client.submit(gpu_job(bundle_blob=BUNDLE, entrypoint=entry(workdir_files=files)))
        await started(pair.lab)
        assert bundle_of(pair.lab) == BUNDLE
        assert dict(pair.lab.engine.launched[0].files) == files
        assert kept(pair.hub) == kept(pair.lab) == {ID: BUNDLE}

    async def test_a_job_by_bundle_id_brings_the_bytes_to_a_peer_that_lacks_them(self, pair: Pair) -> None:
        await pair.hub.client.submit(cpu_job("here", bundle_blob=BUNDLE))
        await pair.hub.client.submit(gpu_job("there", bundle_id=ID))
        await started(pair.lab)
        assert bundle_of(pair.lab) == BUNDLE

    @pytest.mark.parametrize("who", ["hub", "lab"])
    async def test_a_bundle_survives_a_crash_of_either_side_before_it_is_delivered(self, pair: Pair, who: str) -> None:
        pair.wire.cut()
        await in_contact(pair.hub, reachable=False)
        here = await pair.hub.client.submit(gpu_job(bundle_blob=BUNDLE))
        cluster = pair.hub if who == "hub" else pair.lab
        await cluster.crash()
        await cluster.start()
        pair.wire.mend()
        await seen(pair.hub, here, RUNNING)
        assert bundle_of(pair.lab) == BUNDLE
        pair.lab.engine.finish(pair.lab.engine.launched[0].attempt_uid)
        await seen(pair.hub, here, SUCCEEDED)

    async def test_a_bundle_survives_a_crash_of_the_peer_after_it_took_the_job(self, pair: Pair) -> None:
        pair.lab.engine.unavailable = True
        here = await pair.hub.client.submit(gpu_job(bundle_blob=BUNDLE))
        await until(lambda: _delivered(pair))
        await pair.lab.crash()
        await pair.lab.start()
        await seen(pair.hub, here, RUNNING)
        assert bundle_of(pair.lab) == BUNDLE

    @pytest.mark.parametrize("size", [2_000, 200_000])
    async def test_a_peer_with_a_smaller_limit_refuses_it_in_words(self, world: World, size: int) -> None:
        """Whether the bundle alone is too large for it, or the request as a whole."""
        limits = {"bundle_bytes": 1_000, "request_bytes": 65_536}
        pair = await world.pair(lab={"limits": limits})
        here = await pair.hub.client.submit(gpu_job(bundle_blob=archive("a", size=size)))
        job = await seen(pair.hub, here, FAILED)
        assert job.peer_status == job_pb2.PEER_STATUS_REJECTED
        assert "lab" in job.error
        assert "bytes" in job.error
        assert kept(pair.lab) == {}

    async def test_a_handoff_by_id_of_what_the_peer_lacks_is_refused(self, pair: Pair) -> None:
        request = handoff("/alice/hub.x", "hub")
        request.bundle_id = ID
        with pytest.raises(Exception, match="this cluster does not have that bundle; send its bytes"):
            await as_peer(pair.hub, pair.lab).controller.launch_job(request)

    async def test_bytes_of_somebody_whose_jobs_are_not_taken_are_not_kept(self, world: World) -> None:
        pair = await world.pair(lab={"trusts": {"hub": ["*@elsewhere.org"]}})
        here = await pair.hub.client.submit(gpu_job(bundle_blob=BUNDLE))
        job = await seen(pair.hub, here, FAILED)
        assert "this cluster takes no jobs of" in job.error
        assert kept(pair.lab) == {}

    async def test_a_job_is_delivered_once_however_often_its_bundle_is_sent(self, pair: Pair) -> None:
        pair.wire.lose_answers("LaunchJob", times=2)
        here = await pair.hub.client.submit(gpu_job(bundle_blob=BUNDLE))
        await seen(pair.hub, here, RUNNING)
        await until(lambda: _delivered(pair))
        await started(pair.lab, 1)
        assert kept(pair.lab) == {ID: BUNDLE}

    async def test_a_handed_off_job_waits_in_words_while_its_peer_is_away(self, pair: Pair) -> None:
        pair.wire.cut()
        await in_contact(pair.hub, reachable=False)
        here = await pair.hub.client.submit(gpu_job(bundle_blob=BUNDLE))
        assert "waiting to hand it to lab" in (await seen(pair.hub, here, PENDING, reason="waiting")).pending_reason
        assert (await job_of(pair.hub, here)).cluster == "lab"


async def _delivered(pair: Pair) -> bool:
    return [row["state"] for row in await pair.hub.rows("SELECT state FROM federated_jobs")] == ["HANDED_OFF"]
