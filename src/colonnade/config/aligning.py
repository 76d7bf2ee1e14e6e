"""From a configuration to the organisations that align, each with what reads its own ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from colonnade.alignment import Organisation, align_apart, align_here, write_alignment
from colonnade.config.run import RunConfig
from colonnade.config.tables import TableConfig, TablesConfig
from colonnade.drivers import Processes
from colonnade.errors import ConfigurationError
from colonnade.roles.align import Meeting
from colonnade.tables import IdForm
from colonnade.tables.own_ids import OwnIds
from colonnade.tables.together import LABELS

__all__ = ["aligning", "carry_out", "own_ids"]


def aligning(config: RunConfig) -> tuple[Meeting, list[Organisation]]:
    """Return what all agree on, and the organisations: the parties, then the label holder.

    Nothing is read here: what reads an organisation's ids can be called in another process.

    Raises
    ------
    ConfigurationError
        If the data are no tables of organisations with a column of ids, or names do not fit.
    """
    data = config.data
    if not isinstance(data, TablesConfig):
        raise ConfigurationError(
            f"data: {data.name} is in one place already; organisations align tables of their own: "
            "data: {parties: ..., labels: ...}"
        )
    if data.id is None:
        raise ConfigurationError("data.id: say which column says whom a row is about")
    holder, folder, form = config.label_holder, data.place(), data.form()
    tables: dict[str, dict[str, TableConfig]] = {
        name: {name: party} for name, party in data.of_parties(holder.holds).items()
    }
    if holder.name in tables:
        raise ConfigurationError(
            f"label_holder.name: {holder.name!r} is a party already; say label_holder: "
            f"{{holds: {holder.name}}} if the labels are its own"
        )
    meeting = Meeting(tuple(tables), holder.name, "" if form is None else repr(form))
    held = {} if holder.holds is None else {holder.holds: data.parties[holder.holds]}
    tables[holder.name] = {**held, LABELS: data.labels}
    return meeting, [
        Organisation(name, data.id, partial(own_ids, name, own, data.id, form, folder))
        for name, own in tables.items()
    ]


def carry_out(
    config: RunConfig,
    meeting: Meeting,
    organisations: Sequence[Organisation],
    folder: Path,
    told: Callable[[int, int], None],
) -> None:
    """Align, and write what each organisation keeps into its file in a folder.

    Parameters
    ----------
    config
        Whose driver plays the roles; with ``driver: processes`` each organisation's ids are read
        in its own process alone, which writes its file.
    meeting, organisations
        What ``aligning`` returned.
    folder
        Where files go.
    told
        Called with how many ids have been blinded, and how many will be.

    Raises
    ------
    DataError
        If an organisation's ids cannot be used, or none is in all tables.
    """
    if config.driver == "processes":
        driver, keep = Processes(config.network.queue), partial(write_alignment, folder=folder)
        align_apart(meeting, organisations, driver, keep, told=told)
        return
    for kept in align_here(meeting, organisations, config.build_driver(), told=told).values():
        write_alignment(kept, folder)


def own_ids(
    name: str, tables: Mapping[str, TableConfig], id: str, form: IdForm | None, folder: Path | None
) -> OwnIds:
    """Read the ids of one organisation, and no other column of its tables."""
    read = {table: section.read(id, [], folder) for table, section in tables.items()}
    return OwnIds(name, read, id, form)
