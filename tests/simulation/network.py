"""The network between clusters, and between users and clusters: it does everything a network may do.

By the seed a request or its answer is late, lost, repeated or never ends; a pair of clusters cannot
reach each other for a while, in one direction or both; something in between answers by itself.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyqwest import Headers, Request, Response, Transport

from iris_fed.rpc.gen.cluster.controller_pb2 import Controller
from tests.federation.plain import is_known, plain_answer, plain_request
from tests.simulation.serving import Answer, Carried, Serving
from tests.simulation.world import Mortal, World

LATEST_COPY_S = 400.0
"""Longer than a federation token lives."""
CHANGES = frozenset({"LaunchJob", "TerminateJob"})
GARBAGE = (
    Answer(502, (("content-type", "text/html"),), b"<html>Bad Gateway</html>"),
    Answer(403, (("content-type", "text/html; charset=utf-8"),), b"<html>Forbidden</html>"),
    Answer(200, (("content-type", "application/proto"),), b"\xff\xff\xff not protobuf"),
    Answer(404, (), b""),
    Answer(503, (("content-type", "application/json"),), b'{"error": "upstream"}'),
)
EMPTY_SETS = 0.2
EMPTY_SET = Controller.FederationSyncResponse(cursor_stale=True, next_cursor="0").SerializeToString()
NOT_OFFERED = Answer(404, (("content-type", "text/plain"),), b"not found")
OK = 200
REFUSED = "error sending request: client error (Connect): connection refused"
RESET = "connection reset"


@dataclass(frozen=True, slots=True)
class Weather:
    """How often what goes wrong, in requests of 1."""

    lose_request: float
    lose_answer: float
    hang: float
    duplicate: float
    slow: float
    garbage: float


@dataclass(frozen=True, slots=True)
class _Fate:
    """Of one request; times in seconds."""

    there_s: float
    back_s: float
    lost: str = ""
    hangs: bool = False
    garbage: Answer | None = None


class Network:
    """`sending`, `arriving`, `served` (after how many seconds) and `answered` are told of what passes, to be
    checked against the promises. `plain`: from whom to whom our extensions are lost, both ways."""

    def __init__(self, world: World, weather: Weather, serving: Serving) -> None:
        self._world = world
        self._weather = weather
        self._serving = serving
        self._cuts: dict[tuple[str, str], float] = {}
        self.sending: Callable[[Carried], None] = lambda request: None
        self.arriving: Callable[[Carried], None] = lambda request: None
        self.served: Callable[[Carried, float], None] = lambda request, after_s: None
        self.answered: Callable[[Carried, Answer], None] = lambda request, answer: None
        self.plain: frozenset[tuple[str, str]] = frozenset()
        self._emptied = False

    def cut(self, source: str, target: str, for_s: float) -> None:
        """Nothing gets from one to the other for a while."""
        self._cuts[source, target] = self._world.loop.time() + for_s

    def mend(self) -> None:
        self._cuts.clear()

    async def carry(self, request: Carried) -> Answer:
        """Raises ConnectionError, or never ends."""
        fate = self._fate(request)
        plain = (request.source, request.target) in self.plain
        if plain and is_known(request.method):
            request = _as_plain_request(request)
        self.sending(request)
        if fate.garbage is not None:
            self._world.note("garbage", f"{request} {fate.garbage.status}")
            return fate.garbage
        if self._is_cut(request.source, request.target):
            return await self._break(request, "cut", fate, REFUSED)
        await asyncio.sleep(fate.there_s)
        if fate.lost == "request":
            return await self._break(request, "lost", fate, RESET)
        served = self._arrive(request)
        if served is None:
            return await self._break(request, "refused", fate, REFUSED)
        self._repeat(request)
        answer = await self._await(request, served, fate)
        if plain and answer.status == OK:
            answer = self._as_plain_answer(request, answer)
        await asyncio.sleep(fate.back_s)
        if fate.lost == "answer" or self._is_cut(request.target, request.source):
            return await self._break(request, "no answer", fate, RESET)
        if plain and request.method == "FederationSync" and answer.status == OK and answer.body != EMPTY_SET:
            self._emptied = False
        self.answered(request, answer)
        return answer

    def _as_plain_answer(self, request: Carried, answer: Answer) -> Answer:
        """Now and then, and never twice in a row, a set that is empty for no reason: nobody may believe it at once."""
        body = plain_answer(request.method, answer.body).SerializeToString(deterministic=True)
        may_be_empty = request.method == "FederationSync" and self._world.storm and not self._emptied
        if may_be_empty and self._world.chance(EMPTY_SETS):
            self._emptied = True
            self._world.note("empty set", str(request))
            body = EMPTY_SET
        return replace(answer, headers=_fitting(answer.headers), body=body)

    def _arrive(self, request: Carried) -> "asyncio.Task[Answer] | None":
        server = self._serving(request.target)
        if server is None:
            return None
        self._world.note("arrives", str(request))
        self.arriving(request)
        if (request.source, request.target) in self.plain and not is_known(request.method):
            return self._world.loop.create_task(_not_offered())
        since = self._world.loop.time()
        task = server.serve(request)
        task.add_done_callback(lambda done: self._done(request, done, since))
        return task

    def _done(self, request: Carried, task: "asyncio.Task[Answer]", since: float) -> None:
        if not task.cancelled() and task.exception() is None:
            self.served(request, self._world.loop.time() - since)

    async def _await(self, request: Carried, served: "asyncio.Task[Answer]", fate: _Fate) -> Answer:
        try:
            await asyncio.wait([served])
        except asyncio.CancelledError:
            if self._world.storm and self._world.chance(0.2):
                served.cancel()
            raise
        if served.cancelled() or served.exception() is not None:
            return await self._break(request, "broken off", fate, RESET)
        return served.result()

    async def _break(self, request: Carried, what: str, fate: _Fate, words: str) -> Answer:
        self._world.note("breaks", f"{request} {what}{', silently' if fate.hangs else ''}")
        if fate.hangs:
            await asyncio.Event().wait()
        raise ConnectionError(words)

    def _repeat(self, request: Carried) -> None:
        """The same request arrives again, whatever became of its sender."""
        if not self._world.storm or request.method not in CHANGES or not self._world.chance(self._weather.duplicate):
            return
        late_s = self._world.rng.choice((0.01, 1.0, 10.0, 60.0, LATEST_COPY_S)) * self._world.rng.random()
        self._world.loop.call_later(late_s, self._arrive_again, request)

    def _arrive_again(self, request: Carried) -> None:
        if not self._is_cut(request.source, request.target):
            self._world.note("again", str(request))
            self._arrive(request)

    def _is_cut(self, source: str, target: str) -> bool:
        return self._cuts.get((source, target), 0.0) > self._world.loop.time()

    def _fate(self, request: Carried) -> _Fate:
        rng, weather = self._world.rng, self._weather
        there_s, back_s = rng.uniform(0.001, 0.03), rng.uniform(0.001, 0.03)
        if not self._world.storm:
            return _Fate(there_s, back_s)
        if rng.random() < weather.slow:
            there_s += rng.expovariate(0.5)
        if rng.random() < weather.slow:
            back_s += rng.expovariate(0.5)
        chance = rng.random()
        lost = "request" if chance < weather.lose_request else ""
        if chance > 1 - weather.lose_answer:
            lost = "answer"
        garbage = rng.choice(GARBAGE) if rng.random() < weather.garbage else None
        return _Fate(there_s, back_s, lost, rng.random() < weather.hang, garbage)


class Wire(Transport):
    """The way from one process, or from a user, to one cluster."""

    def __init__(self, network: Network, source: str, target: str, owner: Mortal) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._owner = owner

    async def execute(self, request: Request) -> Response:
        if self._owner.dead:
            raise ConnectionError(REFUSED)
        body = request.content
        if not isinstance(body, bytes):
            body = b"".join([bytes(chunk) async for chunk in body])
        carried = Carried(self._source, self._target, request.url, tuple(request.headers.items()), body)
        answer = await self._network.carry(carried)
        return Response(status=answer.status, headers=Headers(answer.headers), content=answer.body)


def _as_plain_request(request: Carried) -> Carried:
    body = plain_request(request.method, request.body).SerializeToString(deterministic=True)
    return replace(request, headers=_fitting(request.headers), body=body)


def _fitting(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Without the length of another body."""
    return tuple((name, value) for name, value in headers if name.lower() != "content-length")


async def _not_offered() -> Answer:
    return NOT_OFFERED
