"""The composition root: reads top to bottom, holds no logic."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from iris_fed.auth.authenticator import ensure_admin_token
from iris_fed.auth.federation_tokens import FederationSigner
from iris_fed.auth.nonces import NonceMint
from iris_fed.auth.task_tokens import TaskTokens, ensure_task_key
from iris_fed.backends.base import Backend, Owner
from iris_fed.backends.local.backend import LocalBackend
from iris_fed.backends.local.settings import LocalSettings
from iris_fed.backends.slurm.backend import SlurmBackend
from iris_fed.clock import Clock, Entropy, SystemClock, SystemEntropy
from iris_fed.config.listen import networks
from iris_fed.config.references import read_secret
from iris_fed.config.sections import EDGE_LIMITS, LocalBackendSettings, PeerSettings
from iris_fed.config.settings import Settings
from iris_fed.controller.cancel import Canceller
from iris_fed.controller.disk import DiskGuard
from iris_fed.controller.launching import TaskLink
from iris_fed.controller.logs import LogReader
from iris_fed.controller.loop import ControlLoop
from iris_fed.controller.prune import Pruner
from iris_fed.controller.query import Queries
from iris_fed.controller.reach import Reach
from iris_fed.controller.readiness import Readiness
from iris_fed.controller.story import Story
from iris_fed.controller.submit import Submitter
from iris_fed.controller.watch import Watcher
from iris_fed.decide.admission import Trust
from iris_fed.federation.adoption import Origin
from iris_fed.federation.changes import ChangeFeed
from iris_fed.federation.feed import FeedTerms
from iris_fed.federation.inbound import Inbound
from iris_fed.federation.peer_link import PeerLink
from iris_fed.federation.registry import Federation
from iris_fed.model.limits import DAY_MS, Limits
from iris_fed.model.ports import PeerClient
from iris_fed.model.states import Band
from iris_fed.rpc.audit import AuditLog
from iris_fed.rpc.cluster_service import ClusterFacts, ClusterHandlers
from iris_fed.rpc.controller_service import ControllerHandlers, UseCases
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gate import Gate, GateTerms
from iris_fed.rpc.metered import Metered
from iris_fed.rpc.peer_client import ConnectPeer
from iris_fed.rpc.services import build_services
from iris_fed.rpc.shared import SharedAnswers
from iris_fed.rpc.sight import Sight
from iris_fed.server.identity import Identities, build_identities, may_read_health, read_signing_key
from iris_fed.server.metrics import build_metrics, may_read_metrics, watch_event_loop
from iris_fed.server.slurm import slurm_settings
from iris_fed.server.task_accounts import (
    BACKENDS_FOLDER,
    check_task_accounts,
    check_token_holders,
    show_the_way,
    tasks_as_controller,
)
from iris_fed.signals import JobSignals, News
from iris_fed.store.bundles import BUNDLES_FOLDER, BundleStore
from iris_fed.store.db import Database
from iris_fed.store.lock import StateLock, prepare_state_dir
from iris_fed.store.meta import ClusterMeta
from iris_fed.store.opening import DATABASE_NAME, open_database
from iris_fed.store.runtime import Runtime
from iris_fed.supervise import Loops
from iris_fed.tracing import Tracing
from iris_fed.web.app import build_app
from iris_fed.web.meters import CountingMeters
from iris_fed.web.metrics import Metrics
from iris_fed.web.session import SessionRoute

PeerConnector = Callable[[PeerSettings, Callable[[], str]], PeerClient]
BackendMaker = Callable[[LocalBackendSettings], Backend]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a test or a simulation hands in instead of the real thing."""

    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    connect_peer: PeerConnector | None = None
    make_backend: BackendMaker | None = None
    inline_database: bool = False
    tracing: Tracing = field(default_factory=Tracing)


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller that is running."""

    asgi: ASGIApp
    admin_token: str
    db: Database
    federation: Federation
    feed: ChangeFeed
    loop: ControlLoop
    backends: Mapping[str, Backend]
    meta: ClusterMeta
    news: News
    metrics: Metrics

    def answer_held(self) -> None:
        """Every call that waits for news is answered now: the end is near."""
        self.feed.stop()
        self.news.stop()


@dataclass(frozen=True, slots=True)
class _Here:
    """What runs jobs on this cluster."""

    loop: ControlLoop
    bundles: BundleStore
    backends: Mapping[str, Backend]


@asynccontextmanager
async def running_controller(settings: Settings, url: str, parts: Parts | None = None) -> AsyncIterator[Controller]:
    """Everything but the sockets. `url` is where tasks will reach it. Running tasks are left running.

    Raises ConfigError when the configuration or the machine does not allow the start.
    """
    parts = parts or Parts()
    async with AsyncExitStack() as stack:
        if parts.make_backend is None:
            check_task_accounts(settings)
        prepare_state_dir(settings.state_dir)
        stack.callback(StateLock(settings.state_dir).release)
        show_the_way(settings)
        registry = CollectorRegistry()
        meters = CountingMeters(registry)
        runtime, meta = await _open_runtime(settings, parts, meters, stack)
        db, loops = runtime.db, runtime.loops
        if parts.make_backend is None:
            await check_token_holders(settings, runtime)
        backends = _build_backends(settings, parts)
        owner = Owner(settings.cluster.name, meta.database_id, meta.ancestor_ids)
        tokens = TaskTokens(ensure_task_key(settings.state_dir))
        bundles = BundleStore(settings.state_dir / BUNDLES_FOLDER, settings.limits.bundle_bytes)
        await bundles.repair(db, parts.clock.now_ms())
        link = TaskLink(url, tokens.mint, bundles.path)
        disk = DiskGuard(settings.state_dir, settings.retention.min_free)
        loop = ControlLoop(runtime, backends, owner, link, settings.scheduling, disk)
        federation = _build_federation(settings, runtime, loop, bundles, parts, stack)
        feed = ChangeFeed(runtime)
        db.on_changelog(feed.on_changelog)
        pruner = Pruner(runtime, settings.retention, backends, bundles, feed.heard)
        admin_token = ensure_admin_token(settings.state_dir)
        only_one = "" if parts.make_backend else tasks_as_controller(settings)
        identities = build_identities(settings, runtime, admin_token, tokens, stack, only_one)
        use_cases = _build_use_cases(settings, runtime, _Here(loop, bundles, backends), federation, feed, identities)
        proxies = networks(settings.listen.trusted_proxies)
        audit = AuditLog(parts.clock)
        logs = LogReader(runtime, backends, federation, settings.limits.log_page_bytes)
        services = _build_services(settings, runtime, use_cases, logs, identities, audit)

        stack.push_async_callback(parts.tracing.close)
        # Last, when nothing of the configuration can be refused any more: a backend starts processes.
        for backend in backends.values():
            stack.push_async_callback(backend.close)
        await loop.start_backends()

        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        group.start_soon(loop.run)
        group.start_soon(loops.supervise, "pruner", pruner.run)
        group.start_soon(federation.run)
        if identities.keys is not None:
            group.start_soon(loops.supervise, "iap-keys", identities.keys.run)
        ready, may_read = Readiness(runtime, disk, loop.notes).report, may_read_health(identities.authenticator)
        if not parts.inline_database:
            group.start_soon(watch_event_loop, meters)
        metrics, prefix = build_metrics(registry, runtime, federation, feed), settings.listen.path_prefix
        beside = [
            SessionRoute(identities.authenticator, audit, prefix, proxies).route(),
            metrics.route(may_read_metrics(identities.authenticator, users_see_all=settings.auth.users_see_all)),
        ]
        asgi = build_app(services, ready, settings.listen.own_hosts, may_read, prefix, beside)
        controller = Controller(asgi, admin_token, db, federation, feed, loop, backends, meta, runtime.news, metrics)
        yield controller
        controller.answer_held()


async def _open_runtime(
    settings: Settings, parts: Parts, meters: CountingMeters, stack: AsyncExitStack
) -> tuple[Runtime, ClusterMeta]:
    path, name = settings.state_dir / DATABASE_NAME, settings.cluster.name
    db, meta = await open_database(path, name, parts.entropy.token(), parts.clock, inline=parts.inline_database)
    stack.push_async_callback(db.close)
    runtime = Runtime(
        db,
        parts.clock,
        parts.entropy,
        JobSignals(),
        name,
        meta.database_id,
        loops=Loops(settings.stuck_after_s),
        news=News(),
        meters=meters,
        tracing=parts.tracing,
    )
    db.on_commit(meters.committed)
    await db.follow_jobs(lambda roots, many: runtime.news.publish(roots, many=many))
    return runtime, meta


def _build_services(
    settings: Settings, runtime: Runtime, use_cases: UseCases, logs: LogReader, identities: Identities, audit: AuditLog
) -> list[tuple[str, ASGIApp]]:
    proxies, limits = networks(settings.listen.trusted_proxies), settings.limits
    terms = GateTerms(settings.auth.dashboard_reads_content, proxies, limits.calls_per_caller)
    facts = ClusterFacts(settings.cluster.name, runtime.database_id, runtime.clock.now_ms())
    return build_services(
        ControllerHandlers(use_cases),
        ClusterHandlers(facts, logs, Watcher(runtime.news), use_cases),
        Gate(identities.authenticator, runtime.entropy, audit, terms),
        audit,
        limits.request_bytes + limits.bundle_bytes,
        [Metered(runtime.meters), *runtime.tracing.interceptors(client=False)],
    )


def _build_use_cases(
    settings: Settings,
    runtime: Runtime,
    here: _Here,
    federation: Federation,
    feed: ChangeFeed,
    identities: Identities,
) -> UseCases:
    loop, auth = here.loop, settings.auth
    canceller = Canceller(runtime, loop, federation)
    queries = Queries(runtime, settings.retention)
    inbound = Inbound(runtime, loop, here.bundles, _trust(settings))
    trusted = frozenset(auth.federation_peers)
    return UseCases(
        submitter=Submitter(runtime, loop, federation, canceller, here.bundles, _band_users(settings), trusted),
        canceller=canceller,
        queries=queries,
        story=Story(runtime, queries, federation),
        reach=Reach(runtime, here.backends, federation),
        inbound=inbound,
        feed=feed,
        federation=federation,
        backends=loop.local_backends,
        limits=Limits(**settings.limits.model_dump(exclude=set(EDGE_LIMITS))),
        role_of=lambda user: identities.people.role_of_user(user).value,
        sight=Sight(
            queries,
            inbound,
            users_see_all=auth.users_see_all,
            dashboard_reads_content=auth.dashboard_reads_content,
        ),
        tokens=identities.tokens,
        shared=SharedAnswers(lambda: runtime.news.revision),
    )


def _build_backends(settings: Settings, parts: Parts) -> dict[str, Backend]:
    def local(backend: LocalBackendSettings) -> Backend:
        return LocalBackend(local_settings(backend), settings.state_dir / BACKENDS_FOLDER / backend.id, parts.clock)

    make = parts.make_backend or local
    return {
        backend.id: SlurmBackend(slurm_settings(backend), parts.clock) if backend.kind == "slurm" else make(backend)
        for backend in settings.backends
    }


def local_settings(backend: LocalBackendSettings) -> LocalSettings:
    """The operator's words as the backend takes them."""
    return LocalSettings(
        backend_id=backend.id,
        name=backend.id,
        cpu_millicores=backend.cpu,
        memory_bytes=backend.memory,
        devices=backend.devices,
        device_type=backend.device_type or "gpu",
        attributes=backend.attributes,
        kill_grace_s=backend.kill_grace_s,
        output_bytes=backend.output_bytes,
        advertise_host=backend.advertise_host,
        run_as=backend.run_as,
    )


