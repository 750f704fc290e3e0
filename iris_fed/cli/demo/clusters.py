"""The demo's controllers: real `iris-fed serve` processes with configurations, keys and ports of their own."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iris_fed.cli.context import TOKEN_FILE, URL_FILE
from iris_fed.cli.setup import new_key_pair, write_new
from iris_fed.client import Client
from iris_fed.errors import IrisFedError, Unavailable

START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0
POLL_S = 0.05
LOG_TAIL_BYTES = 2000
HEARTBEATS = {"heartbeat_interval_s": 1.0, "heartbeat_timeout_s": 0.8}
"""Faster than by default, so that an outage is seen while somebody watches."""


@dataclass(slots=True)
class DemoCluster:
    """One cluster in a directory of its own. `settings` is its configuration but for name, port and state."""

    name: str
    directory: Path
    settings: dict[str, Any]
    port: int = 0
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    @property
    def url(self) -> str:
        return (self.state_dir / URL_FILE).read_text(encoding="utf-8").strip()

    @property
    def token_file(self) -> Path:
        return self.state_dir / TOKEN_FILE

    @property
    def log_file(self) -> Path:
        return self.directory / "controller.log"

    def client(self) -> Client:
        return Client(self.url, token=self.token_file.read_text(encoding="ascii").strip())

    async def start(self) -> None:
        """Start the controller and wait until it answers. The port it gets the first time it keeps.

        Raises Unavailable, with the end of its log, when it does not come up.
        """
        config = await asyncio.to_thread(self._prepare)
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "iris_fed.cli", "serve", "--exit-with-parent", "--config", str(config)),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_clean_environment(),
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await self._until_it_answers()
        except TimeoutError:
            raise Unavailable(f"{self.name} did not answer within {START_LIMIT_S:g} s: {self._log_tail()}") from None
        self.port = int(self.url.rpartition(":")[2].strip("/"))

    async def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.process is not None:
            self.process.kill()
            await self._gone()

    async def stop(self) -> None:
        """Ask it to stop, and insist."""
        if self.process is None:
            return
        if self.process.returncode is None:
            self.process.terminate()
        try:
            await self._gone()
        except TimeoutError:
            await self.kill()

    async def _gone(self) -> None:
        assert self.process is not None
        await asyncio.wait_for(self.process.wait(), STOP_LIMIT_S)
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process = None

    def _prepare(self) -> Path:
        """The configuration file, written anew; what a former start announced is gone."""
        self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.state_dir / URL_FILE).unlink(missing_ok=True)
        config = self.directory / "iris-fed.yaml"
        config.write_text(json.dumps(self._configuration(), indent=2), encoding="utf-8")
        return config

    def _configuration(self) -> dict[str, Any]:
        return {
            "cluster": {"name": self.name},
            "state_dir": str(self.state_dir),
            "listen": {"port": self.port},
            **self.settings,
        }

    async def _until_it_answers(self) -> None:
        while True:
            if self.process is not None and self.process.returncode is not None:
                raise Unavailable(f"{self.name} ended at once: {self._log_tail()}")
            if (self.state_dir / URL_FILE).exists() and self.token_file.exists() and await self._answers():
                return
            await asyncio.sleep(POLL_S)

    async def _answers(self) -> bool:
        try:
            async with self.client() as client:
                return (await client.info()).cluster == self.name
        except IrisFedError:
            return False

    def _log_tail(self) -> str:
        lines = self.log_file.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"


def make_clusters(directory: Path) -> tuple[DemoCluster, DemoCluster]:
    """`hub`, CPU only, whose jobs `gpu-lab` accepts, and `gpu-lab` with eight declared H100.

    The hub must be told the other's address once that runs: see `introduce`.
    """
    hub_private, hub_public = new_key_pair()
    hub_directory = directory / "hub"
    hub_directory.mkdir(mode=0o700)
    (directory / "gpu-lab").mkdir(mode=0o700)
    write_new(hub_directory / "signing-key.pem", hub_private, 0o600)
    write_new(hub_directory / "nonce.key", os.urandom(32).hex(), 0o600)
    auth = {
        "signing_key": f"file:{hub_directory / 'signing-key.pem'}",
        "nonce_key": f"file:{hub_directory / 'nonce.key'}",
    }
    hub = DemoCluster("hub", hub_directory, {"auth": auth, "federation": HEARTBEATS})
    gpu_settings = {
        "backends": [{"id": "local", "device_type": "gpu", "devices": {"h100": 8}, "shared_uid": "accept"}],
        "auth": {"federation_peers": {"hub": {"public_keys": [hub_public], "allowed_submitters": ["*"]}}},
    }
    return hub, DemoCluster("gpu-lab", directory / "gpu-lab", gpu_settings)


def introduce(hub: DemoCluster, gpu_lab: DemoCluster) -> None:
    hub.settings["peers"] = [{"name": gpu_lab.name, "address": gpu_lab.url}]


def _clean_environment() -> dict[str, str]:
    """Without variables that would change the demo's configuration, or make it somebody's task."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("IRIS_FED_", "IRIS_"))}
