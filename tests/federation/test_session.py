"""A browser signs in with a token, once; from then on a cookie speaks for it."""

from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from pyqwest import Client
from structlog.testing import capture_logs

from tests.federation.callers import post, signing, token_of
from tests.federation.world import Cluster, World

WHOAMI = "iris.cluster.ControllerService/GetCurrentUser"


async def send(cluster: Cluster, method: str, body: bytes = b"", **headers: str) -> tuple[int, str, str]:
    """Status, body and cookie."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await Client(cluster.transport()).execute(method, f"{cluster.url}/session", sent, body)
    return answer.status, answer.content.decode(), answer.headers.get("set-cookie", "")


async def sign_in(cluster: Cluster, token: str, **headers: str) -> str:
    """The cookie as the controller sets it."""
    status, body, cookie = await send(
        cluster, "POST", b'{"token": "%s"}' % token.encode(), content_type="application/json", **headers
    )
    assert (status, body) == (204, "")
    return cookie


async def test_a_token_goes_in_and_a_cookie_that_no_script_reads_comes_out(world: World, tmp_path: Path) -> None:
    hub = await world.add("hub", auth=signing(world, "hub", tmp_path))
    cookie = await sign_in(hub, await token_of(hub, "alice"))
    morsel = SimpleCookie(cookie)["iris_fed_session"]
    assert (morsel["httponly"], morsel["samesite"], morsel["path"], morsel["secure"]) == (True, "strict", "/", "")
    assert 0 < int(morsel["max-age"]) <= 12 * 3600
    shown = f"iris_fed_session={morsel.value}"
    assert await post(hub, WHOAMI, cookie=shown, sec_fetch_site="same-origin") == ("", "")
    assert (await post(hub, WHOAMI))[0] == "unauthenticated"


async def test_a_page_from_elsewhere_cannot_use_the_cookie(world: World) -> None:
    hub = await world.add("hub")
    shown = (await sign_in(hub, hub.running.admin_token)).partition(";")[0]
    port = int(hub.url.rpartition(":")[2])
    told: list[dict[str, str]] = [
        {},
        {"sec_fetch_site": "same-site"},
        {"origin": f"http://127.0.0.1:{port + 1}"},
    ]
    for headers in told:
        code, words = await post(hub, WHOAMI, b"{}", cookie=shown, **headers)
        assert code == "http 403"
        assert "own page" in words or "from elsewhere" in words
    assert await post(hub, WHOAMI, cookie=shown, origin=hub.url) == ("", "")


async def test_signing_out_takes_the_cookie_back(world: World) -> None:
    hub = await world.add("hub")
    shown = (await sign_in(hub, hub.running.admin_token)).partition(";")[0]
    status, _, cookie = await send(hub, "DELETE", cookie=shown, sec_fetch_site="same-origin")
    assert status == 204
    assert "Max-Age=0" in cookie
    assert (await send(hub, "DELETE", cookie=shown))[0] == 403


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"token": 7}', "application/json", 400),
        (b'{"token": "x"}', "text/plain", 400),
        (b"[" * 5_000, "application/json", 400),
        (b'{"token": "' + b"x" * 9_000 + b'"}', "application/json", 400),
        (b'{"token": "x"}', "application/json", 401),
        (b'{"token": "irisfed_admin_x"}', "application/json; charset=utf-8", 401),
    ],
)
async def test_what_is_no_token_opens_nothing_and_is_written_down(
    world: World, body: bytes, content_type: str, status: int
) -> None:
    hub = await world.add("hub")
    with capture_logs() as events:
        found, _, cookie = await send(hub, "POST", body, content_type=content_type)
    assert (found, cookie) == (status, "")
    (line,) = [event for event in events if event["event"] == "audit"]
    assert (line["outcome"], line["method"]) == ("denied", "OpenSession")
    assert "irisfed_admin_x" not in str(line)


async def test_who_signed_in_is_written_down(world: World) -> None:
    hub = await world.add("hub")
    with capture_logs() as events:
        await sign_in(hub, hub.running.admin_token)
    (line,) = [event for event in events if event["event"] == "audit"]
    assert (line["outcome"], line["role"], line["source"]) == ("allowed", "admin", "session")
    assert hub.running.admin_token not in str(events)


async def test_a_session_makes_and_shows_no_tokens(world: World, tmp_path: Path) -> None:
    hub = await world.add("hub", auth=signing(world, "hub", tmp_path))
    shown = (await sign_in(hub, hub.running.admin_token)).partition(";")[0]
    for method, body in (("CreateUserToken", b"{}"), ("ListUserTokens", b'{"user": "alice"}')):
        called = f"irisfed.v1.ClusterService/{method}"
        code, words = await post(hub, called, body, cookie=shown, origin=hub.url)
        assert code == "permission_denied"
        assert "session" in words
