"""Ids that two tables would share if they were written alike: who would be lost without a word."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from colonnade.tables.id_form import IdForm
from colonnade.tables.notes import Note

__all__ = ["NearMiss", "most_digits", "near_miss"]

_SHARE = 0.01  # of the smaller table's ids that may nearly match before it is told


@dataclass(frozen=True)
class NearMiss:
    """How many ids of two tables differ in writing only.

    Parameters
    ----------
    count
        How many.
    one, other
        An id of the one table, and as the other writes it.
    form
        The form in which they are the same.
    """

    count: int
    one: object
    other: object
    form: IdForm

    def sentence(self, one: str, other: str) -> str:
        """Return what to say of tables of these names, with the remedy."""
        pad = self.form.pad
        said = "" if pad is None else f"pad={pad}"
        written = "{}" if pad is None else f"{{pad: {pad}}}"
        return Note(
            f"{self.count} ids of {one!r} and {other!r} differ only in spaces, case, zeros in "
            "front or characters that cannot be seen",
            f", such as {self.one!r} and {self.other!r},",
            f" and so are different people; say normalise=IdForm({said}) (YAML: ids: {written}) if "
            "they are not",
        )


def near_miss(one: pl.Series, other: pl.Series) -> NearMiss | None:
    """Return what two tables' ids would share besides what they do, if it is more than a little.

    A little is up to 1 % of the ids of the smaller table. Whole numbers have but one writing.

    >>> near_miss(pl.Series(["AB1", "x"]), pl.Series(["ab1 ", "x"]))
    NearMiss(count=1, one='AB1', other='ab1 ', form=IdForm(strip=True, casefold=True, pad=None))
    """
    if pl.String not in (one.dtype, other.dtype):
        return None
    least = _SHARE * min(len(one), len(other))
    one, other = one.cast(pl.String), other.cast(pl.String)
    alone, others = (
        mine.filter(mine.is_in(theirs.implode()).not_())
        for mine, theirs in ((one, other), (other, one))
    )
    if min(len(alone), len(others)) <= least:
        return None
    plain = IdForm()
    for form in (plain, IdForm(pad=64)):
        written, theirs = form.apply(alone), form.apply(others)
        found = written.is_in(theirs.implode())
        if written.filter(found).n_unique() <= least:
            continue
        first = int(found.arg_true()[0])
        same = int((theirs == written[first]).arg_true()[0])
        if form != plain:
            form = IdForm(pad=most_digits(alone, others))
        count = written.filter(found).n_unique()
        return NearMiss(count, alone[first], others[same], form)
    return None


def most_digits(*ids: pl.Series) -> int:
    """Return how long the longest of ids that are digits alone is, up to the 64 of ``IdForm``.

    >>> most_digits(pl.Series(["7", " 0012 "]), pl.Series(["x12345"]))
    4
    """
    lengths = [each.str.strip_chars().str.len_chars().filter(_digits(each)).max() for each in ids]
    return min(64, max(int(length) for length in lengths if isinstance(length, int)))


def _digits(ids: pl.Series) -> pl.Series:
    return ids.str.strip_chars().str.contains("^[0-9]+$")
