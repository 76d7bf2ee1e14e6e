"""Tables from databases, through SQLAlchemy: SQLite, PostgreSQL and others it has drivers for.

Names of tables and columns are quoted by SQLAlchemy, never pasted into a statement. Databases are
opened for reading only, and a query may do nothing else. SQLite asks an authoriser about each thing
that a statement is about to do: where a file is read-only, ``vacuum into`` and ``attach`` still
write others. Of PostgreSQL tells ``postgresql``. Other databases and drivers have neither, so there
are tables and views of theirs, and no queries. A URL may hold a password, so no message repeats a
URL.
"""

from __future__ import annotations

import math
import re
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl

from colonnade.errors import ConfigurationError, DataError
from colonnade.quiet import warning_otherwise
from colonnade.tables import postgresql
from colonnade.tables.fetched import ROWS, pieces
from colonnade.tables.gathered import Gathered
from colonnade.tables.names import check_named_once, check_present, check_texts, listed
from colonnade.tables.sqlite_bounds import Bounds
from colonnade.tables.sqlite_functions import FUNCTIONS, LONGEST, LONGEST_PATTERN
from colonnade.tables.sqlite_trims import RAISED, add_trims
from colonnade.tables.there import check_is_file
from colonnade.tables.urls import Option, misplaced, settings_in
from colonnade.telling import shown

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

__all__ = ["read_database"]

_BUSY_SECONDS = 0.5  # how long to wait for a SQLite file that someone is writing to
_MOST_STEPS = 10**11  # of SQLite's machine, since queries and views may not end: half an hour
_MOST_SECONDS = 3600.0  # of work, since a step may take a second
_COUNTED = 10**3  # at a time, after which Ctrl-C is heard, too
_WIDE = 2**22  # bytes that a value may have at least, however many columns there are
_LONGEST = 2**24  # bytes of a value of SQLite's, where no function is called that takes long for it
_MOST_BYTES = 2**30  # of what is found or sorted in a database, or this many times its own:
_TIMES = 64
_SHORT = 3  # characters of a secret
_INTERRUPTED = "interrupted"  # what SQLite says then

_HELD_TO_READING = ("sqlite", postgresql.DRIVER)

_READING = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_RECURSIVE,
)
# Virtual tables, when they are opened, ask for what they would write with. The file is read-only.
_ROWS_CHANGE = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)
_TELLING_PRAGMAS = {
    *("collation_list", "data_version", "database_list", "encoding", "foreign_key_list"),
    "read_uncommitted",  # which SQLAlchemy asks each connection
    *("function_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list"),
    *("table_xinfo",),
}
_UNWRITTEN = re.compile(r"readonly database|unable to open database file")
_FORMATS = re.compile(r"function: (?:printf|format)$", re.IGNORECASE)
_FUNCTION = re.compile(r"not authorized to use function: (\w+)")
_DENIED = re.compile(r"not authorized|authorization denied|access to .* is prohibited")


