"""One trace follows a job from its submission on one cluster to its end on another."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyqwest import Request, Response

from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.scripted import ScriptedEngine
from iris_fed.clock import SystemClock
from iris_fed.config.sections import PeerSettings
from iris_fed.errors import ConfigError
from iris_fed.model.ports import PeerClient
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.peer_client import ConnectPeer
from iris_fed.server.compose import Parts
from iris_fed.server.otel import OtelTracing
from iris_fed.server.traces import open_tracing
from tests.federation.wire import Wire, method_of
from tests.federation.world import SUCCEEDED, Cluster, Pair, World, cpu_job, gpu_job, in_contact, seen, started


@dataclass
class TracedCluster(Cluster):
    """Its spans are in `spans`, its own alone."""

    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def _parts(self) -> Parts:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        tracing = OtelTracing(provider)

        def connect(peer: PeerSettings, token: Callable[[], str]) -> PeerClient:
            wire, around = self.world.wire(self.name, peer.name), tracing.interceptors(client=True)
            return ConnectPeer(peer.address, Credentials(token), 0.5, transport=wire, around=around)

        return replace(super()._parts(), tracing=tracing, connect_peer=connect)

    def found(self) -> list[ReadableSpan]:
        return list(self.spans.get_finished_spans())


class Listening(Wire):
    """Keeps the trace headers of deliveries."""

    traceparents: list[str]

    async def execute(self, request: Request) -> Response:
        if method_of(request.url) == "LaunchJob":
            self.traceparents.append(request.headers["traceparent"])
        return await super().execute(request)


async def traced(world: World, name: str, *, h100: int = 0, **settings: object) -> TracedCluster:
    directory = world._directory / name
    directory.mkdir()
    machine = LocalSettings(
        backend_id="cpu", name=name, cpu_millicores=8_000, memory_bytes=2**35, devices={"h100": h100} if h100 else {}
    )
    engines = {"cpu": ScriptedEngine(SystemClock(), machine)}
    cluster = TracedCluster(world, name, directory, engines, **settings)  # type: ignore[arg-type]
    world.clusters[name] = cluster
    await cluster.start()
    return cluster


@pytest.fixture
async def pair(world: World) -> Pair:
    lab = await traced(world, "lab", h100=8, trusts={"hub": ["*"]})
    wire = Listening(lambda: lab.served)
    wire.traceparents = []
    world.use_wire("hub", "lab", wire)
    hub = await traced(world, "hub", peers=("lab",))
    await in_contact(hub)
    return Pair(hub, lab, wire)


def trace_ids(spans: list[ReadableSpan]) -> set[str]:
    return {f"{span.context.trace_id:032x}" for span in spans if span.context}


async def finish(pair: Pair, job_id: str) -> None:
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)


async def test_one_trace_from_the_submission_to_the_end_on_the_other_cluster(pair: Pair) -> None:
    hub, lab, wire = pair.hub, pair.lab, pair.wire
    assert isinstance(hub, TracedCluster)
    assert isinstance(lab, TracedCluster)
    assert isinstance(wire, Listening)
    await finish(pair, await hub.client.submit(gpu_job()))
    here, there = hub.found(), lab.found()
    launch = "iris.cluster.ControllerService/LaunchJob"
    assert sorted(span.name for span in here) == ["handoff", launch, launch]
    assert sorted(span.name for span in there) == ["attempt ended", "attempt started", launch]
    (trace,) = trace_ids(here + there)
    assert [header.split("-")[1] for header in wire.traceparents] == [trace]


async def test_a_delivery_that_is_tried_again_later_stays_in_the_trace(pair: Pair) -> None:
    assert isinstance(pair.hub, TracedCluster)
    assert isinstance(pair.lab, TracedCluster)
    pair.wire.lose_requests("LaunchJob", times=2)
    await finish(pair, await pair.hub.client.submit(gpu_job()))
    assert len([span for span in pair.hub.found() if span.name == "handoff"]) == 3
    assert len(trace_ids(pair.hub.found() + pair.lab.found())) == 1


async def test_each_job_has_a_trace_of_its_own_and_what_is_asked_all_the_time_has_none(pair: Pair) -> None:
    assert isinstance(pair.hub, TracedCluster)
    for name in ("one", "two"):
        await pair.hub.client.submit(cpu_job(name))
    await started(pair.hub, 2)
    await pair.hub.client.peers()
    assert len(trace_ids(pair.hub.found())) == 2
    assert not [span.name for span in pair.hub.found() if "ListBackends" in span.name or "ListPeers" in span.name]


def test_without_being_asked_for_nothing_of_it_is_imported() -> None:
    script = (
        "import sys; import iris_fed.server, iris_fed.cli.app;"
        "from iris_fed.server.traces import open_tracing; open_tracing('lab', {});"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'connectrpc_otel'))]"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


def test_what_cannot_be_recorded_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="knows `otlp` and `none`"):
        open_tracing("lab", {"OTEL_TRACES_EXPORTER": "jaeger"})
    for off in ({}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}):
        assert not isinstance(open_tracing("lab", off), OtelTracing)
    assert isinstance(open_tracing("lab", {"OTEL_TRACES_EXPORTER": "otlp"}), OtelTracing)
