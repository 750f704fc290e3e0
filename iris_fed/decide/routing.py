"""Where a job goes: here, to a peer, or nowhere, and the nearest miss in words.

Order (design, "Submit at the parent"): a pin, else here if feasible, else a peer one of whose
backends satisfies every routing constraint and can hold one replica.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iris_fed.errors import FailedPrecondition, InvalidArgument, IrisFedError
from iris_fed.model.constraints import satisfies
from iris_fed.model.federation import PeerShape
from iris_fed.model.resources import BackendSummary, NodeShape
from iris_fed.model.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Here:
    """This cluster can host the job."""


@dataclass(frozen=True, slots=True)
class ToPeer:
    peer: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """It depends on peers that have not been heard of; worth a short wait."""

    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nowhere:
    """No place can host it; `error` says so to the user."""

    error: IrisFedError


Route = Here | ToPeer | NotYet | Nowhere


def choose_route(
    spec: JobSpec, local: Sequence[BackendSummary], peers: Sequence[PeerShape], *, is_root: bool = True
) -> Route:
    """Where the job goes, given the shapes known now."""
    cluster, backend = spec.cluster_pin, spec.backend_pin
    if cluster is not None:
        return _pinned(spec, cluster, peers, is_root=is_root)
    misses = [
        (summary.name, miss)
        for summary in local
        if backend in (None, summary.backend_id)
        for miss in [nearest_miss(spec, summary)]
    ]
    if any(miss is None for _, miss in misses):
        return Here()
    if backend is not None:
        return Nowhere(_backend_refusal(backend, misses))
    candidates, peer_misses, unheard = _weigh(spec, peers)
    if candidates and not is_root:
        return Nowhere(
            InvalidArgument(
                "a child job cannot go to a peer by itself: submit its root job with the cluster pinned "
                f"(--target-cluster {candidates[0].name}) so that the whole tree runs there",
                "constraints",
            )
        )
    if candidates:
        return ToPeer(max(candidates, key=_preference(spec)).name)
    if unheard and is_root:
        return NotYet(tuple(unheard))
    return Nowhere(_refusal(misses + peer_misses, unheard))


def nearest_miss(spec: JobSpec, backend: BackendSummary) -> str | None:
    """What this backend lacks for one replica, in words; None = it can host it."""
    for constraint in spec.routing_constraints:
        if not satisfies(constraint, backend.attributes):
            offered = backend.attributes.get(constraint.key)
            has = f"offers {constraint.key} {', '.join(offered)}" if offered else f"offers no {constraint.key}"
            return f"{constraint} is not satisfied: it {has}"
    return _too_small(spec, backend)


def _too_small(spec: JobSpec, backend: BackendSummary) -> str | None:
    if backend.largest_node is not None:
        return too_small(spec, backend.largest_node)
    if backend.availability is not None:
        return _too_few_chips(spec, backend.availability.total_amounts)
    return None


def too_small(spec: JobSpec, node: NodeShape) -> str | None:
    """What a machine lacks for one replica, even when it is empty; None = nothing."""
    resources = spec.resources
    if resources.cpu_millicores > node.cpu_millicores:
        asked, most_cpu = resources.cpu_millicores / 1000, node.cpu_millicores / 1000
        return f"one replica asks for {asked:g} CPUs, its largest node has {most_cpu:g}"
    if resources.memory_bytes > node.memory_bytes:
        asked_gib, most_gib = _gib(resources.memory_bytes), _gib(node.memory_bytes)
        return f"one replica asks for {asked_gib} of memory, its largest node has {most_gib}"
    return _too_few_chips(spec, node.devices)


def _too_few_chips(spec: JobSpec, held: Mapping[str, int]) -> str | None:
    device, chips = spec.resources.device, spec.resources.chips
    if device is None or not chips:
        return None
    most = held.get(device.variant, 0) if device.variant else max(held.values(), default=0)
    return None if chips <= most else f"one replica asks for {chips} x {device.token}, its largest node has {most}"


def _pinned(spec: JobSpec, cluster: str, peers: Sequence[PeerShape], *, is_root: bool) -> Route:
    if not is_root:
        return Nowhere(InvalidArgument("only a root job can be pinned to a cluster", "constraints"))
    for peer in peers:
        if peer.name == cluster:
            break
    else:
        known = ", ".join(sorted(p.name for p in peers)) or "none"
        return Nowhere(
            InvalidArgument(f"cluster {cluster!r} is no configured peer (configured: {known})", "constraints")
        )
    candidates, misses, unheard = _weigh(spec, [peer])
    if candidates:
        return ToPeer(cluster)
    if unheard:
        return NotYet((cluster,))
    return Nowhere(_refusal(misses, unheard))


def _weigh(
    spec: JobSpec, peers: Sequence[PeerShape]
) -> tuple[list[PeerShape], list[tuple[str, str | None]], list[str]]:
    """Peers that can host the job, what the others lack, and those never heard of."""
    candidates: list[PeerShape] = []
    misses: list[tuple[str, str | None]] = []
    unheard: list[str] = []
    for peer in peers:
        if peer.backends is None:
            unheard.append(peer.name)
            continue
        found = [nearest_miss(spec, backend) for backend in peer.backends]
        if any(miss is None for miss in found):
            candidates.append(peer)
        else:
            misses.extend((f"peer {peer.name}", miss) for miss in found or ["it has no backend"])
    return candidates, misses, unheard


def _preference(spec: JobSpec) -> Callable[[PeerShape], tuple[bool, bool, int, str]]:
    """Reachable first, then free chips for the whole job, then soft constraints met, then the name."""

    def rank(peer: PeerShape) -> tuple[bool, bool, int, str]:
        fitting = [b for b in peer.backends or () if nearest_miss(spec, b) is None]
        need = spec.resources.chips * spec.replicas
        room = any(not need or _free_chips(spec, b) >= need for b in fitting)
        soft = max(
            (sum(satisfies(c, b.attributes) for c in spec.constraints if c.preferred) for b in fitting), default=0
        )
        return peer.reachable, room, soft, peer.name

    return rank


def _free_chips(spec: JobSpec, backend: BackendSummary) -> float:
    """Of what the job asks for; a backend that supplies no metric is not thought full."""
    device, availability = spec.resources.device, backend.availability
    if availability is None:
        return float("inf")
    if device is None or not device.variant:
        return sum(availability.amounts.values())
    return availability.amounts.get(device.variant, 0)


def _backend_refusal(backend: str, misses: list[tuple[str, str | None]]) -> IrisFedError:
    if not misses:
        return InvalidArgument(f"backend {backend!r} is not configured on this cluster", "constraints")
    return FailedPrecondition(f"backend {backend} cannot host this job: {misses[0][1]}")


def _refusal(misses: list[tuple[str, str | None]], unheard: Sequence[str]) -> IrisFedError:
    parts = [f"{name}: {miss}" for name, miss in misses]
    parts += [f"peer {name}: not heard of yet" for name in unheard]
    return FailedPrecondition("no cluster can host this job; " + "; ".join(parts or ["no backend is known"]))


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
