"""PostgreSQL, a real one: what is read of it, that nothing else happens to it, and how it fails."""

from __future__ import annotations

import datetime
import gc
import math
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from colonnade import cli
from colonnade.config import parse_config
from colonnade.errors import ConfigurationError, DataError
from colonnade.tables import database, read_table
from colonnade.tables import postgresql as tables_postgresql
from colonnade.tables.align import checked_ids
from colonnade.tables.table import as_table
from postgres import PASSWORD, Server
from test_cli import repeatable

ANN = "ann", "hunter2 & s/ecret@"

MADE = (
    f"create role ann login password '{ANN[1]}'",
    "create schema shop",
    "grant usage on schema shop to ann",
    "alter default privileges grant select on tables to ann",
    "create table people (id bigint, age int, town text)",
    "insert into people values (9, null, 'Oslo'), (7, 41, 'Rome')",
    'create table "a.b" (id int)',
    'insert into "a.b" values (7)',
    'revoke select on "a.b" from ann',
    "create table shop.visits (id int, visits int)",
    "insert into shop.visits values (7, 3), (9, 4)",
    "create view grown as select id, age from people where age > 18",
    "create materialized view kept as select id from people",
    "create table parted (id int) partition by range (id)",
    "create table parted_1 partition of parted for values from (0) to (10)",
    "insert into parted values (3)",
    "create table empty (id int)",
    'create schema "Odd; -- \'s"',
    """create table "Odd; -- 's"."T %s ä" ("100%%" int, "%(x)s" int, "a:b" int, "x(y)" int,
        "select" int, "q""q" int, "größe 😀" int)""".replace("%%", "%"),
    """insert into "Odd; -- 's"."T %s ä" values (1, 2, 3, 4, 5, 6, 7)""",
    'grant usage on schema "Odd; -- \'s" to ann',
    """grant select on "Odd; -- 's"."T %s ä", people, shop.visits, grown, kept to ann""",
    "create sequence counter",
    "grant all on counter to ann",
    "create table written (who text)",
    "grant all on written to ann",
    """create function writes() returns int language plpgsql as
        $$begin insert into written values ('a function'); return 1; end$$""",
    """create function turns() returns int language plpgsql as
        $$begin set local transaction_read_only = off; insert into written values ('turned');
        return 1; end$$""",
    """create function commits() returns int language plpgsql as
        $$begin commit; insert into written values ('committed'); return 1; end$$""",
    "create view writing as select writes() as id",
    "create view counting as select nextval('counter') as id",
)


@pytest.fixture(scope="session")
def crm(postgres: Server) -> Server:
    """A server whose database ``crm`` has tables that ann may read, and one that she may write."""
    postgres.run(*MADE)
    return postgres


@pytest.fixture
def ann(crm: Server) -> Iterator[str]:
    """The URL of an account that may do little; what a test sets it to is forgotten."""
    yield crm.url("crm", *ANN)
    crm.run("alter role ann reset all")


def refusal(*args: Any, error: type[Exception] = DataError, **kwargs: Any) -> str:
    with pytest.raises(error) as caught:
        read_table(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    told: BaseException | None = caught.value
    while told is not None:  # what a traceback would show
        assert PASSWORD not in str(told)
        assert ANN[1] not in str(told)
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return message


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "written", "dtype", "value"),
    [
        ("smallint", "-32768", pl.Int64, -32768),
        ("integer", "2147483647", pl.Int64, 2**31 - 1),
        ("bigint", "-9223372036854775808", pl.Int64, -(2**63)),
        ("oid", "42", pl.Int64, 42),
        ("numeric(5, 1)", "41.5", pl.Float64, 41.5),
        ("numeric(18, 0)", "123456789012345678", pl.Int64, 123456789012345678),
        ("numeric", "12345678901234567890", pl.Int128, 12345678901234567890),
        ("numeric", "Infinity", pl.Float64, math.inf),
        ("real", "0.1", pl.Float64, 0.1),
        ("float8", "0.30000000000000004", pl.Float64, 0.1 + 0.2),
        ("float8", "-Infinity", pl.Float64, -math.inf),
        ("boolean", "true", pl.Boolean, True),
        ("text", "Zürich 😀 '' % :x", pl.String, "Zürich 😀 ' % :x"),
        ("char(5)", "ab", pl.String, "ab"),
        ("varchar(5)", "ab ", pl.String, "ab "),
        ("uuid", "8f14e45f-ceea-467f-a8f3-0123456789ab", pl.String, None),
        ("inet", "10.0.0.1", pl.String, "10.0.0.1"),
        ("cidr", "fe80::/64", pl.String, "fe80::/64"),
        ("macaddr", "08:00:2b:01:02:03", pl.String, "08:00:2b:01:02:03"),
        ("date", "1980-02-29", pl.Date, datetime.date(1980, 2, 29)),
        ("time", "12:30", pl.Time, datetime.time(12, 30)),
        ("interval", "1 day 2 hours", pl.Duration("us"), datetime.timedelta(days=1, hours=2)),
        (
            "timestamp",
            "2020-01-02 03:04:05.678901",
            pl.Datetime("us"),
            datetime.datetime(2020, 1, 2, 3, 4, 5, 678901),
        ),
        (
            "timestamptz",
            "2020-07-02 03:04:05+02",
            pl.Datetime("us", "UTC"),
            datetime.datetime(2020, 7, 2, 1, 4, 5, tzinfo=datetime.UTC),
        ),
        ("bytea", r"\x00ff", pl.Binary, b"\x00\xff"),
    ],
)
def test_types(ann: str, kind: str, written: str, dtype: Any, value: Any) -> None:
    """Of whole, fractional and other kinds, each beside a missing value, in whatever order."""
    for rows in (f"('{written}'), (null)", f"(null), ('{written}')"):
        frame = read_table(ann, query=f"select v::{kind} as v from (values {rows}) as t (v)")
        assert frame.schema == {"v": dtype}
        assert frame["v"].drop_nulls().to_list() == [written if value is None else value]
        assert frame["v"].null_count() == 1


def test_a_type_that_an_extension_brings_is_text(crm: Server, ann: str) -> None:
    there = "select 1 from pg_available_extensions where name = 'hstore'"
    with crm.connect() as asked:
        if not asked.execute(there).rowcount:
            pytest.skip("this server has no hstore")
    crm.run("create extension hstore")
    try:
        frame = read_table(ann, query="select 'a=>1'::hstore as v")
    finally:
        crm.run("drop extension hstore")
    assert frame.schema == {"v": pl.String}
    assert frame["v"].to_list() == ['"a"=>"1"']


def test_what_is_nowhere_given(ann: str) -> None:
    frame = read_table(ann, query="select null::int as a, 'NaN'::float8 as b, 'NaN'::numeric as c")
    assert frame["a"].dtype == pl.Null
    assert all(math.isnan(frame[name][0]) for name in "bc")


