"""The alignment of organisations that show each other no id, with all of them on one machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from colonnade.alignment.kept import Kept
from colonnade.alignment.statement import who_learns_what
from colonnade.drivers import Assignment, Driver, Elsewhere, Processes, Simulate
from colonnade.drivers.account import Values
from colonnade.effects import Role
from colonnade.errors import ConfigurationError, DataError
from colonnade.roles.align import AlignLabelHolder, AlignParty, Meeting
from colonnade.secure import Secrets
from colonnade.tables import IdForm
from colonnade.tables.own_ids import OwnIds

__all__ = ["Organisation", "align_apart", "align_here", "align_privately"]


@dataclass(frozen=True)
class Organisation:
    """One that aligns, and how its ids are read: where its role is played, and nowhere else.

    Parameters
    ----------
    name
        Its name.
    id
        The column of ids.
    read
        Reads its ids.
    """

    name: str
    id: str
    read: Callable[[], OwnIds]


def align_privately(
    tables: Mapping[str, Any],
    label_holder: str,
    *,
    id: str,
    normalise: IdForm | None = None,
    driver: Driver | None = None,
    secrets: Mapping[str, Secrets] | None = None,
) -> dict[str, Kept]:
    """Return the ids that all tables have, as a protocol finds them that shows nobody an id.

    All tables are in this process, so it is the protocol that is tried, and nothing protected.

    Parameters
    ----------
    tables
        A table for each organisation: what ``as_frame`` takes, or a ``StoredTable``.
    label_holder
        Who of them compares.
    id
        The column of ids.
    normalise
        The form in which ids are compared; by default they are as they are written.
    driver
        What plays the roles; by default the simulator.
    secrets
        What each draws its keys from; by default new ones of the system's source.

    Raises
    ------
    ConfigurationError
        If nobody is the label holder, or openmined-psi is not installed.
    DataError
        If an id is missing or occurs twice, ids are not whole numbers or text, or not of one kind
        everywhere, or none is in all tables.

    Examples
    --------
    >>> tables = {"bank": {"id": [3, 1, 2]}, "shop": {"id": [1, 3, 9]}, "insurer": {"id": [1, 3]}}
    >>> found = align_privately(tables, "insurer", id="id")
    >>> found["bank"].ids.to_list(), found["bank"].left_out, found["insurer"].absent
    ([1, 3], {'bank': 1}, {'bank': 0, 'shop': 0})
    """
    if label_holder not in tables:
        raise ConfigurationError(f"the label holder {label_holder!r} has no table")
    organisations = [
        Organisation(name, id, partial(OwnIds, name, {name: table}, id, normalise))
        for name, table in tables.items()
    ]
    meeting = _meeting(organisations, label_holder, normalise)
    return align_here(meeting, organisations, driver or Simulate(), secrets=secrets)


def _meeting(
    organisations: Sequence[Organisation], label_holder: str, normalise: IdForm | None
) -> Meeting:
    parties = tuple(each.name for each in organisations if each.name != label_holder)
    return Meeting(parties, label_holder, "" if normalise is None else repr(normalise))


def align_here(
    meeting: Meeting,
    organisations: Sequence[Organisation],
    driver: Driver,
    *,
    told: Callable[[int, int], None] | None = None,
    secrets: Mapping[str, Secrets] | None = None,
) -> dict[str, Kept]:
    """Align with the ids of all in this process; return what each organisation keeps.

    ``told`` is called with how many ids have been blinded, and how many will be, all keys together.

    Raises
    ------
    DataError
        As by ``align_privately``.
    """
    seats = [Seat(meeting, each, (secrets or {}).get(each.name)) for each in organisations]
    roles = [seat.cast() for seat in seats]
    driver.run(roles, _assignment(meeting, told))
    found = {role.name: seat.kept(role) for seat, role in zip(seats, roles, strict=True)}
    refuse_nobody(meeting, min(len(kept.ids) for kept in found.values()))
    return found


def align_apart(
    meeting: Meeting,
    organisations: Sequence[Organisation],
    driver: Processes,
    keep: Callable[[Kept], object],
    *,
    told: Callable[[int, int], None] | None = None,
) -> None:
    """Align with each organisation in a process of its own, which alone reads its ids.

    ``read`` of each organisation, and ``keep``, can be imported, or are a ``functools.partial`` of
    what can; ``keep`` is called in each of these processes, if there are ids in common.

    Raises
    ------
    DataError
        As by ``align_privately``.
    """
    everybody = set(meeting.everybody)
    roles = []
    for each in organisations:
        seat = Seat(meeting, each)
        peers = sorted(everybody - {each.name})
        roles.append(Elsewhere(each.name, peers, seat.cast, partial(_finish, seat, keep)))
    reports: list[Values] = []
    driver.run(roles, _assignment(meeting, told, reports.append))
    refuse_nobody(meeting, min(int(each["in_common"]) for each in reports if "in_common" in each))


def _finish(seat: Seat, keep: Callable[[Kept], object], role: Role) -> None:
    kept = seat.kept(role)
    if len(kept.ids):
        keep(kept)


@dataclass(frozen=True)
class Seat:
    """An organisation at a meeting: all that its process needs.

    Parameters
    ----------
    meeting
        What all have agreed on.
    organisation
        Whose seat it is.
    secrets
        What its keys are drawn from; by default new ones.
    """

    meeting: Meeting
    organisation: Organisation
    secrets: Secrets | None = None

    def cast(self) -> AlignParty | AlignLabelHolder:
        """Read the organisation's ids, and return its role."""
        own, name = self.organisation.read(), self.organisation.name
        secrets = self.secrets or Secrets.system()
        if name == self.meeting.label_holder:
            return AlignLabelHolder(self.meeting, own, secrets)
        return AlignParty(self.meeting, name, own, secrets)

    def kept(self, role: Any) -> Kept:
        """Return what the organisation keeps when its role has played."""
        own: OwnIds = role.ids
        return Kept(
            organisation=role.name,
            everybody=self.meeting.everybody,
            id=self.organisation.id,
            form=self.meeting.form,
            rows=own.rows,
            ids=own.values.gather(pl.Series(role.places.numpy())).alias(self.organisation.id),
            absent=dict(role.absent),
            learned=who_learns_what(self.meeting),
        )


def _assignment(
    meeting: Meeting,
    told: Callable[[int, int], None] | None,
    heard: Callable[[Values], object] | None = None,
) -> Assignment:
    done: dict[str, int] = {}
    to_do: dict[str, int] = {}

    def on_report(values: Values) -> None:
        if heard is not None:
            heard(values)
        if told is not None and "ids" in values:
            who = str(values["organisation"])
            done[who], to_do[who] = int(values["ids"]), int(values["of"])
            if len(to_do) == len(meeting.everybody):
                told(sum(done.values()), sum(to_do.values()))

    return Assignment(on_report=on_report, limits=meeting.limits())


def refuse_nobody(meeting: Meeting, common: int) -> None:
    """Raise ``DataError`` if no id was in all tables."""
    if not common:
        raise DataError(
            f"no id is in all tables of {', '.join(map(repr, meeting.everybody))}; check what the "
            "ids mean and how they are written: normalise=IdForm() (YAML: ids: {}) makes numbers "
            "text, and its pad gives numbers the zeros in front that others have"
        )
