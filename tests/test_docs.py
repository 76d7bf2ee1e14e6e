"""The documentation is programs: every snippet runs, and prints what the page says it prints.

The Python blocks of a page run one after the other, in one namespace and an empty folder. A
``text`` block after one is its output; what is measured differs between machines, so numbers with a
fraction are compared by form. A ``yaml`` block is a valid configuration; it is written where the
next ``console`` block, whose commands run, looks for it.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from colonnade import cli
from colonnade.config import parse_config
from colonnade.config.reference import reference

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.stem not in ("design", "configuration")]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def form(text):
    """Return text with the numbers that a machine measures blanked; rounds end by those."""
    return re.sub(r"\d+\.\d+|(?<=auc )1\b|\d+(?= rounds)", "#", text.strip())


def command(line, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    namespace = {"__name__": "docs"}
    printed = written = ""
    for language, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        match language:
            case "python":
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(content, str(page), "exec"), namespace)
                printed = output.getvalue()
            case "text":
                assert form(printed) == form(content)
            case "yaml":
                parse_config(yaml.safe_load(content), str(page))
                written = content
            case "console":
                name = re.search(r"\w+\.yaml", content).group()
                Path(name).write_text(written, encoding="utf-8")
                for line in content.splitlines():
                    command(line.removeprefix("$ "), monkeypatch)
                    capsys.readouterr()


def test_the_reference_is_that_of_the_models():
    """To write it anew: python -m colonnade.config.reference > docs/configuration.md."""
    assert (DOCS / "configuration.md").read_text(encoding="utf-8") == reference()


def test_every_page_is_in_the_navigation():
    text = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f": {page.name}\n" in text
