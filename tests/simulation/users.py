"""People who submit, cancel and read; and tasks that submit children."""

import io
import random
import zipfile
from collections.abc import Mapping

from iris_fed.backends.base import LaunchRequest
from iris_fed.client import Client, command_job
from iris_fed.client.request import equals
from iris_fed.errors import IrisFedError
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller as Wired
from iris_fed.rpc.gen.job import job_pb2
from tests.simulation.cluster import Cluster
from tests.simulation.invariants import Invariants
from tests.simulation.network import Network, Wire
from tests.simulation.world import Mortal, World

PATIENCE_S = 25.0
NAMES = 7
POLICIES = (
    job_pb2.EXISTING_JOB_POLICY_UNSPECIFIED,
    job_pb2.EXISTING_JOB_POLICY_UNSPECIFIED,
    job_pb2.EXISTING_JOB_POLICY_ERROR,
    job_pb2.EXISTING_JOB_POLICY_KEEP,
    job_pb2.EXISTING_JOB_POLICY_RECREATE,
)
MAX_DEPTH = 2
CHILD_CHANCE = 0.15


def _workspace() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("train.py"), b"print('hello')\n")
    return packed.getvalue()


WORKSPACE = _workspace()


class Users:
    def __init__(self, world: World, network: Network, clusters: Mapping[str, Cluster], invariants: Invariants) -> None:
        self._world = world
        self._network = network
        self._clusters = clusters
        self._invariants = invariants
        self._clients: dict[tuple[str, str], Client] = {}

    async def submit(self, cluster: Cluster) -> None:
        request = self._some_job(cluster)
        await self._launch(cluster, request, self.admin(cluster))

    async def launch(self, cluster: Cluster, request: Wired.LaunchJobRequest) -> None:
        await self._launch(cluster, request, self.admin(cluster))

    async def cancel(self, cluster: Cluster) -> None:
        job_id = self.some_known(cluster)
        client = self.admin(cluster)
        if job_id is None or client is None:
            return
        self._world.note("cancel", f"{cluster.name} {job_id}")
        try:
            await client.cancel(job_id)
        except IrisFedError as error:
            self._world.note("answer", f"{cluster.name} cancel {job_id}: {error.code}")
        else:
            self._world.note("answer", f"{cluster.name} cancel {job_id}: accepted")

    async def read(self, cluster: Cluster) -> None:
        client = self.admin(cluster)
        job_id = self.some_known(cluster)
        if client is None or job_id is None:
            return
        try:
            found = await client.job(job_id)
        except IrisFedError as error:
            self._world.note("answer", f"{cluster.name} read {job_id}: {error.code}")
        else:
            self._world.note("answer", f"{cluster.name} read {job_id}: {found.job.state}")

    def pair_to_part(self) -> tuple[Cluster, str]:
        """A parent, and a peer that it will give up: rather one that has jobs of it."""
        pairs = [(cluster, peer) for cluster in self._clusters.values() for peer in cluster.plan.peers]
        weights = [1 + 10 * len(self._invariants.losses.open_at(*pair)) for pair in pairs]
        return self._world.rng.choices(pairs, weights)[0]

    async def forget(self, cluster: Cluster, peer: str) -> None:
        """An operator says that the peer never comes back."""
        client = self.admin(cluster)
        if client is None:
            return
        self._world.note("forget", f"{cluster.name} {peer}")
        held = self._invariants.losses.giving_up(cluster, peer)
        try:
            count = (await client.forget_peer(peer)).jobs_lost
        except IrisFedError as error:
            self._world.note("answer", f"{cluster.name} forget {peer}: {error.code}")
        else:
            self._world.note("answer", f"{cluster.name} forget {peer}: {count} lost")
            self._invariants.losses.given_up(cluster, peer, held)
        finally:
            self._invariants.losses.answered(cluster, peer)

    async def submit_child(self, cluster: Cluster, task: LaunchRequest) -> None:
        """Code inside the task submits a job below its own."""
        client = self._client(cluster, task.env["IRIS_TASK_TOKEN"])
        request = command_job(["true"], name=f"c{self._world.rng.randrange(3)}", cpu_millicores=200)
        request.existing_job_policy = self._world.rng.choice(POLICIES)
        await self._launch(cluster, request, client, below=task.task_id)

    def wants_child(self, task: LaunchRequest) -> bool:
        return task.task_id.count("/") < 3 + MAX_DEPTH and self._world.chance(CHILD_CHANCE)

    async def _launch(
        self, cluster: Cluster, request: Wired.LaunchJobRequest, client: Client | None, below: str = ""
    ) -> None:
        if client is None:
            return
        policy = job_pb2.ExistingJobPolicy.Name(request.existing_job_policy).removeprefix("EXISTING_JOB_POLICY_")
        what = f"{cluster.name} {below and below + ' > '}{request.name} {policy}"
        self._world.note("submit", what)
        lineage = cluster.lineage
        try:
            job_id = await client.submit(request)
        except IrisFedError as error:
            self._world.note("answer", f"{what}: {error.code} {error.message[:90]}")
            return
        self._world.note("answer", f"{what}: {job_id}")
        if not below:
            self._invariants.acknowledged(cluster, lineage, job_id)

    def _some_job(self, cluster: Cluster) -> Wired.LaunchJobRequest:
        rng = self._world.rng
        request = command_job(["true"], name=f"/alice/j{rng.randrange(NAMES)}", cpu_millicores=500)
        request.existing_job_policy = rng.choice(POLICIES)
        request.max_retries_failure = rng.choice((0, 0, 1, 2))
        request.max_retries_preemption = rng.choice((0, 1, 3))
        request.replicas = rng.choice((1, 1, 1, 2, 3))
        request.max_task_failures = rng.choice((0, 0, 1))
        self._choose_place(rng, cluster, request)
        if rng.random() < 0.2 and request.replicas > 1:
            request.coscheduling.group_by = "backend"
            request.max_task_failures = 0
        if rng.random() < 0.1:
            request.bundle_blob = WORKSPACE
        if rng.random() < 0.1:
            request.timeout.milliseconds = 30_000
        if rng.random() < 0.1:
            request.scheduling_timeout.milliseconds = rng.choice((5_000, 60_000))
        return request

    def _choose_place(self, rng: random.Random, cluster: Cluster, request: Wired.LaunchJobRequest) -> None:
        chance = rng.random()
        if chance < 0.35:
            request.resources.device.gpu.variant = "h100"
            request.resources.device.gpu.count = rng.choice((1, 2))
        elif chance < 0.6 and cluster.plan.peers:
            request.constraints.append(equals("cluster", rng.choice(cluster.plan.peers)))

    def some_known(self, cluster: Cluster) -> str | None:
        if cluster.running is None or cluster.running.observer is None:
            return None
        rows = cluster.running.observer.rows("SELECT job_id FROM jobs WHERE requester = '' ORDER BY uid DESC LIMIT 8")
        return str(self._world.rng.choice(rows)["job_id"]) if rows else None

    def admin(self, cluster: Cluster) -> Client | None:
        life = cluster.running
        return None if life is None or life.controller is None else self._client(cluster, life.controller.admin_token)

    def _client(self, cluster: Cluster, token: str) -> Client:
        key = (cluster.name, token)
        if key not in self._clients:
            wire = Wire(self._network, "user", cluster.name, Mortal())
            self._clients[key] = Client(cluster.url, token=token, timeout_s=PATIENCE_S, transport=wire)
        return self._clients[key]
