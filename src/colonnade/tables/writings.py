"""How numbers and dates are written that stand as text: marked thousands, units, months."""

from __future__ import annotations

import polars as pl

__all__ = ["is_date", "is_written_number", "share_of"]

_NUMBER = r"[+-]?[0-9]+(?:[.,][0-9]+)?"
_MARKED = (
    r"[+-]?[1-9][0-9]{0,2}(?:"
    r"(?:[ '’\x{a0}\x{202f}][0-9]{3})+(?:[.,][0-9]+)?"
    r"|(?:\.[0-9]{3})+,[0-9]+|(?:,[0-9]{3})+\.[0-9]+|(?:\.[0-9]{3}){2,}|(?:,[0-9]{3}){2,})"
)
_BEFORE = (
    r"(?i:[$€£¥₹~<>≤≥]|ca\.?|about|chf|eur|usd|gbp|jpy|cny|inr|sek|nok|dkk|pln|czk|huf|cad|aud|brl"
    r"|zar|fr\.|rs\.?)"
)
_AFTER = r"[^0-9\s.,'’+-][^0-9]{0,11}"
_ANY = rf"(?:{_MARKED}|{_NUMBER})"
_WITH_UNIT = rf"^{_BEFORE}\s*{_ANY}$"
_UNIT = rf"^{_ANY}\s*({_AFTER})$"

_TIME = r"(?:[T ,]+[0-9]{1,2}:[0-9]{2}.*)?"
_MONTH = (
    r"(?i:jan|feb|f[eé]v|m[aä]r|apr|avr|ma[iy]|jun|juin|jul|juil|aug|ao[uû]|sep|o[ck]t|nov|de[cz]"
    r"|d[eé]c)\p{L}{0,7}\.?"
)
_DATE = (
    rf"^(?:[0-9]{{4}}[-/.][0-9]{{1,2}}[-/.][0-9]{{1,2}}{_TIME}"
    rf"|[0-9]{{1,2}}[-/.][0-9]{{1,2}}[-/.](?:[0-9]{{4}}|[0-9]{{2}}){_TIME}"
    rf"|[0-9]{{1,2}}\.?[ -]{_MONTH},?[ -][0-9]{{2,4}}{_TIME}"
    rf"|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}}{_TIME}"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)$"
)


def is_date(text: pl.Series) -> pl.Series:
    """Return which texts look like a date or a time of day.

    >>> is_date(pl.Series(["12.3.1980", "1980-03-12 07:30", "3 Mar 80", "1.2.3"])).to_list()
    [True, True, True, False]
    """
    return text.str.contains(_DATE)


def is_written_number(text: pl.Series) -> pl.Series:
    """Return which texts are a number that a program does not read as one.

    Marks between thousands, a currency or such in front, or a unit behind, if it is the same behind
    more than half of them: ``12a`` among ``13b`` and ``15`` has none.

    >>> is_written_number(pl.Series(["1.234,56", "CHF 5", "7", "city 5"])).to_list()
    [True, True, False, False]
    >>> is_written_number(pl.Series(["12 kg", "1'000 kg", "7"])).to_list()
    [True, True, False]
    """
    units = text.str.extract(_UNIT)
    common = units.drop_nulls().mode().sort()
    found = text.str.contains(f"^{_MARKED}$") | text.str.contains(_WITH_UNIT)
    if len(common):
        same = (units == common[0]).fill_null(False)
        if share_of(same, len(text)) > 0.5:
            found |= same
    return found


def share_of(which: pl.Series, count: int) -> float:
    """Return how large a share of so many a mask marks; 0 of none."""
    return int(which.sum()) / count if count else 0.0
