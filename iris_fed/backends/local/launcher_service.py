"""What the launcher does for a controller. The protocol, one JSON object a line:

Requests carry `id` and `op`; each gets one answer with its `id`, and `error` when it failed.

    hello                                   -> pid, protocol
    launch  uid argv env record contain output_bytes memory_bytes timeout_ms grace_s
            marker setup_timeout_ms secrets (names of files to remove at the end)
            account ([uid, gid, groups] to run as, or null)
                                            -> known: true when this uid was started before
    kill    uid                             -> {}
    list                                    -> alive: [{uid, started_ms, building, usage}]
    watch   uid offset                      -> alive, end; `output` follows once there is more
    shutdown                                -> {}; everything is killed, then the launcher leaves

Pushed to every connection: {event: started, uid, started_ms, building}, {event: running, uid,
started_ms} when the output held `marker` (setup is done), {event: sampled, uid, usage},
{event: output, uid, end}, {event: ended, uid, record} with the content of `exit.json`.
Standard library only.
"""

import contextlib
import os
import selectors
import socket
import struct
from collections.abc import Callable

from iris_fed.backends.local import names
from iris_fed.backends.local.launcher_connection import Connection
from iris_fed.backends.posix.attempt import Attempt
from iris_fed.backends.posix.attempts import Attempts
from iris_fed.backends.posix.files import Record
from iris_fed.backends.posix.loop import Loop

PROTOCOL = 2
MAX_CONNECTIONS = 8
_PEER_CREDENTIALS = struct.Struct("iII")


class Service:
    """Answers controllers; `Attempts` does the work."""

    def __init__(self, loop: Loop, idle_s: float) -> None:
        self._loop = loop
        self._idle_s = idle_s
        self._idle_since = 0
        self._leaving = False
        self._connections: list[Connection] = []
        self._watches: dict[str, int] = {}
        self._attempts = Attempts(loop, self._tell, self._has_output)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._answers: dict[str, Callable[[Record], Record]] = {
            "hello": self._hello,
            "launch": self._attempts.launch,
            "kill": self._kill,
            "list": self._list,
            "watch": self._watch,
            "shutdown": self._shutdown,
        }

    def listen(self) -> None:
        """On a path relative to the state directory, since a socket's path is at most 108 bytes."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(names.SOCKET)
        self._listener.bind(names.SOCKET)
        self._listener.listen(MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self._loop.watch(self._listener.fileno(), selectors.EVENT_READ, self._accept)
        self._attempts.start(self._leave_when_done, self._told_to_stop)
        self._consider_leaving()

    def run(self) -> None:
        self._loop.run()
        self._attempts.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(names.SOCKET)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            peer, _ = self._listener.accept()
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
            _, uid, _ = _PEER_CREDENTIALS.unpack(credentials)
            if uid not in (0, os.getuid()) or len(self._connections) >= MAX_CONNECTIONS:
                peer.close()
                return
            self._connections.append(Connection(self._loop, peer, self._answer, self._forget))

    def _answer(self, connection: Connection, request: Record) -> None:
        answer: Record = {"id": request.get("id")}
        try:
            answer.update(self._answers[request["op"]](request))
        except (OSError, KeyError, TypeError, ValueError) as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        connection.send(answer)

    def _hello(self, request: Record) -> Record:
        return {"pid": os.getpid(), "protocol": PROTOCOL}

    def _kill(self, request: Record) -> Record:
        self._attempts.end(request["uid"], "KILLED", "killed on request")
        return {}

    def _list(self, request: Record) -> Record:
        return {"alive": [self._alive(attempt) for attempt in self._attempts.alive.values()]}

    def _alive(self, attempt: Attempt) -> Record:
        return {
            "uid": attempt.uid,
            "started_ms": attempt.started_ms,
            "building": attempt.is_building,
            "usage": attempt.usage,
        }

    def _watch(self, request: Record) -> Record:
        """The lowest offset that somebody waits for; whoever waits for more asks again."""
        uid, offset = request["uid"], int(request["offset"])
        attempt = self._attempts.alive.get(uid)
        if attempt is None:
            return {"alive": False, "end": 0}
        if attempt.output.end <= offset:
            self._watches[uid] = min(offset, self._watches.get(uid, offset))
        return {"alive": True, "end": attempt.output.end}

    def _has_output(self, attempt: Attempt) -> None:
        offset = self._watches.get(attempt.uid)
        if offset is not None and attempt.output.end > offset:
            del self._watches[attempt.uid]
            self._tell({"event": "output", "uid": attempt.uid, "end": attempt.output.end})

    def _shutdown(self, request: Record) -> Record:
        self._leaving = True
        self._attempts.force_all("KILLED", "the launcher was shut down")
        self._leave_when_done()
        return {}

    def _told_to_stop(self) -> None:
        """SIGTERM: what stops the machine's services stops the attempts too."""
        self._leaving = True
        self._attempts.force_all("LOST", "the launcher was stopped from outside")
        self._leave_when_done()

    def _tell(self, event: Record) -> None:
        if event["event"] == "ended":
            self._watches.pop(event["uid"], None)
        for connection in list(self._connections):
            connection.send(event)

    def _forget(self, connection: Connection) -> None:
        self._connections.remove(connection)
        self._consider_leaving()

    def _leave_when_done(self) -> None:
        if self._attempts.alive:
            return
        if self._leaving:
            # A turn later, so that the answer to `shutdown` is out.
            self._loop.call_later(0.0, self._loop.stop)
        else:
            self._consider_leaving()

    def _consider_leaving(self) -> None:
        self._idle_since += 1
        mark = self._idle_since

        def leave() -> None:
            if mark == self._idle_since and not self._connections and not self._attempts.alive:
                self._loop.stop()

        if not self._connections and not self._attempts.alive:
            self._loop.call_later(self._idle_s, leave)
