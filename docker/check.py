"""Builds the image and runs what `compose.yaml` describes, without a Docker engine: `python docker/check.py`, as root.

Needs Debian's buildah, runc and debootstrap (for a base image, where no registry is reached: `--mirror URL`), or
`--base IMAGE`. Compose's part is played by runc: the same image, commands, variables, users, mounts and read-only
root, read from compose.yaml; the network is this machine's. What it leaves behind lies below `--work`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = ROOT / "docker" / "compose.yaml"
IMAGE = "localhost/iris-fed"
BASE = "localhost/iris-fed-base"
BASE_PACKAGES = "ca-certificates,python3,python3-venv,python3-pip"
UID = 10001
LIMIT_S = 60.0
ENVIRONMENT = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}


def say(what: str) -> None:
    print(f"==> {what}", flush=True)


def run(*argv: str, check: bool = True, limit_s: float = 900.0) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        argv, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, timeout=limit_s, check=check
    )
    return done.stdout


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok: {what}", flush=True)


def until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not look():
        if time.monotonic() > deadline:
            raise SystemExit(f"FAILED: not within {LIMIT_S:g} s: {what}")
        time.sleep(0.2)
    print(f"ok: {what}", flush=True)


def build(work: Path, base: str, mirror: str, extra: list[str]) -> dict[str, Any]:
    """The image, from `base` or from packages of `mirror`; its configuration."""
    if not base and not run("buildah", "images", "-q", BASE, check=False).strip():
        say("base image")
        rootfs = work / "base"
        run("debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", "bookworm", str(rootfs), mirror)
        container = run("buildah", "from", "scratch").strip()
        run("buildah", "copy", "-q", container, str(rootfs), "/")
        run("buildah", "commit", "-q", "--rm", container, BASE)
        shutil.rmtree(rootfs)
    say("image")
    run(
        *("buildah", "bud", "--quiet", "--format", "docker", "--network", "host", *extra),
        *("--build-arg", f"BASE={base or BASE}", "-f", "docker/Dockerfile", "-t", IMAGE, "."),
    )
    inspected: dict[str, Any] = json.loads(run("buildah", "inspect", "--type", "image", IMAGE))["Docker"]["config"]
    return inspected


@dataclass(slots=True)
class Container:
    """One service of compose.yaml, as runc runs it."""

    name: str
    service: Mapping[str, Any]
    image: Mapping[str, Any]
    rootfs: Path
    work: Path
    process: subprocess.Popen[bytes] | None = None
    number: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"iris-fed-{self.name}-{os.getpid()}-{self.number}"

    @property
    def log(self) -> str:
        return (self.work / f"{self.name}.log").read_text()

    def start(self) -> None:
        self.number += 1
        bundle = self.work / "bundles" / self.id
        bundle.mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(self._config()))
        with (self.work / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["runc", "run", "--bundle", str(bundle), self.id], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def exec(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """As `docker compose exec`."""
        return subprocess.run(
            ["runc", "exec", self.id, *argv], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    def is_healthy(self) -> bool:
        """By the image's own check."""
        test = self.image["Healthcheck"]["Test"]
        return self.exec(*test[1:]).returncode == 0

    def signal(self, name: str) -> None:
        run("runc", "kill", self.id, name)

    def ended(self) -> int:
        assert self.process is not None
        code = self.process.wait(LIMIT_S)
        run("runc", "delete", "--force", self.id, check=False)
        return code

    def _config(self) -> dict[str, Any]:
        spec: dict[str, Any] = json.loads(_spec(self.work))
        entrypoint = self.service.get("entrypoint") or self.image["Entrypoint"]
        command = self.service.get("command") or ([] if "entrypoint" in self.service else self.image["Cmd"])
        uid, gid = (int(part) for part in self.image["User"].split(":"))
        variables = [f"{name}={value}" for name, value in self.service.get("environment", {}).items()]
        spec["process"] |= {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": [*entrypoint, *command],
            "env": [*self.image["Env"], *variables],
            "cwd": self.image.get("WorkingDir") or "/",
            "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")},
            "noNewPrivileges": True,
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 4096}],
        }
        spec["root"] = {"path": str(self.rootfs), "readonly": bool(self.service.get("read_only"))}
        namespaces = [one for one in spec["linux"]["namespaces"] if one["type"] != "network"]
        spec["linux"] |= {"namespaces": namespaces, "cgroupsPath": f"/{self.id}"}
        for entry in self.service.get("tmpfs", []):
            target, _, options = entry.partition(":")
            listed = ["nosuid", "nodev", *filter(None, options.split(","))]
            spec["mounts"].append({"destination": target, "type": "tmpfs", "source": "tmpfs", "options": listed})
        spec["mounts"] += [self._mount(volume) for volume in self.service.get("volumes", [])]
        return spec

    def _mount(self, volume: str) -> dict[str, Any]:
        source, target, *options = volume.split(":")
        path = (COMPOSE.parent / source).resolve() if source.startswith(".") else self.work / "volumes" / source
        if not path.exists():
            # As an engine fills a new volume: with the owner that the image gave the place.
            path.mkdir(parents=True)
            shutil.copystat(self.rootfs / target.lstrip("/"), path)
            os.chown(path, UID, UID)
        mode = "ro" if options == ["ro"] else "rw"
        return {"destination": target, "type": "bind", "source": str(path), "options": ["rbind", mode]}


