"""Every page in both schemes at both widths: readable, usable by all, and kept as a picture."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.axe import AXE, violations
from tests.browser.conftest import NARROW, TOP, WIDE, admin_token, open_tab
from tests.browser.jobs import Story, end_story, tell_story
from tests.e2e.clusters import ME, Cluster, Federation
from tests.e2e.command import poll

PICTURES = TOP / ".ci/out/screenshots"
LOOKED_AT_CLOSELY = {(WIDE, "light"), (NARROW, "dark")}
"""Each width and each scheme once: axe takes as long as all the rest."""


@pytest.fixture(scope="module")
def story(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    hub = federation.hub
    story = tell_story(hub, tmp_path_factory.mktemp("story"))
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    yield story
    end_story(hub, story)


def _pages(story: Story) -> dict[str, tuple[str, str]]:
    """By name: its address, and a text that is there once it shows what it has."""
    return {
        "jobs": ("/jobs", story.waiting),
        "jobs-filtered": ("/jobs?state=failed&sort=failures", story.failed),
        "jobs-none": ("/jobs?q=no-such-job", "No job fits"),
        "job-federated": (f"/jobs/{ME}/{story.training}", "step 300 of 300"),
        "job-failed": (f"/jobs/{ME}/{story.failed}", "ModuleNotFoundError"),
        "job-waiting": (f"/jobs/{ME}/{story.waiting}", "What was asked for"),
        "job-wide": (f"/jobs/{ME}/{story.wide}", "12 tasks"),
        "job-tree": (f"/jobs/{ME}/{story.tree}", "shard-600"),
        "job-none": (f"/jobs/{ME}/nothing", "There is no job"),
        "peers": ("/peers", "In step"),
        "backends": ("/backends", "Largest machine"),
        "users": ("/users", "Tasks in all"),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_page_is_readable_and_usable_in_both_schemes_at_both_widths(
    browser: Browser, hub: Cluster, story: Story, size: tuple[int, int], scheme: str
) -> None:
    tab = open_tab(browser, hub, admin_token(hub), size, scheme)
    # The job that does not exist.
    tab.expected.append("404")
    problems = []
    for name, (address, text) in _pages(story).items():
        tab.page.goto(address)
        tab.page.get_by_text(text).last.wait_for(state="attached")
        tab.page.evaluate("document.fonts.ready")
        tab.page.screenshot(path=PICTURES / f"{name}-{size[0]}-{scheme}.png", full_page=True)
        if _is_wider_than_the_window(tab.page):
            problems.append(f"{name} scrolls sideways")
        if (size, scheme) in LOOKED_AT_CLOSELY and _has_axe():
            problems += [f"{name}: {one}" for one in violations(tab.page)]
    tab.context.close()
    assert problems == []
    assert tab.surprises() == []


def test_the_sign_in_page_is_usable_by_all(browser: Browser, hub: Cluster, story: Story) -> None:
    context = browser.new_context(base_url=hub.url, viewport={"width": NARROW[0], "height": NARROW[1]})
    page = context.new_page()
    page.goto("/")
    page.get_by_role("heading", name="Sign in").wait_for()
    page.screenshot(path=PICTURES / f"sign-in-{NARROW[0]}-light.png")
    found = violations(page) if _has_axe() else []
    context.close()
    assert found == []


def test_a_lost_peer_is_shown_on_every_page_with_its_age(
    browser: Browser, hub: Cluster, lab: Cluster, story: Story
) -> None:
    tab = open_tab(browser, hub, admin_token(hub))
    lab.kill()
    try:
        tab.page.get_by_text("1 unreachable").wait_for(state="attached")
        row = tab.page.get_by_role("row").filter(has_text=story.training)
        row.get_by_text("as of").wait_for()
        tab.page.screenshot(path=PICTURES / "lost-jobs-1920-light.png", full_page=True)
        row.get_by_role("link").click()
        tab.page.get_by_text("lab does not answer").wait_for()
        tab.page.get_by_role("cell", name="Running", exact=True).wait_for()
        tab.page.screenshot(path=PICTURES / "lost-job-1920-light.png", full_page=True)
        tab.page.get_by_role("link", name="Peers").click()
        peer = tab.page.get_by_role("article", name="lab")
        peer.get_by_text("unreachable for").wait_for()
        peer.get_by_text("h100", exact=True).wait_for()
        tab.page.screenshot(path=PICTURES / "lost-peers-1920-light.png", full_page=True)
    finally:
        lab.start()
    peer.get_by_text("reachable", exact=True).wait_for()
    poll(lambda: hub.json("peer", "list")["peers"][0].get("reachable"), "hub has reached lab again")
    tab.context.close()
    assert tab.surprises() == []


def _is_wider_than_the_window(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def _has_axe() -> bool:
    """`npm ci` in dashboard/ brings it; on a machine without, the pages are looked at all the same."""
    assert AXE.exists() or os.environ.get("CI") != "true", f"{AXE} is missing: npm ci in dashboard/"
    return AXE.exists()
