"""A table of words and numbers, for a page, a terminal or a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

__all__ = ["Sheet"]

_NO_LIMIT = 10_000  # wider than any table


@dataclass(frozen=True)
class Sheet:
    """A table, all cells already text.

    Parameters
    ----------
    title
        What it shows.
    head, rows
        The names of the columns, and the cells of each row.
    text
        Columns of words, to the left; the others hold numbers, to the right.
    wrap
        Columns whose cells may take several lines.
    note
        What a reader should know besides.

    Examples
    --------
    >>> print(Sheet("Bytes", ("party", "up"), [("bank", "12 kB")]).as_csv(), end="")
    party,up
    bank,12 kB
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Sequence[int] = (0,)
    wrap: Sequence[int] = field(default_factory=tuple)
    note: str = ""

    def as_csv(self) -> str:
        """Return it as a CSV file's content."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.head)
        writer.writerows(self.rows)
        return out.getvalue()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print it; where a terminal is narrow, cells take more lines, and no figure is cut."""
        table = self._table(self.wrap)
        if Measurement.get(console, options.update(max_width=_NO_LIMIT), table).maximum > (
            options.max_width
        ):
            table = self._table(range(len(self.head)))
        yield table

    def _table(self, wrap: Sequence[int]) -> Table:
        table = Table(
            title=self.title,
            title_justify="left",
            box=SIMPLE,
            header_style="bold",
            pad_edge=False,
            caption=self.note or None,
            caption_justify="left",
        )
        for index, name in enumerate(self.head):
            justify = "left" if index in self.text else "right"
            overflow = "fold" if index in wrap else "ellipsis"  # a long word takes more lines
            table.add_column(name, justify=justify, no_wrap=index not in wrap, overflow=overflow)  # type: ignore[arg-type]  # rich's literals
        for row in self.rows:
            table.add_row(*row)
        return table
