"""Every metric that is documented is in a real scrape, and moves when it should."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pyqwest import Client

from tests.federation.callers import one_of_each, signing
from tests.federation.world import FAILED, SUCCEEDED, Cluster, Pair, World, gpu_job, seen, started

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAME = re.compile(r"\biris_fed_[a-z_]+\b")


async def scrape(cluster: Cluster) -> str:
    return (await cluster.running.metrics.scrape()).decode()


async def value(cluster: Cluster, name: str, **labels: str) -> float:
    """The sample of this name that bears the labels; 0 while there is none."""
    found = [
        sample.value
        for family in text_string_to_metric_families(await scrape(cluster))
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found)


def names_in(text: str) -> set[str]:
    """Of metrics, without what a counter or histogram adds."""
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in NAME.findall(text)}


def expressions() -> Iterator[str]:
    for group in yaml.safe_load((DOCS / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
    for panel in json.loads((DOCS / "grafana-dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


async def lively(pair: Pair) -> None:
    """Something of everything has happened."""
    pair.wire.lose_answers("LaunchJob", times=1)
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    request = gpu_job("taken")
    await pair.lab.client.submit(gpu_job("x"))
    await pair.hub.client.submit(request)


async def test_what_is_documented_shown_and_alerted_on_is_in_a_real_scrape_and_the_other_way_round(
    world: World,
) -> None:
    pair = await world.pair()
    await lively(pair)
    told = {
        re.sub(r"_(total|sum|count|bucket|created)$", "", sample.name)
        for cluster in (pair.hub, pair.lab)
        for family in text_string_to_metric_families(await scrape(cluster))
        for sample in family.samples
    }
    # Families without a sample so far are in their `# TYPE` lines.
    told |= {re.sub(r"_total$", "", name) for name in re.findall(r"# TYPE (iris_fed_\w+)", await scrape(pair.hub))}
    told = {name for name in told if not name.endswith("_created")}
    documented = {
        re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names_in((DOCS / "metrics.md").read_text())
    }
    used = {re.sub(r"_(total|bucket|sum|count)$", "", name) for text in expressions() for name in names_in(text)}
    assert documented == told
    assert used <= told
    assert used


async def test_a_handoff_whose_answer_was_lost_is_counted_on_both_sides(pair: Pair) -> None:
    pair.wire.lose_answers("LaunchJob", times=1)
    job_id = await pair.hub.client.submit(gpu_job())
    (uid,) = await started(pair.lab)
    pair.lab.engine.finish(uid)
    await seen(pair.hub, job_id, SUCCEEDED)
    assert await value(pair.lab, "iris_fed_received_jobs_total", requester="hub") == 1
    assert await value(pair.hub, "iris_fed_peer_call_failures_total", peer="lab", call="deliver") == 1
    redriven = await value(pair.hub, "iris_fed_handoff_redrives_total", peer="lab")
    assert redriven == await value(pair.lab, "iris_fed_received_duplicates_total", requester="hub")
    assert await value(pair.lab, "iris_fed_rpc_calls_total", method="LaunchJob", code="ok") == 1 + redriven
    assert await value(pair.hub, "iris_fed_rpc_calls_total", method="LaunchJob", code="ok") == 1
    assert await value(pair.hub, "iris_fed_jobs", state="SUCCEEDED") == 1
    assert await value(pair.lab, "iris_fed_changelog_rows") > 0
    assert await value(pair.hub, "iris_fed_writes_total") >= await value(pair.hub, "iris_fed_commit_seconds_count") > 0


async def test_a_delivery_that_is_sent_again_is_a_redrive(pair: Pair) -> None:
    pair.wire.lose_requests("LaunchJob", times=1)
    await pair.hub.client.submit(gpu_job())
    await started(pair.lab)
    assert await value(pair.hub, "iris_fed_handoff_redrives_total", peer="lab") == 1


async def test_a_refusal_is_counted_by_who_refused_and_why(world: World) -> None:
    pair = await world.pair(lab={"trusts": {"hub": ["nobody@x.org"]}})
    await seen(pair.hub, await pair.hub.client.submit(gpu_job()), FAILED)
    assert await value(pair.hub, "iris_fed_handoff_refusals_total", peer="lab", code="permission_denied") == 1
    assert await value(pair.lab, "iris_fed_received_refusals_total", requester="hub", code="permission_denied") == 1


async def test_peers_queue_and_tasks_are_as_they_are(pair: Pair) -> None:
    pair.wire.lose_requests("LaunchJob")
    await pair.hub.client.submit(gpu_job("away"))
    for number in range(3):
        await pair.lab.client.submit(gpu_job(f"here-{number}", count=4))
    await started(pair.lab, 2)
    assert await value(pair.hub, "iris_fed_peer_reachable", peer="lab") == 1
    assert await value(pair.hub, "iris_fed_peer_waiting_deliveries", peer="lab") == 1
    assert await value(pair.hub, "iris_fed_peer_active_jobs", peer="lab") == 1
    assert await value(pair.hub, "iris_fed_peer_sync_age_seconds", peer="lab") < 60
    assert await value(pair.lab, "iris_fed_tasks", state="PENDING") == 1
    assert await value(pair.lab, "iris_fed_tasks") == 3
    assert await value(pair.lab, "iris_fed_queue_age_seconds") > 0
    assert await value(pair.lab, "iris_fed_requester_cursor_age_seconds") == 0


@pytest.mark.parametrize("loop", ["control", "pruner", "heartbeat lab", "sync lab", "outbox lab"])
async def test_each_background_loop_is_watched(pair: Pair, loop: str) -> None:
    assert await value(pair.hub, "iris_fed_loop_trouble", loop=loop) == 0
    assert f'iris_fed_loop_restarts{{loop="{loop}"}} 0.0' in await scrape(pair.hub)


async def test_only_who_may_see_the_peers_may_read_the_metrics(world: World, tmp_path: Path) -> None:
    lab = await world.add("lab", h100=8, trusts={"hub": ["*"]}, auth=signing(world, "lab", tmp_path))
    hub = await world.add("hub", peers=("lab",))
    found: dict[str, int] = {}
    for role, token in (await one_of_each(lab, hub)).items():
        headers = {"authorization": f"Bearer {token}"}
        answer = await Client(lab.transport()).execute("GET", f"{lab.url}/metrics", headers)
        found[role.value] = answer.status
    nobody = await Client(lab.transport()).execute("GET", f"{lab.url}/metrics")
    assert found == {"admin": 200, "user": 200, "dashboard": 200, "job": 403, "federation-peer": 403}
    assert nobody.status == 403
    assert b"iris_fed" not in nobody.content


async def test_no_label_is_a_name_that_a_caller_chose(pair: Pair) -> None:
    await pair.hub.client.submit(gpu_job("a-name-of-a-job"))
    await started(pair.lab)
    for cluster in (pair.hub, pair.lab):
        assert "a-name-of-a-job" not in await scrape(cluster)
