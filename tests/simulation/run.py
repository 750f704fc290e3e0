"""`python -m tests.simulation`: runs seeds, each in a process of its own that starts out the same every time.

The order in which a set is walked may follow from addresses and hashes: so seeds run with address
randomisation off, hash seed 0, and forked from a worker that was always called the same way.
"""

import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any

from tests.simulation.addresses import WORKER
from tests.simulation.simulation import DEFAULT_ACTIONS, simulate

HUNG_AFTER_S = 120
LAST_EVENTS = 40
Found = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Exit code 0 = no violation."""
    if arguments == [WORKER]:
        serve_seeds()
        return 0
    options = _parse(arguments)
    failed = 0
    started = time.monotonic()
    seeds = [seed for text in options.seeds for seed in _seeds(text)]
    for found in run_seeds(seeds, options.steps, options.jobs):
        failed += bool(found["violation"])
        _report(found, options)
    _say(f"{len(seeds)} seeds in {time.monotonic() - started:.1f} s, {failed} with a violation")
    return 1 if failed else 0


def run_seeds(seeds: list[int], actions: int, jobs: int) -> Iterator[Found]:
    """The outcome of each, in order."""
    idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    workers = [_start_worker() for _ in range(min(jobs, len(seeds)))]
    for worker in workers:
        idle.put(worker)

    def run(seed: int) -> Found:
        worker = idle.get()
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(f"{seed:012d} {actions:06d}\n")
        worker.stdin.flush()
        found: Found = json.loads(worker.stdout.readline())
        idle.put(worker)
        return found

    try:
        with ThreadPoolExecutor(max(1, len(workers))) as pool:
            yield from pool.map(run, seeds)
    finally:
        for worker in workers:
            worker.communicate()


def serve_seeds() -> None:
    """What a worker does: a line with seed and actions comes in, a JSON line goes out."""
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        seed, actions = line.split()
        child = os.fork()
        if child == 0:
            _simulate_here(int(seed), int(actions))
        _, status = os.waitpid(child, 0)
        if status:
            words = f"it did not end within {HUNG_AFTER_S} s, or died (status {status})"
            _tell({"seed": int(seed), "violation": words, "trace_hash": "", "events": [], "steps": 0, "counts": {}})


def _simulate_here(seed: int, actions: int) -> None:
    signal.alarm(HUNG_AFTER_S)
    # Collecting at a moment that depends on what ran before would run finalizers at another step.
    gc.disable()
    started = time.monotonic()
    outcome = asdict(simulate(seed, actions))
    _tell(outcome | {"took_s": round(time.monotonic() - started, 3)})
    os._exit(0)


def _tell(found: Found) -> None:
    _say(json.dumps(found))


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def _start_worker() -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.simulation", WORKER]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONHASHSEED": "0", "PATH": os.defpath, "HOME": "/"},
    )


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seeds", nargs="*", default=["1-20"], help="SEED or FIRST-LAST")
    parser.add_argument("--steps", type=int, default=DEFAULT_ACTIONS, help="actions of users and faults per seed")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--jobs", type=int, default=2, help="seeds run at a time")
    return parser.parse_args(arguments)


def _seeds(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(first)]


def _report(found: Found, options: argparse.Namespace) -> None:
    events = found["events"]
    if options.trace:
        _say("\n".join(events))
    elif found["violation"]:
        _say("\n".join(events[-LAST_EVENTS:]))
    took = f"{found.get('took_s', 0):.2f} s, {found['steps']} steps, {found.get('virtual_s', 0):.0f} s of virtual time"
    _say(f"seed {found['seed']}: {found['violation'] or 'ok'} · trace {found['trace_hash']} · {took}")
    if found["violation"]:
        _say(f"replay: python -m tests.simulation {found['seed']} --steps {options.steps} --trace")
