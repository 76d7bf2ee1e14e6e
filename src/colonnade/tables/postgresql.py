"""What PostgreSQL is asked for beside the rows, so that nothing but reading comes of it.

The driver (psycopg) asks for a cursor over one select, in a read-only transaction that is rolled
back: what a select would write, send or lock is refused, undone or never sent, but for what the
server's functions do outside of its transactions. The server's files are there, and who may write
these may do it by functions that a select calls. So an account that may has no queries; nor has one
that may call a function that does it, as ``postgresql_writers`` finds. What else functions do there
is not held: those that reach other servers (``dblink``) may do there what the account may do there,
``pg_terminate_backend`` ends other connections of the account's, and ``pg_logical_emit_message``
writes to the log of transactions. And a view runs what its owner wrote.

Values arrive as the driver reads them and as exactly as they are stored, whatever the account is
set to; and a table that somebody else locks is not waited for without end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colonnade.tables.postgresql_writers import check_writes_no_files

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["DRIVER", "PADDED", "explained", "prepare", "stored_bytes", "wanted"]

DRIVER = "postgresql+psycopg"
PADDED = 1042  # the type char(n), by its number

_CONNECT_SECONDS = 10
_LOCKED_SECONDS = 30.0  # of waiting for a table, where the account is not set to another time

_SETTINGS = """
select set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'postgres', true),
    set_config('extra_float_digits', '1', true), set_config('lock_timeout',
        case current_setting('lock_timeout') when '0' then '{wait:.0f}ms'
        else current_setting('lock_timeout') end, true)
"""
_SIZE = "select pg_database_size(current_database())"

_READ_ONLY, _LOCKED, _NO_SUCH_CHARACTER = "25006", "55P03", "22021"
_NO_SELECT = {"42601", "42P11", "0A000"}  # a syntax error, no cursor's, or another feature


def wanted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to ask of a connection where a URL's options do not say.

    >>> wanted({"connect_timeout": "60"})
    {'client_encoding': 'utf8'}
    """
    ours = {"connect_timeout": _CONNECT_SECONDS, "client_encoding": "utf8"}
    return {name: value for name, value in ours.items() if name not in options}


def prepare(connection: Connection, where: str, query: bool) -> None:
    """Make a transaction ready, for a query or for a table.

    Raises
    ------
    ConfigurationError
        If a query is to come from an account that may write the server's files, itself or by a
        function.
    """
    connection.exec_driver_sql(_SETTINGS.format(wait=1000 * _LOCKED_SECONDS))
    if query:
        check_writes_no_files(connection, where)


def stored_bytes(connection: Connection) -> int:
    """Return how many bytes a database has on its server's disk."""
    at_once = {"stream_results": False}
    return int(connection.exec_driver_sql(_SIZE, execution_options=at_once).scalar_one())


def explained(state: str | None, where: str, reason: str, query: bool) -> str:
    """Return a sentence about an error, by SQL's code of it, and the server's own words.

    >>> explained("25006", "the database 'crm' at db", "cannot execute nextval() ...", query=True)
    "the query to the database 'crm' at db does more than read; expected a select"
    """
    if state == _LOCKED:
        return f"{where} is locked by another program; try again when that has finished"
    if state == _READ_ONLY and query:
        return f"the query to {where} does more than read; expected a select"
    if state in _NO_SELECT and query:
        reason += "; expected one select"
    if state == _NO_SUCH_CHARACTER:
        reason += "; say its encoding in the URL, such as ?client_encoding=latin1"
    return f"{where} cannot be read: {reason}"
