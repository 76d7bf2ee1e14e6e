"""What went wrong at a player, as others are told of it."""

from __future__ import annotations

import traceback

from colonnade.drivers import control
from colonnade.errors import ColonnadeError, Disconnected, RoleFailed

__all__ = ["disconnected", "failed", "failure", "ours"]

_MOST_TOLD = 100_000  # characters of an error


def failure(what: str, error: Exception) -> RoleFailed:
    """Return as one of our errors what a system refused a transport."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    failed = RoleFailed(f"{what}: {said}")
    failed.__cause__ = error
    return failed


def ours(what: str, error: Exception) -> ColonnadeError:
    """Return an error as one of ours: itself where it is one, else as ``failure`` tells it."""
    return error if isinstance(error, ColonnadeError) else failure(what, error)


def disconnected(role: str, *peers: str) -> Disconnected:
    """Return as an error that a role and others cannot reach each other any more."""
    return Disconnected(
        f"{role} has lost its connection to {', '.join(peers)}, and with it messages that were sent"
    )


def failed(error: BaseException) -> control.Failed:
    """Return what the gatekeeper is told of an error, whatever a user's may say of itself."""
    try:
        message, trace = str(error), "".join(traceback.format_exception(error))
    except Exception:
        message, trace = "it cannot say what it is", ""
    return control.Failed(type(error).__name__, *map(_printable, (message, trace)))


def _printable(text: str) -> str:
    """Return text that is UTF-8 and not endless."""
    if len(text) > _MOST_TOLD:
        text = f"{text[: _MOST_TOLD // 2]} [...] {text[-_MOST_TOLD // 2 :]}"
    return text.encode(errors="backslashreplace").decode()
