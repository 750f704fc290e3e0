"""What answers tell a browser, what a page from elsewhere may send, and how many connections there may be."""

from ipaddress import ip_network

import httpx
import pytest
from starlette.requests import Request

from iris_fed.controller.readiness import Report
from iris_fed.web.app import build_app
from iris_fed.web.connections import Connections
from iris_fed.web.hosts import refuse_foreign_page

REPORT = Report(("the disk is full",), ("a note",), ())
RPC = "/iris.cluster.ControllerService/ListJobs"


async def _ask(method: str, path: str, headers: dict[str, str] | None = None, *, knows: bool = False) -> httpx.Response:
    async def ready() -> Report:
        return REPORT

    async def may_read(request: Request) -> bool:
        return knows

    transport = httpx.ASGITransport(app=build_app([], ready, may_read=may_read))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, headers=headers)


@pytest.mark.parametrize(
    ("path", "headers"), [("/healthz", {}), ("/nothing", {}), ("/readyz", {}), ("/", {"host": "evil.example"})]
)
async def test_no_answer_may_be_framed_sniffed_or_run_script_from_elsewhere(path: str, headers: dict[str, str]) -> None:
    answer = await _ask("GET", path, {"origin": "http://localhost", **headers})
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_preflight_opens_nothing() -> None:
    answer = await _ask("OPTIONS", RPC, {"origin": "http://localhost:3000", "access-control-request-method": "POST"})
    assert answer.status_code >= 400
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_an_rpc_carries_no_headers_for_pages() -> None:
    answer = await _ask("POST", RPC, {"content-type": "application/json"})
    assert "content-security-policy" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "anything"])
async def test_what_a_page_from_elsewhere_posts_is_refused(site: str) -> None:
    assert (await _ask("POST", RPC, {"sec-fetch-site": site, "content-type": "application/json"})).status_code == 403
    assert (await _ask("GET", "/healthz", {"sec-fetch-site": site})).status_code == 200


@pytest.mark.parametrize("sites", [[], ["same-origin"], ["none"]])
def test_our_own_page_and_programs_post(sites: list[str]) -> None:
    assert refuse_foreign_page("POST", [("sec-fetch-site", site) for site in sites]) is None


async def test_a_stranger_learns_only_whether_it_is_ready() -> None:
    told = await _ask("GET", "/readyz", {"accept": "application/json"})
    assert (told.status_code, told.text) == (503, "not ready\n")
    known = await _ask("GET", "/readyz", knows=True)
    assert (known.status_code, known.text) == (503, "not ready\nthe disk is full\nnote: a note\n")


def test_connections_are_counted_by_address_and_in_all_and_given_back() -> None:
    room = Connections(most=4, per_address=2, proxies=[ip_network("10.0.0.0/8")])
    assert [room.enter("1.1.1.1") for _ in range(3)] == [True, True, False]
    room.leave("1.1.1.1")
    assert [room.enter("10.0.0.1") for _ in range(4)] == [True, True, True, False]
    assert not room.enter("2.2.2.2")
    room.leave("10.0.0.1")
    assert room.enter("2.2.2.2")