def test_values_do_not_depend_on_what_an_account_is_set_to(crm: Server, ann: str) -> None:
    query = (
        "select '1980-02-03'::date as d, '2020-07-02 03:04:05'::timestamp as t, "
        "'2020-07-02 03:04:05+00'::timestamptz as z, interval '1 day 02:00' as i, "
        "0.1::float8 + 0.2 as f, '\\x61'::bytea as b, 'é' as e"
    )
    usual = read_table(ann, query=query)
    for setting in (
        "datestyle = 'German'",
        "intervalstyle = 'iso_8601'",
        "extra_float_digits = -5",
        "timezone = 'Pacific/Chatham'",
        "bytea_output = 'escape'",
        "client_encoding = 'LATIN1'",
        "default_transaction_isolation = 'serializable'",
    ):
        crm.run(f"alter role ann set {setting}")
    assert read_table(ann, query=query).equals(usual)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("array[1, 2]", "[1, 2] in row 1, a list"),
        ("""'{"a": 1}'::json""", "{'a': 1} in row 1, a dict"),
        ("""'{"a": [1, "x"]}'::jsonb""", "a dict"),
        ("int4range(1, 5)", "a Range"),
        ("row(1, 'a')", "a tuple"),
        ("'10:00+02'::timetz", "10:00:00+02:00 in row 1, a time of day with a zone"),
    ],
)
def test_what_is_no_cell_is_refused_in_words(ann: str, value: str, kind: str) -> None:
    query = f"select n, case n when 2 then {value} end as v from generate_series(1, 3) as n"
    message = refusal(ann, query=query)
    assert kind in message
    assert "cast it in a query, or name the columns to read without it" in message
    assert read_table(ann, query=query, columns=["n"]).height == 3
    assert read_table(ann, query=query.replace(value, f"({value})::text")).height == 3


def test_dates_that_no_calendar_has(ann: str) -> None:
    assert "date too large" in refusal(ann, query="select 'infinity'::date as d")
    assert "date too small" in refusal(ann, query="select '0044-03-15 BC'::date as d")


def test_kinds_that_differ_in_late_rows(ann: str) -> None:
    frame = read_table(
        ann,
        query="select nullif(n, 1)::numeric + case n when 20000 then 0.5 end * 0 as a, "
        "case when n < 15000 then 3 else 2.5 end as b, "
        "case when n = 20000 then n end as c from generate_series(1, 20000) as n",
    )
    assert frame.schema == {"a": pl.Float64, "b": pl.Float64, "c": pl.Int64}
    assert frame["b"].sum() == 14_999 * 3 + 5001 * 2.5
    assert frame["c"].drop_nulls().to_list() == [20_000]
    late = "select case when n < 15000 then '3' else '\"x\"' end::jsonb as v from "
    message = refusal(ann, query=late + "generate_series(1, 20000) as n")
    assert "holds 3 in row 0 and 'x' in row 14999; cast it to one type" in message


def test_ids(ann: str) -> None:
    """Of whatever type an id is, it is that which a file would hold."""
    query = (
        "select n::smallint as a, n::numeric(12, 0) as b, n::numeric as c, n::char(9)::text as d, "
        "n::char(9) as e, n::varchar as f from generate_series(1, 3) as n"
    )
    table = as_table(read_table(ann, query=query))
    found = [checked_ids("bank", table, name).to_list() for name in table.schema]
    assert found == [[1, 2, 3]] * 3 + [["1", "2", "3"]] * 3


# --- tables, views, names -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("people", [(9, None, "Oslo"), (7, 41, "Rome")]),
        ("public.people", [(9, None, "Oslo"), (7, 41, "Rome")]),
        ("shop.visits", [(7, 3), (9, 4)]),
        ("a.b", [(7,)]),
        ("grown", [(7, 41)]),
        ("kept", [(9,), (7,)]),
        ("parted", [(3,)]),
        ("Odd; -- 's.T %s ä", [(1, 2, 3, 4, 5, 6, 7)]),
    ],
)
def test_tables_and_views(crm: Server, table: str, rows: list[Any]) -> None:
    assert read_table(crm.url(), table=table).rows() == rows


def test_names_with_odd_characters(ann: str) -> None:
    names = ['q"q', "100%", "größe 😀", "%(x)s"]
    frame = read_table(ann, table="Odd; -- 's.T %s ä", id="select", columns=names)
    assert frame.rows(named=True) == [{"select": 5, 'q"q': 6, "100%": 1, "größe 😀": 7, "%(x)s": 2}]


def test_only_the_wanted_columns_are_asked_for(crm: Server, ann: str) -> None:
    assert read_table(ann, table="people", id="id", columns=["town"]).columns == ["id", "town"]
    asked = [" ".join(text.split()) for text in re.findall(r"DECLARE.*\n?.*\"people\"", crm.log())]
    assert asked[-1].endswith(
        'FOR SELECT "public"."people"."id", "public"."people"."town" FROM "public"."people"'
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "peple"}, "the database 'crm' at 127.0.0.1:PORT has no table 'peple'; it has "),
        ({"table": "visits"}, "has no table 'visits'; did you mean 'shop.visits'?"),
        ({"table": "People"}, "has no table 'People'"),
        ({"table": "nosuch.people"}, "has no table 'nosuch.people'"),
        ({"table": "x" * 70}, "has no table 'xxx"),
        ({"table": "people; drop table people"}, "has no table 'people; drop table people'"),
        ({"table": "people", "columns": ["agee"]}, "has no column 'agee'; did you mean 'age'?"),
        ({"table": "empty"}, "has no rows"),
        ({"table": "a.b", "user": ANN}, "permission denied for table a.b"),
        ({"query": "select 1, 2"}, "names column '?column?' twice"),
        ({"query": "select * from nosuch"}, 'relation "nosuch" does not exist'),
        ({"query": "select 1/0"}, "cannot be read: division by zero"),
        ({"query": "selec"}, 'syntax error at or near "selec"; expected one select'),
        ({"query": ""}, "syntax error at end of input; expected one select"),
    ],
)
def test_what_a_database_does_not_have(
    crm: Server, ann: str, arguments: dict[str, Any], message: str
) -> None:
    asked = dict(arguments)
    url = ann if "query" in asked or asked.pop("user", None) else crm.url()
    assert message.replace("PORT", str(crm.port)) in refusal(url, **asked)


def test_queries_are_taken_verbatim(ann: str) -> None:
    text = "select 5 % 3 as m, '%s :x %(y)s {z}' as t, id from people where town like '%o%' ; -- !"
    assert read_table(ann, query=text, id="id").columns == ["id", "m", "t"]
    assert read_table(ann, query=text)["t"].to_list() == ["%s :x %(y)s {z}"] * 2


