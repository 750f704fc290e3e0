"""What people do with the pages: watch, follow, search, cancel, share an address, use no mouse."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request, expect

from tests.browser.conftest import LOOK_LIMIT_MS, Tab, admin_token, open_tab
from tests.e2e.clusters import ME, Cluster, Federation, end_all
from tests.e2e.command import iris_fed

expect.set_options(timeout=LOOK_LIMIT_MS)
PAGE_SIZE = 50


def test_a_job_submitted_by_command_appears_and_changes_without_a_reload(
    tab: Tab, hub: Cluster, tmp_path: Path
) -> None:
    tab.page.evaluate("window.neverReloaded = true")
    gate = tmp_path / "gate"
    hub.submit("--name", "seen-live", "--", "sh", "-c", f"while ! test -e {gate}; do sleep 0.05; done")
    row = tab.page.get_by_role("row").filter(has_text="seen-live")
    expect(row).to_contain_text("Running")
    gate.touch()
    expect(row).to_contain_text("Succeeded")
    assert tab.page.evaluate("window.neverReloaded")


def test_the_output_of_a_federated_job_is_followed_searched_and_left_at_will(
    tab: Tab, hub: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = f"seq -f 'early %g' 400; while ! test -e {gate}; do sleep 0.05; done; seq -f 'late %g' 400; exec sleep 600"
    hub.submit("--name", "talker", "--gpu", "H100", "--", "sh", "-c", script)
    tab.page.goto(f"/jobs/{ME}/talker")
    lines = tab.page.get_by_role("group", name="Lines of output")
    expect(lines).to_contain_text("early 400")
    gate.touch()
    expect(lines).to_contain_text("late 400")
    tab.page.get_by_role("searchbox", name="Search the output").fill("early 37")
    expect(lines.locator("mark").first).to_be_visible()
    expect(tab.page.get_by_text("1 of 11")).to_be_visible()
    tab.page.get_by_role("button", name="Next match").click()
    expect(tab.page.get_by_text("2 of 11")).to_be_visible()
    expect(lines).not_to_contain_text("late 400")
    tab.page.get_by_role("searchbox", name="Search the output").fill("")
    tab.page.get_by_role("button", name="Jump to end").click()
    expect(lines).to_contain_text("late 400")
    # Only what is in sight is in the document.
    assert lines.locator("[data-index]").count() < 150
    hub.cancel("talker")
    expect(tab.page.get_by_text("801 lines, complete").or_(tab.page.get_by_text("800 lines, complete"))).to_be_visible()


def test_the_output_of_each_attempt_is_chosen_by_its_address(tab: Tab, hub: Cluster) -> None:
    hub.submit("--name", "twice", "--max-retries", "1", "--", "sh", "-c", "echo this is $IRIS_TASK_ID; exit 3")
    hub.until("twice", "FAILED")
    tab.page.goto(f"/jobs/{ME}/twice")
    lines = tab.page.get_by_role("group", name="Lines of output")
    expect(lines).to_contain_text("twice/0:1")
    tab.page.get_by_role("link", name="Output of task 0, attempt 0: Failed").click()
    expect(lines).to_contain_text("twice/0:0")
    expect(lines).not_to_contain_text("twice/0:1")
    tab.page.reload()
    expect(lines).to_contain_text("twice/0:0")
    expect(tab.page.get_by_text("with exit code 3")).to_be_visible()


def test_a_job_is_cancelled_from_its_page_after_a_second_word(tab: Tab, hub: Cluster) -> None:
    hub.submit("--name", "unwanted", "--gpu", "H100", "--", "sleep", "600")
    hub.until("unwanted", "RUNNING")
    tab.page.goto(f"/jobs/{ME}/unwanted")
    tab.page.get_by_role("button", name="Cancel job").click()
    tab.page.get_by_role("button", name="Let it run").click()
    expect(tab.page.get_by_role("alertdialog")).to_have_count(0)
    assert hub.state("unwanted") == "RUNNING"
    tab.page.get_by_role("button", name="Cancel job").click()
    tab.page.get_by_role("button", name="Cancel it").click()
    expect(tab.page.locator("header .state").get_by_text("Cancelled")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Cancel job")).to_have_count(0)
    hub.until("unwanted", "KILLED")


@pytest.fixture(scope="module")
def job_of_alice(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its name; it goes on."""
    token = tmp_path_factory.mktemp("alice") / "token"
    token.write_text(federation.hub.run("token", "create", "--user", "alice").out)
    env = federation.hub.env() | {"IRIS_FED_TOKEN_FILE": str(token)}
    ended = iris_fed("job", "run", "--no-wait", "--name", "kept", "--", "sleep", "600", env=env)
    assert ended.code == 0, ended
    return "kept"


