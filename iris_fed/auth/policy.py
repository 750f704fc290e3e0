"""One table: which role may call which method. What is not in it is denied to everyone but admin.

Whose job it may be called on is a second question, asked where the job is known.
"""

from collections.abc import Mapping

from iris_fed.auth.identity import Identity, Role
from iris_fed.errors import PermissionDenied

_IRIS = "iris.cluster.ControllerService"
_OURS = "irisfed.v1.ClusterService"

_ADMIN = frozenset({Role.ADMIN})
_USERS = frozenset({Role.ADMIN, Role.USER})
_SUBMIT = _USERS | {Role.FEDERATION_PEER, Role.JOB}
_CONTENT = _SUBMIT
_READ = _USERS | {Role.DASHBOARD, Role.JOB}
_READ_AND_PEERS = _READ | {Role.FEDERATION_PEER}
_PEERS = frozenset({Role.FEDERATION_PEER})

POLICY: Mapping[str, frozenset[Role]] = {
    f"{_IRIS}/LaunchJob": _SUBMIT,
    f"{_IRIS}/GetJobStatus": _READ,
    f"{_IRIS}/GetJobState": _READ,
    f"{_IRIS}/TerminateJob": _SUBMIT,
    f"{_IRIS}/ListJobs": _READ,
    f"{_IRIS}/GetTaskStatus": _READ_AND_PEERS,
    f"{_IRIS}/ListTasks": _READ_AND_PEERS,
    f"{_IRIS}/ListUsers": _USERS | {Role.DASHBOARD},
    f"{_IRIS}/ExecInContainer": _SUBMIT,
    f"{_IRIS}/GetCurrentUser": frozenset(Role),
    f"{_IRIS}/SetUserBudget": _ADMIN,
    f"{_IRIS}/GetUserBudget": _USERS,
    f"{_IRIS}/ListUserBudgets": _USERS,
    f"{_IRIS}/ListBackends": _READ_AND_PEERS,
    f"{_IRIS}/ListPeers": _READ,
    f"{_IRIS}/FederationSync": _PEERS,
    f"{_OURS}/GetClusterInfo": frozenset(Role),
    f"{_OURS}/ReadLogs": _CONTENT,
    f"{_OURS}/ListJobEvents": _READ_AND_PEERS,
    f"{_OURS}/WatchChanges": _READ,
    f"{_OURS}/ListFiles": _CONTENT,
    f"{_OURS}/ReadFile": _CONTENT,
    f"{_OURS}/CheckPeer": _ADMIN,
    f"{_OURS}/ForgetPeer": _ADMIN,
    f"{_OURS}/CheckAdmission": _PEERS,
    f"{_OURS}/CreateUserToken": _USERS,
    f"{_OURS}/ListUserTokens": _USERS,
    f"{_OURS}/RevokeUserToken": _USERS,
}

CONTENT_FOR_DASHBOARD = frozenset({f"{_OURS}/ReadLogs"})
"""What dashboards may call only where the operator lets them read content (`auth.dashboard_reads_content`).
Files are not in it: a user reads only its own, and a dashboard owns nothing."""


def check_allowed(caller: Identity, method: str, *, dashboard_reads_content: bool = False) -> None:
    """`method` is `<service>/<method>`. Raises PermissionDenied, naming the role and the method."""
    allowed = POLICY.get(method, _ADMIN)
    if dashboard_reads_content and method in CONTENT_FOR_DASHBOARD:
        allowed |= {Role.DASHBOARD}
    if caller.role not in allowed:
        name = method.rpartition("/")[2]
        raise PermissionDenied(f"{caller.principal} has the role {caller.role.value}, which may not call {name}")
