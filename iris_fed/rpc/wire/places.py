"""Backends and peers: what places say of themselves, and how a parent shows them."""

from collections.abc import Iterable, Mapping

from iris_fed.errors import InvalidArgument
from iris_fed.model import limits
from iris_fed.model.federation import Admission, CheckStep, PeerView
from iris_fed.model.resources import Availability, BackendSummary, NodeShape
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller, StringList
from iris_fed.rpc.gen.irisfed import cluster_pb2
from iris_fed.rpc.wire.checks import INT32_MAX, clamped, clipped, told_counts

AVAILABILITY_VERSION = 3


def backend_to_wire(summary: BackendSummary) -> Controller.BackendSummary:
    return Controller.BackendSummary(
        backend_id=summary.backend_id,
        name=summary.name,
        kind=summary.kind,
        capabilities=summary.capabilities,
        advertised_attributes={key: StringList(values=values) for key, values in summary.attributes.items()},
        worker_count=summary.worker_count,
        pending_task_count=min(summary.pending_task_count, INT32_MAX),
        running_task_count=min(summary.running_task_count, INT32_MAX),
        availability=_availability_to_wire(summary.availability) if summary.availability else None,
        largest_node=_shape_to_wire(summary.largest_node) if summary.largest_node else None,
        trouble=summary.trouble[: limits.MAX_VALUE_CHARS] or None,
    )


def _availability_to_wire(availability: Availability) -> Controller.ResourceAvailability:
    return Controller.ResourceAvailability(
        version=AVAILABILITY_VERSION,
        observation_epoch_ms=availability.observation_epoch_ms,
        amounts=availability.amounts,
        total_amounts=availability.total_amounts,
    )


def _shape_to_wire(shape: NodeShape) -> Controller.NodeShape:
    return Controller.NodeShape(
        cpu_millicores=min(shape.cpu_millicores, INT32_MAX), memory_bytes=shape.memory_bytes, devices=shape.devices
    )


def backends_from_wire(messages: Iterable[Controller.BackendSummary]) -> tuple[BackendSummary, ...]:
    """What a peer tells of its backends; one without an id is left out, and so is what is over the limit."""
    named = [message for message in messages if message.backend_id]
    return tuple(backend_from_wire(message) for message in named[: limits.MAX_BACKENDS_SHOWN])


def backend_from_wire(message: Controller.BackendSummary) -> BackendSummary:
    """Read tolerantly. Raises InvalidArgument when it does not say which backend it is."""
    if not message.backend_id:
        raise InvalidArgument("a backend has an id", "backend_id")
    return BackendSummary(
        backend_id=clipped(message.backend_id, limits.MAX_KEY_CHARS),
        name=clipped(message.name, limits.MAX_KEY_CHARS),
        kind=clipped(message.kind, limits.MAX_KEY_CHARS),
        capabilities=tuple(clipped(c, limits.MAX_KEY_CHARS) for c in message.capabilities[: limits.MAX_ATTRIBUTES]),
        attributes=_attributes(message.advertised_attributes),
        availability=_availability(message),
        largest_node=_shape(message.largest_node) if message.HasField("largest_node") else None,
        worker_count=clamped(message.worker_count),
        pending_task_count=clamped(message.pending_task_count),
        running_task_count=clamped(message.running_task_count),
    )


def _attributes(attributes: Mapping[str, StringList]) -> dict[str, tuple[str, ...]]:
    return {
        clipped(key, limits.MAX_KEY_CHARS): tuple(
            clipped(value, limits.MAX_VALUE_CHARS) for value in attributes[key].values[: limits.MAX_ATTRIBUTES]
        )
        for key in sorted(attributes)[: limits.MAX_ATTRIBUTES]
    }


def _availability(message: Controller.BackendSummary) -> Availability | None:
    """None = no metric: absent, or of a version that we do not know (wire contract, "Capacity")."""
    told = message.availability
    if not message.HasField("availability") or told.version > AVAILABILITY_VERSION:
        return None
    return Availability(
        observation_epoch_ms=max(0, told.observation_epoch_ms),
        amounts=_amounts(told.amounts),
        total_amounts=_amounts(told.total_amounts),
    )


def _amounts(amounts: Mapping[str, int]) -> dict[str, int]:
    return told_counts(amounts, limits.MAX_ATTRIBUTES, limits.MAX_KEY_CHARS)


def _shape(shape: Controller.NodeShape) -> NodeShape:
    return NodeShape(
        cpu_millicores=clamped(shape.cpu_millicores),
        memory_bytes=clamped(shape.memory_bytes, 2**63 - 1),
        devices=_amounts(shape.devices),
    )


def peer_to_wire(peer: PeerView) -> Controller.PeerSummary:
    return Controller.PeerSummary(
        peer_id=peer.peer_id,
        controller_address=peer.address,
        reachable=peer.reachable,
        last_contact_ms=peer.last_contact_ms,
        active_federated_jobs=min(peer.active_jobs, INT32_MAX),
        backends=[backend_to_wire(backend) for backend in peer.backends],
        unreachable_since_ms=peer.unreachable_since_ms,
        backends_observed_ms=peer.backends_observed_ms,
        last_error=peer.last_error or None,
        orphans=peer.orphans,
        synced_ms=peer.synced_ms,
        waiting_deliveries=None if peer.waiting_deliveries is None else min(peer.waiting_deliveries, INT32_MAX),
        last_refusal=clipped(peer.last_refusal.words) if peer.last_refusal else None,
        last_refusal_ms=peer.last_refusal.time_ms if peer.last_refusal else None,
    )


def check_steps_to_wire(steps: Iterable[CheckStep]) -> cluster_pb2.CheckPeerResponse:
    return cluster_pb2.CheckPeerResponse(
        steps=[cluster_pb2.CheckStep(step=step.step, ok=step.ok, detail=step.detail) for step in steps]
    )


def admission_to_wire(admission: Admission) -> cluster_pb2.CheckAdmissionResponse:
    return cluster_pb2.CheckAdmissionResponse(
        cluster=admission.cluster, admitted=admission.admitted, reason=admission.reason
    )


def admission_from_wire(answer: cluster_pb2.CheckAdmissionResponse) -> Admission:
    """A peer's answer, its texts cut."""
    return Admission(clipped(answer.cluster, limits.MAX_KEY_CHARS), answer.admitted, clipped(answer.reason))
