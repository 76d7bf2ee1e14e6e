"""Bodies of requests that are too long are refused before they are kept."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BoundedBodies"]

_LONGEST = 2**21  # bytes; the most ids, each as long as one may be, take 1 MB and some


class BoundedBodies:
    """Lets an application receive no body that is longer than any request's.

    Parameters
    ----------
    app
        The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; receiving too much of its body raises what refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > _LONGEST:
                raise HTTPException(413, f"a request has at most {_LONGEST:,} bytes")
            return message

        await self._app(scope, bounded, send)
