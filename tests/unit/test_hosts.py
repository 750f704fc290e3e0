"""Requests that name another host, or come from a page elsewhere, are refused."""

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from iris_fed.controller.readiness import Report
from iris_fed.web.app import build_app
from iris_fed.web.hosts import refuse_headers, refuse_unreadable


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:7000", "127.0.0.1", "127.0.0.1:7000", "[::1]", "[::1]:7000"],
)
def test_loopback_names_are_our_own(host: str) -> None:
    assert refuse_headers([("host", host)]) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:7000",
        "localhost.evil.example",
        "localhost@evil.example",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "0.0.0.0",
        "localhost.",
        "[::1",
        "::1",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
    ],
)
def test_any_other_host_is_refused(host: str) -> None:
    assert "answers only to localhost" in str(refuse_headers([("host", host)]))


def test_a_request_must_name_one_host_exactly() -> None:
    assert refuse_headers([]) is not None
    assert refuse_headers([("host", "localhost"), ("host", "localhost")]) is not None
    assert refuse_headers([("x-forwarded-host", "localhost")]) is not None


@pytest.mark.parametrize("origin", ["http://localhost:7000", "http://127.0.0.1", "https://[::1]:7000"])
def test_our_own_pages_may_ask(origin: str) -> None:
    assert refuse_headers([("host", "localhost"), ("origin", origin)]) is None


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "https://localhost.evil.example", "http://localhost@evil.example", "http://["],
)
def test_pages_from_elsewhere_may_not(origin: str) -> None:
    refusal = refuse_headers([("host", "localhost"), ("origin", origin)])
    assert refusal == "requests of pages from elsewhere are refused"
    own = ("origin", "http://localhost")
    assert refuse_headers([("host", "localhost"), own, ("origin", origin)]) == refusal


def test_an_operator_adds_names_and_only_those() -> None:
    own = {"localhost", "lab.example.org"}
    assert refuse_headers([("host", "LAB.example.org:443"), ("origin", "https://lab.example.org")], own) is None
    assert refuse_headers([("host", "lab.example.org"), ("origin", "http://localhost:7000")], own) is None
    for host in ("example.org", "x.lab.example.org", "lab.example.org.evil.com", "lab.example.org@evil.com"):
        assert "listen.allowed_hosts lists those" in str(refuse_headers([("host", host)], own))
        assert refuse_headers([("host", "localhost"), ("origin", f"https://{host}")], own) is not None


async def test_the_guard_stands_before_every_route() -> None:
    asked: list[str] = []

    async def service(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def ready() -> Report:
        return Report(("it was asked",) if asked else (), (), ())

    app = build_app([("/iris.cluster.ControllerService", service)], ready)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for path in ("/iris.cluster.ControllerService/LaunchJob", "/nothing", "/x/healthz", "/readyz/"):
            assert (await client.get(path, headers={"host": "evil.example"})).status_code == 403
            assert (await client.post(path, headers={"origin": "http://evil.example"})).status_code == 403
        assert not asked
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.post("/iris.cluster.ControllerService/LaunchJob")).status_code == 204
        assert (await client.get("/readyz")).status_code == 503
        assert len(asked) == 1


async def test_a_probe_answers_under_any_name_but_says_no_more_than_ok_or_not() -> None:
    async def ready() -> Report:
        return Report(("the disk is full",), (), ())

    app = build_app([], ready, path_prefix="/iris")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://10.1.2.3:8478") as client:
        for prefix in ("", "/iris"):
            assert (await client.get(f"{prefix}/healthz")).text == "ok\n"
            told = await client.get(f"{prefix}/readyz", headers={"accept": "application/json"})
            assert (told.status_code, told.text) == (503, "not ready\n")
            known = await client.get(f"{prefix}/readyz", headers={"host": "localhost"})
            assert known.text == "not ready\nthe disk is full\n"
        assert (await client.post("/healthz")).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("authorization", "Bearer \xff")], 400),
        ([("x-\xe9", "a")], 400),
        ([("authorization", "Bearer a"), ("authorization", "Bearer b")], 400),
        ([("x-goog-iap-jwt-assertion", "a"), ("x-goog-iap-jwt-assertion", "b")], 400),
        ([("content-type", "application/grpc")], 415),
        ([("content-type", "application/grpc-web+proto")], 415),
    ],
)
def test_what_the_rpc_library_would_stumble_over_is_refused_in_front(
    headers: list[tuple[str, str]], status: int
) -> None:
    refusal = refuse_unreadable(headers)
    assert refusal is not None
    assert refusal[0] == status


def test_an_ordinary_request_is_readable() -> None:
    headers = [("authorization", "Bearer a"), ("content-type", "application/connect+proto")]
    assert refuse_unreadable(headers) is None
