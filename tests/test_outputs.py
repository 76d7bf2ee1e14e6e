"""No command, and no function that writes results, overwrites what Colonnade did not write."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import polars as pl
import pytest
import torch
import yaml
from torch import nn

from colonnade import cli
from colonnade.config import load_config
from colonnade.errors import ConfigurationError
from colonnade.estimators import VerticalClassifier
from colonnade.experiments import EXPERIMENTS, Findings, Scale, write_findings
from colonnade.experiments.one_trial import _probed
from colonnade.export import load_part
from colonnade.federation import Federation
from colonnade.organisations import LabelHolder, Party
from colonnade.outputs import (
    CONFIGURATION,
    MARK,
    PAGE,
    PART,
    PARTNERS,
    PICTURE,
    PROGRAM,
    SCHEMA,
    TENSORS,
    TEXT,
    check_output,
    replacing,
    replacing_folder,
    table,
)
from colonnade.reports import (
    Chart,
    Curve,
    Sheet,
    draw_charts,
    draw_comparison,
    draw_run,
    write_comparison,
    write_page,
    write_sheets,
)
from colonnade.run_read import load_run
from colonnade.training import Training

MINE = b"my own notes, kept for years\n"
REFUSED = "is there already and was not written by Colonnade; choose another name, or move it away"
TINY = {
    "data": {"train_rows": 100, "test_rows": 50},
    "model": {"bottom": {"widths": [4]}},
    "training": {"epochs": 1, "batch_size": 50},
}


def small():
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(40, 4, generator=generator)
    return Federation(
        [Party("bank", x[:, :2], nn.Linear(2, 3)), Party("shop", x[:, 2:], nn.Linear(2, 3))],
        LabelHolder("insurer", (x.sum(1) > 0).long(), nn.Linear(6, 2)),
        train_rows=range(30),
        test_rows=range(30, 40),
    )


TRAINING = Training(batch_size=10)
EXPERIMENT = next(iter(EXPERIMENTS.values()))
PARTNER_VALUES = "partners.json"


@pytest.fixture(scope="module")
def run():
    return small().train(training=TRAINING)


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("yaml") / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY), encoding="utf-8")
    return path


@pytest.fixture
def colonnade(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["colonnade", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code or 0, capsys.readouterr().err

    return command


# The rule


LONG = b"x" * 10**6


def test_what_colonnade_wrote_may_be_written_over(tmp_path):
    path = tmp_path / "file"
    check_output(path, PAGE)
    start, mark = b"<!DOCTYPE html>".lower(), MARK.encode()
    for content in (b"", start + mark, start + LONG + mark, start + mark + LONG):
        path.write_bytes(content)
        check_output(path, PAGE)
    for content in (MINE, start + LONG + mark + LONG):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=REFUSED):
            check_output(path, PAGE)
    path.write_bytes(b"a,b\r\n1,2\r\n")
    check_output(path, table("a,b"))
    with pytest.raises(ConfigurationError, match=REFUSED):
        check_output(path, table("a,c"))
    with pytest.raises(ConfigurationError, match="is a folder, where a file would be; move it"):
        check_output(tmp_path, PAGE)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_nobody_waits_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="is no ordinary file; choose another name"):
        check_output(tmp_path / "pipe", PAGE)


def test_a_kind_of_file_takes_the_place_of_its_own_kind_only(run, tmp_path, monkeypatch, capsys):
    small().train(training=TRAINING, out=tmp_path / "run")
    run.export(tmp_path / "parts", programs=True)
    findings = Findings([Sheet("S", ("a", "b"), [("1", "2")])], charts())
    write_findings(EXPERIMENT, Scale(), findings, tmp_path)
    monkeypatch.setattr(sys, "argv", ["colonnade", "schema", str(tmp_path / "schema.json")])
    with pytest.raises(SystemExit):
        cli.main()
    (tmp_path / PARTNER_VALUES).write_text(json.dumps({"by": MARK, "partners": []}, indent=2))
    written = {
        CONFIGURATION: tmp_path / "run" / "config.yaml",
        PAGE: tmp_path / "run" / "report.html",
        PICTURE: tmp_path / "run" / "run.png",
        PART: tmp_path / "parts" / "bank" / "part.json",
        TENSORS: tmp_path / "parts" / "bank" / "bottom.safetensors",
        PROGRAM: tmp_path / "parts" / "bank" / "bottom.pt2",
        TEXT: tmp_path / f"{EXPERIMENT.name}.txt",
        SCHEMA: tmp_path / "schema.json",
        PARTNERS: tmp_path / PARTNER_VALUES,
    }
    for kind in written:
        for other, path in written.items():
            if kind is other:
                check_output(path, kind)
                continue
            with pytest.raises(ConfigurationError, match=r"holds something else.*; choose another"):
                check_output(path, kind)
    text = tmp_path / "thesis.txt"
    text.write_bytes(b"Its tables were made by a program:\n" + MARK.encode() + b"\nis in them\n")
    for kind in written:
        with pytest.raises(ConfigurationError, match="holds something else"):
            check_output(text, kind)


def test_what_is_put_in_place_in_one_step_leaves_its_neighbours_alone(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_bytes(MINE)
    (tmp_path / "result.writing-1").symlink_to(mine)
    (tmp_path / "result.writing-2").write_bytes(MINE)
    (tmp_path / "result").symlink_to(mine)
    with replacing(tmp_path / "result") as partial:
        partial.write_text("new")
    assert (tmp_path / "result").read_text() == "new"
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "result"):
        raise ZeroDivisionError
    assert (tmp_path / "result").read_text() == "new"
    assert mine.read_bytes() == (tmp_path / "result.writing-2").read_bytes() == MINE
    assert len(list(tmp_path.iterdir())) == 4


def written_folder(path, text):
    with replacing_folder(path) as partial:
        (partial / "job").write_text(text)


def test_a_folder_that_is_replaced_is_there_until_the_new_one_is(tmp_path, monkeypatch):
    written_folder(tmp_path / "job", "old")
    rename = Path.rename

    def refused(self, to):
        if self.name == "job.writing-1":
            assert (tmp_path / "job.writing-1-old" / "job").read_text() == "old"
            raise ZeroDivisionError
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(ZeroDivisionError):
        written_folder(tmp_path / "job", "new")
    assert (tmp_path / "job" / "job").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_writer_of_a_folder_left_goes_with_the_next(tmp_path):
    for name in ("job.writing-1", "job.writing-2", "job.writing-1-old", "job.writing-up"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job").write_text("half")
    (tmp_path / "job.writing-7").mkdir()
    (tmp_path / "job.writing-7" / "thesis.txt").write_bytes(MINE)
    written_folder(tmp_path / "job", "new")
    assert (tmp_path / "job" / "job").read_text() == "new"
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"job", "job.writing-up", "job.writing-7"}


def charts():
    return [Chart("chart", "A chart", "x", "y", [Curve("one", [1, 2], [1, 2])])]


WRITERS = {
    "write_page": lambda run, path: write_page(run, path),
    "write_comparison": lambda run, path: write_comparison({"a": run, "b": run}, path),
    "write_sheets": lambda run, path: write_sheets(path, "T", "", [], [], [], ""),
    "draw_run": lambda run, path: draw_run(run, path),
    "draw_comparison": lambda run, path: draw_comparison({"a": run, "b": run}, path),
    "draw_charts": lambda run, path: draw_charts(charts(), path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_functions_write_over_their_own_files_only(run, tmp_path, writer):
    path = tmp_path / "result"
    path.write_bytes(MINE)
    with pytest.raises(ConfigurationError, match=REFUSED):
        WRITERS[writer](run, path)
    assert path.read_bytes() == MINE
    path.unlink()
    WRITERS[writer](run, path)
    written = path.read_bytes()
    WRITERS[writer](run, path)
    assert len(path.read_bytes()) == len(written) > 1000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_estimators_report_writes_over_its_own_only(tmp_path):
    x = {"a": pl.DataFrame({"u": range(100)}), "b": pl.DataFrame({"v": range(100)})}
    model = VerticalClassifier(aligned=True, epochs=1).fit(x, [i % 2 for i in range(100)])
    path = tmp_path / "report.html"
    assert model.report(path) == model.report(path) == path
    path.write_bytes(MINE)
    with pytest.raises(ConfigurationError, match=REFUSED):
        model.report(path)
    assert path.read_bytes() == MINE


@pytest.mark.parametrize(
    "name", ["part.json", "bottom.safetensors", "bottom.pt2", "top.safetensors"]
)
def test_exports_write_over_their_own_only(run, tmp_path, name):
    owner = "insurer" if name.startswith("top") else "bank"
    run.export(tmp_path, programs=True)
    run.export(tmp_path, programs=True)
    assert load_part(tmp_path / "bank").organisation == "bank"
    (tmp_path / owner / name).write_bytes(MINE)
    with pytest.raises(ConfigurationError, match=REFUSED):
        run.export(tmp_path, programs=True)
    assert (tmp_path / owner / name).read_bytes() == MINE


# A run's folder

OTHERS = ["report.html", "run.png", "history.csv", "ledger.csv", "summary.json", "config.yaml"]


@pytest.mark.parametrize("name", [*OTHERS, "others_history.csv", "journal", "checkpoint"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_takes_no_folder_with_files_of_others(tmp_path, name, resume):
    path = tmp_path / name
    path.write_bytes(MINE)
    with pytest.raises(ConfigurationError, match="choose another"):
        small().train(training=TRAINING, out=tmp_path, resume=resume)
    assert {each.name for each in tmp_path.iterdir()} == {name}
    assert path.read_bytes() == MINE


def test_a_run_goes_on_in_its_own_folder_only(tmp_path):
    small().train(training=TRAINING, out=tmp_path / "run", stop_before=1)
    run = small().train(training=TRAINING, out=tmp_path / "run", resume=True)
    assert run.summary["completed"]
    assert load_run(tmp_path / "run").config == run.config
    (tmp_path / "run" / "report.html").write_bytes(MINE)
    with pytest.raises(ConfigurationError, match=REFUSED):
        small().train(training=TRAINING, out=tmp_path / "run", resume=True)
    # Killed before the first checkpoint, there is the configuration and no more.
    (tmp_path / "killed").mkdir()
    config = (tmp_path / "run" / "config.yaml").read_bytes()
    (tmp_path / "killed" / "config.yaml").write_bytes(config)
    assert small().train(training=TRAINING, out=tmp_path / "killed", resume=True)


def test_folders_of_others_that_look_like_a_runs_are_left_alone(tmp_path):
    """A folder named checkpoint makes no run, and nor does an empty config.yaml."""
    thesis = tmp_path / "checkpoint" / "writing-thesis"
    thesis.mkdir(parents=True)
    (thesis / "chapter-1.txt").write_bytes(MINE)
    for name in ("history.csv", "ledger.csv", "summary.json"):
        (tmp_path / name).write_bytes(MINE)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"holds no run, but .*choose another folder"):
            small().train(training=TRAINING, out=tmp_path, resume=True)
        assert (tmp_path / "history.csv").read_bytes() == MINE
        (tmp_path / "config.yaml").touch()


def test_a_run_removes_only_its_own_checkpoints(tmp_path):
    small().train(training=TRAINING, out=tmp_path, stop_before=1)
    kept = [tmp_path / "checkpoint" / name for name in ("writing-thesis", "round-trip")]
    for folder in kept:
        folder.mkdir()
    (tmp_path / "config.yaml.writing").write_bytes(MINE)
    mine = tmp_path / "mine.txt"
    mine.write_bytes(MINE)
    (tmp_path / "summary.json.writing").symlink_to(mine)
    left = tmp_path / "checkpoint" / "writing-round-00000001"
    left.mkdir()
    assert small().train(training=TRAINING, out=tmp_path, resume=True).summary["completed"]
    assert [folder.is_dir() for folder in (*kept, left)] == [True, True, False]
    assert mine.read_bytes() == (tmp_path / "config.yaml.writing").read_bytes() == MINE
    assert not list(tmp_path.glob("*.writing-*"))


def test_what_a_kill_left_half_written_is_removed_when_the_run_goes_on(tmp_path):
    names = ["history.csv", "ledger.csv", "summary.json", "run.png", "report.html", "config.yaml"]
    run = small().train(training=TRAINING, out=tmp_path, stop_before=1)
    (party, *_) = run.models
    left = [tmp_path / f"{name}.writing-1" for name in names]
    left += [tmp_path / "ledger.csv.writing-2", tmp_path / "parts" / party / "part.json.writing-1"]
    kept = [tmp_path / name for name in ("thesis.csv.writing-1", "ledger.csv.writing-up")]
    kept += [tmp_path / "parts" / party / "predicted.json.writing-1"]  # somebody predicts
    for file in (*left, *kept):
        file.write_bytes(MINE)
    (tmp_path / "summary.json.writing-2").symlink_to(kept[0])
    assert small().train(training=TRAINING, out=tmp_path, resume=True).summary["completed"]
    assert not any(file.exists() for file in left)
    assert all(file.read_bytes() == MINE for file in (*kept, tmp_path / "summary.json.writing-2"))


def test_a_first_file_that_a_kill_left_half_written_is_removed(tmp_path):
    left = [tmp_path / "config.yaml.writing-1", tmp_path / "config.yaml.writing-2"]
    left[0].write_text(f"# {MARK} 0.1: all that")
    left[1].touch()
    kept = tmp_path / "config.yaml.writing-3"
    kept.write_bytes(MINE)
    assert small().train(training=TRAINING, out=tmp_path).summary["completed"]
    assert not any(file.exists() for file in left)
    assert kept.read_bytes() == MINE


def test_probes_of_others_are_left_alone(tmp_path):
    path = tmp_path / "probes.json"
    for content in (MINE, b"[1]", b'{"mine": 1}'):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match="was not written by Colonnade, or is damaged"):
            _probed(path)
        assert path.read_bytes() == content
    path.write_bytes(b'{"3": 0.5}')
    assert _probed(path) == {3: 0.5}


# Commands


def test_schema_writes_over_its_own_only(colonnade):
    path = Path("schema.json")
    for _ in range(2):
        assert colonnade("schema", path)[0] == 0
    assert json.loads(path.read_text())["$comment"].startswith(MARK)
    path.write_bytes(MINE)
    code, err = colonnade("schema", path)
    assert (code, path.read_bytes()) == (2, MINE)
    assert REFUSED in " ".join(err.split())
    edited = f"# {MARK} 0.1: all that decides the run.\n# my edits\nmethod: lean\n".encode()
    path.write_bytes(edited)
    code, err = colonnade("schema", path)
    assert (code, path.read_bytes()) == (2, edited)


@pytest.mark.parametrize("name", ["comparison.html", "comparison.png"])
def test_compare_and_demo_write_over_their_own_only(colonnade, run, tmp_path, name):
    small().train(training=TRAINING, out=tmp_path / "run")
    compare = ("compare", tmp_path / "run", "--out", "both")
    for _ in range(2):
        assert colonnade(*compare)[0] == 0
    other = "comparison.png" if name == "comparison.html" else "comparison.html"
    Path("both", name).write_bytes(MINE)
    Path("both", other).unlink()
    for command in (compare, ("demo", "--out", "both")):
        code, err = colonnade(*command)
        assert (code, Path("both", name).read_bytes()) == (2, MINE)
        assert REFUSED in " ".join(err.split())
        assert [path.name for path in Path("both").iterdir()] == [name]  # nothing was begun


def test_partner_values_write_over_their_own_only(colonnade, yaml_file):
    Path("value").mkdir()
    Path("value", "partners.json").write_bytes(MINE)
    code, err = colonnade("compare", "--partners", yaml_file, "--out", "value")
    assert code == 2
    assert REFUSED in " ".join(err.split())
    assert [path.name for path in Path("value").iterdir()] == ["partners.json"]


def test_run_leaves_the_users_configuration_alone(colonnade, yaml_file):
    Path("config.yaml").write_bytes(yaml_file.read_bytes())
    for more in ((), ("--resume",)):
        assert colonnade("run", "config.yaml", "--out", ".", *more)[0] == 2
        assert Path("config.yaml").read_bytes() == yaml_file.read_bytes()
        assert [path.name for path in Path().iterdir()] == ["config.yaml"]
    assert load_config(Path("config.yaml")).training.epochs == 1


@pytest.mark.parametrize("kind", ["html", "png", "txt", "csv"])
def test_reproduce_writes_over_its_own_only(tmp_path, kind, colonnade):
    name = EXPERIMENT.name
    findings = Findings([Sheet("S", ("a", "b"), [("1", "2")])], charts())
    for _ in range(2):
        write_findings(EXPERIMENT, Scale(), findings, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert set(before) == {f"{name}.{one}" for one in ("html", "png", "txt", "csv")}
    path = tmp_path / "out" / f"{name}.{kind}"
    path.write_bytes(MINE)
    with pytest.raises(ConfigurationError, match=REFUSED):
        write_findings(EXPERIMENT, Scale(), findings, tmp_path / "out")
    after = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert after == before | {path.name: MINE}
    if kind != "csv":  # whose head is known when the work is done
        assert colonnade("reproduce", name, "--quick", "--out", tmp_path / "out")[0] == 2
