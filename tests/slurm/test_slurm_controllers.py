"""A laptop's cluster hands jobs to one that drives Slurm, which dies in every phase of them."""

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clusters import Cluster, end_all
from tests.e2e.command import iris_fed, poll
from tests.slurm.real import Slurm, overlaid


@dataclass(frozen=True, slots=True)
class Pair:
    """`hub` has CPUs only; `lab` has the Slurm cluster. What lies in `root`'s `bin` comes before Slurm's commands."""

    root: Path
    hub: Cluster
    lab: Cluster


@pytest.fixture(scope="module")
def pair(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    root = tmp_path_factory.mktemp("pair")
    both: list[Cluster] = []
    try:
        yield lab_and_hub(root, both)
    finally:
        slurm.empty()
        end_all(root, both)


def lab_and_hub(root: Path, own: list[Cluster]) -> Pair:
    hub = Cluster.make(root, "hub")
    trust = {"hub": {"public_keys": [hub.public_key], "allowed_submitters": ["*"]}}
    slurm = {
        "kind": "slurm",
        "shared_dir": str(root / "lab-shared"),
        "python": sys.executable,
        "shared_uid": "accept",
        "kill_grace_s": 1.0,
        "poll_interval_s": 0.5,
        "lost_after_s": 5.0,
        "command_timeout_s": 5.0,
        "bin_dir": str(root / "bin"),
    }
    (root / "bin").mkdir()
    lab = Cluster.make(root, "lab", auth={"federation_peers": trust}, backends=[slurm])
    own.append(lab)
    lab.start()
    hub.settings["peers"] = [{"name": "lab", "address": lab.url}]
    own.append(hub)
    hub.start()
    poll(lambda: hub.json("peer", "list")["peers"][0].get("reachable"), "hub has reached lab")
    return Pair(root, hub, lab)


def counting(root: Path, then: str) -> tuple[str, ...]:
    """A command that notes that it runs, and then does what is told."""
    return "sh", "-c", f"echo run >> {root}/runs; {then}"


def runs(root: Path) -> int:
    return len((root / "runs").read_text().split()) if (root / "runs").exists() else 0


def until_gate(root: Path, code: int) -> str:
    return f"while [ ! -e {root}/gate ]; do sleep 0.05; done; exit {code}"


def test_an_h100_job_of_the_hub_runs_on_slurm_and_is_seen_from_the_hub(slurm: Slurm, pair: Pair) -> None:
    hub = pair.hub
    script = "echo on $SLURMD_NODENAME with $CUDA_VISIBLE_DEVICES; exit 3"
    ended = hub.run("job", "run", "--name", "train", "--gpu", "H100x2", "--", "sh", "-c", script)
    assert ended.code == 3
    assert re.fullmatch(r"on n[12] with 0,1\n", ended.out)
    hub.submit("--name", "long", "--gpu", "H100x8", "--", "sh", "-c", "echo up; exec sleep 1000")
    hub.until("long", "RUNNING")
    hub.submit("--name", "next", "--gpu", "H100x8", "--", "true")
    waiting = "waiting in the queue of slurm: for machines to become free (Slurm job "
    poll(lambda: waiting in hub.run("job", "list").out, "the hub says what Slurm waits for")
    said = hub.run("job", "exec", "long", "--", "sh", "-c", "echo $SLURM_JOB_ID; exit 6")
    assert (said.code, said.out.strip(), said.err) == (6, slurm.job_ids(hub.attempt("long")["attemptUid"])[0], "")
    with hub.begin("job", "logs", "-f", "long") as logs:
        assert logs.until("up")
    assert hub.run("job", "cancel", "long").code == 0
    hub.until("long", "KILLED")
    hub.until("next", "SUCCEEDED")


@pytest.mark.parametrize("phase", ["waiting", "running", "ended", "submitting"])
def test_a_job_outlives_the_death_of_the_slurm_sides_controller_and_runs_once(
    slurm: Slurm, pair: Pair, tmp_path: Path, phase: str
) -> None:
    hub, lab = pair.hub, pair.lab
    theirs = ""
    if phase == "waiting":
        words = ("sbatch", "--parsable", "--exclusive", "--nodes=3", "--mem=0", "--output=/dev/null")
        theirs = slurm.ask(*words, text="#!/bin/sh\nsleep 1000\n").stdout.strip()
        poll(lambda: set(slurm.states().values()) == {"allocated"}, "all nodes are taken")
    if phase == "submitting":
        # Slurm has it, the controller has not heard so yet.
        sbatch = pair.root / "bin" / "sbatch"
        real = "/usr/bin/sbatch"
        sbatch.write_text(
            f'#!/bin/sh\n{real} "$@" > /dev/null\ntouch {tmp_path}/submitted\n{until_gate(tmp_path, 1)}\n'
        )
        sbatch.chmod(0o755)
    hub.submit("--name", phase, "--gpu", "H100x1", "--", *counting(tmp_path, until_gate(tmp_path, 5)))
    match phase:
        case "waiting":
            poll(lambda: "in the queue of slurm" in hub.run("job", "list").out, "it waits in Slurm")
        case "submitting":
            poll((tmp_path / "submitted").exists, "Slurm has it")
        case _:
            hub.until(phase, "RUNNING")
    lab.kill()
    if phase == "submitting":
        (pair.root / "bin" / "sbatch").unlink()
    if phase == "ended":
        (tmp_path / "gate").touch()
        poll(lambda: not slurm.active(), "it has ended unseen")
    if theirs:
        slurm.ask("scancel", theirs)
    lab.start()
    (tmp_path / "gate").touch()
    hub.until(phase, "FAILED")
    assert hub.attempt(phase)["exitCode"] == 5
    assert (runs(tmp_path), hub.attempt(phase).get("attemptId", 0)) == (1, 0)


def test_the_check_says_what_is_missing_before_anything_is_submitted(slurm: Slurm, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    backend: dict[str, Any] = {"kind": "slurm", "shared_dir": str(shared), "python": sys.executable}
    lab = Cluster.make(tmp_path, "lab", backends=[backend])
    lab.write_config()
    assert not problems_of(lab, 0)
    backend |= {"shared_dir": "/nonexistent/dir", "partitions": ["main", "missing"], "accounting": True}
    lab.write_config()
    problems = problems_of(lab, 1)
    assert "is no directory here" in problems["shared_dir /nonexistent/dir"]
    assert "nvalid partition" in problems["a job in partition missing"]
    assert "accounting storage is disabled" in problems["sacct"]
    assert "a job in partition main" not in problems
    with overlaid({"PATH": os.path.dirname(sys.executable)}):
        missing = problems_of(lab, 1)
    assert missing.keys() >= {"sbatch", "squeue", "scancel"}
    assert not slurm.active()


def problems_of(cluster: Cluster, code: int) -> dict[str, str]:
    ended = iris_fed("backend", "check", "--json", "--config", str(cluster.config))
    assert ended.code == code, ended
    return {one["about"]: one["problem"] for one in json.loads(ended.out)["findings"] if one["problem"]}
