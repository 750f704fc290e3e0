"""Two clusters of different people, each behind a Google IAP of its own, and what passes between them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster, end_all
from tests.e2e.command import COMMAND, Ended, Running, clean_environment, iris_fed, poll
from tests.e2e.iap_proxy import IapProxy
from tests.google import Google, KeyServer

HUB_AUDIENCE = "/projects/1/global/backendServices/11"
LAB_AUDIENCE = "/projects/2/global/backendServices/22"
ALICE, BOB, EVE = "alice@hub.org", "bob@hub.org", "eve@elsewhere.org"
HUB_PEOPLE = {"edge-of-alice": ALICE, "edge-of-bob": BOB, "edge-of-eve": EVE}
LAB_PEOPLE = {"edge-of-hub": "hub-robot@hub.iam.example.org", "edge-of-carol": "carol@lab.org", "edge-of-eve": EVE}


@dataclass(frozen=True, slots=True)
class Site:
    hub: Cluster
    lab: Cluster
    hub_front: IapProxy
    lab_front: IapProxy
    google: KeyServer
    home: Path

    def environment(self, front: IapProxy, edge: str, **more: str) -> dict[str, str]:
        """Of somebody who has nothing but an edge token."""
        return clean_environment(
            XDG_CONFIG_HOME=str(self.home / edge),
            IRIS_FED_CONTROLLER=front.url,
            IRIS_FED_EDGE_TOKEN="env:EDGE",
            EDGE=edge,
            **more,
        )

    def at_hub(self, edge: str, *words: str) -> Ended:
        return iris_fed(*words, env=self.environment(self.hub_front, edge))

    def at_lab(self, edge: str, *words: str) -> Ended:
        return iris_fed(*words, env=self.environment(self.lab_front, edge))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("iap")
    with ExitStack() as stack:
        google = stack.enter_context(KeyServer(Google()))

        def iap(audience: str, users: str) -> dict[str, object]:
            entry = {"signed_header_audience": audience, "keys_url": google.url}
            return {"iap": entry, "users": [users], "user_domain": users.removeprefix("*@")}

        hub = Cluster.make(root, "hub", auth=iap(HUB_AUDIENCE, "*@hub.org"), backends=[])
        trust = {"hub": {"public_keys": [hub.public_key], "allowed_submitters": ["alice@hub.org"]}}
        lab = Cluster.make(
            root,
            "lab",
            auth=iap(LAB_AUDIENCE, "*@lab.org") | {"federation_peers": trust},
            backends=[{"id": "local", "devices": {"h100": 8}, "kill_grace_s": 1.0, "shared_uid": "accept"}],
        )
        stack.callback(end_all, root, [hub, lab])
        lab.start()
        lab_front = stack.enter_context(IapProxy(lab.url, google.google, LAB_AUDIENCE, LAB_PEOPLE))
        edge = root / "edge"
        edge.write_text("edge-of-hub\n")
        hub.settings["peers"] = [{"name": "lab", "address": lab_front.url, "edge_token": f"file:{edge}"}]
        hub.start()
        hub_front = stack.enter_context(IapProxy(hub.url, google.google, HUB_AUDIENCE, HUB_PEOPLE))
        poll(lambda: hub.json("peer", "list")["peers"][0].get("reachable"), "hub has reached lab")
        yield Site(hub, lab, hub_front, lab_front, google, root)


def test_a_person_known_by_iap_alone_runs_a_job_at_a_cluster_that_is_behind_another(site: Site) -> None:
    ran = site.at_hub("edge-of-alice", "job", "run", "--name", "far", "--gpu", "H100", "--", "echo", "from the lab")
    assert (ran.code, ran.out) == (0, "from the lab\n"), ran
    listed = json.loads(site.at_hub("edge-of-alice", "job", "list", "--json").out)
    (job,) = listed["jobs"]
    assert (job["jobId"], job["cluster"], job["submittingUser"]) == ("/alice/far", "lab", ALICE)
    # The robot's edge token opens the door; what counts behind it is the federation token.
    assert site.lab_front.passed > 0
    there = json.loads(site.at_lab("edge-of-carol", "job", "list", "--all", "--json").out)
    assert [(one["jobId"], one["submittingUser"]) for one in there["jobs"]] == [("/alice/hub.far", ALICE)]
    for cluster in (site.hub, site.lab):
        assert not [word for word in (*HUB_PEOPLE, *LAB_PEOPLE) if word in cluster.log]


def test_a_log_is_followed_and_a_job_cancelled_through_both(site: Site) -> None:
    env = site.environment(site.hub_front, "edge-of-alice")
    words = ["job", "run", "--name", "long", "--gpu", "H100", "--", "sh", "-c", "echo up; exec sleep 300"]
    with Running([COMMAND, *words], env) as running:
        assert running.line() == "up\n"
        assert site.at_hub("edge-of-bob", "job", "cancel", "/alice/long").code == 125
        assert site.at_hub("edge-of-eve", "job", "cancel", "/alice/long").code == 125
        assert site.at_lab("edge-of-carol", "job", "cancel", "/alice/hub.long").code == 125
        assert site.at_hub("edge-of-alice", "job", "cancel", "/alice/long").code == 0
        assert running.end().code != 0
    assert site.at_hub("edge-of-alice", "job", "describe", "/alice/long").out.count("KILLED") >= 1


def test_whom_the_other_cluster_does_not_admit_is_told_so_and_runs_nothing(site: Site) -> None:
    refused = site.at_hub("edge-of-bob", "job", "run", "--name", "mine", "--gpu", "H100", "--", "true")
    assert refused.code != 0
    assert "bob@hub.org" in refused.err
    assert "hub.mine" not in site.at_lab("edge-of-carol", "job", "list", "--all").out


def test_who_is_not_provisioned_sees_states_and_nothing_more(site: Site) -> None:
    seen = site.at_hub("edge-of-eve", "job", "list", "--all")
    assert (seen.code, "/alice/far" in seen.out) == (0, True), seen
    assert site.at_hub("edge-of-eve", "job", "logs", "/alice/far").code == 125
    assert site.at_hub("edge-of-eve", "job", "run", "--", "true").code == 125
    assert site.at_lab("edge-of-eve", "peer", "list").code == 0


def test_a_signature_for_the_one_cluster_is_none_at_the_other_nor_is_a_name_without_signature(site: Site) -> None:
    with IapProxy(site.lab.url, site.google.google, HUB_AUDIENCE, HUB_PEOPLE) as replaying:
        refused = iris_fed("job", "list", env=site.environment(replaying, "edge-of-alice"))
    assert (refused.code, "audience" in refused.err.lower()) == (125, True), refused
    with IapProxy(site.lab.url, Google(), LAB_AUDIENCE, LAB_PEOPLE) as forging:
        refused = iris_fed("job", "list", env=site.environment(forging, "edge-of-carol"))
    assert refused.code == 125, refused


def test_google_changes_its_key_and_nobody_notices(site: Site) -> None:
    site.google.google.rotate("key-2", drop="key-1")
    ran = site.at_hub("edge-of-alice", "job", "run", "--gpu", "H100", "--", "echo", "still")
    assert (ran.code, ran.out) == (0, "still\n"), ran
    assert site.at_lab("edge-of-carol", "job", "list").code == 0