@pytest.mark.parametrize(
    ("role", "user", "may"), [("dashboard", "guest", False), ("user", "guest", False), ("user", "alice", True)]
)
def test_only_who_may_cancel_a_job_is_shown_how(
    browser: Browser, hub: Cluster, job_of_alice: str, role: str, user: str, may: bool
) -> None:
    tab = open_tab(browser, hub, hub.run("token", "create", "--role", role, "--user", user).out.strip())
    expect(tab.page.locator(".role")).to_have_text(role)
    tab.page.get_by_role("row").filter(has_text=job_of_alice).get_by_role("link").click()
    expect(tab.page.get_by_role("heading", name=job_of_alice)).to_be_visible()
    expect(tab.page.get_by_role("button", name="Cancel job")).to_have_count(1 if may else 0)
    if role == "dashboard":
        expect(tab.page.get_by_text("Your role does not show the command.")).to_be_visible()
        expect(tab.page.get_by_text("Your role does not show output.").first).to_be_visible()
        tab.expected.append("403")
    tab.context.close()
    assert tab.surprises() == []


def test_filters_stand_in_the_address_and_survive_a_reload(tab: Tab, hub: Cluster) -> None:
    hub.submit("--name", "findable", "--", "true")
    hub.submit("--name", "findable-not", "--", "false")
    hub.until("findable", "SUCCEEDED")
    hub.until("findable-not", "FAILED")
    rows = tab.page.locator("tbody").get_by_role("row")
    tab.page.get_by_role("searchbox", name="Search jobs").fill("findable")
    # Sooner than the typing is told: neither filter may swallow the other.
    tab.page.get_by_role("button", name="Succeeded").click()
    expect(tab.page).to_have_url(re.compile(r"q=findable&state=succeeded$"))
    expect(rows).to_have_count(1)
    tab.page.reload()
    expect(rows).to_have_count(1)
    expect(tab.page.get_by_role("searchbox", name="Search jobs")).to_have_value("findable")
    tab.page.get_by_label("Cluster").select_option("lab")
    expect(tab.page.get_by_text("No job fits")).to_be_visible()
    tab.page.go_back()
    expect(rows).to_have_count(1)
    expect(tab.page.get_by_label("Cluster")).to_have_value("")


def test_pages_hold_while_jobs_are_submitted(tab: Tab, hub: Cluster) -> None:
    for number in range(PAGE_SIZE + 3):
        _submit_held(hub, f"held-{number:03}")
    tab.page.goto("/jobs?q=held-")
    rows = tab.page.locator("tbody").get_by_role("row")
    expect(rows).to_have_count(PAGE_SIZE)
    tab.page.get_by_role("button", name=f"Next {PAGE_SIZE}").click()
    expect(rows).to_have_count(3)
    expect(rows.last).to_contain_text("held-000")
    _submit_held(hub, "held-later")
    expect(tab.page.get_by_text(f"{PAGE_SIZE + 4} jobs in all")).to_be_visible()
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("held-002")
    tab.page.get_by_role("button", name="First page").click()
    expect(rows.first).to_contain_text("held-later")
    for number in range(PAGE_SIZE + 3):
        hub.cancel(f"held-{number:03}")
    hub.cancel("held-later")


def _submit_held(hub: Cluster, name: str) -> None:
    """A job that waits at the peer for more devices than are free, and costs no process."""
    device = {"gpu": {"variant": "h100", "count": 8}}
    command = {"runCommand": {"argv": ["true"]}}
    constraint = [{"key": "cluster", "value": {"stringValue": "lab"}}]
    hub.call("LaunchJob", name=name, entrypoint=command, resources={"device": device}, constraints=constraint)


