"""What a proxy shows below a path, whether it takes that path off or passes it on."""

from starlette.types import ASGIApp, Receive, Scope, Send


class BelowPrefix:
    """ASGI: answers below `prefix` (`/fleet`, no closing slash) what `app` answers at the top, and at the top too."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            scope = {**scope, "path": scope["path"].removeprefix(self._prefix) or "/"}
        await self._app(scope, receive, send)
