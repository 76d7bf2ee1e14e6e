"""Values that differ only in case or spaces, and so may be one that was written in two ways."""

from __future__ import annotations

import polars as pl

from colonnade.tables.notes import Note

__all__ = ["told_apart"]

_SPACES = r"\s+"
_SHARE = 0.01


def told_apart(where: str, values: pl.Series) -> str | None:
    """Return that more than 1 % of different texts are like another one but for case and spaces.

    None where that is not so: among many codes the case may matter.

    >>> told_apart("the labels", pl.Series(["ja", "nein", "nein ", "Nein"]))
    "the labels: 2 of 4 different values are like another one but for case or spaces, such as \
'nein' and 'Nein', and are told apart; write them alike if they are the same"
    """
    distinct = values.drop_nulls().unique().sort()
    plain = distinct.str.replace_all(_SPACES, " ").str.strip_chars().str.to_lowercase()
    again = ~plain.is_first_distinct()
    if again.sum() <= _SHARE * len(distinct):
        return None
    other = int(again.arg_true()[0])
    first = int((plain == plain[other]).arg_true()[0])
    return Note(
        f"{where}: {again.sum()} of {len(distinct)} different values are like another one but for "
        "case or spaces",
        f", such as {distinct[other]!r} and {distinct[first]!r},",
        " and are told apart; write them alike if they are the same",
    )
