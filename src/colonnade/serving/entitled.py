"""Who does not show the token is refused before anything of the request's body is taken."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

__all__ = ["showing"]


def showing(token: str) -> type[APIRoute]:
    """Return a kind of route that answers whoever shows a token.

    A dependency would be asked once the body has been read and understood.

    Parameters
    ----------
    token
        What a request has to show: ``Authorization: Bearer TOKEN``.
    """

    class Showing(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer = super().get_route_handler()

            async def entitled(request: Request) -> Response:
                _check(request, token)
                return await answer(request)

            return entitled

    return Showing


def _check(request: Request, token: str) -> None:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(shown.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not right:
        raise HTTPException(
            401, "show the token: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
        )