def test_a_big_table_comes_in_parts(crm: Server, ann: str) -> None:
    """A cursor of the server's is asked for some rows at a time, for a table as for a query."""
    crm.run(
        "create table many as select n as id, n * 0.5::float8 as x from generate_series(1, 50000) n"
    )
    for asked in ({"table": "many"}, {"query": "select * from many"}):
        start = len(crm.log())
        frame = read_table(ann, id="id", **asked)
        assert frame.height == 50_000
        assert frame["x"].sum() == 50_000 * 50_001 / 4
        statements = crm.log()[start:]
        parts = [int(count) for count in re.findall(r"FETCH FORWARD (\d+)", statements)]
        assert len(parts) >= 7
        assert max(parts) <= 8192
        cursors = re.findall(r'DECLARE[^:]*(?:FROM "public"."many"|from many)', statements)
        assert len(cursors) == 1


def test_rows_without_end_do_not_fill_the_memory(ann: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_MOST_BYTES", 2**20)
    monkeypatch.setattr(tables_postgresql, "stored_bytes", lambda connection: 0)
    endless = (
        "with recursive t(x) as (select 1 union all select x + 1 from t) "
        "select x, repeat('x', 100000) as y from t"
    )
    told = refusal(ann, query=endless)
    assert "takes more than 1,048,576 bytes of memory, and may not end" in told


def test_long_values_are_not_held_together(ann: str, tmp_path: Path) -> None:
    """Of rows that are fetched together all were in memory before anybody looked."""
    script = tmp_path / "reads.py"
    script.write_text(READING_LONG.format(url=ann))
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    before, after = map(int, found.stdout.split())
    assert after - before < 900 * 2**10


READING_LONG = """
import resource
from colonnade.errors import DataError
from colonnade.tables import read_table
from colonnade.tables import database

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

url = {url!r}
read_table(url, query="select 1 as a")
before = most()
database._MOST_BYTES, database._TIMES = 2**27, 0
try:
    read_table(url, query="select repeat('x', 30000000) as a from generate_series(1, 64)")
except DataError:
    print(before, most())
"""


def test_how_much_a_database_has_is_asked_of_it(ann: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    asked = tables_postgresql.stored_bytes
    monkeypatch.setattr(
        tables_postgresql,
        "stored_bytes",
        lambda connection: found.append(asked(connection)) or found[-1],
    )
    read_table(ann, query="select 1 as id")
    assert found[0] > 10**6  # the catalogue alone


# --- reading only -------------------------------------------------------------------------------

WRITING = (
    "delete from written",
    "insert into written values ('x') returning who",
    "with w as (insert into written values ('x') returning who) select * from w",
    "select 1; insert into written values ('x')",
    "select 1; commit; insert into written values ('x')",
    "select * from written for update",
    "select 1 as who into written_2",
    "select writes()",
    "select turns()",
    "select commits()",
    "select * from writing",
    "select nextval('counter')",
    "select setval('counter', 7)",
    "select set_config('transaction_read_only', 'off', true)",
    "set transaction read write",
    "begin read write",
    "commit",
    "copy people to stdout",
    "copy people to '/tmp/people'",
    "copy written from program 'echo x'",
    "create temp table t as select 1",
    "do $$begin insert into written values ('x'); end$$",
    "explain analyze insert into written values ('x')",
    "call nothing()",
    "prepare p as select 1",
    "listen news",
    "lock table written",
    "vacuum",
    "select pg_read_file('/etc/passwd')",
    "select pg_ls_dir('/')",
    "select lo_import('/etc/passwd')",
    "select pg_reload_conf()",
)


@pytest.mark.parametrize("query", WRITING)
def test_a_query_reads_alone(crm: Server, ann: str, query: str) -> None:
    message = refusal(ann, query=query)
    assert "cannot be read: " in message or "does more than read; expected a select" in message
    with crm.connect() as connection:
        assert connection.execute("select count(*) from written").fetchone() == (0,)
        assert connection.execute("select is_called from counter").fetchone() == (False,)
        assert connection.execute("select to_regclass('written_2')").fetchone() == (None,)


@pytest.mark.parametrize("view", ["writing", "counting"])
def test_a_view_reads_alone(crm: Server, view: str) -> None:
    """Whoever reads it: the owner may write."""
    assert "in a read-only transaction" in refusal(crm.url(), table=view)
    with crm.connect() as connection:
        assert connection.execute("select count(*) from written").fetchone() == (0,)


def test_what_a_select_leaves_behind_is_undone(crm: Server, ann: str) -> None:
    """What no read-only transaction refuses ends with it, or is never sent."""
    with crm.connect() as connection:
        connection.execute("listen news")
        for query in (
            "select lo_create(77) as x",
            "select lo_from_bytea(78, 'written') as x",
            "select pg_notify('news', 'of a query')::text as x",
            "select pg_advisory_lock(5)::text as x",
            "select set_config('default_transaction_read_only', 'off', false) as x",
            "select set_config('role', 'ann', false) as x",
        ):
            assert read_table(ann, query=query).height == 1
        connection.execute("set lock_timeout = '60s'")
        connection.execute("select pg_advisory_lock(5)")  # given up with the connection
        connection.execute("notify news, 'of the test'")
        heard = [notice.payload for notice in connection.notifies(timeout=0)]
        assert heard == ["of the test"]
        assert connection.execute("select count(*) from pg_largeobject_metadata").fetchone() == (0,)


@pytest.mark.parametrize(
    "right", ["superuser", "pg_write_server_files", "pg_execute_server_program", "owner"]
)
def test_who_may_write_files_has_no_queries(crm: Server, right: str) -> None:
    """A superuser's functions write files from within a read-only transaction."""
    crm.run("create role bob login password 'x'")
    try:
        assert read_table(crm.url(user="bob", password="x"), query="select 1 as x").height == 1
        crm.run("alter role bob superuser" if right == "superuser" else f"grant {right} to bob")
        message = refusal(
            crm.url(user="bob", password="x"), query="select 1 as x", error=ConfigurationError
        )
        assert "may write the server's files" in message
        crm.run("grant select on people to bob")
        assert read_table(crm.url(user="bob", password="x"), table="people").height == 2
    finally:
        crm.run("drop owned by bob", "drop role bob")


@pytest.mark.parametrize("how", ["itself", "by a role that a query can put on"])
def test_who_may_replicate_has_no_queries(crm: Server, bob: str, how: str) -> None:
    """A slot for it stays after the transaction, and the server keeps its log for it."""
    asked = "select pg_create_physical_replication_slot('held', true)::text as x"
    assert "replication" in refusal(bob, query=asked)  # by the server
    if how == "itself":
        crm.run("alter role bob replication")
    else:
        crm.run("create role writer replication", "alter role bob noinherit", "grant writer to bob")
    message = refusal(bob, query=asked, error=ConfigurationError)
    assert "the account may replicate the server, and a query could leave slots for it" in message
    assert read_table(bob, table="people").height == 2
    with crm.connect() as connection:
        assert not connection.execute("select from pg_replication_slots").fetchall()


WRITING_FUNCTIONS = {
    "the server's own": (
        ["grant execute on function lo_export(oid, text) to bob"],
        ["lo_export(oid,text)"],
    ),
    "a procedure": (
        ["create procedure s.saves() language plpgsql security definer as 'begin end'"],
        ["s.saves()"],
    ),
    "under another name": (
        ["create function s.saves(oid, text) returns int language internal as 'be_lo_export'"],
        ["s.saves(oid,text)"],
    ),
    "of a superuser": (
        [
            """create function s.saves() returns int language plpgsql security definer as
                $$begin copy (select 1) to program 'true'; return 1; end$$"""
        ],
        ["s.saves()"],
    ),
    "of who may write": (
        [
            "create role writer",
            "grant pg_write_server_files to writer",
            "create function s.saves() returns int language sql security definer as 'select 1'",
            "alter function s.saves() owner to writer",
        ],
        ["s.saves()"],
    ),
    "of who may call one that does": (
        [
            "create role writer",
            "grant execute on function lo_export(oid, text) to writer",
            "create function s.saves() returns int language sql security definer as 'select 1'",
            "alter function s.saves() owner to writer",
        ],
        ["s.saves()"],
    ),
    "of who may call one of who may": (
        [
            "create role middle",
            "create role writer",
            "grant pg_execute_server_program to writer",
            "create schema hidden",
            "grant usage on schema hidden to middle",
            "create function hidden.saves() returns int language sql security definer as "
            "'select 1'",
            "alter function hidden.saves() owner to writer",
            "create function s.saves() returns int language sql security definer as 'select 1'",
            "alter function s.saves() owner to middle",
        ],
        ["s.saves()"],
    ),
    "beside others that may not be called": (
        [
            f"create function s.f{n}() returns int language sql security definer as 'select 1'"
            for n in range(4)
        ]
        + ["revoke execute on function s.f0(), s.f2() from public"],
        ["s.f1()", "s.f3()"],
    ),
    "of who may replicate": (
        [
            "create role writer replication",
            "create function s.saves() returns int language sql security definer as 'select 1'",
            "alter function s.saves() owner to writer",
        ],
        ["s.saves()"],
    ),
    "in a role that a query can put on": (
        [
            "create role writer",
            "grant execute on function lo_export(oid, text) to writer",
            "alter role bob noinherit",
            "grant writer to bob",
        ],
        ["lo_export(oid,text)"],
    ),
    "of an aggregate": (
        [
            "create function s.adds(int, int) returns int language sql security definer as "
            "'select $1'",
            "revoke execute on function s.adds(int, int) from public",
            "create aggregate s.saves(int) (sfunc = s.adds, stype = int)",
        ],
        ["s.saves(integer)"],
    ),
    "behind an operator": (
        [
            "create schema hidden",
            "create function hidden.saves(int, int) returns int language sql security definer as "
            "'select 1'",
            "create operator s.#!# (function = hidden.saves, leftarg = int, rightarg = int)",
        ],
        ["hidden.saves(integer,integer)"],
    ),
    "behind a view": (
        [
            "create schema hidden",
            "create function hidden.saves() returns int language sql security definer as "
            "'select 1'",
            "create view s.v as select hidden.saves()",
        ],
        ["hidden.saves()"],
    ),
    "that a range is compared by": (
        [
            "create type s.pair as (v int)",
            "create function s.less(s.pair, s.pair) returns bool language sql as 'select true'",
            "create operator s.<## (function = s.less, leftarg = s.pair, rightarg = s.pair)",
            "create function s.saves(s.pair, s.pair) returns int language plpgsql security definer "
            "as 'begin return 0; end'",
            "revoke execute on function s.saves(s.pair, s.pair) from public",
            "create operator class s.pairs default for type s.pair using btree as "
            "operator 1 s.<## (s.pair, s.pair), function 1 s.saves(s.pair, s.pair)",
            "create type s.span as range (subtype = s.pair, subtype_opclass = s.pairs)",
        ],
        ["s.saves(s.pair,s.pair)"],
    ),
    "that equality is told by": (
        [
            "create type s.pair as (v int)",
            "create function s.less(s.pair, s.pair) returns bool language sql as 'select true'",
            "create function s.order(s.pair, s.pair) returns int language sql as 'select 0'",
            "create function s.saves(s.pair, s.pair) returns bool language plpgsql security "
            "definer as 'begin return true; end'",
            "revoke execute on function s.saves(s.pair, s.pair) from public",
            "create operator s.<## (function = s.less, leftarg = s.pair, rightarg = s.pair)",
            "create operator s.=## (function = s.saves, leftarg = s.pair, rightarg = s.pair)",
            "create operator class s.pairs default for type s.pair using btree as "
            "operator 1 s.<## (s.pair, s.pair), operator 3 s.=## (s.pair, s.pair), "
            "function 1 s.order(s.pair, s.pair)",
        ],
        ["s.saves(s.pair,s.pair)"],
    ),
    "behind a domain": (
        [
            "create schema hidden",
            "create function hidden.saves(int) returns bool language sql security definer as "
            "'select true'",
            "create domain s.checked as int check (hidden.saves(value))",
        ],
        ["hidden.saves(integer)"],
    ),
    "many": (
        [
            f"create function s.f{n}() returns int language sql security definer as 'select 1'"
            for n in range(5)
        ],
        ["s.f0()", "s.f1()", "s.f2()"],
    ),
}
HARMLESS_FUNCTIONS = {
    "revoked": (
        "create function s.saves() returns int language sql security definer as 'select 1'",
        "revoke execute on function s.saves() from public",
    ),
    "of who may not write": (
        "create role writer",
        "create function s.reads() returns int language sql security definer as 'select 1'",
        "alter function s.reads() owner to writer",
    ),
    "with its caller's rights": (
        "create function s.reads() returns int language sql as 'select 1'",
    ),
    "a trigger's": (
        """create function s.audits() returns trigger language plpgsql security definer as
            $$begin return new; end$$""",
    ),
    "out of reach": (
        "create function s.saves() returns int language sql security definer as 'select 1'",
        "revoke usage on schema s from bob",
    ),
    "that a default is made by": (
        "create schema hidden",
        "create function hidden.saves() returns int language sql security definer as 'select 1'",
        "create table s.t (id int default hidden.saves(), check (hidden.saves() > 0))",
        "alter function hidden.saves() immutable",
        "create index on s.t ((id + hidden.saves()))",
    ),
    "an aggregate of the server's": (
        "create aggregate s.product(float8) (sfunc = float8mul, stype = float8, initcond = '1')",
    ),
    "a range's": ("create type s.floats as range (subtype = float8)",),
    "one of an extension that asks another": (
        "create function s.pg_file_unlink(text) returns bool language sql as 'select true'",
    ),
    "of an extension": (
        "create function s.saves() returns int language sql security definer as 'select 1'",
        "alter extension plpgsql add function s.saves()",
    ),
}


@pytest.fixture
def bob(crm: Server) -> Iterator[str]:
    """The URL of an account that may use a schema ``s``."""
    crm.run(
        "create role bob login password 'x'", "create schema s", "grant usage on schema s to bob"
    )
    crm.run("grant select on people to bob")
    yield crm.url(user="bob", password="x")
    with crm.connect() as connection:
        extends = "select from pg_depend d join pg_proc p on p.oid = objid where deptype = 'e' and "
        if connection.execute(f"{extends} proname = 'saves'").fetchall():
            connection.execute("alter extension plpgsql drop function s.saves()")
        connection.execute("drop schema if exists s, hidden, bob cascade")
        for name in ("bob", "middle", "writer"):
            if connection.execute("select from pg_roles where rolname = %s", [name]).fetchall():
                connection.execute(f"drop owned by {name}")
                connection.execute(f"drop role {name}")


@pytest.mark.parametrize("case", WRITING_FUNCTIONS)
def test_who_may_call_what_writes_files_has_no_queries(crm: Server, bob: str, case: str) -> None:
    """By a function of theirs that may, one with the rights of such an owner, or a role's."""
    made, named = WRITING_FUNCTIONS[case]
    crm.run(*made)
    message = refusal(bob, query="select 1 as x", error=ConfigurationError)
    assert "by functions that the account may call a query could write the server's" in message
    assert ", ".join(map(repr, named)) + (" and 2 more" if case == "many" else ";") in message
    assert "; revoke execute on them from public and from the account, or name" in message
    assert read_table(bob, table="people").height == 2


@pytest.mark.parametrize("case", HARMLESS_FUNCTIONS)
def test_functions_that_write_no_files_leave_queries(crm: Server, bob: str, case: str) -> None:
    crm.run(*HARMLESS_FUNCTIONS[case])
    assert read_table(bob, query="select 1 as x").height == 1


def test_many_functions_of_many_owners_are_soon_looked_at(crm: Server, bob: str) -> None:
    """Each owner is a member of the one before, so that there are as many pairs as can be."""
    crm.run("create database many", "alter role bob set statement_timeout = '10s'")
    try:
        crm.run(
            """do $$begin for i in 1..100 loop
                execute format('create role r%s', i);
                if i > 1 then execute format('grant r%s to r%s', i - 1, i); end if;
            end loop; end$$""",
            """do $$begin for i in 1..5000 loop
                execute format('create function f%s() returns int language sql security definer '
                    'as ''select 1''', i);
            end loop; end$$""",
            """update pg_proc set proowner = ('r' || 1 + substr(proname, 2)::int % 100)::regrole
                where pronamespace = 'public'::regnamespace""",
            database="many",
        )
        url = crm.url("many", user="bob", password="x")
        assert read_table(url, query="select 1 as x").height == 1
    finally:
        crm.run(
            "drop database many",
            "do $$begin for i in 1..100 loop execute format('drop role r%s', i); end loop; end$$",
        )


def test_a_procedure_that_a_function_calls_writes_no_file(crm: Server, bob: str) -> None:
    """No select calls a procedure, but a function may that a select calls."""
    written = crm.folder / "data" / "of a procedure"
    crm.run(
        "create procedure s.saves() language plpgsql security definer as "
        f"$$begin copy (select 1) to '{written}'; end$$",
        "create function s.calls() returns int language plpgsql as "
        "$$begin call s.saves(); return 1; end$$",
    )
    message = refusal(bob, query="select s.calls() as id", error=ConfigurationError)
    assert "files: 's.saves()';" in message
    assert not written.exists()


def test_what_writes_files_is_found_wherever_a_connection_looks(crm: Server, bob: str) -> None:
    crm.run(
        "create function s.saves() returns int language sql security definer as 'select 1'",
        "create schema hidden",
        "grant usage on schema hidden to public",
        "create view hidden.pg_proc as select * from pg_catalog.pg_proc where false",
        "grant select on hidden.pg_proc to public",
        "alter role bob set search_path = hidden, pg_catalog",
    )
    message = refusal(bob, query="select 1 as x", error=ConfigurationError)
    assert "files: 's.saves()';" in message


def test_a_query_looks_where_its_connection_does(crm: Server, bob: str) -> None:
    crm.run("alter role bob set search_path = s", "create table s.t as select 7 as id")
    crm.run("grant select on s.t to bob")
    assert read_table(bob, query="select id from t").rows() == [(7,)]


EVIL_FUNCTIONS = (
    *("set_config", "current_setting", "current_database", "pg_database_size", "version"),
    *("current_schema", "current_schemas", "pg_has_role", "has_function_privilege", "format_type"),
    *("pg_table_is_visible", "to_regtype", "pg_get_expr", "unnest", "quote_ident", "text"),
)
EVIL_OPERATORS = ("=", "<>", "||", "~~", "!~~", "<", ">", "&")
EVIL_PATH = "evil, public, pg_catalog"


@pytest.fixture(scope="module")
def evil(crm: Server) -> None:
    """A schema of functions and operators by names of the server's, which fail where one is asked.

    They have their caller's rights, so queries are not refused for them.
    """
    fails = "language plpgsql as ''begin raise exception $x$evil was asked$x$; end''"
    crm.run(
        "create schema evil",
        "grant usage on schema evil to public",
        f"""do $$declare it record; begin
            for it in select proname, pg_get_function_identity_arguments(oid) as takes,
                    pg_get_function_result(oid) as gives from pg_proc
                    where prokind = 'f' and proname in {EVIL_FUNCTIONS} loop begin
                execute format('create function evil.%I(%s) returns %s {fails}',
                    it.proname, it.takes, it.gives);
            exception when others then null; end; end loop;
            for it in select oprname, oprleft::regtype as a, oprright::regtype as b,
                    oprresult::regtype as gives from pg_operator
                    where oprleft <> 0 and oprname in {EVIL_OPERATORS} loop begin
                execute format('create function evil.asked(%s, %s) returns %s {fails}',
                    it.a, it.b, it.gives);
                execute format('create operator evil.%s (function = evil.asked, leftarg = %s, '
                    'rightarg = %s)', it.oprname, it.a, it.b);
            exception when others then null; end; end loop;
        end$$""",
    )


@pytest.fixture(params=["of the account", "of the URL"])
def evil_url(request: pytest.FixtureRequest, crm: Server, ann: str, evil: None) -> str:
    """The URL of an account whose names are looked up in ``evil`` first."""
    if request.param == "of the URL":
        return crm.url("crm", *ANN, options=f"-c search_path={EVIL_PATH.replace(' ', '')}")
    crm.run(f"alter role ann set search_path = {EVIL_PATH}")
    return ann


@pytest.mark.parametrize(
    "call",
    ["set_config('a.b', 'c', true)", "current_schema()", "pg_database_size('crm')", "1 = n"],
)
def test_a_query_calls_what_its_connection_finds(evil_url: str, call: str) -> None:
    message = refusal(evil_url, query=f"select {call} as x from generate_series(1, 1) as n")
    assert "evil was asked" in message


@pytest.mark.parametrize(
    "asked",
    [
        {"table": "people"},
        {"table": "public.people"},
        {"table": "people", "columns": ["age"]},
        {"query": "select * from people"},
    ],
)
def test_what_is_asked_beside_a_select_is_the_servers_own(
    evil_url: str, asked: dict[str, Any]
) -> None:
    """Whatever functions and operators a connection finds first."""
    assert read_table(evil_url, id="id", **asked)["id"].to_list() == [9, 7]


def test_what_is_not_there_is_told_by_what_the_server_says(evil_url: str) -> None:
    assert "; it has " in refusal(evil_url, table="peple")
    assert "did you mean 'shop.visits'?" in refusal(evil_url, table="visits")


def test_how_much_a_database_has_is_told_by_the_server(
    crm: Server, bob: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crm.run(
        "create function s.pg_database_size(name) returns bigint language sql as "
        "'select 4000000000000000000'",
        "alter role bob set search_path = s, pg_catalog",
    )
    monkeypatch.setattr(database, "_MOST_BYTES", 2**10)
    monkeypatch.setattr(database, "_TIMES", 1e-9)
    told = refusal(bob, query="select repeat('x', 5000) as x from generate_series(1, 10)")
    assert "takes more than 1,024 bytes of memory" in told
    assert read_table(bob, query="select pg_database_size('crm') > 10^18 as x").item()


def test_a_connection_keeps_the_path_that_it_has(crm: Server, ann: str) -> None:
    """It is set within the transaction alone: a connection may be lent to others afterwards."""
    crm.run("""alter role ann set search_path = "$user", shop, "Odd; -- 's" """)
    start = len(crm.log())
    query = "select current_setting('search_path') as now, reset_val as then from pg_settings "
    rows = read_table(ann, query=query + "where name = 'search_path'").rows()
    assert rows == [("""\"$user", shop, "Odd; -- 's\"""",) * 2]
    sets = re.findall(r"(?<=: )set .*search_path.*", crm.log()[start:])
    assert sets
    assert all(text.startswith("set local ") for text in sets)


def test_a_view_looks_where_its_connection_does(crm: Server, bob: str) -> None:
    crm.run(
        "create table s.t as select 7 as id",
        "create function s.looks() returns int language plpgsql as "
        "'begin return (select id from t); end'",
        "create view s.v as select s.looks() as id",
        "grant select on s.t, s.v to bob",
        "alter role bob set search_path = s",
    )
    assert read_table(bob, table="v").rows() == [(7,)]
    assert read_table(bob, table="s.v").rows() == [(7,)]


@pytest.mark.parametrize(
    ("path", "found"),
    [("s, hidden", 1), ("hidden, s", 2), ('nosuch, "$user", hidden', 3), ("public, hidden", 2)],
)
def test_tables_are_looked_for_along_the_path(crm: Server, bob: str, path: str, found: int) -> None:
    crm.run(
        "create schema hidden",
        "create schema bob",
        "grant usage on schema hidden, bob to bob",
        *(
            f"create table {s}.t as select {n} as id"
            for n, s in enumerate(("s", "hidden", "bob"), 1)
        ),
        "create table hidden.alone as select 4 as id",
        "grant select on s.t, hidden.t, hidden.alone, bob.t to bob",
        f"alter role bob set search_path = {path}",
    )
    assert read_table(bob, table="t").rows() == [(found,)]
    assert read_table(bob, query="select * from t").rows() == [(found,)]
    assert read_table(bob, table="hidden.t").rows() == [(2,)]
    crm.run("alter role bob set search_path = s, hidden")
    assert refusal(bob, table="nosuch").endswith("has no table 'nosuch'; it has 't', 'alone'")
    crm.run("alter role bob set search_path = s")
    assert read_table(bob, table="t").rows() == [(1,)]
    assert "did you mean 'hidden.alone'?" in refusal(bob, table="alone")


def test_a_view_runs_what_its_owner_wrote(crm: Server, bob: str) -> None:
    """Also what writes files: the view is there for those who may read it."""
    written = crm.folder / "data" / "of a view"
    crm.run(
        "create function s.saves() returns int language plpgsql security definer as "
        f"$$begin copy (select 1) to '{written}'; return 1; end$$",
        "create view s.v as select s.saves() as id",
        "grant select on s.v to bob",
    )
    assert read_table(bob, table="s.v").rows() == [(1,)]
    assert written.exists()
    assert "s.saves()" in refusal(bob, query="select * from s.v", error=ConfigurationError)


def test_a_foreign_table_runs_what_its_owner_wrote(crm: Server, bob: str) -> None:
    with crm.connect() as connection:
        if not connection.execute(
            "select from pg_available_extensions where name = 'file_fdw'"
        ).fetchall():
            pytest.skip("PostgreSQL has no file_fdw here")
    written = crm.folder / "data" / "of_a_foreign_table"
    try:
        crm.run(
            "create extension file_fdw",
            "create server s foreign data wrapper file_fdw",
            "create foreign table s.t (id int) server s "
            f"options (program 'echo 7 | tee {written}')",
            "grant select on s.t to bob",
        )
        assert read_table(bob, table="s.t").rows() == [(7,)]
        assert written.exists()
    finally:
        crm.run("drop extension if exists file_fdw cascade")


def test_another_server_is_written_to_by_no_account_that_may_not(crm: Server, ann: str) -> None:
    """Through dblink a query does what the account may do there: give it one that may read."""
    with crm.connect() as connection:
        if not connection.execute(
            "select from pg_available_extensions where name = 'dblink'"
        ).fetchall():
            pytest.skip("PostgreSQL has no dblink here")
        connection.execute("create extension if not exists dblink")
    there = f"host=127.0.0.1 port={crm.port} dbname=crm user=ann password=''{ANN[1]}''"
    for table in ("people", "a.b"):
        write = f'insert into "{table}" (id) values (1)'
        message = refusal(ann, query=f"select dblink_exec('{there}', '{write}')")
        assert f"permission denied for table {table}" in message
    with crm.connect() as connection:
        assert connection.execute("select count(*) from people").fetchone() == (2,)


# --- connections --------------------------------------------------------------------------------


def test_connections_that_cannot_be_had(crm: Server) -> None:
    place = f"at 127.0.0.1:{crm.port} cannot be read: connection failed: "
    wrong = refusal(crm.url("crm", "ann", "hunter2 wrong"), table="people")
    assert f"the database 'crm' {place}" in wrong
    assert 'password authentication failed for user "ann"' in wrong
    assert "wrong" not in wrong
    nobody = refusal(crm.url("crm", "nosuch", "hunter2 wrong"), table="people")
    assert 'password authentication failed for user "nosuch"' in nobody
    absent = refusal(crm.url("nosuch", *ANN), table="people")
    assert 'database "nosuch" does not exist' in absent
    unnamed = refusal(crm.url("", *ANN).rstrip("/"), table="people")
    assert unnamed.startswith(f"the database at 127.0.0.1:{crm.port} cannot be read: ")
    assert 'database "ann" does not exist' in unnamed
    both = refusal(crm.url("crm", "ann:hunter2", ANN[1]), table="people", error=ConfigurationError)
    assert "has a colon in the name of its user" in both
    assert "hunter2" not in both
    option = refusal(crm.url("crm", *ANN, pasword="hunter2 typed"), table="people")
    assert 'invalid connection option "pasword"' in option
    assert "typed" not in option


def test_a_short_password_is_no_part_of_a_word(bob: str) -> None:
    """Else what is left of the word would tell it."""
    assert 'syntax error at or near "selec"' in refusal(bob, query="selec")
    assert 'type integer: "***"' in refusal(bob, query="select 'x'::int as n")


def test_tls(crm: Server) -> None:
    plain = refusal(crm.url("sealed", *ANN, sslmode="disable"), table="people")
    assert "pg_hba.conf rejects connection" in plain
    assert "no encryption" in plain
    query = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
    assert read_table(crm.url("sealed", *ANN), query=query).rows() == [(True,)]
    certificate = str(crm.folder / "cert")
    known = crm.url("sealed", *ANN, sslmode="verify-full", sslrootcert=certificate)
    assert read_table(known, query=query).rows() == [(True,)]
    misnamed = refusal(known.replace("127.0.0.1", "localhost"), query=query)
    assert 'does not match host name "localhost"' in misnamed
    unknown = refusal(
        crm.url("sealed", *ANN, sslmode="verify-full", sslrootcert="/nosuch/root"), query=query
    )
    assert 'root certificate file "/nosuch/root" does not exist' in unknown


def test_a_socket(crm: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", ANN[1])
    url = f"postgresql://ann@/crm?host={crm.folder}&port={crm.port}"
    assert read_table(url, table="people").height == 2
    assert f"the database 'crm' at {crm.folder} has no table" in refusal(url, table="nosuch")


def test_several_hosts(crm: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that answers."""
    monkeypatch.setenv("PGPASSWORD", ANN[1])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        silent = f"127.0.0.1:{taken.getsockname()[1]}"
        url = f"postgresql://ann@/crm?host={silent}&host=127.0.0.1:{crm.port}"
        assert read_table(url, table="people").height == 2
        message = refusal(f"postgresql://ann@/crm?host={silent}&host={silent}", table="people")
    assert f"the database 'crm' at {silent}, {silent} cannot be read" in message


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_encodings(crm: Server, encoding: str) -> None:
    name = encoding.lower()
    crm.run(
        f"drop database if exists {name}",
        f"create database {name} encoding '{encoding}' locale 'C' template template0",
    )
    with crm.connect(name) as connection:
        connection.execute("set client_encoding = 'utf8'")
        connection.execute('create table towns (id int, "größe" text)')
        connection.execute("insert into towns values (1, 'Zürich')")
        connection.execute("grant select on towns to ann")
    url = crm.url(name, *ANN)
    for asked in ({"table": "towns"}, {"query": "select * from towns where größe = 'Zürich'"}):
        assert read_table(url, **asked).rows(named=True) == [{"id": 1, "größe": "Zürich"}]
    if encoding == "SQL_ASCII":  # which takes any bytes, and knows of none what they mean
        with crm.connect(name) as connection:
            connection.execute(
                r"""insert into towns values (2, convert_from('\xfc', 'SQL_ASCII'))"""
            )
        assert "?client_encoding=latin1" in refusal(url, table="towns")
        query = "select id, convert_to(größe, 'SQL_ASCII') as b from towns"
        assert read_table(url, query=query)["b"].to_list() == ["Zürich".encode(), b"\xfc"]
    else:
        assert "has no equivalent in encoding" in refusal(url, query="select '😀' as x")
        latin = crm.url(name, *ANN, client_encoding="latin1")
        assert read_table(latin, table="towns").rows() == [(1, "Zürich")]
        assert "can't encode" in refusal(latin, query="select '😀' as x")


# --- what happens while it is read --------------------------------------------------------------

LATE = "select n, case n when 30000 then {} end as x from generate_series(1, 40000) as n"


def test_a_connection_that_the_server_ends(ann: str) -> None:
    message = refusal(ann, query=LATE.format("pg_terminate_backend(pg_backend_pid())"))
    assert "terminating connection due to administrator command" in message


def test_an_error_in_a_late_row(ann: str) -> None:
    assert "division by zero" in refusal(ann, query=LATE.format("n / (n - 30000)"))


@contextmanager
def cut_after(port: int, bytes: int) -> Iterator[int]:
    """Pass on what comes to a port, until so many bytes have come back; yield the new port."""

    def up(near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):  # cut
            while sent := near.recv(2**16):
                far.sendall(sent)

    def down() -> None:
        with (
            listening,
            closing(listening.accept()[0]) as near,
            socket.create_connection(("127.0.0.1", port)) as far,
        ):
            upwards = threading.Thread(target=up, args=(near, far))
            upwards.start()
            left = bytes
            while left > 0 and (came := far.recv(min(left, 2**16))):
                near.sendall(came)
                left -= len(came)
            near.shutdown(socket.SHUT_RDWR)
            upwards.join()

    listening = socket.create_server(("127.0.0.1", 0))
    passing = threading.Thread(target=down)
    passing.start()
    try:
        yield listening.getsockname()[1]
    finally:
        passing.join()


@pytest.mark.parametrize("bytes", [5, 400, 100_000])
def test_a_connection_that_is_cut(crm: Server, bytes: int) -> None:
    with cut_after(crm.port, bytes) as port:
        url = crm.url("crm", *ANN, port=port, sslmode="disable")
        message = refusal(url, query="select n, n::text as t from generate_series(1, 100000) as n")
    assert f"the database 'crm' at 127.0.0.1:{port} cannot be read: " in message
    assert "server closed the connection unexpectedly" in message


def test_a_statement_that_takes_too_long_for_the_server(crm: Server, ann: str) -> None:
    crm.run("alter role ann set statement_timeout = '20ms'")
    message = refusal(ann, query="select pg_sleep(600)::text as x")
    assert "canceling statement due to statement timeout" in message


def test_a_locked_table(crm: Server, ann: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_postgresql, "_LOCKED_SECONDS", 0.02)
    with crm.connect() as connection:
        with connection.transaction():
            connection.execute("lock table people in access exclusive mode")
            for asked in ({"table": "people"}, {"query": "select * from people"}):
                message = refusal(ann, **asked)
                assert "is locked by another program; try again when that has finished" in message
        assert read_table(ann, table="people").height == 2


def test_an_account_says_itself_how_long_it_waits(crm: Server, ann: str) -> None:
    query = "select current_setting('lock_timeout') as t, current_setting('statement_timeout') as s"
    assert read_table(ann, query=query).rows() == [("30s", "0")]
    crm.run("alter role ann set lock_timeout = '7s'")
    assert read_table(ann, query=query).rows() == [("7s", "0")]


@pytest.mark.filterwarnings("ignore:.*ServerCursor:pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_ends_a_query(crm: Server, ann: str) -> None:
    """The server does not go on with it."""
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    crm.run("alter role ann set lock_timeout = '1min'")
    with crm.connect() as connection:
        connection.execute("select pg_advisory_lock(9)")

        def interrupt() -> None:
            deadline = time.monotonic() + 30
            while connection.execute(waiting).fetchone() == (0,) and time.monotonic() < deadline:
                pass
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupting = threading.Thread(target=interrupt)
        try:
            interrupting.start()
            with pytest.raises(KeyboardInterrupt):
                read_table(ann, query="select pg_advisory_lock(9)::text as x")
        finally:
            interrupting.join()
            signal.signal(signal.SIGINT, before)
        assert connection.execute(waiting).fetchone() == (0,)
    gc.collect()  # of a cursor that was interrupted it is told when it goes
    assert "canceling statement due to user request" in crm.log()


# --- a whole run --------------------------------------------------------------------------------

PEOPLE = 200
BANK = pl.DataFrame(
    {
        "id": [1000 + i for i in range(PEOPLE)],
        "income": [None if i % 9 == 0 else (i * 7919) % 80000 / 100 for i in range(PEOPLE)],
        "member": [i % 3 == 0 for i in range(PEOPLE)],
        "region": [["north", "south", None, "Zürich"][i % 4] for i in range(PEOPLE)],
        "debts": [(i * 31) % 7 for i in range(PEOPLE)],
    }
)
CLINIC = pl.DataFrame(
    {
        "id": [1000 + i for i in range(10, PEOPLE)],
        "visits": [None if i % 11 == 0 else (i * 6101) % 90 for i in range(10, PEOPLE)],
        "weight": [40 + (i * 37) % 611 / 10 for i in range(10, PEOPLE)],
    }
)
LABELS = pl.DataFrame({"id": BANK["id"], "ill": [(i * 6101) % 90 > 40 for i in range(PEOPLE)]})


@pytest.mark.usefixtures("no_pictures")
def test_a_run_from_databases_has_the_bits_of_one_from_files(
    crm: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order that rows lie in, and though types have other names."""
    monkeypatch.chdir(tmp_path)
    BANK.write_csv("bank.csv")
    CLINIC.write_parquet("clinic.parquet")
    LABELS.write_csv("labels.csv")
    mixed = BANK.join(LABELS, on="id").sample(fraction=1, shuffle=True, seed=3)
    with crm.connect() as connection:
        connection.execute(
            "create table shop.clients (id numeric(12, 0), income numeric(9, 2), member boolean, "
            "region char(20), debts smallint, ill boolean)"
        )
        connection.cursor().executemany(
            "insert into shop.clients values (%s, %s, %s, %s, %s, %s)", mixed.rows()
        )
        connection.execute("grant select on shop.clients to ann")
    with closing(sqlite3.connect("clinic.db")) as database, database:
        database.execute("create table patients (id integer, visits integer, weight real)")
        shuffled = CLINIC.sample(fraction=1, shuffle=True, seed=4)
        database.executemany("insert into patients values (?, ?, ?)", shuffled.rows())
        database.execute("create view clinic as select * from patients")
    monkeypatch.setenv("BANK_PASSWORD", ANN[1])
    bank = crm.url("crm", "ann", "$BANK_PASSWORD").replace("%24", "$")
    sources = {
        "files": [{"source": "bank.csv"}, {"source": "clinic.parquet"}, {"source": "labels.csv"}],
        "databases": [
            {
                "source": bank,
                "table": "shop.clients",
                "columns": ["income", "member", "region", "debts"],
            },
            {"source": "sqlite:///clinic.db", "table": "clinic"},
            {"source": bank, "query": "select ill, id from shop.clients order by random()"},
        ],
    }
    found = {}
    for name, (of_bank, of_clinic, of_labels) in sources.items():
        config = {
            "data": {
                "id": "id",
                "parties": {"bank": of_bank, "clinic": of_clinic},
                "labels": of_labels | {"column": "ill"},
            },
            "model": {"bottom": {"widths": [8]}},
            "training": {"epochs": 3, "batch_size": 32, "checkpoint_every": 5},
        }
        Path(f"{name}.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["colonnade", "run", f"{name}.yaml", "--out", name])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code
        found[name] = repeatable(Path(name))
        written = (path for path in Path(name).rglob("*") if path.is_file())
        assert not any(ANN[1].encode() in path.read_bytes() for path in written)
    assert found["files"][2]
    assert found["files"] == found["databases"]


def test_the_rows_of_a_table_have_no_order(tmp_path: Path) -> None:
    """A database gives them as it likes, so their order cannot say which belong together."""
    bank = {"source": "sqlite:///bank.db"}
    data: dict[str, Any] = {"parties": {"bank": bank | {"table": "clients"}}}
    data |= {"labels": {"source": "labels.csv", "column": "ill"}}
    with pytest.raises(ConfigurationError, match=r"parties\.bank is a table of a database, whose"):
        parse_config({"data": data | {"aligned": True}})
    data["parties"]["bank"] = bank | {"query": "select income from clients order by id"}
    assert parse_config({"data": data | {"aligned": True}}).data.aligned


@pytest.mark.parametrize("value", ["repeat('[', 5000) || repeat(']', 5000)", "repeat('9', 5000)"])
def test_json_that_python_cannot_read_is_refused_in_words(ann: str, value: str) -> None:
    message = refusal(ann, query=f"select ({value})::json as x")
    assert "holds what its driver cannot read" in message


def test_an_encoding_that_is_none_is_refused_in_words(crm: Server) -> None:
    url = crm.url(user=ANN[0], password=ANN[1], client_encoding="sql_ascii")
    assert "say another client_encoding" in refusal(url, query="select 'x' as x")
