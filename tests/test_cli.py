"""The command: exit codes, one sentence for what is wrong, folders that repeat a run, Ctrl-C."""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
import torch
import yaml
from rich.console import Console

from colonnade import __version__, cli, demo, progress
from colonnade.checkpoints import CheckpointStore, decode_state
from colonnade.config import RunConfig, load_config, parse_config
from colonnade.reports import comparison_table, human_bytes, human_seconds
from colonnade.run_read import load_run
from colonnade.runs import Run
from colonnade.training import Watcher

TINY: dict[str, Any] = {
    "data": {"train_rows": 200, "test_rows": 100},
    "model": {"bottom": {"widths": [8]}},
    "training": {"epochs": 1, "batch_size": 50},
}
FILES = {"config.yaml", "history.csv", "ledger.csv", "summary.json"}
FILES |= {"checkpoint", "departures", "journal", "parts"}
FILES |= {"run.png", "report.html"}
COMMAND = (sys.executable, "-c", "from colonnade.cli import main; main()")
PNG = b"\x89PNG\r\n\x1a\n"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def colonnade(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Run the command in this process, in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["colonnade", *map(str, arguments)])
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert signal.getsignal(signal.SIGINT) is before
        printed = capsys.readouterr()
        code = left.value.code or 0
        assert isinstance(code, int)
        return Outcome(code, plain(printed.out), plain(printed.err))

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny.yaml", TINY)


def plain(text: str) -> str:
    """Remove the colours that some environments force."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def write(path: Path, content: Any) -> Path:
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def in_a_process(*arguments: object) -> Outcome:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, plain(done.stdout), plain(done.stderr))


def repeatable(folder: Path) -> tuple[Any, ...]:
    """Return what a run's folder holds, time excepted."""
    history, ledger = (pl.read_csv(folder / f"{name}.csv") for name in ("history", "ledger"))
    return history.drop("seconds").rows(), ledger.drop("seconds").rows(), states(folder)


def states(folder: Path) -> dict[str, Any]:
    """Return every role's final state, bit for bit, as the last checkpoint keeps it."""
    newest = max((folder / "checkpoint").glob("round-*"))
    return {path.stem: exact(decode_state(path.read_bytes())) for path in newest.glob("[!.]*rs")}


def exact(value: Any) -> Any:
    """Replace tensors, which do not compare as a whole, by their bytes."""
    match value:
        case torch.Tensor():
            return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
        case dict():
            return {key: exact(item) for key, item in value.items()}
        case list() | tuple():
            return [exact(item) for item in value]
    return value


# Help and version


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["demo", "run", "--version", "--help"]),
        (("demo",), ["--out", "--help"]),
        (("run",), ["YAML", "--set", "a.b=c", "--out", "--data", "--resume", "--help"]),
    ],
    ids=["colonnade", "demo", "run"],
)
def test_help_names_what_can_be_given(
    colonnade: Command, arguments: tuple[str, ...], words: list[str]
) -> None:
    code, out, _ = colonnade(*arguments, "--help")
    assert code == 0
    assert [word for word in words if word not in out] == []


def test_every_parameter_has_a_description() -> None:
    commands = cli.typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    assert set(commands) >= {"demo", "run"}
    for command in commands.values():
        assert command.help
        assert [p.name for p in command.params if not getattr(p, "help", None)] == []


def test_version_and_help_need_no_torch() -> None:
    """They answer at once: torch takes seconds to import."""
    script = (
        "import sys; from colonnade import cli\n"
        "try: cli.main()\n"
        "finally: print('torch' in sys.modules)"
    )
    for argument in ("--version", "--help"):
        done = subprocess.run(
            [sys.executable, "-c", script, argument], capture_output=True, text=True, check=True
        )
        *printed, torch_was_imported = done.stdout.splitlines()
        assert torch_was_imported == "False"
        if argument == "--version":
            assert printed == [f"colonnade {__version__}"]


def test_no_command_shows_the_help(colonnade: Command) -> None:
    code, out, err = colonnade()
    assert code == 2
    assert "demo" in out + err


# A run


