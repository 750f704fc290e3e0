"""Trusted networks: direct connections only, and never from where tasks run."""

from ipaddress import ip_address, ip_network

import pytest

from iris_fed.auth.identity import Role
from iris_fed.auth.network import NetworkTrust, client_address, own_addresses, parse_address
from iris_fed.errors import Unauthenticated

LAN = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"), ip_network("127.0.0.0/8"), ip_network("::1/128"))
PROXY = (ip_network("10.9.9.9/32"),)


def trust(*, runs_tasks: bool = True, role: Role = Role.USER) -> NetworkTrust:
    return NetworkTrust(LAN, PROXY, role, runs_tasks=runs_tasks, own=lambda: {ip_address("10.1.1.1")})


@pytest.mark.parametrize("peer", ["10.2.3.4:5", "fd00::7:5", "[fd00::7]:5", "::ffff:10.2.3.4:5", "fd00::7%eth0:5"])
def test_a_caller_on_a_trusted_network_is_the_networks_user(peer: str) -> None:
    identity = trust().identify(peer, {"host": "lab", "user-agent": "x"})
    assert (identity.role, identity.user) == (Role.USER, "network")
    assert identity.principal.startswith("network:")


def test_a_network_may_be_trusted_to_look_only() -> None:
    identity = trust(role=Role.DASHBOARD).identify("10.2.3.4:5", {})
    assert (identity.role, identity.user) == (Role.DASHBOARD, "")


@pytest.mark.parametrize("peer", ["11.2.3.4:5", "192.168.0.1:5", "fe80::1:5", "", ":5", "testclient:5", "10.2.3:5"])
def test_any_other_address_is_no_credential(peer: str) -> None:
    with pytest.raises(Unauthenticated, match="carries no credential"):
        trust().identify(peer, {})


def test_nothing_is_trusted_by_default() -> None:
    for peer in ("127.0.0.1:1", "::1:1", "10.1.1.1:1"):
        with pytest.raises(Unauthenticated):
            NetworkTrust(runs_tasks=False).identify(peer, {})


@pytest.mark.parametrize(
    "header",
    [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-envoy-external-address",
        "x-goog-authenticated-user-email",
        "x-cloud-trace-context",
        "proxy-authorization",
    ],
)
def test_a_header_that_tells_of_a_proxy_voids_the_address(header: str) -> None:
    with pytest.raises(Unauthenticated, match="only on a direct connection"):
        trust(runs_tasks=False).identify("10.2.3.4:5", {header: ""})


def test_a_proxy_is_not_who_asks() -> None:
    with pytest.raises(Unauthenticated, match="only on a direct connection"):
        trust(runs_tasks=False).identify("10.9.9.9:5", {})


@pytest.mark.parametrize("peer", ["127.0.0.1:5", "127.8.8.8:5", "::1:5", "::ffff:127.0.0.1:5", "10.1.1.1:5"])
def test_this_machines_addresses_count_only_while_no_tasks_run_on_it(peer: str) -> None:
    with pytest.raises(Unauthenticated, match="since tasks run on it"):
        trust().identify(peer, {})
    assert trust(runs_tasks=False).identify(peer, {}).role is Role.USER


def test_a_machine_knows_its_own_addresses() -> None:
    assert ip_address("127.0.0.1") in own_addresses()


@pytest.mark.parametrize(
    ("peer", "forwarded", "shown"),
    [
        ("1.2.3.4:5", "", "1.2.3.4"),
        ("1.2.3.4:5", "6.6.6.6", "1.2.3.4"),
        ("10.9.9.9:5", "6.6.6.6", "6.6.6.6"),
        ("10.9.9.9:5", "127.0.0.1, 6.6.6.6", "6.6.6.6"),
        ("10.9.9.9:5", "6.6.6.6, 10.9.9.9", "6.6.6.6"),
        ("10.9.9.9:5", "", "10.9.9.9"),
        ("10.9.9.9:5", "nonsense\n", "10.9.9.9"),
        ("10.9.9.9:5", "6.6.6.6, nonsense", "10.9.9.9"),
        ("testclient:5", "6.6.6.6", "testclient:5"),
    ],
)
def test_the_log_shows_who_asks_and_believes_proxies_of_ours_only(peer: str, forwarded: str, shown: str) -> None:
    assert client_address(peer, forwarded, PROXY) == shown


def test_an_address_in_other_clothes_is_the_same_address() -> None:
    assert parse_address("::ffff:10.0.0.1") == parse_address("10.0.0.1")
    assert parse_address("[fe80::1%eth0]") == parse_address("fe80::1")
    assert parse_address("lab") is None