def read_database(
    url: str,
    *,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    query: str | None = None,
    table: str | None = None,
) -> pl.DataFrame:
    """Return a table of a database, or what a query finds.

    Parameters
    ----------
    url
        Such as "sqlite:///people.db", "sqlite:////srv/people.db" or
        "postgresql://ann@db.example/crm".
    id
        The column to put first.
    columns
        The columns to read; all by default.
    query, table
        One of them: the query, or the table or view, possibly "schema.table". Of SQLite, either may
        take 10^11 of its steps, more than half an hour, and an hour of work, and find, or sort, 64
        times as much as the file has, or 2^30 bytes, in values of 2^24 bytes at most, or 2^18 where
        it calls functions that take long for long values.

    Raises
    ------
    ConfigurationError
        If SQLAlchemy or a driver is missing, the URL is none, not one of query and table is given,
        or there is a query for a database that cannot be held to reading, or from an account that
        may write the server's files, itself or by a function, or replicate the server.
    DataError
        If the database cannot be reached or is locked, there is no such table or column, a query
        fails or does anything but read, there are no rows, or a column mixes kinds of values or
        holds lists or the like.
    """
    if (query is None) == (table is None):
        raise ConfigurationError(
            "a database needs table='...' or query='...', "
            + ("not both" if query else "one of them")
        )
    given = {"url": url, "query": query, "table": table, "id": id}
    for name, text in given.items():
        if text is not None:
            check_texts(f"{name} of a database", [text])
    check_texts("columns of a database", columns or [])
    try:
        import sqlalchemy as sql
    except ImportError as error:
        raise ConfigurationError(
            "reading a database needs SQLAlchemy; pip install 'colonnade[sql]'"
        ) from error
    try:
        parsed = sql.make_url(url)
    except (sql.exc.ArgumentError, ValueError):
        raise ConfigurationError(
            "the URL of the database cannot be understood; expected one like "
            "sqlite:///people.db or postgresql://user@host/database"
        ) from None
    _refuse_misplaced(parsed)
    if "plugin" in parsed.query:
        raise ConfigurationError(
            "the URL of the database has the option 'plugin', which is code to run; leave it out"
        )
    if query is not None and _driver(parsed) not in _HELD_TO_READING:
        raise ConfigurationError(
            f"a query could write, and only those to SQLite and postgresql:// are held to reading, "
            f"not those of {parsed.drivername!r}: name a table or a view"
        )
    where = _described(parsed)
    with _connected(parsed, where, query=query is not None) as (connection, path):
        most = _most_bytes(parsed, connection)
        schemas = path.schemas if path else (None,)
        statement: Any = None
        if table is not None:
            statement = _selection(sql, connection, where, table, schemas, id, columns)
        if path:
            path.put_back(connection)
        if parsed.get_backend_name() == "sqlite":
            _bound_row(connection, statement, query)
        if query is None:
            result = connection.execute(statement)
        else:
            # Verbatim: neither colons nor percent signs in it stand for a parameter.
            result = connection.execution_options(no_parameters=True).exec_driver_sql(query)
        with result:
            if not result.returns_rows:
                raise DataError(f"the query to {where} returns no table; expected a select")
            names = [str(name) for name in result.keys()]  # noqa: SIM118 - keys() is no mapping's
            what = (
                f"table {table!r} of {where}"
                if query is None
                else f"what the query to {where} found"
            )
            check_named_once(what, names)
            wanted = list(
                columns or [*([id] if id else []), *(name for name in names if name != id)]
            )
            check_present(what, wanted, names)
            padded = _padded(result, names)
            gathered = {name: Gathered(name, what, name in padded) for name in wanted}
            for rows in pieces(result, together=path is not None):
                values = list(zip(*rows, strict=True))
                for name, place in ((name, names.index(name)) for name in wanted):
                    gathered[name].add(values[place])
                if sum(column.bytes for column in gathered.values()) > most:
                    raise DataError(
                        f"{what} takes more than {most:,} bytes of memory, and may not end; if it "
                        "has an end, store it in a table, or ask for fewer rows or columns"
                    )
    frame = pl.DataFrame([gathered[name].series() for name in wanted])
    if frame.is_empty():
        raise DataError(f"{what} has no rows")
    return frame


def _most_bytes(url: URL, connection: Connection) -> float:
    """Return how much memory may be taken by what is found, by what there is to be found."""
    match url.get_backend_name():
        case "sqlite":
            return _most_of(Path(str(url.database)))
        case "postgresql":
            stored = postgresql.stored_bytes(connection)
        case _:
            return math.inf
    return max(_MOST_BYTES, _TIMES * stored)


def _most_of(path: Path) -> int:
    """Return how much may be taken by what is found, or sorted, in a file of SQLite's."""
    return max(_MOST_BYTES, _TIMES * path.stat().st_size)