def test_a_run_leaves_a_folder_that_repeats_it(
    colonnade: Command, tiny: Path, tmp_path: Path
) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    settings = [
        ("--set", text)
        for text in (
            "method.embedding={codec: scalar, bits: 4}",
            "training.seed=3",
            "label_holder.holds=party_2",
            "network.parties.party_1.up.bandwidth=1 Mbit/s",
        )
    ]
    code, out, err = colonnade("run", tiny, "--out", first, *(s for pair in settings for s in pair))
    assert code == 0
    assert {path.name for path in first.iterdir()} == FILES
    assert (first / "run.png").read_bytes().startswith(PNG)
    assert f"Everything is in {first}; begin with " in out
    assert "warning: no protection is on" in out
    assert "error" not in err

    summary = json.loads((first / "summary.json").read_text(encoding="utf-8"))
    assert (summary["rounds"], summary["seed"]) == (4, 3)
    assert summary["parties"] == ["party_1", "party_3", "party_4", "label_holder"]
    # 4 rounds of 3 parties: 50 rows of 8 components, 4 bits up after 8 bytes, 32 bits down.
    assert summary["bytes_up"] == 4 * 3 * (8 + 50 * 8 // 2)
    assert summary["bytes_down"] == 4 * 3 * 50 * 8 * 4
    assert load_config(first / "config.yaml").method.embedding.build().bits == 4

    # Its own configuration is complete: nothing of the first command is needed.
    assert colonnade("run", first / "config.yaml", "--out", second).code == 0
    assert (second / "config.yaml").read_bytes() == (first / "config.yaml").read_bytes()
    assert repeatable(second) == repeatable(first)

    # And so do processes, which differ in time only.
    real_time = ("--set", "driver=processes", "--set", "network.parties={}")
    again = colonnade("run", first / "config.yaml", "--out", third, *real_time)
    assert again.code == 0
    assert repeatable(third) == repeatable(first)
    real = json.loads((third / "summary.json").read_text(encoding="utf-8"))
    assert (real["driver"], real["seconds_virtual"]) == ("processes", None)

    # What is finished is not overwritten, and can be resumed.
    before = (first / "summary.json").read_bytes()
    code, _, err = colonnade("run", tiny, "--out", first)
    assert (code, (first / "summary.json").read_bytes()) == (2, before)
    assert err.startswith(f"error: {first} already holds a run (config.yaml, ")
    kept = repeatable(first)
    assert colonnade("run", first / "config.yaml", "--out", first, "--resume").code == 0
    assert repeatable(first) == kept

    # But not as another run.
    code, _, err = colonnade("run", tiny, "--out", first, "--resume")
    assert code == 2
    assert "was written by a run of another configuration" in err
    assert len(err.splitlines()) == 1
    assert repeatable(first) == kept


def test_a_run_has_a_folder_of_its_files_name(colonnade: Command, tiny: Path) -> None:
    assert colonnade("run", tiny).code == 0
    assert {path.name for path in Path("runs/tiny").iterdir()} == FILES
    code, _, err = colonnade("run", tiny)
    assert code == 2
    assert err.startswith("error: runs/tiny already holds a run")


def test_training_that_diverges_exits_with_one(
    colonnade: Command, tiny: Path, tmp_path: Path
) -> None:
    code, _, err = colonnade(
        *("run", tiny, "--out", tmp_path / "run"),
        *("--set", "optimiser={name: sgd, lr: 1e38}", "--set", "model.bottom.widths=[8, 8]"),
    )
    assert code == 1
    last = err.splitlines()[-1]
    assert last.startswith("error: ")
    assert "try a smaller learning rate" in last
    assert "Traceback" not in err


# What is refused


def mnist(folder: Path, label: int = 1) -> None:
    """Write the four files of a data set of two 4 x 4 images each, one label as given."""
    folder.mkdir()
    for part in ("train", "t10k"):
        images = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 4, 4) + bytes(range(32))
        labels = bytes([0, 0, 8, 1]) + struct.pack(">I", 2) + bytes([0, label])
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)


