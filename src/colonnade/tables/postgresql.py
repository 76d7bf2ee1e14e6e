"""What PostgreSQL is asked for beside the rows, so that nothing but reading comes of it.

The driver (psycopg) asks for a cursor over one select, in a read-only transaction that is rolled
back: what a select would write, send or lock is refused, undone or never sent, but for what the
server's functions do outside of its transactions. The server's files are there, and who may write
these may do it by functions that a select calls. So an account that may has no queries; nor has one
that may call a function that does it, as ``postgresql_writers`` finds, or that may replicate the
server and so leave slots there. What else functions do there is not held: those that reach other
servers (``dblink``) may do there what the account may do there, ``pg_terminate_backend`` ends other
connections of the account's, and ``pg_logical_emit_message`` writes to the log of transactions. And
a view or a foreign table runs what its owner wrote.

Values arrive as the driver reads them and as exactly as they are stored, whatever the account is
set to, but for intervals of months and years, which have 30 days and 365; and a table that somebody
else locks is not waited for without end.

Whatever is asked beside the one select, here, by SQLAlchemy or by the check, means the server's own
functions and operators: a connection may look into other schemas first, and would call what it
finds there, with its account's rights. So it looks where it was set to for the select alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colonnade.errors import ConfigurationError
from colonnade.tables.postgresql_writers import check_writes_no_files

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

__all__ = [
    "CATALOG",
    "DRIVER",
    "PADDED",
    "Path",
    "engine_for",
    "explained",
    "prepare",
    "stored_bytes",
]

DRIVER = "postgresql+psycopg"
PADDED = 1042  # the type char(n), by its number
CATALOG = "pg_catalog"  # the schema of the server's own names

_ARGUMENTS = {  # of the driver, in Python; what else is no option is refused by the driver
    *("autocommit", "cls", "conninfo", "context", "cursor_factory", "prepare_threshold"),
    *("row_factory", "self"),
}
_CONNECT_SECONDS = 10
_LOCKED_SECONDS = 30.0  # of waiting for a table, where the account is not set to another time

# Within a transaction alone: a pooler lends a connection to others, with what it was set to.
_OWN_NAMES = f"set local search_path = {CATALOG}, pg_temp"
_SCHEMAS = "select pg_catalog.current_schemas(true)"
_BACK = "select pg_catalog.set_config('search_path', %s, true)"
_AT_ONCE = {"stream_results": False}

_SETTINGS = """
select set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'postgres', true),
    set_config('extra_float_digits', '1', true), set_config('lock_timeout',
        case current_setting('lock_timeout') when '0' then '{wait:.0f}ms'
        else current_setting('lock_timeout') end, true)
"""
_SIZE = "select pg_database_size(current_database())"

_READ_ONLY, _LOCKED, _NO_SUCH_CHARACTER = "25006", "55P03", "22021"
_NO_SELECT = {"42601", "42P11", "0A000"}  # a syntax error, no cursor's, or another feature


@dataclass(frozen=True)
class Path:
    """Where a connection looks for names without a schema.

    Parameters
    ----------
    written
        As it is set.
    schemas
        Those of them that there are, and that are looked into without being set.
    """

    written: str
    schemas: tuple[str, ...]

    def put_back(self, connection: Connection) -> None:
        """Let a connection look there until its transaction ends."""
        connection.exec_driver_sql(_BACK, (self.written,), execution_options=_AT_ONCE)


def engine_for(url: URL) -> Engine:
    """Return what connects for reading, and looks first of all for the server's own names.

    Raises
    ------
    ConfigurationError
        If an option of the URL is an argument of the driver.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.event import listen
    from sqlalchemy.pool import NullPool

    if strange := sorted(_ARGUMENTS.intersection(url.query)):
        raise ConfigurationError(
            f"the URL of the database has the option {strange[0]!r}, which is none of PostgreSQL's"
            "; leave it out"
        )
    engine = create_engine(
        url,
        poolclass=NullPool,
        connect_args=_wanted(url.query),
        execution_options={"postgresql_readonly": True},
        use_native_hstore=False,  # it is looked for wherever a connection looks
    )
    # Before SQLAlchemy asks what it is connected to, in the same transaction.
    listen(engine, "connect", lambda made, _: _set_out(made), insert=True)
    return engine


def _set_out(connection: Any) -> None:
    """Make a new connection of psycopg's as all here are."""
    from colonnade.tables.postgresql_rows import Coming

    connection.server_cursor_factory = Coming
    connection.execute(_OWN_NAMES)


def _wanted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to ask of a connection where a URL's options do not say.

    >>> _wanted({"connect_timeout": "60"})
    {'client_encoding': 'utf8'}
    """
    ours = {"connect_timeout": _CONNECT_SECONDS, "client_encoding": "utf8"}
    return {name: value for name, value in ours.items() if name not in options}


def prepare(connection: Connection, where: str, query: bool) -> Path:
    """Make a transaction ready, for a query or for a table, by the server's own names alone.

    Returns
    -------
    Path
        What to put back before the select.

    Raises
    ------
    ConfigurationError
        If a query is to come from an account that may write the server's files, itself or by a
        function, or replicate the server.
    """
    written = str(connection.exec_driver_sql("show search_path").scalar_one())
    schemas = connection.exec_driver_sql(_SCHEMAS).scalar_one()
    connection.exec_driver_sql(_OWN_NAMES)
    connection.exec_driver_sql(_SETTINGS.format(wait=1000 * _LOCKED_SECONDS))
    if query:
        check_writes_no_files(connection, where)
    return Path(written, tuple(schemas))


def stored_bytes(connection: Connection) -> int:
    """Return how many bytes a database has on its server's disk."""
    return int(connection.exec_driver_sql(_SIZE, execution_options=_AT_ONCE).scalar_one())


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
