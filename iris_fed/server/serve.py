"""Runs a controller on a socket until it is told to stop."""

import asyncio
import contextlib
import faulthandler
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

import uvicorn
import uvloop

from iris_fed.config.listen import networks
from iris_fed.config.settings import Settings
from iris_fed.errors import ConfigError
from iris_fed.server.compose import Controller, Parts, running_controller
from iris_fed.server.traces import open_tracing
from iris_fed.telemetry import configure_logging, get_logger
from iris_fed.web.connections import Connections
from iris_fed.web.http_protocol import bounded_by
from iris_fed.web.streams import Streams

URL_FILE = "controller.url"
KEEP_ALIVE_S = 120
"""Above the idle time of our clients' pools (60 s), so that no call meets a connection being closed."""
BACKLOG = 512
METRICS_HOST = "127.0.0.1"
METRICS_CONNECTIONS = 16
REQUESTS_SHARE = 0.7
"""Of the grace of a shutdown."""

log = get_logger(__name__)


def run(settings: Settings, *, exit_on_stdin_eof: bool = False) -> int:
    """Serve until SIGTERM or SIGINT (or the end of standard input); returns the exit code.

    Raises ConfigError when it cannot start.
    """
    # Whatever is written in the state directory is this user's alone; tasks get their usual mask back.
    os.umask(0o077)
    configure_logging(settings.log.level, settings.log.format)
    listener = _bind(settings.listen.host, settings.listen.port, "listen.port")
    stop = _Stop(settings.shutdown_grace_s)
    with contextlib.closing(listener), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve(settings, listener, stop, exit_on_stdin_eof))
        except asyncio.CancelledError:
            if not stop.asked:
                raise
    return 0


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals are ours: they must first end what is held open.
        yield


class _Stop:
    """What ends the process when it is asked to. It is gone after `grace_s` seconds, whatever hangs."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._starting: asyncio.Task[None] | None = None
        self._end: Callable[[], None] | None = None
        self._server: _Server | None = None
        self.asked = False

    @property
    def requests_s(self) -> int:
        """Requests under way may take this long; the rest of the grace is for closing the database."""
        return max(1, int(self._grace_s * REQUESTS_SHARE))

    def starting(self, task: "asyncio.Task[None] | None") -> None:
        """A stop cancels `task` from now on, until `serving` is said."""
        self._starting = task

    def serving(self, server: "_Server", end: Callable[[], None]) -> None:
        """A stop calls `end` and lets the server finish from now on."""
        self._server, self._end = server, end

    def __call__(self, reason: str) -> None:
        log.info("controller.stopping", reason=reason)
        if not self.asked:
            # A thread of its own, so that even a blocked event loop does not keep the process. It shows what hung,
            # and what is cut off is repaired at the next start, as after a crash.
            faulthandler.dump_traceback_later(max(self._grace_s, self.requests_s + 1.0), exit=True)
        elif self._server is not None:
            self._server.force_exit = True
        if self._server is not None and self._end is not None:
            self._end()
            self._server.should_exit = True
        elif not self.asked and self._starting is not None:
            self._starting.cancel()
        self.asked = True


async def _serve(settings: Settings, listener: socket.socket, stop: _Stop, exit_on_stdin_eof: bool) -> None:
    url = _url(settings, listener)
    stop.starting(asyncio.current_task())
    _stop_on_signals(stop, exit_on_stdin_eof)
    log.debug("controller.starting", cluster=settings.cluster.name)
    parts = Parts(tracing=open_tracing(settings.cluster.name, os.environ))
    async with running_controller(settings, url, parts) as controller:
        streams = Streams(controller.asgi)
        server = _Server(
            uvicorn.Config(
                streams,
                http=bounded_by(_connections(settings)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=stop.requests_s,
                backlog=BACKLOG,
            )
        )
        stop.serving(server, partial(_end_what_is_held, controller, streams))
        _write_url(settings, url)
        log.info("controller.serving", cluster=settings.cluster.name, url=url, database=controller.meta.database_id)
        async with _metrics_served(settings, controller):
            await server.serve(sockets=[listener])
    log.info("controller.stopped", cluster=settings.cluster.name)


@contextlib.asynccontextmanager
async def _metrics_served(settings: Settings, controller: Controller) -> AsyncIterator[None]:
    """On a port of loopback of their own, where there is one."""
    port = settings.listen.metrics_port
    if port is None:
        yield
        return
    with contextlib.closing(_bind(METRICS_HOST, port, "listen.metrics_port")) as listener:
        server = _Server(
            uvicorn.Config(
                controller.metrics.alone(),
                http=bounded_by(Connections(METRICS_CONNECTIONS, METRICS_CONNECTIONS)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        log.info("metrics.serving", url=f"http://{METRICS_HOST}:{listener.getsockname()[1]}/metrics")
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="metrics")
        try:
            yield
        finally:
            server.should_exit = True
            await serving


def _connections(settings: Settings) -> Connections:
    """Half of the files that this process may open are left to the database, the launcher and the peers."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = settings.limits.connections
    if files != resource.RLIM_INFINITY:
        most = min(most, files // 2)
    return Connections(most, settings.limits.connections_per_address, networks(settings.listen.trusted_proxies))


def _end_what_is_held(controller: Controller, streams: Streams) -> None:
    """Long polls and streams end first: a graceful shutdown waits for what is under way."""
    controller.answer_held()
    streams.stop()


def _bind(host: str, port: int, setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; is another controller running? "
            f"Set {setting} to another port, or to 0 for any free one"
        ) from error
    return listener


def _url(settings: Settings, listener: socket.socket) -> str:
    # What listens on every address is reached under loopback's, from here and by its tasks.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.listen.host, settings.listen.host)
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def _write_url(settings: Settings, url: str) -> None:
    """Where the command line, on this machine, finds this controller."""
    draft = settings.state_dir / (URL_FILE + ".new")
    draft.write_text(url + "\n")
    os.replace(draft, settings.state_dir / URL_FILE)


def _stop_on_signals(stop: _Stop, exit_on_stdin_eof: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    if exit_on_stdin_eof:
        loop.add_reader(sys.stdin.fileno(), _watch_stdin, loop, stop)


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[str], None]) -> None:
    if os.read(sys.stdin.fileno(), 4096) == b"":
        loop.remove_reader(sys.stdin.fileno())
        stop("standard input ended")
