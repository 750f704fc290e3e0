"""How backends, of the controller or of a peer, are shown in a row."""

from iris_fed.cli import formats
from iris_fed.rpc.gen.cluster.controller_pb2 import Controller

BACKEND_COLUMNS = ("BACKEND", "KIND", "FREE", "LARGEST NODE", "RUNNING", "PENDING", "OFFERS")
PEER_COLUMNS = ("PEER", "REACHABLE", "LAST CONTACT", "JOBS", "FREE", "ADDRESS", "PROBLEM")
KNOWN_AVAILABILITY_VERSION = 3


def backend_row(backend: Controller.BackendSummary) -> tuple[str, ...]:
    return (
        backend.backend_id or backend.name,
        backend.kind,
        free_text(backend),
        _largest_node(backend),
        str(backend.running_task_count),
        str(backend.pending_task_count),
        " ".join(f"{key}={','.join(values.values)}" for key, values in sorted(backend.advertised_attributes.items())),
    )


def peer_row(peer: Controller.PeerSummary, now_ms: int) -> tuple[str, ...]:
    last = peer.last_contact_ms
    return (
        peer.peer_id,
        "yes" if peer.reachable else "no",
        f"{formats.age(now_ms, last)} ago" if last else "never",
        _jobs(peer),
        "; ".join(free_text(backend) for backend in peer.backends) or "-",
        peer.controller_address,
        _trouble(peer, now_ms),
    )


def _jobs(peer: Controller.PeerSummary) -> str:
    waiting = f" ({peer.waiting_deliveries} waiting)" if peer.waiting_deliveries else ""
    return f"{peer.active_federated_jobs}{waiting}"


def _trouble(peer: Controller.PeerSummary, now_ms: int) -> str:
    orphans = f"runs {', '.join(peer.orphans)}, whose name is in use here" if peer.orphans else ""
    refusal = f"{formats.age(now_ms, peer.last_refusal_ms)} ago it refused {peer.last_refusal}"
    parts = ("" if peer.reachable else peer.last_error, orphans, refusal if peer.last_refusal else "")
    return "; ".join(filter(None, parts))


def free_text(backend: Controller.BackendSummary) -> str:
    """`h100 6/8`: free and total of each kind that is counted; "not counted" without a metric."""
    if not backend.HasField("availability") or backend.availability.version > KNOWN_AVAILABILITY_VERSION:
        return "not counted"
    free, total = backend.availability.amounts, backend.availability.total_amounts
    return " ".join(f"{token} {free.get(token, 0)}/{total[token]}" for token in sorted(total)) or "-"


def _largest_node(backend: Controller.BackendSummary) -> str:
    if not backend.HasField("largest_node"):
        return "-"
    node = backend.largest_node
    devices = [f"{variant} x{count}" for variant, count in sorted(node.devices.items())]
    return ", ".join([f"{formats.cores(node.cpu_millicores)} cores", formats.size(node.memory_bytes), *devices])
