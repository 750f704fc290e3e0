"""Edge tokens from real files, variables and commands, and how calls go through a proxy that wants them."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
import psutil
import pytest
from connectrpc.errors import ConnectError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from iris_fed.auth import edge_sources
from iris_fed.auth.edge_sources import EdgeTokenUnavailable
from iris_fed.auth.edge_tokens import EdgeToken, open_edge_token
from iris_fed.errors import InvalidArgument
from iris_fed.rpc.connect_client import Channel
from iris_fed.rpc.credentials import Credentials
from iris_fed.rpc.gen.irisfed.cluster_pb2 import GetClusterInfoRequest, ReadLogsRequest
from iris_fed.rpc.unreachable import never_left, why_unreachable

START_MS = 1_800_000_000_000


class Time:
    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def time() -> Time:
    return Time()


class Program:
    """A command that says `answer`, a shell word, and counts how often it was run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "get-token"
        self.says("first")

    def says(self, answer: str, last: str = "") -> None:
        self.path.write_text(f"#!/bin/sh\necho run >> {self._folder}/runs\necho '{answer}'\n{last}\n")
        self.path.chmod(0o755)

    def does(self, script: str) -> None:
        self.path.write_text(f"#!/bin/sh\n{script}\n")
        self.path.chmod(0o755)

    @property
    def runs(self) -> int:
        path = self._folder / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def token(self, time: Time) -> EdgeToken:
        return open_edge_token(f"command:{self.path}", time)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def signed(expires_s: float, name: str = "it") -> str:
    return jwt.encode({"sub": name, "exp": expires_s}, "k" * 32, algorithm="HS256")


