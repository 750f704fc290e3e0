"""A way to a peer that speaks the protocol without our extensions, as an Iris controller does: whatever
stands in fields 1000-1099 is lost on it, both ways, and there is no service of our own."""

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from pyqwest import Headers, Request, Response

from iris_fed.rpc.gen.cluster import controller_pb2
from tests.federation.wire import Wire, method_of

EXTENSIONS = range(1000, 1100)
_METHODS = controller_pb2.DESCRIPTOR.services_by_name["ControllerService"].methods_by_name


class PlainWire(Wire):
    """`requests` keeps what was asked, by method, as the peer understood it."""

    requests: list[tuple[str, Message]]

    async def execute(self, request: Request) -> Response:
        method = method_of(request.url)
        if not is_known(method):
            return Response(status=404, headers=Headers([("content-type", "text/plain")]), content=b"not found")
        wanted = plain_request(method, await _bytes(request.content))
        self.requests = [*getattr(self, "requests", []), (method, wanted)]
        content = wanted.SerializeToString()
        headers = Headers([(k, v) for k, v in request.headers.items() if k.lower() != "content-length"])
        response = await super().execute(Request(request.method, request.url, headers=headers, content=content))
        if response.status != 200:
            return response
        async with response:
            body = b"".join([bytes(chunk) async for chunk in response.content])
        answer = plain_answer(method, body)
        kept = [(k, v) for k, v in response.headers.items() if k.lower() != "content-length"]
        return Response(status=200, headers=Headers(kept), content=answer.SerializeToString())


def is_known(method: str) -> bool:
    """Whether the service that Iris has offers the method."""
    return method in _METHODS


def plain_request(method: str, body: bytes) -> Message:
    """What is left of a request on its way."""
    return _without_extensions(_METHODS[method].input_type, body)


def plain_answer(method: str, body: bytes) -> Message:
    """What is left of an answer with status 200."""
    return _without_extensions(_METHODS[method].output_type, body)


async def _bytes(content: object) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    return b"".join([bytes(chunk) async for chunk in content])  # type: ignore[attr-defined]


def _without_extensions(descriptor: object, body: bytes) -> Message:
    message: Message = GetMessageClass(descriptor)()  # type: ignore[arg-type]
    message.ParseFromString(body)
    _strip(message)
    return message


def _strip(message: Message) -> None:
    for field, value in message.ListFields():
        if field.number in EXTENSIONS:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for inner in value if field.is_repeated else [value]:
                _strip(inner)
