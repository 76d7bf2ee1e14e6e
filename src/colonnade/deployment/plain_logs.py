"""A line of FLARE's logs is of who wrote it, and of no length.

FLARE writes into its logs what others say of themselves: names, numbers of jobs, channels, reasons.
One with a new line in it was the next line of the log, with any time and any name before it; one of
30 MB was a line of 30 MB, in three files. So what follows a line stands indented under it, nothing
in it acts upon a terminal, and there is an end of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from nvflare.fuel.sec.audit import Auditor

from colonnade.telling import plain

__all__ = ["guard_logs"]

_MOST = 8192  # characters at the beginning, and at the end, of what is said at once
_MOST_OF_A_WORD = 1000  # characters, in an audit
_formatter = logging.Formatter()


def guard_logs() -> None:
    """Let nobody write a line of his own into this process's logs."""
    usual = logging.getLogRecordFactory()
    if hasattr(usual, "__wrapped__"):
        return

    @wraps(usual, updated=())
    def record_of(*given: Any, **named: Any) -> logging.LogRecord:
        record = usual(*given, **named)
        said = _said(record)
        apart = _indented(said)
        if apart != said:  # formatters of others' look at what else stands as it was told
            record.msg, record.args = apart, None
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = _indented(_formatter.formatException(record.exc_info))
        return record

    logging.setLogRecordFactory(record_of)
    Auditor.add_event = _in_short(Auditor.add_event)
    Auditor.add_job_event = _in_short(Auditor.add_job_event)


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # as where it brings too few words: logging tells it
        return ""


def _indented(text: str) -> str:
    r"""Return a text of which no line but the first begins where a line of a log begins.

    >>> _indented("gone\n2026-01-01 - root - INFO - all is well")
    'gone\n    2026-01-01 - root - INFO - all is well'
    """
    left_out = len(text) - 2 * _MOST
    if left_out > 0:
        text = f"{text[:_MOST]}\n... {left_out:,} characters left out ...\n{text[-_MOST:]}"
    return "\n    ".join(map(plain, text.split("\n")))


def _in_short(write: Callable[..., str]) -> Callable[..., str]:
    @wraps(write)
    def written(self: Auditor, *given: Any, **named: Any) -> str:
        words = {name: _on_one_line(word) for name, word in named.items()}
        return write(self, *map(_on_one_line, given), **words)

    return written


def _on_one_line(word: object) -> str:
    return plain(str(word)[:_MOST_OF_A_WORD])
