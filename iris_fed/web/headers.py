"""What a browser is told of every answer that is no RPC's: run nothing from elsewhere, show it in no frame."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_RPC_TYPES = (b"application/json", b"application/proto", b"application/connect+")


class SecurityHeaders:
    """ASGI: adds them, but to what a client of the RPC services asks for. CORS has no header here: a page
    from elsewhere reads nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_rpc(scope):
            await self._app(scope, receive, send)
            return

        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", ())}
                more = [(name, value) for name, value in SECURITY_HEADERS if name not in present]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        await self._app(scope, receive, send_with)


def _is_rpc(scope: Scope) -> bool:
    sent = [value for name, value in scope["headers"] if name == b"content-type"]
    return scope["method"] == "POST" and bool(sent) and sent[0].lower().startswith(_RPC_TYPES)
