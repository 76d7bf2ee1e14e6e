"""SECURITY.md: each promise names its tests, and these are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def promises(page: str) -> list[list[str]]:
    """Return the cells of each row of the tables whose last column is that of tests."""
    rows: list[list[str]] = []
    within = False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if cells[-1:] == ["tests"]:
            within = True
        elif not cells:
            within = False
        elif within and set(cells) != {"---"}:
            rows.append(cells)
    return rows


def test_every_test_that_is_named_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) == PAGE.count("::") > 50  # none is written in another way
    there = {file: functions(TESTS / file) for file, _ in named if (TESTS / file).exists()}
    assert not {f"{file}::{name}" for file, name in named if name not in there.get(file, ())}


def test_every_promise_names_a_test_and_whom_it_is_made_to() -> None:
    found = promises(PAGE)
    assert len(found) > 30
    for promised, to, source, tests in found:
        assert promised.endswith("."), promised
        assert to, promised
        assert source, promised
        assert NAMED.findall(tests), promised


def test_promises_are_told_from_other_tables() -> None:
    others = "| who | is |\n|---|---|\n| a | b |\n"
    page = f"{others}\n| promised | tests |\n|---|---|\n| c | d |\n\n{others}"
    assert promises(page) == [["c", "d"]]
