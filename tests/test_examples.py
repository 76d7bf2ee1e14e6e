"""The examples run, and the README's program is an example whose output is what it prints."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from colonnade import cli
from colonnade.config import load_config
from colonnade.datasets import available

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATIONS = sorted(EXAMPLES.glob("*.yaml"))
# What each program prints, numbers with a fraction aside, which differ between machines.
PRINTED = {
    "credit_default": "bank # AUC bureau # AUC processor # AUC",
    "digits": r"# shape: .*",
    "handwritten_six_views": r"at most # MB up, # MB down Run\(svfl, \d+ rounds, .* sent\) #",
    "mnist_quadrants": r"Run\(svfl, 938 rounds, best test_accuracy #, 277 MB sent\) \[.*\] \[.*\]",
    "two_data_frames": r"# Run\(svfl, \d+ rounds, best validation_auc #, # MB sent\) report\.html",
}
# What the README shows, with what it prints.
SHOWN = ("two_data_frames", "digits")
NEEDS = {
    "credit_default": "credit_default",
    "handwritten_six_views": "handwritten",
    "mnist_quadrants": "mnist",
}


def form(text):
    return re.sub(r"[+-]?\d+\.\d+|(?<=auc )1\b", "#", " ".join(text.split()))


def needs(name):
    why = available(name) if "COLONNADE_DATA" in os.environ else "COLONNADE_DATA is not set"
    if why is not None:
        pytest.skip(f"{name}: {why}")


def test_every_program_is_known():
    assert {*PRINTED, "own_processes"} == {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.data
@pytest.mark.parametrize("name", PRINTED)
def test_a_program_prints_what_it_should(name, capsys, tmp_path, monkeypatch):
    if name in NEEDS:
        needs(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    printed = capsys.readouterr().out
    assert re.fullmatch(PRINTED[name], form(printed))
    if name == "credit_default":
        gains = [float(line.split()[1]) for line in printed.splitlines()]
        assert gains[1] > 0.03  # the bureau's columns are worth most
    if name in SHOWN:
        for line in printed.splitlines():
            assert any(form(line) == form(shown) for shown in README.splitlines()), line
    if name == "mnist_quadrants":
        assert float(re.search(r"accuracy (0\.\d+)", printed)[1]) > 0.94


def test_organisations_train_in_processes_of_their_own(tmp_path):
    program = [sys.executable, str(EXAMPLES / "own_processes.py")]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *parts = done.stdout.splitlines()
    assert re.fullmatch(r"220 messages, accuracy 0\.\d\d", first)
    assert parts == [
        "bank/part/bottom.safetensors",
        "insurer/part/top.safetensors",
        "shop/part/bottom.safetensors",
    ]


@pytest.mark.data
@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_a_configuration_runs(path, tmp_path, monkeypatch, capsys):
    config = load_config(path)
    if config.data.name not in ("mnist5k", "tables"):  # which come along
        needs(config.data.name)
    quick = ("--set", "training.epochs=1", "--set", "training.batch_size=500")
    command = ["colonnade", "run", str(path), *quick, "--quiet"]
    monkeypatch.setattr("sys.argv", [*command, "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code
    assert (tmp_path / "run" / "report.html").exists()


def test_the_readme_shows_the_examples():
    shown = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    programs = [EXAMPLES / f"{name}.py" for name in SHOWN]
    assert len(shown) == len(programs)
    for program, block in zip(programs, shown, strict=True):
        assert program.read_text(encoding="utf-8").endswith(f'"""\n\n{block}')
    # From two data frames to a report in 15 lines at most: those after the frames are there.
    lines = shown[0].partition("\n\nmodel")[2].strip().splitlines()
    assert len(lines) <= 15
