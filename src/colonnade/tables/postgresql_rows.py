"""Rows of a server's cursor as they come, so that no more are held than few, or than are short.

Whoever fetches some rows of PostgreSQL has all of them in memory before anybody looks how long they
are, and a single value may have a gigabyte.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
from psycopg import sql

__all__ = ["Coming"]

_AT_ONCE = 2**6
_BYTES = 2**24  # of texts, of rows that are handed over together
_TEXTS = frozenset({str, bytes})


class Coming(psycopg.ServerCursor[Any]):
    """A server's cursor whose rows are taken one by one while they come."""

    _coming: Generator[Any, None, None] | None = None  # while it lasts, nothing else is asked
    _left = 0  # rows of it, at most

    def fetchone(self) -> Any:
        """Return the next row; None after the last."""
        return next(iter(self.fetchmany(1)), None)

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        found: list[Any] = []
        while some := self.fetchmany(_AT_ONCE):
            found.extend(some)
        return found

    def fetchmany(self, size: int = 0) -> list[Any]:
        """Return some rows, fewer than asked for where they are long; none after the last."""
        found: list[Any] = []
        held, is_asked = 0, False
        while len(found) < size and held < _BYTES:
            if self._coming is None:
                if found or is_asked:
                    break
                self._coming, self._left, is_asked = self._asked(size), size, True
            row = next(self._coming, None)
            if row is None:
                self._coming = None
                continue
            self._left -= 1
            found.append(row)
            held += sum([len(value) for value in row if type(value) in _TEXTS])
            if not self._left:
                self._end()
        return found

    def close(self) -> None:
        """Leave the rest on the server."""
        self._end()
        super().close()

    def _end(self) -> None:
        """Ask for no more of what comes: where all has come, no more does."""
        if self._coming is not None:
            if not self._left:
                next(self._coming, None)
            self._coming.close()
            self._coming = None

    def _asked(self, size: int) -> Generator[Any, None, None]:
        fetch = sql.SQL("FETCH FORWARD {} FROM {}").format(size, sql.Identifier(self.name))
        with psycopg.Cursor(self.connection) as cursor:
            yield from cursor.stream(fetch)
