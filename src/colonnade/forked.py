"""Whether this process was forked from one whose threads it would need, and has not."""

from __future__ import annotations

import os
from pathlib import Path

from colonnade.errors import ConfigurationError

__all__ = ["check_not_forked"]

_THREADS = Path("/proc/self/task")
_OF_POLARS = ("polars-0", "tokio-rt-worker")  # of those that compute, and of those that read

_parent_had, _is_stuck = False, False


def check_not_forked() -> None:
    """Raise ``ConfigurationError`` where what polars is to compute would be waited for in vain.

    A fork has no threads but the one that forked, and polars waits for its others for ever. It is
    known of Linux alone; elsewhere processes are spawned by default.
    """
    if _is_stuck:
        raise ConfigurationError(
            "this process was forked from one that had computed with polars, or read by it (or by "
            "another package with tokio), whose threads it has not: it could wait for ever; start "
            "it by spawn or forkserver, as by "
            "multiprocessing.get_context('spawn')"
        )


def _look() -> None:
    global _parent_had
    try:
        _parent_had = _is_stuck or any(map(_is_of_polars, [*_THREADS.glob("*/comm")]))
    except OSError:  # as without a descriptor left: it is not known, and may be
        _parent_had = True


def _is_of_polars(thread: Path) -> bool:
    try:
        return thread.read_text().strip() in _OF_POLARS
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False


def _know() -> None:
    global _is_stuck
    _is_stuck = _parent_had


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=_know)