def _bound_row(connection: Connection, statement: Any, query: str | None) -> None:
    """Let the values of one row take no more memory than all that is found may.

    SQLite holds a whole row that it sorts to the same bound, so that is not very low.
    """
    if query is None:
        count = len(statement.selected_columns)
    else:
        steps = connection.exec_driver_sql(f"explain {query}").mappings()
        found = (step for step in steps if step.get("opcode") == "ResultRow")
        count = max((step["p2"] for step in found), default=1)
    driver: Any = connection.connection.driver_connection
    _lower(driver, max(_MOST_BYTES // max(count, 1), _WIDE))


def _lower(connection: sqlite3.Connection, most: int) -> None:
    """Let values have so many bytes at most."""
    limit = sqlite3.SQLITE_LIMIT_LENGTH
    connection.setlimit(limit, min(most, connection.getlimit(limit)))


def _padded(result: Any, names: Sequence[str]) -> set[str]:
    """Return the columns whose texts are filled up with blanks."""
    kinds = [description[1] for description in result.cursor.description]
    return {name for name, kind in zip(names, kinds, strict=True) if kind == postgresql.PADDED}


def _refuse_misplaced(url: URL) -> None:
    """Refuse a URL whose host or database may hold a password, as messages name these."""
    is_file = url.get_backend_name() == "sqlite" and not url.host
    place = "" if is_file else f"{url.host or ''}/{url.database or ''}".removeprefix("/")
    if misplaced(place):
        raise ConfigurationError(
            "the URL of the database has more than one @, or one behind the host; in a user's name "
            "or a password it is written %40, and a slash %2F"
        )
    if settings_in(f"{url.username or ''} {url.host or ''} {url.database or ''}"):
        raise ConfigurationError(
            "the URL of the database has a password or another secret in the name of its user, "
            "host or database; options follow a ? and are joined by &"
        )
    said = (Option("user", url.username or ""), *_options(url.query))
    if any(option.has_login for option in said):
        raise ConfigurationError(
            "the URL of the database has a colon in the name of its user, or a user and a password "
            "in an option that is no password's; write them as in postgresql://user:password@host, "
            "or as the options user and password"
        )


def _selection(
    sql: Any,
    connection: Connection,
    where: str,
    table: str,
    schemas: Sequence[str | None],
    id: str | None,
    columns: Sequence[str] | None,
) -> Any:
    """Return the statement that selects the wanted columns of a table, names quoted."""
    inspector = sql.inspect(connection)
    places = [(schema, table) for schema in schemas]
    if "." in table:
        before, _, behind = table.partition(".")
        places.append((before, behind))
    found = (each for each in places if inspector.has_table(each[1], schema=each[0]))
    schema, name = next(found, (None, None))
    if name is None:
        raise DataError(f"{where} has no table {table!r}{_instead(inspector, table, schemas)}")
    with warning_otherwise():
        warnings.simplefilter("ignore")  # of types that SQLAlchemy does not know
        there = [column["name"] for column in inspector.get_columns(name, schema=schema)]
    wanted = columns or [*([id] if id else []), *(other for other in there if other != id)]
    check_present(f"table {table!r} of {where}", wanted, there)

    def quoted(text: str) -> Any:
        return sql.quoted_name(text, quote=True)

    source = sql.table(
        quoted(name),
        *(sql.column(quoted(column)) for column in wanted),
        schema=None if schema is None else quoted(schema),
    )
    return sql.select(*source.columns)


def _instead(inspector: Any, table: str, schemas: Sequence[str | None]) -> str:
    """Return the end of a sentence: where there is such a table, else which ones there are."""
    looked_into = {inspector.default_schema_name, *schemas}
    others = [
        f"{schema}.{table}"
        for schema in inspector.get_schema_names()
        if schema not in looked_into and inspector.has_table(table, schema=schema)
    ]
    if others:
        return f"; did you mean {listed(others)}?"
    own = [schema for schema in schemas if schema != postgresql.CATALOG]
    tables = [name for schema in own for name in inspector.get_table_names(schema=schema)]
    views = [name for schema in own for name in inspector.get_view_names(schema=schema)]
    found = list(dict.fromkeys([*tables, *views]))
    return f"; it has {listed(found)}" if found else ""


@contextmanager
def _connected(
    url: URL, where: str, query: bool
) -> Iterator[tuple[Connection, postgresql.Path | None]]:
    """Connect for reading; what the driver complains about becomes one sentence.

    Of PostgreSQL comes the path to put back before the select.
    """
    from sqlalchemy import exc

    bounds = Bounds(_MOST_STEPS, _MOST_SECONDS, _COUNTED)
    try:
        engine = _engine(url, bounds)
    except (exc.NoSuchModuleError, ImportError):
        raise ConfigurationError(
            f"no driver for {url.drivername!r} databases is installed; "
            "pip install 'colonnade[sql]' has those of SQLite and PostgreSQL"
        ) from None
    except exc.ArgumentError:  # whose text could show what is secret
        raise ConfigurationError(
            f"an option of the URL of {where} is not what its driver takes"
        ) from None
    try:
        with engine.connect() as connection:
            is_ours = _driver(url) == postgresql.DRIVER
            path = postgresql.prepare(connection, where, query) if is_ours else None
            yield connection.execution_options(stream_results=True, max_row_buffer=ROWS), path
    except (exc.SQLAlchemyError, sqlite3.Error, UnicodeError) as error:
        if _reason(error, url) == _INTERRUPTED and not bounds.is_over:
            raise KeyboardInterrupt from None  # which SQLite makes this of
        # Not from the error: its text, or that of its causes, could show what is secret.
        raise DataError(_sentence(error, url, where, query, bounds)) from None
    except MemoryError:
        raise DataError(
            f"what is read of {where} takes more memory than there is: name the columns to read, "
            "or ask for fewer rows"
        ) from None
    except (RecursionError, TypeError, ValueError) as error:  # of a driver, by what it was sent
        raise DataError(
            f"{where} holds what its driver cannot read ({type(error).__name__}): name the columns "
            "to read, without json; or say another client_encoding"
        ) from None
    finally:
        engine.dispose()


def _sentence(error: Exception, url: URL, where: str, query: bool, bounds: Bounds) -> str:
    """Return what a driver complains about."""
    reason = _reason(error, url)
    if url.get_backend_name() != "sqlite":
        state = getattr(getattr(error, "orig", None), "sqlstate", None)
        return postgresql.explained(state, where, reason, query)
    if reason == _INTERRUPTED:
        what = "the query to" if query else "the view in"
        if bounds.is_full:
            return (
                f"{what} {where} sorts or compares more than {bounds.most:,} bytes on the disk, "
                "and may not end; if it has an end, store what it finds in a table, and name that"
            )
        return (
            f"{what} {where} has not ended after {_MOST_STEPS:,} steps of SQLite's, or an hour of "
            "work; if it has an end, store what it finds in a table, and name that"
        )
    if "too big" in reason:
        slow = f"{min(LONGEST.values()):,} to {max(LONGEST.values()):,}"
        return (
            f"{where} has, or a query or view makes, a value of more than {_LONGEST:,} bytes, or "
            f"{slow} beside functions that take long or much for long ones, as instr and "
            f"json_array, or {_WIDE:,} in a row of many columns; a row that is sorted, or compared "
            "with others, counts as one value; name the columns to read without it"
        )
    if RAISED in reason:
        return (
            f"the query to {where}, or a view in it, trims by more than a thousand characters, or "
            "text that is not in UTF-8"
        )
    if "database is locked" in reason:
        return (
            f"{where} is locked by another program that writes to it; try again when that has "
            "finished"
        )
    if (waits := _waits_for_a_writer(Path(str(url.database)))) and _UNWRITTEN.search(reason):
        return f"{where} cannot be read as it is: {waits}"
    if _FORMATS.search(reason):
        return (
            f"the query to {where}, or a view in it, calls printf or format, within which nothing "
            "ends what is very wide; round(x, 2) rounds, substr('0000' || id, -5) puts zeros before"
        )
    if _DENIED.search(reason) or (query and _UNWRITTEN.search(reason)):
        called = _FUNCTION.search(reason)
        without = f" that does not call {called[1]}" if called else ""
        return f"the query to {where} does more than read; expected a select{without}"
    return f"{where} cannot be read: {reason}"


def _waits_for_a_writer(path: Path) -> str | None:
    """Return why a file of SQLite's cannot be read by who may not write, and what to do."""
    if Path(f"{path}-journal").exists():
        return (
            "a program that wrote to it was stopped in the midst of it, as the journal beside it "
            "tells; open it with that program once"
        )
    with suppress(OSError), path.open("rb") as file:
        if file.read(20)[18:] == b"\x02\x02":  # the file format's versions for writing and reading
            return (
                "it has a write-ahead log, for which a reader, too, writes files beside it; give "
                "the right to do so in its folder, or say pragma journal_mode = delete where it is "
                "written"
            )
    return None


def _engine(url: URL, bounds: Bounds) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    if url.get_backend_name() == "sqlite":
        path = Path(url.database or ":memory:")
        if url.database in (None, "", ":memory:"):
            raise ConfigurationError("the URL of a SQLite database must name its file")
        check_is_file(path)
        # Neither creates a file that is missing nor writes to one that is there.
        address = f"file:{quote(str(path.absolute()))}?mode=ro"
        bounds.most = _most_of(path)
        return create_engine(
            "sqlite://",
            creator=lambda: _reader(address, bounds),
            poolclass=NullPool,
        )
    url = url.set(drivername=_driver(url))
    if url.drivername == postgresql.DRIVER:
        return postgresql.engine_for(url)
    reading = {"postgresql_readonly": True} if url.get_backend_name() == "postgresql" else {}
    return create_engine(url, poolclass=NullPool, execution_options=reading)


def _driver(url: URL) -> str:
    """Return which dialect and driver a URL means; of SQLite and PostgreSQL, those used here."""
    if url.drivername in ("postgresql", "postgres"):
        return postgresql.DRIVER
    return "sqlite" if url.get_backend_name() == "sqlite" else url.drivername


def _reader(address: str, bounds: Bounds) -> sqlite3.Connection:
    """Open a SQLite database whose statements may do nothing but read, for a while."""
    connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LONGEST_PATTERN)
    connection.execute("pragma temp_store = file")  # whose bytes can be told
    add_trims(connection)
    connection.set_authorizer(partial(_authorised, connection))
    connection.set_progress_handler(bounds, bounds.each)
    return connection


def _authorised(
    connection: sqlite3.Connection,
    action: int,
    name: str | None,
    second: str | None,
    schema: str | None,
    *_: object,
) -> int:
    """Return whether a statement may do this, and bound the values of one that takes long."""
    if action == sqlite3.SQLITE_FUNCTION and (most := LONGEST.get(str(second).lower())):
        _lower(connection, most)
    reads = (
        action in _READING
        or (action == sqlite3.SQLITE_FUNCTION and str(second).lower() in FUNCTIONS)
        or (action == sqlite3.SQLITE_PRAGMA and str(name).lower() in _TELLING_PRAGMAS)
        or (action in _ROWS_CHANGE and schema == "main")
    )
    return sqlite3.SQLITE_OK if reads else sqlite3.SQLITE_DENY


def _described(url: URL) -> str:
    """Return what to call a database: nothing of user, password or options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    place = f"{url.host}" + (f":{url.port}" if url.port else "")
    if not url.host:
        hosts = url.query.get("host", "localhost")
        place = hosts if isinstance(hosts, str) else ", ".join(hosts)
    name = f"the database {shown(url.database)}" if url.database else "the database"
    return f"{name} at {place}"


def _reason(error: Exception, url: URL) -> str:
    """Return the driver's own words, on one line, without what is secret."""
    own = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(own).splitlines() if line.strip()]
    reason = lines[0] if lines else type(own).__name__
    secrets = [str(url.password)] if url.password else []
    secrets.extend(option.value for option in _options(url.query) if option.is_secret)
    for secret in filter(None, secrets):
        # A short one is in many words, which would tell it by what is left of them.
        word = r"(?<!\w){}(?!\w)" if len(secret) <= _SHORT else "{}"
        reason = re.sub(word.format(re.escape(secret)), "***", reason)
    return reason


def _options(query: Mapping[str, str | tuple[str, ...]]) -> Iterator[Option]:
    """Yield the options of a URL, one that is given twice as two."""
    for name, value in query.items():
        for each in (value,) if isinstance(value, str) else value:
            yield Option(name, each)
