"""Compare the tables of docs/ with what the experiments wrote, figure by figure.

    python benchmarks/docs_check.py               # those in reproduce/ or benchmarks/results/
    python benchmarks/docs_check.py --run         # runs the others first, which takes hours

What took many hours is kept in ``benchmarks/results`` too, as it was in ``reproduce/NAME``.
A table is checked where a comment precedes it that names the file in ``reproduce/NAME`` and the
columns that tell its rows apart; one that the file calls otherwise follows as ``here = there``::

    <!-- figures of efvfl-private-labels.csv by method; training loss = loss, nats -->

Every cell of such a table must be in the file, each number as rounded to the digits that the page
prints. Tables of figures without a comment are counted, so that nobody takes them for checked.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
FOLDER = ROOT / "reproduce"
KEPT = ROOT / "benchmarks" / "results"
COMMENT = re.compile(r"<!-- figures of (\S+\.csv) by ([^;]+?)((?:; .+?)?) -->\Z")
NUMBER = re.compile(r"(?<![\w.])([-+]?\d*\.?\d+)(?:e([-+]?\d+))?(?: ([kMGT]?B)\b)?")
MEASURED = re.compile(r"[-+]?\d*\.\d+(?:e[-+]?\d+)?(?: ± .+)?(?: %| [kMGT]?B)?\Z")
BYTES = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}

Row = dict[str, str]


def tables(page: str) -> Iterator[tuple[str, list[Row]]]:
    """Yield each table of a page as rows by column, with the comment before it, or ''."""
    blocks = page.split("\n\n")
    for before, block in zip(["", *blocks], blocks, strict=False):
        lines = block.strip().splitlines()
        if len(lines) > 2 and lines[0].startswith("|") and lines[1].startswith("|--"):
            head, _, *body = (
                [cell.strip() for cell in line.strip("|").split("|")] for line in lines
            )
            comment = before.strip().splitlines()[-1] if before.strip() else ""
            yield comment, [dict(zip(head, cells, strict=True)) for cells in body]


def agrees(printed: str, found: str) -> bool:
    """Whether a cell of the page is a cell of the file, rounded to the digits printed."""
    words = [" ".join(NUMBER.sub("#", cell).split()) for cell in (printed, found)]
    ours, theirs = NUMBER.findall(printed), NUMBER.findall(found)
    if words[0] != words[1] or len(ours) != len(theirs):
        return False
    for mine, other in zip(ours, theirs, strict=True):
        (value, last), (exact, _) = _value(*mine), _value(*other)
        if abs(value - exact) > last / 2 * (1 + 1e-9) or bool(mine[2]) != bool(other[2]):
            return False
    return True


def _value(digits: str, power: str, unit: str) -> tuple[float, float]:
    """Return a number, and what one more in its last digit would add."""
    scale = 10.0 ** int(power or 0) * BYTES[unit]
    return float(digits) * scale, 10.0 ** -len(digits.partition(".")[2]) * scale


def differences(comment: str, rows: list[Row], read: Callable[[str], list[Row]]) -> list[str]:
    """Return what a table says that its file does not, in words."""
    match = COMMENT.match(comment)
    if match is None:
        return [f"{comment!r} names no file and columns"]
    file, by, renamed = match.groups()
    names = dict(pair.split(" = ", 1) for pair in renamed.split("; ") if pair)
    keys = keys_of(by, rows[0])
    found = read(file)
    wrong = []
    for row in rows:
        title = ", ".join(row[key] for key in keys)
        same = [
            each
            for each in found
            if all(each[names.get(key, key)].strip() == row[key] for key in keys)
        ]
        if len(same) != 1:
            wrong.append(f"{file}: {len(same)} rows are {title}")
            continue
        for column, cell in row.items():
            there = same[0].get(names.get(column, column))
            if there is None or not agrees(cell, there):
                wrong.append(f"{file}: {title}: {column} is {cell} here, and {there} there")
    return wrong


def keys_of(by: str, row: Row) -> list[str]:
    """Return the columns that a comment names, whose own names may have commas."""
    listed = f", {by}, "
    named = sorted((c for c in row if f", {c}, " in listed), key=lambda c: listed.index(f", {c}, "))
    if ", ".join(named) != by:
        raise SystemExit(f"{by!r} does not name columns of {', '.join(row)}")
    return named


def read_csv(file: str) -> list[Row]:
    """Return the rows of a file that an experiment wrote."""
    with (place(file)).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def place(file: str) -> Path:
    """Return where an experiment's file lies; its folder has the name without a number."""
    written = FOLDER / re.sub(r"(-\d+)?\.csv\Z", "", file) / file
    return KEPT / file if (KEPT / file).exists() and not written.exists() else written


def main() -> None:
    """Check every table, and exit with 1 if one differs."""
    run = "--run" in sys.argv[1:]
    wrong: list[str] = []
    checked, absent, unnamed = 0, [], 0
    for comment, rows in (each for page in PAGES for each in tables(page.read_text("utf-8"))):
        if not comment.startswith("<!-- figures of"):
            unnamed += any(MEASURED.match(cell) for row in rows for cell in row.values())
            continue
        match = COMMENT.match(comment)
        file = match.group(1) if match else ""
        if match and run and not place(file).exists():
            name = place(file).parent.name
            command = [str(Path(sys.executable).with_name("colonnade")), "reproduce", name]
            subprocess.run([*command, "--out", str(FOLDER / name)], check=True)
        if match and not place(file).exists():
            absent.append(file)
            continue
        wrong += differences(comment, rows, read_csv)
        checked += 1
    print(f"{checked} tables checked, {unnamed} others have figures and name no file")
    if absent:
        print(f"not there, and not checked: {', '.join(absent)}; see --run")
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