BAD: dict[str, tuple[Any, list[str], str]] = {
    "unknown key": ({"training": {"epoch": 3}}, [], "FILE: training.epoch: unknown key; there are"),
    "unknown key of a codec": (
        {"method": {"embedding": {"codec": "scalar", "bit": 4}}},
        [],
        "FILE: method.embedding.bit: unknown key; there are codec, bits, low, high, dither",
    ),
    "wrong type": (
        {"training": {"epochs": "many"}},
        [],
        "FILE: training.epochs: input should be a valid integer, not 'many'",
    ),
    "out of range": (
        {"method": {"embedding": {"codec": "scalar", "bits": 9}}},
        [],
        "FILE: method.embedding: bits must be a whole number from 1 to 8, not 9",
    ),
    "no mapping": ([1, 2], [], "FILE: expected keys and values, found [1, 2]"),
    "no layer": ({"model": {"bottom": {"widths": []}}}, [], "FILE: model.bottom: widths should "),
    "a rate beyond float32": (
        {},
        ["--set", "optimiser.lr=1e39"],
        "the optimiser Adam of 'party_1' cannot take a step: value cannot be converted to type "
        "float without overflow; give it other settings, as a smaller learning rate",
    ),
    "a bottom beyond memory": (
        {},
        ["--set", "model.bottom.widths=[10000000000000]"],
        "the bottom model of 'party_1' cannot be made: ",
    ),
    "a top beyond whole numbers": (
        {},
        ["--set", "model.top.widths=[10000000000000000000000]"],
        "the top model cannot be made: ",
    ),
    "set without a value": ({}, ["--set", "epochs"], "--set epochs: expected path.to.key=value"),
    "set of an unknown key": ({}, ["--set", "a.b=1"], "FILE: a: unknown key; there are data, "),
    "set that looks like markup": (
        {},
        ["--set", "driver=[/red]:smile:[bold]"],
        "--set driver=[/red]:smile:[bold]: '[/red]:smile:[bold]' is not a valid value",
    ),
    "value that looks like markup": (
        {"driver": "[/red]:smile:[bold]"},
        [],
        "FILE: driver: input should be 'simulate' or 'processes', not '[/red]:smile:[bold]'",
    ),
    "no data folder named": (
        {"data": {"name": "mnist"}},
        [],
        "MNIST is read from a folder, and none was given: name the one that holds its idx files "
        "with --data or in the environment variable COLONNADE_DATA",
    ),
    "no such data folder": (
        {"data": {"name": "mnist"}},
        ["--data", "2024"],  # a name that YAML would read as a number
        "HERE/2024: there is no such folder to read MNIST from",
    ),
    "data folder without the files": (
        {"data": {"name": "fashion_mnist"}},
        ["--data", "."],
        "expected the file train-images-idx3-ubyte or train-images-idx3-ubyte.gz of Fashion-MNIST "
        "in HERE, which has neither",
    ),
    "a label out of range": (
        {"data": {"name": "mnist"}},
        ["--data", "../wrong # label"],
        "HERE/../wrong # label/train-labels-idx1-ubyte: label 1 is 12; expected 0 to 9",
    ),
    "too few rows": (
        {"data": {"name": "mnist", "train_rows": 3}},
        ["--data", "../good"],
        "asked for the first 3 train rows; expected 1 to 2",
    ),
    "parties that do not fit": (
        {"data": {"parties": 3}},
        [],
        "quadrants are for 4 parties, not 3; set parties to 4, or partition to 'strips'",
    ),
    "unknown organisation": (
        {"network": {"parties": {"bank": {}}}},
        [],
        "network.parties.bank: there is no such organisation; there are label_holder, party_1, ",
    ),
    "unknown part": (
        {"label_holder": {"holds": "party_9"}},
        [],
        "label_holder.holds: there is no part 'party_9' of the data; there are party_1, ",
    ),
    "two of one name": (
        {"label_holder": {"name": "party_1"}},
        [],
        "two organisations are called 'party_1'",
    ),
    "out is a file": (
        {"data": "mnist5k"},
        ["--out", "../good/train-labels-idx1-ubyte"],
        "the folder ../good/train-labels-idx1-ubyte cannot be written: File exists",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_exits_with_two_and_writes_nothing(
    colonnade: Command, tmp_path: Path, case: str
) -> None:
    content, arguments, message = BAD[case]
    file = write(tmp_path / "config.yaml", content)
    mnist(tmp_path / "good")
    mnist(tmp_path / "wrong # label", label=12)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = colonnade("run", file, *arguments)
    assert code == 2
    assert err.startswith(
        "error: " + message.replace("FILE", str(file)).replace("HERE", str(Path.cwd()))
    )
    assert len(err.splitlines()) == 1
    assert out == ""
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"training:\n\tepochs: 1", "is not valid YAML (line 2)"),
        (b"\xff", "is not valid YAML (not text in UTF-8)"),
    ],
)
def test_a_file_that_is_no_configuration(
    colonnade: Command, tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    code, _, err = colonnade("run", file, "--out", tmp_path / "out")
    assert (code, err) == (2, f"error: {file} {message}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "Missing argument"),
        (("run", "a.yaml", "--epochs", "3"), "No such option"),
        (("rum",), "No such command 'rum'"),
    ],
)
def test_wrong_usage_exits_with_two(
    colonnade: Command, arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = colonnade(*arguments)
    assert code == 2
    assert message in err
    assert list(Path.cwd().iterdir()) == []


def test_the_real_command_says_what_is_wrong(tmp_path: Path) -> None:
    file = write(tmp_path / "config.yaml", {"training": {"epoch": 3}})
    code, out, err = in_a_process("run", file, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {file}: training.epoch: unknown key; there are epochs, ")
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_run_of_another_version_is_refused_before_its_configuration_is_read(
    colonnade: Command, tmp_path: Path
) -> None:
    store = CheckpointStore(tmp_path / "checkpoint", {})
    store.commit(store.draft(4), 4, {})
    manifest = tmp_path / "checkpoint" / "round-00000004" / "manifest.json"
    older = json.loads(manifest.read_text(encoding="utf-8")) | {"format": 1}
    del older["digest"]
    manifest.write_text(json.dumps(older), encoding="utf-8")
    config = write(tmp_path / "config.yaml", TINY | {"labels": "private"})
    code, _, err = colonnade("run", config, "--out", tmp_path, "--resume")
    assert code == 2
    assert "was written by another version of colonnade (format 1," in err


# Ctrl-C


def test_ctrl_c_leaves_a_run_that_can_be_resumed(colonnade: Command, tmp_path: Path) -> None:
    """The run goes on as the message says, and ends as one that was never interrupted."""
    # A checkpoint a round: the first is there long before the last round.
    training = {"epochs": 10, "batch_size": 50, "checkpoint_every": 1}
    file = write(tmp_path / "long.yaml", TINY | {"training": training})
    out = tmp_path / "a run"
    process = subprocess.Popen(
        [*COMMAND, "run", str(file), "--out", str(out)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not any(out.glob("checkpoint/round-*")) and time.monotonic() < deadline:
            try:
                process.wait(timeout=0.02)
                break
            except subprocess.TimeoutExpired:
                pass
        process.send_signal(signal.SIGINT)
        err = plain(process.communicate(timeout=120)[1])
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "stopping after this round; press Ctrl-C again to stop at once" in err
    found = re.search(r"interrupted before round (\d+); go on with\n +colonnade (.*)\n", err)
    assert found, err
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert (summary["completed"], summary["rounds"]) == (False, int(found[1]))
    assert 0 < summary["rounds"] < 40
    assert "Traceback" not in err

    command = shlex.split(found[2])
    assert command == ["run", str(out / "config.yaml"), "--out", str(out), "--resume"]
    assert colonnade(*command).code == 0
    assert colonnade("run", file, "--out", tmp_path / "whole").code == 0
    assert repeatable(out) == repeatable(tmp_path / "whole")
    resumed, whole = (
        json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        for folder in (out, tmp_path / "whole")
    )
    for key in ("best", "final", "rounds", "bytes_up", "bytes_down", "bytes_framed", "messages"):
        assert resumed[key] == whole[key]


@pytest.mark.parametrize(("every", "is_safe"), [(1, True), (100, False)])
@pytest.mark.parametrize("driver", ["simulate", "processes"])
def test_ctrl_c_twice_stops_at_once(
    colonnade: Command,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    every: int,
    is_safe: bool,
) -> None:
    make = progress.Watch.run

    def impatient(self: progress.Watch, name: str) -> Watcher:
        def on_round(role: str, round: int, sent_bytes: int) -> None:
            if round == 2:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

        return Watcher(make(self, name).on_begin, on_round)

    monkeypatch.setattr(progress.Watch, "run", impatient)
    out = tmp_path / "run"
    settings = ("--set", f"driver={driver}", "--set", f"training.checkpoint_every={every}")
    code, _, err = colonnade("run", tiny, "--out", out, *settings)
    assert code == 130
    assert "press Ctrl-C again to stop at once" in err
    again = f"  colonnade run {out / 'config.yaml'} --out {out} --resume"
    go_on = ["stopped; go on from the newest checkpoint with", again]
    assert err.splitlines()[-2:] == go_on if is_safe else err.splitlines()[-1] == "stopped"
    assert "Traceback" not in err
    assert not (out / "summary.json").exists()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_what_the_outputs_encoding_lacks_is_written_otherwise(
    colonnade: Command, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    code, _, _ = colonnade("schema", "是.json")
    sys.stdout.flush()
    assert (code, Path("是.json").exists()) == (0, True)
    assert "schema=\\u662f.json" in "".join(written.getvalue().decode(encoding).split())


def test_ctrl_c_names_no_checkpoint_of_an_earlier_run(
    colonnade: Command, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: RunConfig, *arguments: object, **options: object) -> Run:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunConfig, "train", interrupted)
    (tmp_path / "old" / "checkpoint" / "round-1").mkdir(parents=True)
    code, _, err = colonnade("run", tiny, "--out", tmp_path / "old")
    assert (code, err.splitlines()[-1]) == (130, "stopped")
    assert "--resume" not in err


# The demo


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo use few rows."""
    whole = demo.demo_config

    def small(name: str) -> RunConfig:
        config = whole(name).as_dict()
        config["data"] |= TINY["data"]
        config["training"] |= {"epochs": 2, "batch_size": 50}
        return parse_config(config)

    monkeypatch.setattr(demo, "demo_config", small)


def rendered(table: Any) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@pytest.mark.usefixtures("small_demo")
def test_the_demo_compares_methods_and_drivers(tmp_path: Path) -> None:
    names: list[str] = []

    def watch(name: str) -> Watcher:
        names.append(name)
        return Watcher()

    runs = demo.run_demo(tmp_path, watch)
    assert names == list(runs) == list(demo.VARIANTS)
    assert all(run.summary["completed"] for run in runs.values())
    assert demo.same_bits(runs[demo.REAL], runs[demo.SIMULATED])
    assert not demo.same_bits(runs["float32"], runs[demo.SIMULATED])
    assert not demo.same_bits(runs["float32"], runs["bfloat16"])
    assert (tmp_path / "comparison.png").read_bytes().startswith(PNG)
    folders = [run.folder for run in runs.values()]
    assert len(set(folders)) == len(runs)
    for folder in folders:
        assert folder is not None
        assert folder.parent == tmp_path
        assert {path.name for path in folder.iterdir()} == FILES

    up = {name: run.summary["bytes_up"] for name, run in runs.items()}
    messages = 8 * 4  # rounds and parties, each with a range of 8 bytes
    assert up["bfloat16"] * 2 == up["float32"] == messages * 50 * 64 * 4
    assert up["8 bits up"] == messages * (8 + 50 * 64)
    assert up[demo.SIMULATED] == up[demo.REAL] == messages * (8 + 50 * 64 // 2)

    text = rendered(comparison_table(runs))
    for name, run in runs.items():
        (line,) = (line for line in text.splitlines() if line.split("  ")[0].strip() == name)
        assert f"{run.summary['best']:.4f}" in line
        assert human_bytes(run.summary["bytes_up"]) in line
        assert human_bytes(run.summary["bytes_down"]) in line
        assert line.rstrip().endswith("*") is (name == demo.REAL)
    assert "accuracy" in text
    assert "100.0%" in text
    assert "* real time on this machine" in text


@pytest.mark.usefixtures("small_demo")
def test_the_command_demo(
    colonnade: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = {name: demo.VARIANTS[name] for name in (demo.SIMULATED, demo.REAL)}
    monkeypatch.setattr(demo, "VARIANTS", few)
    code, out, _ = colonnade("demo")
    assert code == 0
    assert "ended with the same parameters and bytes, bit for bit" in out
    assert "Everything is in runs/demo: comparison.html" in out
    assert {path.name for path in Path("runs/demo").iterdir()} == {
        "comparison.png",
        "comparison.html",
        *(name.replace(",", "").replace(" ", "-") for name in few),
    }
    # Once more: into a folder of its own, or not at all.
    monkeypatch.setattr(demo, "same_bits", lambda one, other: False)
    code, out, _ = colonnade("demo")
    assert code == 1
    assert "DIFFERENT" in out
    assert "Everything is in runs/demo-2: " in out
    code, _, err = colonnade("demo", "--out", "runs/demo")
    assert code == 2
    assert "already holds a run" in err


@pytest.mark.usefixtures("small_demo")
def test_ctrl_c_ends_the_demo(colonnade: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    make = progress.Watch.run

    def interrupted(self: progress.Watch, name: str) -> Watcher:
        signal.raise_signal(signal.SIGINT)
        watcher: Watcher = make(self, name)
        return watcher

    monkeypatch.setattr(progress.Watch, "run", interrupted)
    code, _, err = colonnade("demo")
    assert code == 130
    assert err.splitlines()[-1] == "interrupted"
    assert [path.name for path in Path("runs/demo").iterdir() if path.is_dir()] == ["float32"]


# Tables


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (345_678, "346 kB"),
        (6.5536e6, "6.55 MB"),
        (2e9, "2.00 GB"),
        (1.5e13, "15.0 TB"),
    ],
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"),
        (0, "0.00 ms"),
        (0.0123, "12.3 ms"),
        (1.5, "1.50 s"),
        (41.26, "41.3 s"),
        (119, "119 s"),
        (150, "2 min"),
        (3599, "60 min"),
        (7384, "2 h 3 min"),
    ],
)
def test_durations_for_people(seconds: float | None, text: str) -> None:
    assert human_seconds(seconds) == text


def test_a_table_of_a_run_that_was_not_evaluated() -> None:
    config = parse_config(TINY)
    federation = config.build_federation()
    federation.test_rows = federation.test_rows[:0]
    run: Run = config.train(federation=federation)
    text = rendered(comparison_table({"svfl": run}))
    assert "—" in text
    assert "of first" not in text


# Before and after a run


def test_a_plan_is_the_run_that_follows(colonnade: Command, tiny: Path, tmp_path: Path) -> None:
    code, out, _ = colonnade("plan", tiny, "--json")
    assert code == 0
    planned = json.loads(out)
    assert colonnade("run", tiny, "--out", tmp_path / "run", "--quiet") == (0, "", "")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    for name in ("bytes_up", "bytes_down", "bytes_evaluation", "bytes_framed", "rounds"):
        assert planned[name] == summary[name]
    code, out, _ = colonnade("plan", tiny)
    assert code == 0
    for words in ("Traffic", "embedding", "time of the run", "Memory", "calibrated"):
        assert words in out
    assert human_bytes(summary["bytes_up"]) in out
    assert not list(Path.cwd().iterdir())  # a plan leaves nothing behind


def test_what_cannot_be_run_cannot_be_planned(colonnade: Command, tiny: Path) -> None:
    code, out, err = colonnade("plan", tiny, "--set", "training.epochs=0")
    assert (code, out) == (2, "")
    assert "training.epochs" in err


def test_runs_stand_side_by_side(colonnade: Command, tiny: Path, tmp_path: Path) -> None:
    for bits in (2, 4):
        codec = f"method.embedding={{codec: scalar, bits: {bits}}}"
        out = tmp_path / f"{bits}-bits"
        assert colonnade("run", tiny, "--quiet", "--out", out, "--set", codec).code == 0
    runs = [tmp_path / "4-bits", tmp_path / "2-bits"]
    code, out, _ = colonnade("compare", *runs, "--out", tmp_path / "both")
    assert code == 0
    assert "4-bits" in out
    assert "100.0%" in out
    written = {path.name for path in (tmp_path / "both").iterdir()}
    assert written == {"comparison.html", "comparison.png"}
    code, out, _ = colonnade("compare", *runs, "--out", tmp_path / "both", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["run"] for line in lines] == ["4-bits", "2-bits"]
    assert lines[0]["bytes_up"] > lines[1]["bytes_up"]
    assert "reached" not in lines[0]
    # By what it took them to reach a value of the metric, any at all here.
    compare = ("compare", *runs, "--out", tmp_path / "both", "--target", "0")
    code, out, _ = colonnade(*compare)
    assert code == 0
    assert all(heading in out for heading in ("time to", "rounds to", "bytes to"))
    assert "target: test accuracy 0" in " ".join(out.split())
    code, out, _ = colonnade(*compare, "--json")
    reached = [json.loads(line)["reached"] for line in out.splitlines()]
    assert [set(each) for each in reached] == [
        {"round", "epoch", "seconds", "bytes_up", "bytes_down", "bytes_between"}
    ] * 2


def test_runs_of_one_name_are_told_apart(colonnade: Command, tiny: Path, tmp_path: Path) -> None:
    for place in ("a/run", "b/run"):
        assert colonnade("run", tiny, "--quiet", "--out", tmp_path / place).code == 0
    code, out, _ = colonnade("compare", tmp_path / "a/run", tmp_path / "b/run")
    assert code == 0
    assert "a/run" in out
    assert "b/run" in out


@pytest.mark.usefixtures("no_pictures")
def test_what_a_partner_adds(colonnade: Command, tiny: Path, tmp_path: Path) -> None:
    arguments = ("compare", "--partners", tiny, "--out", tmp_path / "value", "--seeds", 2)
    code, out, _ = colonnade(*arguments)
    assert code == 0
    assert "it adds" in out
    assert "means over 2 seeds" in out
    parties = [f"party_{i}" for i in range(1, 5)]
    folders = {path.name for path in (tmp_path / "value").iterdir() if path.is_dir()}
    names = ["everybody", *(f"without-{party}" for party in parties)]
    assert folders == {f"{name}-seed-{seed}" for name in names for seed in (0, 1)}
    code, again, _ = colonnade(*arguments, "--json")  # nothing is trained twice
    values = [json.loads(line) for line in again.splitlines()]
    assert [value["partner"] for value in values] == parties
    assert all(len(value["without"]) == 2 for value in values)
    assert all(value["bytes_sent"] > 0 for value in values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere holds no run that can be read"),
        (["nowhere", "nowhere"], "a run is named twice"),
        (["a", "b", "--partners"], "--partners takes the YAML file of one run"),
        (["a", "--partners", "--target", "0.8"], "--target is for runs that are over"),
        (["a", "--target", "nan"], "--target is a value of the metric, not nan"),
        (["a", "--target", "-inf"], "--target is a value of the metric, not -inf"),
        (["a", "--set", "x=1"], "--set, --data and --seeds are for --partners"),
        (["a", "--seeds", "3"], "--set, --data and --seeds are for --partners"),
        (["a", "--quiet", "--json"], "--quiet and --json exclude each other"),
    ],
)
def test_comparisons_that_cannot_be(colonnade: Command, arguments: list[str], message: str) -> None:
    code, _, err = colonnade("compare", *arguments)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("file", ["summary.json", "history.csv", "ledger.csv", "config.yaml"])
def test_a_damaged_run_is_named(colonnade: Command, tiny: Path, tmp_path: Path, file: str) -> None:
    assert colonnade("run", tiny, "--quiet", "--out", tmp_path / "run").code == 0
    (tmp_path / "run" / file).write_text("{nothing", encoding="utf-8")
    code, _, err = colonnade("compare", tmp_path / "run")
    assert code == 2
    assert f"run/{file} is damaged" in err


def test_a_log_for_machines(colonnade: Command, tiny: Path, tmp_path: Path) -> None:
    code, out, err = colonnade("run", tiny, "--out", tmp_path / "run", "--json")
    assert code == 0
    events = [json.loads(line) for line in err.splitlines()]
    assert events[0]["event"] == "begin"
    assert events[-1] == events[-1] | {"event": "end", "completed": True}
    reports = [event for event in events if event["event"] == "report"]
    assert reports
    assert all({"round", "train_loss", "bytes_sent", "test_accuracy"} <= set(e) for e in reports)
    summary = load_run(tmp_path / "run").summary
    assert json.loads(out) == {"run": "svfl"} | summary
    sent = summary["bytes_up"] + summary["bytes_down"]
    assert 0 < reports[-1]["bytes_sent"] <= sent + summary["bytes_evaluation"]


def test_data_sets_are_listed(colonnade: Command, tmp_path: Path) -> None:
    code, out, _ = colonnade("datasets", "--data", tmp_path)
    assert code == 0
    for name in ("mnist5k", "credit_default", "handwritten", "openml"):
        assert name in out
    code, out, _ = colonnade("datasets", "--data", tmp_path, "--json")
    missing = {line["name"]: line["missing"] for line in json.loads(out)}
    assert missing["mnist5k"] is None
    assert "UCI_Credit_Card.csv" in missing["credit_default"]


@pytest.mark.parametrize(
    "given", [("schema", "s.json"), ("clicks", "--rows", "100", "synthetic.csv", "--like", "avazu")]
)
def test_a_full_disk_is_told_as_that_and_leaves_no_empty_file(
    colonnade: Command, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    clicks = importlib.import_module("colonnade.datasets.synthetic_clicks")  # also a function
    monkeypatch.setattr(clicks, "_write_text", full)
    code, _, told = colonnade(*given)
    assert code == 3
    assert "cannot be written: No space left on device; make room" in " ".join(told.split())
    assert not [*Path().iterdir()]


def test_the_schema_is_written_for_editors(colonnade: Command, tmp_path: Path) -> None:
    code, out, _ = colonnade("schema", tmp_path / "s.json")
    assert code == 0
    assert "yaml-language-server" in out
    written = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert json.loads(colonnade("schema").out) == written
    code, _, err = colonnade("schema", tmp_path / "no" / "s.json")
    assert code == 2
    assert "cannot be written" in err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("codecs", ["top_k", "ratio", "scope: message", "values: float", "by_round"]),
        ("methods", ["svfl", "fedbcd", "local_steps", "lean", "step: 1.5"]),
        ("models", ["resnet18", "width: 64", "widths: [32]"]),
        (
            "parts",
            [
                *("plain", "relay", "replayed", "error_feedback", "concat", "disk"),
                *("poisson_binomial", "differential_privacy", "calibrated"),
            ],
        ),
    ],
)
def test_what_can_be_named_is_listed(
    colonnade: Command, command: str, words: list[str], tmp_path: Path, monkeypatch: Any
) -> None:
    code, out, _ = colonnade(command)
    assert code == 0
    assert [word for word in [*words, "colonnade"] if word not in out] == []
    groups = json.loads(colonnade(command, "--json").out)
    assert all(part["about"] for group in groups for part in group["parts"])
    # A package that cannot be imported is a warning, not the end.
    info = tmp_path / "broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[colonnade.{group['group']}]\nnew = not_there:new\n" for group in groups)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    code, out, err = colonnade(command)
    assert code == 0
    assert [word for word in words if word not in out] == []
    assert err.count("broken 2.0") == len(groups)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "c.yaml", "--out", ""],
        ["demo", "--out", ""],
        ["align", "c.yaml", "--out", ""],
        ["predict", "run", "--out", ""],
        ["export", "run", "--to", ""],
        ["deploy", "c.yaml", "--to="],
        ["reproduce", "celu-time", "--out", ""],
    ],
)
def test_an_empty_place_is_not_the_folder_one_is_in(
    colonnade: Command, arguments: list[str]
) -> None:
    refused = colonnade(*arguments)
    assert refused.code == 2
    assert "it is empty; name a place" in plain(refused.err)


def test_who_has_no_place_for_compiled_loops_is_told_of_one(colonnade, monkeypatch):
    """It was a traceback of sixty lines."""
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    def compiled() -> None:
        from numba import njit

        njit(cache=True)(plain)

    monkeypatch.setattr(cli, "app", compiled)
    outcome = colonnade("methods")
    assert outcome.code == 3
    assert outcome.err.endswith("name a folder for them in NUMBA_CACHE_DIR\n")


@pytest.mark.parametrize("width", ["0", "00", "²"])
def test_a_width_of_nothing_is_none(width, tmp_path):
    """Every command was silent, its warnings too."""
    environment = os.environ | {"COLUMNS": width}
    command = [*COMMAND, "run", "nothing.yaml"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert ended.returncode == 2
    assert "nothing.yaml cannot be read" in ended.stderr