async def test_each_source_gives_its_token_without_the_white_space_around_it(
    tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("  of-a-file\n")
    monkeypatch.setenv("EDGE", "of-a-variable")
    assert await open_edge_token(f"file:{tmp_path / 'token'}", time).get() == "of-a-file"
    assert await open_edge_token("env:EDGE", time).get() == "of-a-variable"
    assert await open_edge_token("command:printf '%s\\n' 'of-a-command'", time).get() == "of-a-command"


async def test_many_callers_run_the_command_once(program: Program, time: Time) -> None:
    edge = program.token(time)
    assert set(await asyncio.gather(*(edge.get() for _ in range(20)))) == {"first"}
    assert program.runs == 1


async def test_a_jwt_is_kept_until_a_minute_before_its_end_and_another_five_minutes(
    program: Program, time: Time
) -> None:
    program.says(first := signed(START_MS / 1000 + 3600))
    edge = program.token(time)
    assert await edge.get() == first
    program.says("second")
    time.ms += 3_539_000
    assert await edge.get() == first
    time.ms += 1_000
    assert await edge.get() == "second"
    program.says("third")
    time.ms += 299_000
    assert await edge.get() == "second"
    time.ms += 1_000
    assert await edge.get() == "third"


async def test_while_a_source_fails_an_older_token_serves_to_its_end(program: Program, time: Time) -> None:
    program.says(first := signed(START_MS / 1000 + 3600))
    edge = program.token(time)
    await edge.get()
    program.does("exit 3")
    time.ms += 3_550_000
    assert await edge.get() == first
    time.ms += 50_000
    with pytest.raises(EdgeTokenUnavailable, match="get-token ended with 3"):
        await edge.get()


async def test_a_failing_source_is_asked_every_five_seconds_and_heals(program: Program, time: Time) -> None:
    program.says("x y")
    edge = program.token(time)
    for _ in range(3):
        with pytest.raises(EdgeTokenUnavailable, match="no token"):
            await edge.get()
    assert program.runs == 1
    program.says("healed")
    time.ms += 5_000
    assert await until_healed(edge) == "healed"


async def until_healed(edge: EdgeToken) -> str:
    """Once a source has failed its callers do not wait long for it: some are told no meanwhile."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await edge.get()
            except EdgeTokenUnavailable:
                continue


async def test_a_refused_token_is_replaced_once_it_is_some_seconds_old(program: Program, time: Time) -> None:
    edge = program.token(time)
    first = await edge.get()
    program.says("second")
    assert await edge.get(refused=first) == first
    time.ms += 5_000
    assert await edge.get(refused="of long ago") == first
    assert set(await asyncio.gather(*(edge.get(refused=first) for _ in range(5)))) == {"second"}
    assert program.runs == 2


async def test_a_caller_that_gives_up_does_not_stop_the_source(program: Program, time: Time, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    program.does(f"read word < {tmp_path / 'gate'}; echo $word")
    edge = program.token(time)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await edge.get()
    waiting = asyncio.create_task(edge.get())
    await asyncio.to_thread((tmp_path / "gate").write_text, "at-last\n")
    assert await waiting == "at-last"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 7", "get-token ended with 7"),
        ("echo", "gave nothing"),
        ("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "more than 65536 bytes"),
        ("head -c 20000 /dev/zero | tr '\\0' a", "no token"),
        ("printf '\\303\\251'", "no token"),
        (f"echo {signed(START_MS / 1000 - 1)}", "has expired"),
    ],
)
async def test_what_a_command_does_wrong_is_told_without_what_it_printed(
    program: Program, time: Time, script: str, says: str
) -> None:
    program.does(script)
    with pytest.raises(EdgeTokenUnavailable, match=says) as failed:
        await program.token(time).get()
    assert "aaa" not in str(failed.value)
    assert "eyJ" not in str(failed.value)


async def test_a_command_that_does_not_end_is_killed_with_what_it_started(
    program: Program, time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_sources, "LIMIT_S", 0.5)
    # Its own end is not enough: what it left behind holds its output open.
    program.does(f"sleep 60 & echo $! > {tmp_path / 'pid'}; exit 0")
    with pytest.raises(EdgeTokenUnavailable, match=r"did not end within 0\.5 s"):
        await program.token(time).get()
    psutil.wait_procs([p for p in [process(int((tmp_path / "pid").read_text()))] if p], timeout=5)
    assert process(int((tmp_path / "pid").read_text())) is None


def process(pid: int) -> psutil.Process | None:
    try:
        found = psutil.Process(pid)
        return None if found.status() == psutil.STATUS_ZOMBIE else found
    except psutil.NoSuchProcess:
        return None


async def test_closing_ends_a_command_that_is_under_way(program: Program, time: Time, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    program.does(f"echo $$ > {tmp_path / 'gate'}; exec sleep 60")
    edge = program.token(time)
    waiting = asyncio.create_task(edge.get())
    pid = int(await asyncio.to_thread((tmp_path / "gate").read_text))
    await edge.close()
    with pytest.raises(EdgeTokenUnavailable, match="not got in time"):
        await waiting
    assert process(pid) is None


async def test_a_source_that_is_not_there_is_named(time: Time) -> None:
    with pytest.raises(EdgeTokenUnavailable, match="cannot read /no/such/file"):
        await open_edge_token("file:/no/such/file", time).get()
    with pytest.raises(EdgeTokenUnavailable, match="not set"):
        await open_edge_token("env:NO_SUCH_VARIABLE", time).get()
    with pytest.raises(EdgeTokenUnavailable, match="cannot run no-such-program: No such file"):
        await open_edge_token("command:/no/such/no-such-program", time).get()


async def test_without_the_extra_googles_tokens_say_what_to_install(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.oauth2.id_token", None)
    with pytest.raises(EdgeTokenUnavailable, match=r"pip install 'iris-fed\[google\]'"):
        await open_edge_token("google:aud", time).get()


@pytest.fixture
def issuer() -> Iterator[tuple[str, list[str]]]:
    """Stands for Google's token endpoint: its URL, and the audiences that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            assertion = body.rpartition("assertion=")[2].partition("&")[0]
            asked.append(jwt.decode(assertion, options={"verify_signature": False})["target_audience"])
            answer = json.dumps({"id_token": signed(START_MS / 1000 + 3600, "google")}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token", asked
        server.shutdown()
        thread.join()


async def test_googles_library_gets_a_token_for_the_audience_with_a_service_account(
    issuer: tuple[str, list[str]], time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.oauth2.id_token")
    url, asked = issuer
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "client_email": "a@b.iam", "token_uri": url, "private_key": key.decode()}
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    token = await open_edge_token("google:the-audience", time).get()
    assert jwt.decode(token, options={"verify_signature": False})["sub"] == "google"
    assert asked == ["the-audience"]


@asynccontextmanager
async def refusing(status: str = "401 Unauthorized") -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that refuses everybody: its URL, and the tokens that it was shown."""
    shown: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        shown.append(head.partition("proxy-authorization: bearer ")[2].partition("\r\n")[0])
        body = f"<html><title>Error</title><p>Invalid IAP credentials: {'x' * 50}</p></html>".encode()
        writer.write(f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n".encode())
        writer.write(b"connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", shown
    finally:
        server.close()
        await server.wait_closed()


async def call(channel: Channel, kind: str) -> ConnectError:
    """What a call that is to fail fails with."""
    try:
        if kind == "unary":
            await channel.cluster.get_cluster_info(GetClusterInfoRequest())
        else:
            await anext(channel.streams.read_logs(ReadLogsRequest(id="/a/b")))
    except ConnectError as error:
        return error
    raise AssertionError("it was answered")


@pytest.mark.parametrize("kind", ["unary", "stream"])
async def test_a_refused_call_is_made_once_more_if_there_is_another_token(
    program: Program, time: Time, kind: str
) -> None:
    edge = program.token(time)
    await edge.get()
    async with refusing() as (url, shown):
        channel = Channel(url, credentials=Credentials(edge=edge))
        error = await call(channel, kind)
        assert shown == ["first"]
        time.ms += 5_000
        program.says("second")
        await call(channel, kind)
        assert shown == ["first", "first", "second"]
        await channel.close()
    assert why_unreachable(error) == (
        "something in front of the controller refused: HTTP 401: Invalid IAP credentials: ..."
    )
    assert not never_left(error)


async def test_a_proxy_that_knows_the_token_and_denies_is_not_asked_again(program: Program, time: Time) -> None:
    edge = program.token(time)
    await edge.get()
    time.ms += 5_000
    program.says("second")
    async with refusing("403 Forbidden") as (url, shown):
        channel = Channel(url, credentials=Credentials(edge=edge))
        await call(channel, "unary")
        await channel.close()
    assert shown == ["first"]


@pytest.mark.parametrize("kind", ["unary", "stream"])
async def test_a_call_without_its_token_never_leaves(program: Program, time: Time, kind: str) -> None:
    program.does("exit 1")
    async with refusing() as (url, shown):
        channel = Channel(url, credentials=Credentials(edge=program.token(time)))
        error = await call(channel, kind)
        await channel.close()
    assert never_left(error)
    assert "get-token ended with 1" in why_unreachable(error)
    assert shown == []


async def test_an_edge_token_is_not_sent_in_the_clear(program: Program, time: Time) -> None:
    with pytest.raises(InvalidArgument, match="plain http"):
        Channel("http://far.example.org", credentials=Credentials(edge=program.token(time)))
