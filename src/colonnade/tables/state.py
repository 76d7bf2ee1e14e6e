"""The state of a fitted table transformer, as what JSON can hold, and back, strictly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from colonnade.annotated import is_whole
from colonnade.errors import DataError, InvalidInput
from colonnade.tables.categorical import Choices, Hashed
from colonnade.tables.dates import Day
from colonnade.tables.names import check_named_once
from colonnade.tables.numeric import Number, Scale
from colonnade.tables.parameters import Missing, Output, Unseen, check_parameters

__all__ = ["Column", "packed", "unpacked"]

Column: TypeAlias = Number | Day | Choices | Hashed
"""What training told about a column."""


class _Parameters(msgspec.Struct, forbid_unknown_fields=True):
    numeric: list[str] | None
    categorical: list[str] | None
    ignore: list[str]
    scale: Scale
    missing: Missing
    one_hot_up_to: int
    hash_buckets: int
    unseen: Unseen
    output: Output
    dates: list[str] = []  # those of an earlier version have none


class _State(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal["colonnade table transformer"]
    version: Literal[1]
    parameters: _Parameters
    columns: list[Column]


def packed(parameters: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """Return parameters and fitted columns as dictionaries, lists, text and numbers."""
    plain = {name: _plain(value) for name, value in parameters.items()}
    whole = {
        "format": "colonnade table transformer",
        "version": 1,
        "parameters": plain,
        "columns": list(columns),
    }
    state: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))
    return state


def _plain(value: Any) -> Any:
    if is_whole(value):
        return int(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def unpacked(state: Any) -> tuple[dict[str, Any], list[Column]]:
    """Return parameters and fitted columns, checked so that any use of them is safe.

    Raises
    ------
    DataError
        If ``packed`` cannot have returned this.
    """
    try:
        found = msgspec.convert(state, _State, strict=True)
        check_parameters(found.parameters)
        check_named_once("columns", [column.name for column in found.columns])
        if not found.columns:
            raise DataError("it has no columns")
        for column in found.columns:
            if not _is_possible(column, found.parameters):
                raise DataError(f"column {column.name!r} holds what no training rows can teach")
    except (msgspec.ValidationError, InvalidInput) as error:
        raise DataError(
            f"this is not the state of a table transformer: {error}; "
            "use what TableTransformer.state() returned"
        ) from error
    return msgspec.structs.asdict(found.parameters), found.columns


def _is_possible(column: Column, parameters: _Parameters) -> bool:
    match column:
        case Number(median=median, mean=mean, deviation=deviation):
            return all(map(math.isfinite, (median, mean, deviation))) and deviation >= 0
        case Choices(values=values):
            return len(values) > 0 and list(values) == sorted(set(values))
        case Hashed(buckets=buckets):
            return buckets == parameters.hash_buckets
