"""`peer list` and `peer check` where something is wrong with the way to a peer."""

import http.server
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.clusters import ME, Cluster, end_all
from tests.e2e.command import all_at_once, iris_fed


class _Website(http.server.BaseHTTPRequestHandler):
    """Knows no controller."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>welcome</html>")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def website() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Website) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory, website: str) -> Iterator[dict[str, Cluster]]:
    """Three clusters that have `lab` as their peer. It knows the key of none but `admitted`'s and `shy`'s."""
    root = tmp_path_factory.mktemp("peers")
    made = {name: Cluster.make(root, name) for name in ("admitted", "shy", "stranger")}
    impostor = Cluster.make(root, "wrong-key", directory="impostor")
    trust = {
        "admitted": {"public_keys": [made["admitted"].public_key], "allowed_submitters": [ME]},
        "shy": {"public_keys": [made["shy"].public_key], "allowed_submitters": ["*@nowhere.org"]},
        "wrong-key": {"public_keys": [made["shy"].public_key], "allowed_submitters": ["*"]},
    }
    lab = Cluster.make(root, "lab", auth={"federation_peers": trust}).start()
    everyone = [*made.values(), impostor]
    for hub in everyone:
        hub.settings["peers"] = [{"name": "lab", "address": lab.url}]
    made["admitted"].settings["peers"] += [
        {"name": "nobody", "address": "http://127.0.0.1:9"},
        {"name": "website", "address": website},
        {"name": "misnamed", "address": lab.url.replace("127.0.0.1", "localhost")},
        {"name": "nowhere", "address": "https://no-such-host.invalid"},
    ]
    for hub in everyone:
        hub.launch()
    for hub in everyone:
        hub.until_ready()
    yield made | {"wrong-key": impostor, "lab": lab}
    end_all(root, (*everyone, lab))


FAILURES = (
    ("admitted", "nobody", "reach", "connection refused"),
    ("admitted", "website", "reach", "something else answers"),
    ("admitted", "nowhere", "dns", "no-such-host.invalid"),
    ("admitted", "misnamed", "token", "misnamed"),
    ("wrong-key", "lab", "token", "unauthenticated"),
    ("stranger", "lab", "trust", "no key of the cluster"),
    ("shy", "lab", "admission", ME),
)
"""Who checks which peer, the step that fails, and what it says."""


def test_a_check_ends_at_the_step_that_fails_and_says_why(hubs: dict[str, Cluster]) -> None:
    checks = all_at_once([partial(hubs[hub].json, "peer", "check", peer, code=1) for hub, peer, _, _ in FAILURES])
    for (hub, peer, failing, says), check in zip(FAILURES, checks, strict=True):
        *passed, failed = check["steps"]
        assert all(step["ok"] for step in passed), (hub, peer)
        assert (failed["step"], failed.get("ok", False)) == (failing, False), (hub, peer)
        assert says in failed["detail"], (hub, peer)


def test_a_check_that_finds_nothing_wrong_tells_each_step(hubs: dict[str, Cluster]) -> None:
    ended = hubs["admitted"].run("peer", "check", "lab")
    assert ended.code == 0
    rows = [line.split()[:2] for line in ended.out.splitlines()]
    assert rows == [["STEP", "RESULT"]] + [[step, "ok"] for step in ("dns", "reach", "token", "trust", "admission")]


def test_a_peer_that_is_not_configured_cannot_be_checked(hubs: dict[str, Cluster]) -> None:
    ended = hubs["admitted"].run("peer", "check", "elsewhere")
    assert ended.code == 125
    assert "elsewhere" in ended.err


def test_the_list_tells_why_a_peer_cannot_be_reached(hubs: dict[str, Cluster]) -> None:
    rows = {line.split()[0]: line for line in hubs["admitted"].run("peer", "list").out.splitlines()[1:]}
    assert rows["lab"].split()[1] == "yes"
    assert rows["nobody"].split()[1:3] == ["no", "never"]
    assert "connection refused" in rows["nobody"]
    assert "something else answers" in rows["website"]


def test_a_job_for_a_cluster_that_never_answered_is_refused_with_what_to_do(hubs: dict[str, Cluster]) -> None:
    ended = hubs["stranger"].run("job", "run", "--target-cluster", "lab", "--", "true")
    assert ended.code == 125
    assert "lab has not answered yet" in ended.err
    assert "iris-fed peer list" in ended.err


def test_a_peer_is_not_given_up_where_nobody_can_be_asked() -> None:
    refused = iris_fed("peer", "forget", "lab", "--controller", "http://127.0.0.1:9")
    assert (refused.code, refused.out) == (2, "")
    assert "--yes says that it is meant" in refused.err
