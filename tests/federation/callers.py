"""Everybody who may ask a controller something, each with a credential of its own."""

import json
import struct
from pathlib import Path
from typing import Any

from pyqwest import Client, Request, Response, Transport

from iris_fed.auth.identity import Role
from iris_fed.auth.task_tokens import TaskTokens, ensure_task_key
from iris_fed.client import Client as Sdk
from iris_fed.rpc.connect_client import Channel
from tests.federation.world import Cluster, World, cpu_job, started

DOMAIN = "lab.org"


def signing(world: World, name: str, directory: Path) -> dict[str, Any]:
    """Settings with which `name` makes user tokens."""
    path = directory / f"{name}-signing.pem"
    path.write_text(world.key(name))
    return {"signing_key": f"file:{path}", "user_domain": DOMAIN}


async def token_of(cluster: Cluster, user: str, role: str = "user") -> str:
    return (await cluster.client.create_token(user, role=role)).token


async def person(cluster: Cluster, user: str, role: str = "user") -> Sdk:
    return Sdk(cluster.url, token=await token_of(cluster, user, role), transport=cluster.transport())


class _Showing(Transport):
    def __init__(self, inner: Transport, headers: dict[str, str]) -> None:
        self._inner = inner
        self._headers = headers

    async def execute(self, request: Request) -> Response:
        request.headers.update(self._headers.items())
        return await self._inner.execute(request)


def with_headers(cluster: Cluster, headers: dict[str, str]) -> Channel:
    """Calls that show what a real client would not."""
    return Channel(cluster.url, transport=_Showing(cluster.transport(), headers))


async def bearer(cluster: Cluster, user: str, role: str = "user") -> Channel:
    return with_headers(cluster, {"authorization": f"Bearer {await token_of(cluster, user, role)}"})


async def task_token(cluster: Cluster) -> str:
    """Of a task of a job that runs there."""
    job_id = await cluster.client.submit(cpu_job("home"))
    await started(cluster)
    (row,) = await cluster.rows(
        "SELECT attempt_uid FROM attempts JOIN jobs ON jobs.uid = attempts.job_uid WHERE job_id = ?", job_id
    )
    return TaskTokens(ensure_task_key(cluster.state_dir)).mint(row["attempt_uid"])


async def one_of_each(cluster: Cluster, peer: Cluster) -> dict[Role, str]:
    """A bearer token for every role; `peer` is trusted by `cluster`."""
    return {
        Role.ADMIN: cluster.running.admin_token,
        Role.USER: await token_of(cluster, "alice"),
        Role.DASHBOARD: await token_of(cluster, "eve", "dashboard"),
        Role.FEDERATION_PEER: peer.token_for(cluster.name),
        Role.JOB: await task_token(cluster),
    }


STREAMS = frozenset({"ReadLogs", "ReadFile"})


async def post(cluster: Cluster, method: str, body: bytes = b"{}", **headers: str) -> tuple[str, str]:
    """One call without our client, in JSON: the code and message of its refusal, both '' when it is done.
    `_` in a header's name stands for `-`."""
    streams = method.rpartition("/")[2] in STREAMS
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent["content-type"] = "application/connect+json" if streams else "application/json"
    content = struct.pack(">BI", 0, len(body)) + body if streams else body
    answer = await Client(cluster.transport()).execute("POST", f"{cluster.url}/{method}", sent, content)
    text = _last_envelope(answer.content) if streams and answer.status == 200 else answer.content
    if not text.startswith(b"{"):
        return f"http {answer.status}", text.decode()
    told = json.loads(text)
    error = told.get("error", {}) if streams else told if answer.status != 200 else {}
    return error.get("code", ""), error.get("message", "")


def _last_envelope(content: bytes) -> bytes:
    part, at = b"", 0
    while at < len(content):
        size = struct.unpack_from(">BI", content, at)[1]
        part, at = content[at + 5 : at + 5 + size], at + 5 + size
    return part