def _spec(work: Path) -> str:
    folder = work / "spec"
    if not folder.exists():
        folder.mkdir()
        run("runc", "spec", "--bundle", str(folder))
    return (folder / "config.json").read_text()


def check_image(image: Mapping[str, Any], rootfs: Path) -> None:
    expect(image["User"] == f"{UID}:{UID}", "the image names a user that is not root")
    expect(image.get("StopSignal") == "SIGTERM", "it is stopped by SIGTERM")
    expect("/var/lib/iris-fed" in image["Volumes"], "its state is a volume")
    sbom = json.loads((rootfs / "opt/iris-fed/sbom.cdx.json").read_text())
    held = {one["name"].lower(): one["version"] for one in sbom["components"]}
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    loose = {name for name, version in held.items() if pinned.get(name.replace("_", "-")) not in (version, None)}
    expect(not loose and "uvicorn" in held, f"the SBOM lists {len(held)} packages, in the versions of constraints.txt")
    expect(not list((rootfs / "opt/iris-fed/bin").glob("pip*")), "no installer is left in it")
    size = sum(path.lstat().st_size for path in (rootfs / "opt/iris-fed").rglob("*") if not path.is_symlink())
    print(f"    /opt/iris-fed: {size / 1e6:.0f} MB", flush=True)


def check_federation(make: Callable[[str], Container]) -> None:
    say("keys")
    for name in ("hub-keys", "lab-keys"):
        keys = make(name)
        keys.start()
        expect(keys.ended() == 0, f"{name} ends with 0")
    say("two clusters")
    hub, lab = make("hub"), make("lab")
    for one in (lab, hub):
        one.start()
        until(one.is_healthy, f"{one.name} is healthy by the image's own check")
    try:
        _check_inside(hub)
        _check_handoff(hub, lab)
    finally:
        for one in (hub, lab):
            if one.process is not None and one.process.poll() is None:
                one.signal("KILL")
                one.ended()


def _check_inside(hub: Container) -> None:
    expect(hub.exec("id", "-u").stdout.strip() == str(UID), "the controller is not root")
    touched = hub.exec("sh", "-c", "echo x > /opt/iris-fed/x")
    expect("Read-only" in touched.stderr, "the root file system is read-only")
    until(lambda: " yes " in hub.exec("iris-fed", "peer", "list").stdout, "hub reaches lab")


def _check_handoff(hub: Container, lab: Container) -> None:
    ran = hub.exec("iris-fed", "job", "run", "--name", "far", "--gpu", "H100", "--", "echo", "on the lab")
    expect((ran.returncode, ran.stdout) == (0, "on the lab\n"), f"a job is handed off and runs: {ran.stderr[-300:]}")

    say("promise 10: what ends with its container is tried again")
    program = 'test -e "$0" && exit 0; touch "$0"; exec sleep 600'
    words = ["--name", "long", "--gpu", "H100", "--max-retries-preemption", "1", "--no-wait"]
    hub.exec("iris-fed", "job", "run", *words, "--", "sh", "-c", program, "/var/lib/iris-fed/once")
    until(lambda: "RUNNING" in hub.exec("iris-fed", "job", "list").stdout, "a long job runs")
    lab.signal("KILL")
    lab.ended()
    lab.start()
    until(lab.is_healthy, "lab is back on the same volume")
    until(lambda: "/long  SUCCEEDED" in hub.exec("iris-fed", "job", "list").stdout, "the second try succeeds")
    told = hub.exec("iris-fed", "job", "describe", "long").stdout
    expect("WORKER_FAILED" in told, "the first attempt is WORKER_FAILED, with its reason:")
    print("\n".join(f"    {line.strip()}" for line in told.splitlines() if "WORKER_FAILED" in line), flush=True)

    say("stopping")
    for one in (hub, lab):
        one.signal("TERM")
        expect(one.ended() == 0, f"{one.name} ends with 0 at SIGTERM")
    hub.start()
    until(hub.is_healthy, "hub is back on the same volume")
    expect("/far " in hub.exec("iris-fed", "job", "list", "--all").stdout, "it knows its jobs")
    hub.signal("TERM")
    expect(hub.ended() == 0, "and ends again")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="", help="a base image with Python 3.11 or later")
    parser.add_argument("--mirror", default="", help="of Debian packages, for a base image of its own")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/iris-fed-image"), help="where it works")
    parser.add_argument("buildah", nargs="*", help="further arguments for `buildah bud`, behind --")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("run it as root: it makes containers")
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True, mode=0o755)
    image = build(options.work, options.base, options.mirror, options.buildah)
    container = run("buildah", "from", IMAGE).strip()
    try:
        rootfs = Path(run("buildah", "mount", container).strip())
        check_image(image, rootfs)
        services = yaml.safe_load(COMPOSE.read_text())["services"]
        check_federation(lambda name: Container(name, services[name], image, rootfs, options.work))
    finally:
        run("buildah", "rm", container)
    say("all of it holds")


if __name__ == "__main__":
    main()
