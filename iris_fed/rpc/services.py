"""The RPC services as ASGI applications, by the path under which each is mounted."""

from starlette.types import ASGIApp

from iris_fed.rpc.cluster_service import ClusterHandlers
from iris_fed.rpc.controller_service import ControllerHandlers
from iris_fed.rpc.gate import Errors, Gate
from iris_fed.rpc.gen.cluster.controller_connect import ControllerServiceASGIApplication
from iris_fed.rpc.gen.irisfed.cluster_connect import ClusterServiceASGIApplication

def build_services(
    controller: ControllerHandlers, cluster: ClusterHandlers, gate: Gate, request_bytes: int
) -> list[tuple[str, ASGIApp]]:
    """`request_bytes` bounds every request body, after decompression too."""
    passed = (gate, Errors())
    iris = ControllerServiceASGIApplication(controller, interceptors=passed, read_max_bytes=request_bytes)
    ours = ClusterServiceASGIApplication(cluster, interceptors=passed, read_max_bytes=request_bytes)
    return [(iris.path, iris), (ours.path, ours)]
