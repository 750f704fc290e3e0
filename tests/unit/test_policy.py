"""Which role may call what: every method of every service against every role."""

import pytest

from iris_fed.auth.identity import Identity, Role
from iris_fed.auth.policy import POLICY, check_allowed
from iris_fed.errors import PermissionDenied
from iris_fed.rpc.gen.cluster import controller_pb2
from iris_fed.rpc.gen.irisfed import cluster_pb2

METHODS = sorted(
    f"{service.full_name}/{method.name}"
    for file in (controller_pb2.DESCRIPTOR, cluster_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
)
ADMIN, USER, DASHBOARD, PEER, JOB = Role.ADMIN, Role.USER, Role.DASHBOARD, Role.FEDERATION_PEER, Role.JOB
EVERYONE = {ADMIN, USER, DASHBOARD, PEER, JOB}

EXPECTED: dict[str, set[Role]] = {
    "iris.cluster.ControllerService/LaunchJob": {ADMIN, USER, PEER, JOB},
    "iris.cluster.ControllerService/GetJobStatus": {ADMIN, USER, DASHBOARD, JOB},
    "iris.cluster.ControllerService/GetJobState": {ADMIN, USER, DASHBOARD, JOB},
    "iris.cluster.ControllerService/TerminateJob": {ADMIN, USER, PEER, JOB},
    "iris.cluster.ControllerService/ListJobs": {ADMIN, USER, DASHBOARD, JOB},
    "iris.cluster.ControllerService/GetTaskStatus": EVERYONE,
    "iris.cluster.ControllerService/ListTasks": EVERYONE,
    "iris.cluster.ControllerService/ListUsers": {ADMIN, USER, DASHBOARD},
    "iris.cluster.ControllerService/ExecInContainer": {ADMIN, USER, PEER, JOB},
    "iris.cluster.ControllerService/GetCurrentUser": EVERYONE,
    "iris.cluster.ControllerService/SetUserBudget": {ADMIN},
    "iris.cluster.ControllerService/GetUserBudget": {ADMIN, USER},
    "iris.cluster.ControllerService/ListUserBudgets": {ADMIN, USER},
    "iris.cluster.ControllerService/ListBackends": EVERYONE,
    "iris.cluster.ControllerService/ListPeers": {ADMIN, USER, DASHBOARD, JOB},
    "iris.cluster.ControllerService/FederationSync": {PEER},
    "irisfed.v1.ClusterService/GetClusterInfo": EVERYONE,
    "irisfed.v1.ClusterService/ReadLogs": {ADMIN, USER, PEER, JOB},
    "irisfed.v1.ClusterService/WatchChanges": {ADMIN, USER, DASHBOARD, JOB},
    "irisfed.v1.ClusterService/ListFiles": {ADMIN, USER, PEER, JOB},
    "irisfed.v1.ClusterService/ReadFile": {ADMIN, USER, PEER, JOB},
    "irisfed.v1.ClusterService/ListJobEvents": {PEER, ADMIN, USER, DASHBOARD, JOB},
    "irisfed.v1.ClusterService/CheckPeer": {ADMIN},
    "irisfed.v1.ClusterService/ForgetPeer": {ADMIN},
    "irisfed.v1.ClusterService/CheckAdmission": {PEER},
    "irisfed.v1.ClusterService/CreateUserToken": {ADMIN, USER},
    "irisfed.v1.ClusterService/ListUserTokens": {ADMIN, USER},
    "irisfed.v1.ClusterService/RevokeUserToken": {ADMIN, USER},
}


def may(role: Role, method: str, *, content: bool = False) -> bool:
    requester = "hub" if role is PEER else ""
    caller = Identity(principal="somebody", user="somebody", role=role, requester=requester)
    try:
        check_allowed(caller, method, dashboard_reads_content=content)
    except PermissionDenied:
        return False
    return True


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("method", METHODS)
def test_a_role_may_call_what_the_table_says_and_nothing_else(method: str, role: Role) -> None:
    assert may(role, method) == (role in EXPECTED[method])


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("method", METHODS)
def test_dashboards_that_read_content_may_read_logs_and_nothing_else_changes(method: str, role: Role) -> None:
    reads_logs = role is DASHBOARD and method == "irisfed.v1.ClusterService/ReadLogs"
    assert may(role, method, content=True) == (role in EXPECTED[method] or reads_logs)


def test_a_dashboard_may_never_do_more_than_a_user() -> None:
    for method in METHODS:
        assert may(USER, method) or not may(DASHBOARD, method, content=True)


def test_the_table_holds_every_method_that_is_served_and_no_other() -> None:
    assert set(METHODS) == EXPECTED.keys() == POLICY.keys()


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    "method", ["irisfed.v1.ClusterService/Reboot", "LaunchJob", "", "/iris.cluster.ControllerService/LaunchJob"]
)
def test_what_is_in_no_table_is_for_the_admin_alone(method: str, role: Role) -> None:
    assert may(role, method) == (role is ADMIN)


def test_a_denial_names_the_caller_its_role_and_the_method() -> None:
    caller = Identity(principal="eve@lab", user="eve", role=DASHBOARD)
    with pytest.raises(PermissionDenied, match="eve@lab has the role dashboard, which may not call LaunchJob"):
        check_allowed(caller, "iris.cluster.ControllerService/LaunchJob")
