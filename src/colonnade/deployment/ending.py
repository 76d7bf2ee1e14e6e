"""Which signals ask a command to end that has started others: it puts them down first."""

from __future__ import annotations

import signal

__all__ = ["ending_signals"]

_NAMES = ("SIGTERM", "SIGHUP")  # the latter as a terminal or a connection is gone


def ending_signals() -> list[signal.Signals]:
    """Return those that this platform has and that are not ignored, as `nohup` has it of SIGHUP.

    Examples
    --------
    >>> signal.SIGTERM in ending_signals()
    True
    """
    known = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    return [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
