"""Whether a query to PostgreSQL could write the server's files, or leave something behind there.

Superusers may, and members of two roles that come with the server. So may whoever may call a
function that writes a file itself: one of the server's own that was granted to the account, as
``lo_export``, or one of somebody's in a language that is not trusted, as ``plpython3u``. And
whoever may call a function that runs with the rights of its owner (``security definer``), as all
may by default, where the owner may write files, by whatever of these. An aggregate is what it is
made of. A procedure counts as a function does: no select calls it, but functions do. Whoever may
replicate the server makes slots that stay, and for which the server keeps its log.

What an account may do in other roles counts, since a select can put one on. A function in a schema
that the account may not use counts where something else calls it: an operator, a view, a policy;
and one that types and indices are made with, of which nobody is asked whether they may call it.
Triggers' functions do not, since no select calls them; nor those of extensions, which are many and
by others than who made the database, but for the few that are there to write files. Nor do those
that only defaults, constraints of tables, indices or triggers call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.errors import ConfigurationError
from colonnade.telling import shown

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["check_writes_no_files"]

_SHOWN = 3

_RIGHTS = """
select bool_or(rolsuper or rolname in (
    'pg_write_server_files', 'pg_execute_server_program')) as writes,
    bool_or(rolreplication) as replicates
from pg_roles where pg_has_role(session_user, oid, 'member')
"""

# Objects from 16384 on were not made with the server. What is of the language "internal" is the
# server's code all the same, as the functions that make a range. Owners who write are found by
# those who do. Functions may be thousands, of hundreds of roles that are members of each other: who
# may call is asked once of each role and of functions that are alike in all that tells, and role by
# role ("offset 0" says so), since the server remembers what one of them is a member of.
_FUNCTIONS = """
with recursive runs as (
    select oid as f, oid as part from pg_proc where prokind <> 'a'
    union select a.aggfnoid, of from pg_aggregate a, unnest(array[aggtransfn, aggfinalfn,
        aggcombinefn, aggserialfn, aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn]::oid[]
    ) as of where of <> 0
), risky as (
    select runs.f, called.pronamespace as place, p.proowner as owner, named or not trusted as direct
    from runs join pg_proc called on called.oid = runs.f join pg_proc p on p.oid = runs.part
    join pg_language l on l.oid = p.prolang, lateral (select
        l.lanname = 'internal' and p.prosrc = 'be_lo_export' or l.lanname = 'c' and
            p.proname in ('pg_file_write', 'pg_file_rename', 'pg_file_unlink') as named,
        l.lanpltrusted or l.lanname = 'internal' or p.oid < 16384 as trusted,
        exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid
            and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e') as extends) as of
    where p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
        and (named or (not extends and (p.prosecdef or not trusted)))
), behind as (
    select d.refobjid as called from pg_depend d left join pg_constraint c
        on d.classid = 'pg_constraint'::regclass and c.oid = d.objid
    where d.refclassid = 'pg_proc'::regclass and (c.contypid <> 0 or d.classid in (
        'pg_operator'::regclass, 'pg_cast'::regclass, 'pg_rewrite'::regclass,
        'pg_policy'::regclass, 'pg_proc'::regclass))
), unasked as (
    select refobjid as called from pg_depend where refclassid = 'pg_proc'::regclass
        and classid in ('pg_type'::regclass, 'pg_amproc'::regclass)
    union select o.oprcode from pg_amop a join pg_operator o on o.oid = a.amopopr
), alike as (
    select *, dense_rank() over (
        order by proowner, proacl::text, place, owner, direct, behind, unasked) as n
    from risky join pg_proc on oid = f, lateral (select f in (select called from behind) as behind,
        f in (select called from unasked) as unasked) as how
), kinds as (
    select distinct on (n) n, f, place, owner, direct, behind, unasked from alike order by n
), asked as (
    select owner as r from kinds union select oid from pg_roles where rolname = session_user
), acts_as as (
    select a.r, m.oid as m, m.writes from asked a, lateral (
        select oid, rolsuper or rolreplication or rolname in (
            'pg_write_server_files', 'pg_execute_server_program') as writes
        from pg_roles where pg_has_role(a.r, oid, 'member') offset 0) as m
), may_call as (
    select m, n, owner, direct from (select distinct m from acts_as) as each, lateral (
        select n, owner, direct from kinds where unasked or has_function_privilege(m, f, 'execute')
            and (behind or has_schema_privilege(m, place, 'usage')) offset 0) as k
), leads as (
    select r, m as on_to from acts_as union select m, owner from may_call
), writers as (
    select m from acts_as where writes union select m from may_call where direct
    union select l.r from leads l join writers w on w.m = l.on_to
)
select distinct f::regprocedure::text from may_call join alike using (n) where m in (
    select m from acts_as join pg_roles on oid = r where rolname = session_user
) and (may_call.direct or may_call.owner in (select m from writers)) order by 1
"""


def check_writes_no_files(connection: Connection, where: str) -> None:
    """Refuse an account by whose query the server's files could be written, or a slot be made.

    Parameters
    ----------
    connection
        In a transaction that looks for the server's own names alone.
    where
        What a sentence calls the database.

    Raises
    ------
    ConfigurationError
        If the account may write them, itself or by a function, or replicate the server.
    """
    rights = connection.exec_driver_sql(_RIGHTS).one()
    if rights.writes:
        raise ConfigurationError(
            f"{where}: the account may write the server's files, as a superuser may, and so could "
            "a query; use an account that may only read, or name a table or a view"
        )
    if rights.replicates:
        raise ConfigurationError(
            f"{where}: the account may replicate the server, and a query could leave slots for it "
            "there; use an account that may only read, or name a table or a view"
        )
    if found := connection.exec_driver_sql(_FUNCTIONS).scalars().all():
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ConfigurationError(
            f"{where}: by functions that the account may call a query could write the server's "
            f"files: {', '.join(map(shown, found[:_SHOWN]))}{more}; revoke execute on them from "
            "public and from the account, or name a table or a view"
        )
