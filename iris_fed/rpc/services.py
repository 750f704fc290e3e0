"""The RPC services as ASGI applications, by the path under which each is mounted."""

from collections.abc import Sequence
from typing import Any

from connectrpc.compat import google_protobuf_binary_codec, google_protobuf_json_codec
from starlette.types import ASGIApp

from iris_fed.rpc.audit import Audit, AuditLog
from iris_fed.rpc.cluster_service import ClusterHandlers
from iris_fed.rpc.controller_service import ControllerHandlers
from iris_fed.rpc.gate import Errors, Gate, caller, client
from iris_fed.rpc.gen.cluster.controller_connect import ControllerServiceASGIApplication
from iris_fed.rpc.gen.irisfed.cluster_connect import ClusterServiceASGIApplication

CODECS = (google_protobuf_binary_codec(), google_protobuf_json_codec(ignore_unknown_fields=False))
"""JSON is taken at its word: the library's default passes over what it does not know, an unknown
enum word or a duration written "3s" too, so that a job would run without what was asked for."""


def build_services(
    controller: ControllerHandlers, cluster: ClusterHandlers, gate: Gate, audit: AuditLog, request_bytes: int,
    around: Sequence[Any] = (),
) -> list[tuple[str, ASGIApp]]:  # fmt: skip
    """`request_bytes` bounds every request body, after decompression too. `around`: interceptors outside of the
    gate, for what sees every call whoever makes it."""
    common: dict[str, Any] = {
        "interceptors": (*around, gate, Audit(audit, caller, client), Errors()),
        "read_max_bytes": request_bytes,
        "codecs": CODECS,
    }
    iris = ControllerServiceASGIApplication(controller, **common)
    ours = ClusterServiceASGIApplication(cluster, **common)
    return [(iris.path, iris), (ours.path, ours)]
