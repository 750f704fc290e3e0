"""How the page's files are answered: at every address of its own, below a prefix, and where nothing was built."""

from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError
from starlette.applications import Starlette

from iris_fed.config.listen import ListenSettings
from iris_fed.controller.readiness import Report
from iris_fed.web.app import build_app
from iris_fed.web.page import page_routes, with_base

INDEX = b'<!doctype html><base href="/" /><script src="./assets/index-Ab1.js"></script>'
SCRIPT = b"const much = 'the same, ';" * 100


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(INDEX)
    (tmp_path / "favicon.svg").write_bytes(b"<svg/>")
    (tmp_path / "assets" / "index-Ab1.js").write_bytes(SCRIPT)
    (tmp_path / ".sources").write_text("a stamp\n")
    return tmp_path


async def _get(built: Path, path: str, prefix: str = "", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=Starlette(routes=page_routes(prefix, built)))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path, headers={"accept-encoding": "identity", **headers})


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/", "/jobs/alice/train%2F/x", "/peers", "/backends", "/users"])
async def test_each_address_of_the_page_is_the_page(built: Path, path: str) -> None:
    answer = await _get(built, path)
    assert (answer.status_code, answer.content) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["/job", "/jobsy", "/assets/other.js", "/.sources", "/assets/..%2Findex.html", "/assets/../.sources"]
)
async def test_nothing_else_is_answered(built: Path, path: str) -> None:
    assert (await _get(built, path)).status_code == 404


async def test_a_file_that_bears_its_hash_is_kept_by_browsers_and_sent_compressed(built: Path) -> None:
    plain = await _get(built, "/assets/index-Ab1.js")
    packed = await _get(built, "/assets/index-Ab1.js", **{"accept-encoding": "br, gzip"})
    assert plain.content == packed.content == SCRIPT
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(SCRIPT) / 10
    assert "immutable" in packed.headers["cache-control"]
    assert packed.headers["vary"] == "accept-encoding"


async def test_the_page_is_told_the_path_below_which_it_lives(built: Path) -> None:
    assert b'<base href="/fleet/a/" />' in (await _get(built, "/jobs", "/fleet/a")).content


def test_a_document_without_a_place_for_that_is_refused() -> None:
    with pytest.raises(ValueError, match="<base>"):
        with_base(b"<!doctype html>", "/fleet")


async def test_where_nothing_was_built_the_page_says_how_to_build_it(tmp_path: Path) -> None:
    answer = await _get(tmp_path, "/jobs/alice/train")
    assert answer.status_code == 503
    assert "npm run build" in answer.text


@pytest.mark.parametrize(("path", "status"), [("/fleet/healthz", 200), ("/healthz", 200), ("/fleeting/healthz", 404)])
async def test_probes_answer_below_the_prefix_and_at_the_top(path: str, status: int) -> None:
    async def ready() -> Report:
        return Report((), (), ())

    transport = httpx.ASGITransport(app=build_app([], ready, path_prefix="/fleet"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get(path)).status_code == status


@pytest.mark.parametrize(("text", "prefix"), [("", ""), ("/", ""), ("/fleet", "/fleet"), ("/a/b-1.c/", "/a/b-1.c")])
def test_a_prefix_is_kept_without_its_closing_slash(text: str, prefix: str) -> None:
    assert ListenSettings(path_prefix=text).path_prefix == prefix


@pytest.mark.parametrize("text", ["fleet", "//evil.example", "/a//b", "/..", "/a/.", '/"x', "/a b", "/a?b", "/ü"])
def test_what_is_no_plain_path_is_no_prefix(text: str) -> None:
    with pytest.raises(ValidationError):
        ListenSettings(path_prefix=text)
