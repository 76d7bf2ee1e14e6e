"""One form for ids that different hands have written: spaces, case, width, leading zeros."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from colonnade.annotated import is_whole, make_plain
from colonnade.errors import ConfigurationError

__all__ = ["IdForm"]

_WIDTHLESS = "[\u00ad\u200b-\u200f\u2060\ufeff]"
_DIGITS = "^[0-9]+$"


@dataclass(frozen=True)
class IdForm:
    """How ids are written before they are compared; whole numbers become text as well.

    Parameters
    ----------
    strip
        Whether spaces around an id and characters without width are taken away, and characters
        that only look different made alike (Unicode's NFKC).
    casefold
        Whether case is ignored.
    pad
        To how many digits ids of digits alone are brought, by zeros in front; None leaves them.

    Raises
    ------
    ConfigurationError
        If ``pad`` is no number of digits from 1 to 64.

    Examples
    --------
    >>> IdForm(pad=4).apply(pl.Series([" AB1", "ab1", "7", "00007"])).to_list()
    ['ab1', 'ab1', '0007', '0007']
    >>> IdForm(casefold=False).apply(pl.Series([7, 12])).to_list()
    ['7', '12']
    """

    strip: bool = True
    casefold: bool = True
    pad: int | None = None

    def __post_init__(self) -> None:
        make_plain(IdForm, self)
        if self.pad is not None and (not is_whole(self.pad) or not 1 <= self.pad <= 64):
            raise ConfigurationError(f"pad must be a number of digits to 64, not {self.pad!r}")

    def apply(self, ids: pl.Series) -> pl.Series:
        """Return ids in this form, as text."""
        text = ids.cast(pl.String)
        if self.strip:
            if not _is_ascii(text):
                text = text.str.normalize("NFKC").str.replace_all(_WIDTHLESS, "")
            text = text.str.strip_chars()
        if self.casefold:
            text = _casefolded(text)
        if self.pad is not None:
            padded = text.str.strip_chars_start("0").str.zfill(self.pad)
            text = padded.zip_with(text.str.contains(_DIGITS).fill_null(False), text)
        return text


def _casefolded(text: pl.Series) -> pl.Series:
    if _is_ascii(text):
        return text.str.to_lowercase()
    folded = [None if value is None else value.casefold() for value in text]
    return pl.Series(text.name, folded, dtype=pl.String)


def _is_ascii(text: pl.Series) -> bool:
    return bool((text.str.len_bytes() == text.str.len_chars()).all())
