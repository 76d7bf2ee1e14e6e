"""The README's program is the example's, and its output is what the program prints."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

from colonnade.config import parse_config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DIGITS = ROOT / "examples" / "digits.py"


def test_the_readme_shows_the_example():
    (shown,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert DIGITS.read_text(encoding="utf-8").endswith(f'"""\n\n{shown}')


def test_the_readme_shows_what_the_example_prints(capsys):
    runpy.run_path(str(DIGITS))
    printed = capsys.readouterr().out.splitlines()
    # The last digits of an accuracy are those of one machine; bytes are the same on all.
    assert re.fullmatch(
        r"Run\(svfl, 320 rounds, best test_accuracy 0\.\d+, 17\.3 MB sent\)", printed[0]
    )
    assert "1920000" in printed[-2]
    assert "15360000" in printed[-2]
    for line in (printed[0][:16], printed[-2][-26:]):
        assert line in README


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.stem)
def test_example_configurations_are_valid(path):
    parse_config(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))
