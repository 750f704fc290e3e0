"""Runs a controller on a socket until it is told to stop."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from iris_fed.config import Settings
from iris_fed.errors import ConfigError
from iris_fed.server.compose import Controller, running_controller
from iris_fed.telemetry import configure_logging, get_logger
from iris_fed.web.http_protocol import BoundedHttpProtocol
from iris_fed.web.streams import Streams

URL_FILE = "controller.url"
KEEP_ALIVE_S = 120
"""Above the idle time of our clients' pools (60 s), so that no call meets a connection being closed."""
BACKLOG = 512

log = get_logger(__name__)


def run(settings: Settings, *, exit_on_stdin_eof: bool = False) -> int:
    """Serve until SIGTERM or SIGINT (or the end of standard input); returns the exit code.

    Raises ConfigError when it cannot start.
    """
    # Whatever is written in the state directory is this user's alone; tasks get their usual mask back.
    os.umask(0o077)
    configure_logging(settings.log.level, settings.log.format)
    listener = _bind(settings)
    with contextlib.closing(listener), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, listener, exit_on_stdin_eof))
    return 0


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals are ours: they must first end what is held open.
        yield


async def _serve(settings: Settings, listener: socket.socket, exit_on_stdin_eof: bool) -> None:
    url = _url(settings, listener)
    async with running_controller(settings, url) as controller:
        streams = Streams(controller.asgi)
        server = _Server(
            uvicorn.Config(
                streams,
                http=BoundedHttpProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, int(settings.shutdown_grace_s)),
                backlog=BACKLOG,
            )
        )
        _stop_on_signals(server, controller, streams, exit_on_stdin_eof)
        _write_url(settings, url)
        log.info("controller.serving", cluster=settings.cluster.name, url=url, database=controller.meta.database_id)
        await server.serve(sockets=[listener])
    log.info("controller.stopped", cluster=settings.cluster.name)


def _bind(settings: Settings) -> socket.socket:
    host, port = settings.listen.host, settings.listen.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; is another controller running? "
            "Set listen.port to another port, or to 0 for any free one"
        ) from error
    return listener


def _url(settings: Settings, listener: socket.socket) -> str:
    host = settings.listen.host
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def _write_url(settings: Settings, url: str) -> None:
    """Where the command line, on this machine, finds this controller."""
    draft = settings.state_dir / (URL_FILE + ".new")
    draft.write_text(url + "\n")
    os.replace(draft, settings.state_dir / URL_FILE)


def _stop_on_signals(server: _Server, controller: Controller, streams: Streams, exit_on_stdin_eof: bool) -> None:
    loop = asyncio.get_running_loop()

    def stop(reason: str) -> None:
        log.info("controller.stopping", reason=reason)
        # Long polls and streams end first: a graceful shutdown waits for what is under way.
        controller.feed.stop()
        streams.stop()
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    if exit_on_stdin_eof:
        loop.add_reader(sys.stdin.fileno(), _watch_stdin, loop, stop)


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[str], None]) -> None:
    if os.read(sys.stdin.fileno(), 4096) == b"":
        loop.remove_reader(sys.stdin.fileno())
        stop("standard input ended")