def test_no_mouse_is_needed(tab: Tab, hub: Cluster) -> None:
    hub.submit("--name", "by-keyboard", "--", "sleep", "600")
    hub.until("by-keyboard", "RUNNING")
    keys = tab.page.keyboard
    tab.page.goto("/jobs")
    expect(tab.page.get_by_role("row").filter(has_text="by-keyboard")).to_be_visible()
    keys.press("Tab")
    expect(tab.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keys.press("Enter")
    expect(tab.page.locator("main")).to_be_focused()
    keys.press("/")
    expect(tab.page.get_by_role("searchbox", name="Search jobs")).to_be_focused()
    keys.type("by-keyboard")
    expect(tab.page.locator("tbody").get_by_role("row")).to_have_count(1)
    link = tab.page.get_by_role("link", name="by-keyboard").last
    for _ in range(20):
        keys.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    expect(link).to_be_focused()
    assert link.evaluate("link => getComputedStyle(link).outlineStyle") != "none"
    keys.press("Enter")
    cancel = tab.page.get_by_role("button", name="Cancel job")
    cancel.focus()
    keys.press("Enter")
    expect(tab.page.get_by_role("button", name="Let it run")).to_be_focused()
    keys.press("Escape")
    expect(tab.page.get_by_role("alertdialog")).to_have_count(0)
    expect(cancel).to_be_focused()
    hub.cancel("by-keyboard")


def test_who_is_not_known_signs_in_with_a_token_and_out_again(browser: Browser, hub: Cluster) -> None:
    context = browser.new_context(base_url=hub.url)
    context.set_default_timeout(LOOK_LIMIT_MS)
    page = context.new_page()
    page.goto(f"/jobs/{ME}/some-job")
    page.get_by_label("Token").fill("no such token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".react-aria-FieldError")).to_be_visible()
    page.get_by_label("Token").fill(admin_token(hub))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    expect(page).to_have_url(re.compile("/some-job$"))
    assert "token" not in page.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    context.close()


def test_a_token_in_the_address_does_not_stay_there(tab: Tab) -> None:
    assert "token" not in tab.page.url
    tab.page.go_back()
    assert "token" not in tab.page.url


def test_a_hidden_tab_asks_for_no_news_and_catches_up_when_it_is_seen(tab: Tab, hub: Cluster) -> None:
    def is_watch(request: Request) -> bool:
        return request.url.endswith("/WatchChanges")

    with tab.page.expect_event("requestfailed", is_watch):
        tab.page.evaluate(_visibility("hidden"))
    hub.submit("--name", "while-hidden", "--", "true")
    hub.until("while-hidden", "SUCCEEDED")
    row = tab.page.get_by_role("row").filter(has_text="while-hidden")
    expect(row).to_have_count(0)
    with tab.page.expect_request(is_watch):
        tab.page.evaluate(_visibility("visible"))
    expect(row).to_be_visible()


def _visibility(state: str) -> str:
    hidden = str(state == "hidden").lower()
    return (
        f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )


def test_below_a_path_prefix_and_without_its_controller_the_page_goes_on(browser: Browser, tmp_path: Path) -> None:
    own = Cluster.make(tmp_path, "solo")
    own.settings["listen"] = {"port": 0, "path_prefix": "/fleet/solo"}
    own.start()
    try:
        tab = open_tab(browser, own, admin_token(own), at="/fleet/solo/jobs")
        expect(tab.page.get_by_text("No jobs yet")).to_be_visible()
        own.submit("--name", "below", "--", "true")
        tab.page.get_by_role("link", name="below").click()
        expect(tab.page).to_have_url(re.compile(f"/fleet/solo/jobs/{ME}/below$"))
        tab.page.reload()
        expect(tab.page.get_by_role("heading", name="below")).to_be_visible()
        own.settings["listen"]["port"] = own.port
        own.kill()
        tab.expected.append("ERR_|Failed to load resource")
        expect(tab.page.get_by_text("Not live since")).to_be_visible()
        expect(tab.page.get_by_role("heading", name="below")).to_be_visible()
        own.start()
        expect(tab.page.get_by_text("Not live since")).to_have_count(0, timeout=3 * LOOK_LIMIT_MS)
        tab.context.close()
        assert tab.surprises() == []
    finally:
        end_all(tmp_path, [own])