def _build_federation(
    settings: Settings,
    runtime: Runtime,
    loop: ControlLoop,
    bundles: BundleStore,
    parts: Parts,
    stack: AsyncExitStack,
) -> Federation:
    if not settings.peers:
        return Federation(runtime, settings.federation, (), None)
    assert settings.auth.nonce_key is not None
    key = read_signing_key(settings)
    assert key is not None
    signer = FederationSigner(key, settings.cluster.name, runtime.clock, runtime.entropy)
    mint = NonceMint(read_secret(settings.auth.nonce_key, os.environ, "auth.nonce_key").encode())

    def over_http(peer: PeerSettings, token: Callable[[], str]) -> PeerClient:
        shown = Credentials.of(token, peer.edge_token, runtime.clock)
        around = parts.tracing.interceptors(client=True)
        return ConnectPeer(peer.address, shown, settings.federation.call_timeout_s, around=around)

    connect = parts.connect_peer or over_http
    links = []
    for peer in settings.peers:
        client = connect(peer, _minting(signer, peer.name))
        stack.push_async_callback(client.close)
        origin = Origin(settings.cluster.name, partial(mint.minted_for, peer.name))
        terms = FeedTerms(origin, int(settings.retention.jobs_days * DAY_MS), loop.forget)
        links.append(PeerLink(runtime, settings.federation, peer.name, peer.address, client, bundles, terms))
    return Federation(runtime, settings.federation, links, mint)


def _minting(signer: FederationSigner, peer: str) -> Callable[[], str]:
    return lambda: signer.mint(peer)


def _band_users(settings: Settings) -> dict[Band, list[str]]:
    return {Band.PRODUCTION: settings.scheduling.production_users, Band.SYSTEM: settings.scheduling.system_users}


def _trust(settings: Settings) -> dict[str, Trust]:
    names = frozenset(settings.auth.federation_peers)
    return {
        name: Trust(name, tuple(trust.allowed_submitters), names - {name}, Band[trust.strongest_band.upper()])
        for name, trust in settings.auth.federation_peers.items()
    }
