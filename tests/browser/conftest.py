"""Two real controllers and a real browser, shared by the tests of a module: the browser's driver has a loop of its
own, beside which no test can have one."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from tests.e2e.clusters import Cluster, Federation, end_all, start_federation

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
LOOK_LIMIT_MS = 10_000
WIDE = (1920, 1080)
NARROW = (360, 740)
TOP = Path(__file__).parents[2]


@dataclass(slots=True)
class Tab:
    """A signed-in page and everything that went wrong in it."""

    page: Page
    context: BrowserContext
    errors: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Patterns of errors that the test brings about itself."""

    def surprises(self) -> list[str]:
        return [error for error in self.errors if not any(re.search(pattern, error) for pattern in self.expected)]


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    root = tmp_path_factory.mktemp("pages")
    both = start_federation(root)
    yield both
    end_all(root, (both.hub, both.lab))


@pytest.fixture
def hub(federation: Federation) -> Cluster:
    return federation.hub


@pytest.fixture
def lab(federation: Federation) -> Cluster:
    return federation.lab


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None or not (TOP / "iris_fed/web/page/index.html").exists():
        what = "the page is not built" if CHROMIUM else "there is no chromium; apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(what)
        pytest.skip(what)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Browser, hub: Cluster) -> Iterator[Tab]:
    """An administrator's, on the hub, wide; nothing may go wrong in it that the test does not expect."""
    one = open_tab(browser, hub, admin_token(hub))
    yield one
    one.context.close()
    assert one.surprises() == []


def admin_token(cluster: Cluster) -> str:
    return (cluster.state_dir / "admin.token").read_text().strip()


def open_tab(
    browser: Browser,
    cluster: Cluster,
    token: str,
    size: tuple[int, int] = WIDE,
    scheme: str = "light",
    at: str = "/jobs",
) -> Tab:
    """Signed in by the address, as `iris-fed dashboard` does it."""
    context = browser.new_context(
        base_url=cluster.url,
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.set_default_timeout(LOOK_LIMIT_MS)
    tab = Tab(context.new_page(), context)
    tab.page.on("console", lambda message: _note(tab, message))
    tab.page.on("pageerror", lambda error: tab.errors.append(f"uncaught: {error}"))
    tab.page.goto(f"{at}#token={token}")
    tab.page.get_by_role("navigation", name="Pages").wait_for()
    return tab


def _note(tab: Tab, message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        tab.errors.append(f"{message.text} ({message.location.get('url', '')})")
