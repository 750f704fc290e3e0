"""The page for browsers: files that the package's build left in `page/`, answered from memory."""

import gzip
import html
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

BUILT = Path(__file__).with_name("page")
PLACES = ("jobs", "peers", "backends", "users")
"""First parts of the page's own addresses: each of them, and all below it, is the page."""
NOT_BUILT = (
    "The controller runs, but its page was not built.\n\n"
    "With Node.js 20.19 or newer and npm on PATH: pip install -e . (or, in dashboard/: npm ci && npm run build), then "
    "start the controller again.\n"
    "Everything that the page shows, the command line shows too: iris-fed --help\n"
)
_BASE = b'<base href="/" />'
_FOREVER = "public, max-age=31536000, immutable"
"""Of a file whose name holds a hash of its content."""
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file as it is sent: as it is, and compressed."""

    content: bytes
    compressed: bytes
    media_type: str

    def answer(self, request: Request, caching: str) -> Response:
        headers = {"cache-control": caching, "vary": "accept-encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, media_type=self.media_type, headers=headers)
        return Response(self.compressed, media_type=self.media_type, headers=headers | {"content-encoding": "gzip"})


def page_routes(path_prefix: str = "", built: Path = BUILT) -> list[Route]:
    """Routes of the page, which is told that it lives below `path_prefix` (`/fleet`; "" = at the top). Where
    nothing was built, the page's addresses answer 503 and say how to build it."""
    files = read_page(built)
    if "index.html" not in files:
        return _everywhere(_not_built)
    index = _file(with_base(files["index.html"].content, path_prefix), ".html")

    async def page(request: Request) -> Response:
        return index.answer(request, "no-cache")

    async def icon(request: Request) -> Response:
        return _or_nothing(files.get("favicon.svg"), request, "public, max-age=86400")

    async def asset(request: Request) -> Response:
        return _or_nothing(files.get(f"assets/{request.path_params['name']}"), request, _FOREVER)

    return [*_everywhere(page), Route("/favicon.svg", icon), Route("/assets/{name}", asset)]


def with_base(index: bytes, path_prefix: str) -> bytes:
    """The document, told where it lives. Raises ValueError when it has no place for that."""
    if _BASE not in index:
        raise ValueError("the built page has no <base> element")
    return index.replace(_BASE, f'<base href="{html.escape(path_prefix)}/" />'.encode(), 1)


@cache
def read_page(built: Path) -> Mapping[str, PageFile]:
    """The files that make the page, by their path below `built`; read once."""
    paths = [path for path in built.rglob("*") if path.suffix in _TYPES and path.is_file()]
    return {path.relative_to(built).as_posix(): _file(path.read_bytes(), path.suffix) for path in paths}


def _file(content: bytes, suffix: str) -> PageFile:
    return PageFile(content, gzip.compress(content, 6, mtime=0), _TYPES[suffix])


def _everywhere(endpoint: Endpoint) -> list[Route]:
    below = [f"/{place}{rest}" for place in PLACES for rest in ("", "/{rest:path}")]
    return [Route(path, endpoint) for path in ("/", *below)]


async def _not_built(_: Request) -> Response:
    return PlainTextResponse(NOT_BUILT, 503)


def _or_nothing(file: PageFile | None, request: Request, caching: str) -> Response:
    return file.answer(request, caching) if file else PlainTextResponse("not found\n", 404)
