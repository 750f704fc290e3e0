"""Whether people with other eyes and hands can use a page, as axe-core sees it."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "dashboard/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def violations(page: Page) -> list[str]:
    """Serious and critical ones: the rule, what it says, and where."""
    page.evaluate(AXE.read_text() + "; undefined")
    found: list[dict[str, Any]] = page.evaluate(
        "rules => axe.run({runOnly: rules}).then(result => result.violations)", RULES
    )
    return [
        f"{one['id']}: {one['help']}: {node['target']} {node.get('failureSummary', '')}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
