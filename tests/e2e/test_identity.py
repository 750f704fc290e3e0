"""A real controller behind IAP and on a trusted network: what gets in over real connections."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import CALL_LIMIT_S, Cluster
from tests.google import AUDIENCE, Google, KeyServer


@pytest.fixture
def google() -> Iterator[KeyServer]:
    with KeyServer(Google()) as server:
        yield server


@pytest.fixture
def lab(tmp_path: Path, own: list[Cluster], google: KeyServer) -> Cluster:
    """Runs nothing itself, so that even loopback may be trusted."""
    auth = {
        "iap": {"signed_header_audience": AUDIENCE, "keys_url": google.url},
        "admin_users": ["boss@lab.org"],
        "users": ["*@lab.org"],
        "user_domain": "lab.org",
        "trusted_cidrs": ["127.0.0.0/8"],
    }
    own.append(Cluster.make(tmp_path, "lab", auth=auth, backends=[]))
    own[0].settings["listen"] = {"host": "0.0.0.0", "port": 0, "allowed_hosts": ["lab.example.org"]}
    own[0].start()
    return own[0]


WHOAMI = "iris.cluster.ControllerService/GetCurrentUser"


def whoami(cluster: Cluster, method: str = WHOAMI, **headers: str) -> tuple[int, str, str]:
    """HTTP status, role and user; `_` in a header's name stands for `-`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | {"content-type": "application/json"}
    url = f"{cluster.url}/{method}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, b"{}", sent), timeout=CALL_LIMIT_S) as answer:
            told = json.load(answer)
            return answer.status, told.get("role", ""), told.get("userId", "")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, "", ""


def test_each_way_in_leads_to_its_role_and_no_other_way_leads_in(lab: Cluster, google: KeyServer) -> None:
    assertion = google.google.assertion("Alice@lab.org")
    assert lab.url.startswith("http://127.0.0.1:")
    assert whoami(lab, x_goog_iap_jwt_assertion=assertion) == (200, "user", "alice")
    assert whoami(lab, x_goog_iap_jwt_assertion=google.google.assertion("eve@x.org")) == (200, "dashboard", "")
    assert whoami(lab, x_goog_iap_jwt_assertion=google.google.assertion("boss@lab.org"), host="lab.example.org") == (
        200,
        "admin",
        "boss",
    )
    assert whoami(lab) == (200, "user", "network")
    assert whoami(lab, "irisfed.v1.ClusterService/CreateUserToken") == (403, "", "")
    assert whoami(lab, "irisfed.v1.ClusterService/CreateUserToken", x_goog_iap_jwt_assertion=assertion)[0] == 200
    assert whoami(lab, x_goog_iap_jwt_assertion=assertion + "x") == (401, "", "")
    assert whoami(lab, authorization="Bearer x", x_goog_iap_jwt_assertion=assertion) == (401, "", "")
    for header in ("x_forwarded_for", "forwarded", "via", "x_real_ip", "x_goog_authenticated_user_email"):
        assert whoami(lab, **{header: "127.0.0.1"}) == (401, "", "")
    assert whoami(lab, host="evil.example.org") == (403, "", "")
    assert whoami(lab, origin="https://evil.example.org") == (403, "", "")
    assert "audit" in lab.log
    assert assertion not in lab.log


def test_where_tasks_run_loopback_is_nobody_however_much_it_is_trusted(tmp_path: Path, own: list[Cluster]) -> None:
    own.append(Cluster.make(tmp_path, "lab", auth={"trusted_cidrs": ["127.0.0.0/8", "::1/128"]}))
    lab = own[0].start()
    assert whoami(lab) == (401, "", "")
    token = (lab.state_dir / "admin.token").read_text().strip()
    assert whoami(lab, authorization=f"Bearer {token}")[:2] == (200, "admin")
