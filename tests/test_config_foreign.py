"""Packages that are broken: a problem of their own part, in words, and of nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from colonnade.config import json_schema, load_config, parse_config
from colonnade.config.listing import listed
from colonnade.console import parts_table
from colonnade.costs import Delayed
from colonnade.delays import Constant
from colonnade.drivers import Simulate
from colonnade.errors import ConfigurationError

BROKEN = '''
from __future__ import annotations
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.codecs import Float


def fine(times: int = 1, mark: str = "[/red]\\x1b[2J") -> Float:
    """[/red] Well \\x1b]0;done\\x07."""
    return Float()


def bare(times: int = 1):
    return Float()


def syntax(times: "int |" = 1):
    """Say no type."""


@dataclass(frozen=True)
class Factory(Float):
    """Have a default that fails."""

    times: list[int] = field(default_factory=lambda: 1 / 0)


class Silent(type):
    @property
    def __doc__(cls):
        raise RuntimeError("no words")

    def __getattribute__(cls, name):
        if name == "__doc__":
            raise RuntimeError("no words")
        return super().__getattribute__(name)


class Wordless(metaclass=Silent):
    def __init__(self, times: int = 1) -> None: ...


class Hostile:
    def __eq__(self, other):
        raise RuntimeError("not like anything")

    __hash__ = None

    def __repr__(self):
        raise SystemExit("no")


def default(times: object = Hostile()) -> Float:
    """Have a default that is not to be looked at."""
    return Float()


class Getting:
    def __getattr__(self, name):
        raise SystemExit(f"nobody asks for {name}")

    def __call__(self, times: int = 1): ...


getting = Getting()


def calls(back: Callable[[int], int]) -> Float:
    """Take a function."""
    return Float()


def calls_by_default(back: Callable[[int], int] = abs) -> Float:
    """Take a function, or not."""
    return Float()


def exits(times: int = 1) -> Float:
    """Leave."""
    raise SystemExit(3)


def makes(times: int = 1) -> Float:
    """Make something that is not to be looked at."""
    return Hostile()


@dataclass(frozen=True)
class Measured:
    """As somebody else's file says."""

    file: Path
    otherwise: Path | None = None
    path: str = "that is none"

    def seconds(self, key):
        return float(self.file.read_text())
'''

BAD = {
    "leaves": "acme_leaves:thing",
    "raises": "acme_raises:thing",
    "refuses": "acme_refuses:thing",
    "nowhere": "acme broken:",
    "syntax": "acme_broken:syntax",
    "factory": "acme_broken:Factory",
    "wordless": "acme_broken:Wordless",
    "default": "acme_broken:default",
    "getting": "acme_broken:getting",
    "calls": "acme_broken:calls",
    "calls_by_default": "acme_broken:calls_by_default",
}
FAILING = {"exits": "acme_broken:exits", "makes": "acme_broken:makes"}
GOOD = {"fine": "acme_broken:fine", "bare": "acme_broken:bare"}


@pytest.fixture(autouse=True)
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "".join(f"{name} = {value}\n" for name, value in (BAD | FAILING | GOOD).items())
    delays = "measured = acme_broken:Measured\nbroken = acme_broken:missing\n"
    install(tmp_path, f"[colonnade.codecs]\n{points}[colonnade.delays]\n{delays}")
    for name, text in {
        "acme_broken": BROKEN,
        "acme_leaves": "raise SystemExit(7)",
        "acme_raises": "class E(BaseException):\n def __str__(self): raise E\nraise E",
        "acme_refuses": "from colonnade.errors import ConfigurationError as E\nraise E('oh')",
    }.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


def install(folder: Path, points: str) -> None:
    info = folder / "acme_broken-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-broken\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(points)


def refused(data: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(data)
    return str(caught.value).removeprefix("configuration: ")


@pytest.mark.parametrize("name", [*BAD, *FAILING])
def test_a_broken_part_that_is_chosen_is_refused_by_its_name_and_its_package(name: str) -> None:
    message = refused({"method": {"embedding": name}})
    assert message.startswith(f"method.embedding: the codec {name!r} of acme-broken 1.5 ")
    assert "\n" not in message


def test_files_of_a_delay_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "bank.txt").write_text("0.25", encoding="utf-8")
    (folder / "shop.csv").write_text("party_2\n0.5\n", encoding="utf-8")
    file = folder / "run.yaml"

    def delays(bank: str) -> Any:
        shop = "party_2: {delay: trace, path: shop.csv}"
        file.write_text(
            f"data: {{name: mnist5k}}\ncosts: {{delays: {{party_1: {bank}, {shop}}}}}\n",
            encoding="utf-8",
        )
        driver = load_config(file).build_driver()
        assert isinstance(driver, Simulate)
        assert isinstance(driver.costs, Delayed)
        return driver.costs.delays

    found = delays("{delay: measured, file: bank.txt}")
    assert found["party_1"].seconds(None) == 0.25
    assert found["party_1"].path == "that is none"
    assert found["party_2"].path == folder / "shop.csv"
    assert delays("{delay: constant, each: 1}")["party_1"] == Constant(1)
    for wrong in ("broken", "none", "[1]"):
        with pytest.raises(ConfigurationError, match=r"costs\.delays\.party_1"):
            delays(f"{{delay: {wrong}, file: bank.txt}}")


def test_what_failed_is_said() -> None:
    def said(name: str) -> str:
        return refused({"method": {"embedding": name}})

    assert said("leaves").endswith("(acme_leaves:thing) cannot be imported: SystemExit: 7")
    assert said("refuses").endswith("cannot be imported: ConfigurationError: oh")
    assert said("raises").endswith("cannot be imported: E")
    assert "that say nothing" in said("syntax")
    assert said("factory").endswith("cannot be described: ZeroDivisionError: division by zero")
    assert said("wordless").endswith("cannot be described: RuntimeError: no words")
    assert said("default").endswith("has a default of 'times' that no file can say")
    assert "has a setting that no schema describes: PydanticInvalidForJsonSchema" in said("calls")
    assert said("exits").endswith("failed: SystemExit: 3")
    assert said("makes").endswith("makes no Codec, but a Hostile")


def test_a_list_names_each_problem_and_everything_else() -> None:
    [codecs] = listed("codecs")
    there = {part.name: part for part in codecs.parts}
    assert {"float", "by_round", "fine", "bare", "exits", "makes"} <= set(there)
    assert not set(BAD) & set(there)
    assert there["bare"].about == ""
    assert len(codecs.problems) == len(BAD)
    assert all("acme-broken 1.5" in problem for problem in codecs.problems)
    json.dumps(codecs.as_dict())
    console = Console(width=200, record=True, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(parts_table(codecs))
    text = captured.get()
    assert "[/red] Well ]0;done" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_the_schema_is_without_what_is_broken() -> None:
    schema = json_schema()
    assert "FineCodec" in schema["$defs"]
    assert not {"CallsCodec", "DefaultCodec"} & set(schema["$defs"])


def test_ctrl_c_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "acme_leaves.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        parse_config({"method": {"embedding": "leaves"}})
