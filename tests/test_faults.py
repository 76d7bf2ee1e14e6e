"""Faults of the world: one sentence that says what is safe, exit code 3, and the run can go on."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import resource
import shutil
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

from colonnade import cli, run_folder
from colonnade.alone import alone_in
from colonnade.audits import Audit, Scope, write_audits
from colonnade.checkpoints import CheckpointStore
from colonnade.config import parse_config
from colonnade.deployment.folders import write_site
from colonnade.drivers import Processes, Simulate
from colonnade.errors import CheckpointError, ConfigurationError, DataError, Unwritten
from colonnade.experiments import EXPERIMENTS, Findings, Scale, write_findings
from colonnade.export import export_part, load_part
from colonnade.faults import misnamed_or_unwritten, unwritten
from colonnade.federation import Federation
from colonnade.ledger import Ledger
from colonnade.methods import svfl
from colonnade.organisations import LabelHolder, Party
from colonnade.reports import Sheet, write_sheets
from colonnade.run_folder import RunFolder
from colonnade.run_read import load_run
from colonnade.training import Training, Watcher
from toy_sites import configuration, tables

DRIVERS = {"simulate": Simulate, "processes": Processes}
TRAINING = Training(epochs=3, batch_size=10, checkpoint_every=2)  # 9 rounds
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def federation():
    torch.manual_seed(1)
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(2))
    return Federation(
        [Party("bank", x[:, :2], nn.Linear(2, 3)), Party("shop", x[:, 2:], nn.Linear(2, 3))],
        LabelHolder("insurer", (x.sum(1) > 0).long(), nn.Linear(6, 2)),
        train_rows=range(30),
        test_rows=range(30, 40),
    )


def bits(run):
    parts = [part for parts in run.models.values() for part in parts.values()]
    return b"".join(v.numpy().tobytes() for part in parts for v in part.state_dict().values())


@pytest.fixture(scope="module")
def whole():
    return bits(federation().train(training=TRAINING))


def test_a_full_disk_that_polars_finds_is_told_with_the_remedy():
    full = OSError("No space left on device (os error 28)")
    assert str(unwritten("x", full)) == "x cannot be written: No space left on device; make room"
    assert str(misnamed_or_unwritten("x", full)) == str(unwritten("x", full))


def test_a_ledger_that_is_packed_or_damaged_is_refused(tmp_path):
    path = tmp_path / "ledger.csv"
    for damaged in (gzip.compress(b"sender,receiver")[:-6], b"\x1f\x8b", b""):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"\w"):
            Ledger.read_csv(path)


@contextmanager
def small_files():
    """Give back what limits the size of files, the system's own way to refuse a write."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def at(round, do):
    """Return who does something when the label holder enters a round."""
    return Watcher(
        on_round=lambda role, now, _: do() if (role, now) == ("insurer", round) else None
    )


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("round", "safe"),
    [(1, "There is no checkpoint: .* begins anew"), (5, "checkpoint before round 4 is")],
)
def test_no_room_for_a_checkpoint(tmp_path, whole, driver, round, safe):
    out = tmp_path / "run"
    with small_files() as limit, pytest.raises(Unwritten, match=safe) as caught:
        federation().train(
            driver=DRIVERS[driver](),
            training=TRAINING,
            out=out,
            watcher=at(round, lambda: limit(1300)),
            report=False,
        )
    assert "safetensors cannot be written: File too large; allow larger files. " in str(
        caught.value
    )
    assert "resume the run" in str(caught.value)
    again = federation().train(training=TRAINING, out=out, resume=True, report=False)
    assert bits(again) == whole
    assert not list(out.rglob("*writing*"))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("size", [1, 400])
def test_no_room_for_what_organisations_note(tmp_path, whole, driver, size):
    out = tmp_path / "run"
    with small_files() as limit, pytest.raises(Unwritten, match=r"File too large; .* begins anew"):
        federation().train(
            driver=DRIVERS[driver](),
            training=TRAINING,
            out=out,
            watcher=Watcher(on_begin=lambda first, last: limit(size)),
            report=False,
        )
    again = federation().train(training=TRAINING, out=out, resume=True, report=False)
    assert bits(again) == whole


def test_no_room_even_for_the_configuration(tmp_path, whole):
    out = tmp_path / "run"
    for resume in (False, True):
        with small_files() as limit:
            limit(10)
            with pytest.raises(Unwritten, match=r"config\.yaml cannot be written: File too large"):
                federation().train(training=TRAINING, out=out, resume=resume)
        assert not list(out.iterdir())
    assert bits(federation().train(training=TRAINING, out=out, report=False)) == whole


@pytest.mark.parametrize("size", [1, 10**5, 10**6])
def test_no_room_for_a_picture_or_the_page(tmp_path, whole, size, monkeypatch):
    out = tmp_path / "run"
    finish = run_folder.RunFolder.finish
    with small_files() as limit, monkeypatch.context() as patch:
        # From then on, when history, ledger and summary are written, or just before.
        patch.setattr(
            run_folder.RunFolder,
            "finish",
            lambda self, run: (
                (limit(size), finish(self, run)) if size == 1 else (finish(self, run), limit(size))
            ),
        )
        safe = "checkpoint before round 9 is" if size == 1 else "The run itself is whole: when that"
        with pytest.raises(Unwritten, match=rf"File too large; .* {safe}"):
            federation().train(training=TRAINING, out=out)
    assert not list(out.glob("*writing*"))
    again = federation().train(training=TRAINING, out=out, resume=True)
    assert bits(again) == whole
    assert load_run(out).summary["completed"]
    assert (out / "report.html").stat().st_size > 10**6
    assert (out / "run.png").is_file()


def test_no_room_for_the_ledger(tmp_path, whole, monkeypatch):
    out = tmp_path / "run"

    def full(self, path):
        Path(path).write_text("sender,")
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "write_csv", full)
        with pytest.raises(
            Unwritten, match=rf"^{out}/ledger.csv cannot be written: No space left "
        ):
            federation().train(training=TRAINING, out=out, report=False)
    assert not (out / "ledger.csv").exists()
    again = federation().train(training=TRAINING, out=out, resume=True, report=False)
    assert bits(again) == whole
    assert len(load_run(out).ledger) == len(again.ledger)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("instead", [None, "a file"])
@pytest.mark.parametrize("round", [1, 5])
def test_a_folder_that_vanishes(tmp_path, driver, instead, round):
    out = tmp_path / "run"

    def vanish():
        shutil.rmtree(out)
        if instead is not None:
            out.write_text(instead)

    with pytest.raises(Unwritten, match=f"Nothing of the run is left in {out}: go on where it was"):
        federation().train(
            driver=DRIVERS[driver](),
            training=TRAINING,
            out=out,
            watcher=at(round, vanish),
            report=False,
        )
    assert out.is_file() if instead else not out.exists()


IN_THE_WAY = {  # what takes the place of which, what is told of it, and what is safe then
    "parts": ("a file", "File exists; something else is in its place", "checkpoint before round 9"),
    "parts/bank": ("a file", "File exists; something else is in", "checkpoint before round 9"),
    "parts/bank/part.json": ("a folder", "is a folder, where a file", "checkpoint before round 9"),
    "history.csv": ("a folder", "something else is in its place", "checkpoint before round 9"),
    "run.png": ("a folder", "is a folder, where a file would be; move it", "run itself"),
    "report.html": ("a folder", "is a folder, where a file would be; move it", "run itself"),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_what_takes_the_place_of_results_meanwhile_is_no_mistake_of_the_users(
    tmp_path, whole, name
):
    """Some was told as what the user had named, with nothing of what is safe."""
    out = tmp_path / "run"
    kind, why, safe = IN_THE_WAY[name]

    def take():
        (out / name).parent.mkdir(exist_ok=True, parents=True)
        (out / name).touch() if kind == "a file" else (out / name).mkdir()

    with pytest.raises(Unwritten, match=rf"{why}.*{safe} is whole: when that is mended, resume"):
        federation().train(training=TRAINING, out=out, watcher=at(5, take))
    assert (safe == "run itself") == (out / "summary.json").exists()
    shutil.rmtree(out / name, ignore_errors=True)
    (out / name).unlink(missing_ok=True)
    again = federation().train(training=TRAINING, out=out, resume=True)
    assert bits(again) == whole
    assert load_run(out).summary["completed"]
    assert (out / "report.html").is_file()


@pytest.mark.parametrize("other", ["a folder", "a file"])
def test_a_run_whose_configuration_was_replaced_meanwhile_is_not_told_as_written(
    tmp_path, whole, other
):
    """It came to its end without a word, and nobody could read it."""
    file = tmp_path / "config.yaml"

    def take():
        file.unlink()
        file.mkdir() if other == "a folder" else file.write_text("another: one\n")

    why = r"config\.yaml is not this run's any more.*checkpoint before round 9 is whole"
    with pytest.raises(Unwritten, match=why):
        federation().train(training=TRAINING, out=tmp_path, watcher=at(5, take))
    file.rmdir() if other == "a folder" else file.unlink()
    assert bits(federation().train(training=TRAINING, out=tmp_path, resume=True)) == whole
    assert load_run(tmp_path).summary["completed"]


def test_a_page_of_a_run_that_was_interrupted_is_not_told_as_of_a_whole_one(tmp_path):
    with pytest.raises(Unwritten, match=r"run\.png .* The checkpoint before round 7 is whole"):
        federation().train(
            training=TRAINING,
            out=tmp_path,
            watcher=at(5, (tmp_path / "run.png").mkdir),
            stop_before=7,
        )


def test_a_folder_that_vanishes_as_the_last_files_are_written(tmp_path, monkeypatch):
    """It is made again by whoever writes into it, and no command would read it."""
    out, sealed = tmp_path / "run", run_folder.sealed

    def vanish(run, folder):
        shutil.rmtree(folder)
        folder.mkdir()
        return sealed(run, folder)

    monkeypatch.setattr(run_folder, "sealed", vanish)
    with pytest.raises(Unwritten, match=r"config\.yaml cannot be .*No such file or directory"):
        federation().train(training=TRAINING, out=out, report=False)


def test_without_a_whole_checkpoint_it_is_said_what_to_do_instead(tmp_path):
    store = CheckpointStore(tmp_path, {"run": "fingerprint"}, anew="give the run another name")
    (tmp_path / "round-00000003").mkdir()
    with pytest.raises(
        CheckpointError, match=r"damaged\), so .* cannot go on; give the run another"
    ):
        store.latest()


def test_a_store_makes_its_folder_once(tmp_path):
    store = CheckpointStore(tmp_path / "run" / "checkpoint", {"run": "fingerprint"})
    store.draft(1)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(Unwritten, match=r"No such file or directory; it was moved or removed$"):
        store.draft(2)
    assert not (tmp_path / "run").exists()


def test_a_page_that_cannot_be_written_leaves_the_one_before(tmp_path):
    page = tmp_path / "audit.html"
    write_sheets(page, "Title", "Lead.", [], [], [], "command")
    before = page.read_bytes()
    with small_files() as limit:
        limit(len(before) // 2)
        with pytest.raises(Unwritten, match="File too large"):
            write_sheets(page, "Another", "Lead.", [], [], [], "command")
    assert page.read_bytes() == before
    assert list(tmp_path.iterdir()) == [page]


def test_a_full_disk_leaves_no_half_of_a_program(tmp_path, monkeypatch):
    part = (tmp_path, "bank", {"bottom": nn.Linear(2, 3)}, {}, torch.zeros(2, 2))
    write = Path.write_bytes

    def full(path, data):
        if not path.name.startswith("bottom.pt2"):
            return write(path, data)
        write(path, data[:100])
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(Unwritten, match="cannot be written: No space left on device; make"):
            export_part(*part)
    assert {path.name for path in tmp_path.iterdir()} == {"bottom.safetensors", "part.json"}
    export_part(*part)
    assert torch.export.load(tmp_path / "bottom.pt2").module()(torch.zeros(5, 2)).shape == (5, 3)


def test_a_folder_that_torch_has_no_room_in_is_no_fault_of_a_bottom(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(torch.export, "export", refuse)
    with pytest.raises(Unwritten, match=r"the bottom of 'bank': no temporary folder .* TMPDIR$"):
        export_part(tmp_path, "bank", {"bottom": nn.Linear(2, 3)}, {}, torch.zeros(2, 2))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_parts_that_cannot_be_written_leave_a_finished_run_as_it_was(tmp_path, monkeypatch, number):
    first, second = ({"data": {"folder": name}} for name in ("here", "there"))
    train = partial(federation().train, training=TRAINING, out=tmp_path, report=False)
    train(config=first)
    before = contents(tmp_path)
    whole = tempfile.TemporaryFile

    def refuse(*_, dir):
        if dir.name in ("parts", "bank"):
            raise OSError(number, os.strerror(number))
        return whole(dir=dir)

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", refuse)
        with pytest.raises(Unwritten, match=r"parts cannot be written: .*; have it made writable"):
            train(config=second, resume=True)
    assert contents(tmp_path) == before
    assert load_run(tmp_path).config == first
    train(config=second, resume=True)
    assert load_run(tmp_path).config == second


def test_a_part_that_is_somebodys_own_leaves_a_finished_run_as_it_was(tmp_path):
    train = partial(federation().train, training=TRAINING, out=tmp_path, report=False)
    train(config={"data": "here"})
    (tmp_path / "parts" / "bank" / "part.json").write_text("mine", encoding="utf-8")
    before = contents(tmp_path)
    with pytest.raises(ConfigurationError, match=r"part\.json is there already and was not writ"):
        train(config={"data": "there"}, resume=True)
    assert contents(tmp_path) == before


# The command


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run the command in a new folder; return the exit code and what it said."""
    monkeypatch.chdir(tmp_path)
    tiny = {
        "data": {"train_rows": 100, "test_rows": 50},
        "model": {"bottom": {"widths": [4]}},
        "training": {"epochs": 1, "batch_size": 50},
    }
    Path("run.yaml").write_text(yaml.safe_dump(tiny), encoding="utf-8")

    def said(*arguments):
        monkeypatch.setattr(sys, "argv", ["colonnade", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as left:
            return left.code or 0, " ".join(capsys.readouterr().err.split())
        return 0, capsys.readouterr().err

    return said


def test_a_full_disk_ends_the_command_with_3_and_it_goes_on(command, monkeypatch):
    def full(self, path):
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "write_csv", full)
        code, err = command("run", "run.yaml", "--out", "out", "--quiet")
    assert code == 3
    assert err.startswith("error: out/ledger.csv cannot be written: No space left on device; mak")
    assert "Traceback" not in err
    assert command("run", "run.yaml", "--out", "out", "--quiet", "--resume") == (0, "")
    with small_files() as limit:
        limit(10**4)
        code, err = command("compare", "out", "--out", "both", "--quiet")
    assert code == 3
    assert err == (
        "error: both/comparison.html cannot be written: File too large; allow larger files"
    )
    assert command("compare", "out", "--out", "both", "--quiet") == (0, "")


def test_what_takes_the_place_of_the_page_meanwhile_ends_the_command_with_3(command, monkeypatch):
    train = Federation.train

    def taken(self, *given, out, **named):
        return train(self, *given, out=out, **(named | {"watcher": at_begin(out)}))

    def at_begin(out):
        return Watcher(on_begin=lambda *_: (out / "report.html").mkdir())

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "train", taken)
        code, err = command("run", "run.yaml", "--out", "out", "--quiet")
    assert code == 3
    assert err == (
        "error: out/report.html is a folder, where a file would be; move it away, or choose "
        "another name. The run itself is whole: when that is mended, resume the run (--resume), "
        "and the rest is written"
    )
    Path("out/report.html").rmdir()
    assert command("run", "run.yaml", "--out", "out", "--quiet", "--resume") == (0, "")


def test_a_full_disk_leaves_no_half_of_a_job_and_the_one_before_whole(command, tmp_path):
    tables(tmp_path)
    Path("run.yaml").write_text(yaml.safe_dump(configuration(tmp_path)), encoding="utf-8")
    deploy = ("deploy", "run.yaml", "--to", "jobs", "--quiet")
    with small_files() as limit:
        limit(150)
        code, err = command(*deploy)
    assert code == 3
    assert err == "error: jobs/align cannot be written: File too large; allow larger files"
    assert not [*Path("jobs").iterdir()]
    assert command(*deploy) == (0, "")
    whole = contents(Path("jobs"))
    with small_files() as limit:
        limit(150)
        assert command(*deploy, "--run", "other")[0] == 3
    assert contents(Path("jobs")) == whole
    assert command(*deploy, "--run", "other") == (0, "")
    assert contents(Path("jobs")).keys() == whole.keys()


def test_a_full_disk_leaves_no_empty_site_and_an_empty_one_is_not_kept(command, tmp_path):
    tables(tmp_path)
    config = parse_config(configuration(tmp_path))
    Path("run.yaml").write_text(yaml.safe_dump(configuration(tmp_path)), encoding="utf-8")
    with small_files() as limit:
        limit(1)
        with pytest.raises(Unwritten, match="allow larger files"):
            write_site(config, "bank", Path("site"))
    assert not [*Path("site").iterdir()]
    for name, text in (("bank", ""), ("shop", "mine")):
        site = Path("jobs/sites", name, "site.yaml")
        site.parent.mkdir(parents=True)
        site.write_text(text, encoding="utf-8")
    assert command("deploy", "run.yaml", "--to", "jobs", "--quiet") == (0, "")
    assert Path("jobs/sites/bank/site.yaml").read_text(encoding="utf-8").startswith("# Written by")
    assert Path("jobs/sites/shop/site.yaml").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("size", [5, 60])
def test_a_full_disk_leaves_the_findings_of_an_experiment_as_they_were(tmp_path, size):
    findings = Findings([Sheet("S", ("run", "accuracy"), [("one", "0.9")])])
    given = (EXPERIMENTS["efvfl-mnist"], Scale(), findings, tmp_path)
    write_findings(*given)
    whole = contents(tmp_path)
    with small_files() as limit:
        limit(size)
        with pytest.raises(Unwritten, match="allow larger files"):
            write_findings(*given)
    assert contents(tmp_path) == whole
    write_findings(*given)


def test_a_full_disk_leaves_the_findings_of_an_audit_as_they_were(tmp_path):
    found = {"mine": Audit("mine", Scope(), (), (), (), None)}
    write_audits(found, tmp_path, "colonnade audit mine.yaml")
    whole = contents(tmp_path)
    with small_files() as limit:
        limit(20)
        with pytest.raises(Unwritten, match="allow larger files"):
            write_audits(found, tmp_path, "colonnade audit mine.yaml")
    assert contents(tmp_path) == whole


def contents(folder):
    """Return what is in the files of a folder, by their names in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_whatever_else_the_system_refuses_is_one_sentence(command, monkeypatch):
    def full(text):
        raise OSError(errno.EIO, os.strerror(errno.EIO), "/srv/out")

    monkeypatch.setattr("colonnade.config.listing.listed", lambda *_: full(""))
    code, err = command("codecs")
    assert (code, err) == (3, "error: /srv/out cannot be read or written: Input/output error")


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_made_is_one_that_cannot_be_written(
    command, monkeypatch, there, number
):
    if there:
        Path("out").mkdir()

    def refuse(self, *_, **__):
        if self.name == "out" and not there:
            raise OSError(number, os.strerror(number), str(self))
        if there and self.parent.name == "out":
            raise OSError(number, os.strerror(number), str(self))
        return plain(self, *_, **__)

    method = "open" if there else "mkdir"
    plain = getattr(Path, method)
    monkeypatch.setattr(Path, method, refuse)
    code, err = command("run", "run.yaml", "--out", "out", "--quiet")
    assert code == 3
    assert re.match(rf"error: .*out.* cannot be written: {os.strerror(number)}; ", err)


def test_what_is_in_the_way_of_a_folder_is_the_users(command):
    Path("out").write_text("mine", encoding="utf-8")
    code, err = command("run", "run.yaml", "--out", "out", "--quiet")
    why = "cannot be written: File exists; something else is in its place"
    assert (code, err) == (2, f"error: the folder out {why}")


TOO_LONG = "x" * 300


@pytest.fixture
def trained(command, tmp_path):
    """Return the command, beside a run of tables of which no id may be read any more."""
    tables(tmp_path)
    Path("run.yaml").write_text(yaml.safe_dump(configuration(tmp_path)), encoding="utf-8")
    assert command("run", "run.yaml", "--quiet") == (0, "")
    Path("notes").write_text("mine", encoding="utf-8")
    Path("loop").symlink_to("loop")
    return command


def check_refused(command, arguments, why):
    """Assert that it exits with 2 and this sentence, and neither makes nor changes a file."""
    before = contents(Path())
    assert command(*arguments) == (2, f"error: {why}")
    assert contents(Path()) == before


WRITING = {
    "align": ("align", "run.yaml", "--out"),
    "audit": ("audit", "runs/run", "--out"),
    "compare": ("compare", "runs/run", "--out"),
    "demo": ("demo", "--out"),
    "deploy": ("deploy", "run.yaml", "--to"),
    "export": ("export", "runs/run", "--to"),
    "partners": ("compare", "--partners", "run.yaml", "--out"),
    "reproduce": ("reproduce", "lean-mnist", "--quick", "--out"),
    "run": ("run", "run.yaml", "--out"),
}


@pytest.fixture
def no_work(monkeypatch):
    """Let whoever has begun with what is to be written fail."""

    def work(*_, **__):
        raise AssertionError("it has begun")

    for place in (
        *("config.aligning.carry_out", "federation.Federation.train", "partners.partner_values"),
        *("demo.run_demo", "experiments.reproduce", "audit_subjects.subjects"),
        *("deployment.job.job_of", "config.run.RunConfig.train"),
    ):
        monkeypatch.setattr(f"colonnade.{place}", work)


@pytest.mark.parametrize("command_of", WRITING)
def test_where_no_folder_can_be_is_told_before_any_work(trained, command_of, monkeypatch, no_work):
    given = WRITING[command_of]
    in_the_way = "cannot be written: File exists; something else is in its place"
    too_long = "cannot be written: File name too long"
    for place in ("notes", "notes/inner", "loop", "loop/inner"):
        check_refused(trained, (*given, place), f"the folder {place} {in_the_way}")
    for place in (TOO_LONG, f"new/{TOO_LONG}"):
        check_refused(trained, (*given, place), f"the folder {place} {too_long}")


@pytest.mark.parametrize("command_of", WRITING)
def test_that_nobody_may_write_there_is_told_before_any_work(
    trained, command_of, monkeypatch, no_work
):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    code, err = trained(*WRITING[command_of], "new")
    assert code == 3
    assert err == (
        "error: the folder new cannot be written: Permission denied; have it made writable"
    )


@pytest.mark.parametrize("length", [300, 250])
def test_a_name_that_no_file_may_have_is_told_before_it_is_written(trained, length):
    name = "x" * length  # while it is written it is longer
    for place in (name, f"new/{name}"):
        for given in (("predict", "runs/run", "--rows", "test", "--out"), ("schema",)):
            why = f"{place} cannot be written: File name too long"
            check_refused(trained, (*given, place), why)


@pytest.mark.parametrize(
    "given", [("predict",), ("export", "--to", "new"), ("serve",), ("compare",)]
)
def test_a_name_that_no_run_may_have_is_told_as_one(trained, given):
    why = f"{'x' * 200} ... cannot be read: File name too long"
    check_refused(trained, (given[0], TOO_LONG, *given[1:]), why)


@pytest.mark.parametrize("given", [("audit",), ("prepare-kit",), ("datasets", "--data")])
def test_whatever_else_has_a_name_that_nothing_may_have_is_the_users(trained, given):
    code, err = trained(*given, TOO_LONG)
    assert code == 2
    assert err.endswith("cannot be read or written: File name too long")


def test_a_token_that_no_file_can_hold_is_told(trained):
    for place, why in (
        ("notes/token", "File exists; something else is in its place"),
        ("/proc/token", "No such file or directory"),
        (TOO_LONG, "File name too long"),
    ):
        given = ("serve", "runs/run", "--absent", "drop", "--port", "0", "--token", place)
        check_refused(trained, given, f"{place} cannot be written: {why}")


def test_a_name_that_no_folder_may_have_is_told():
    with (
        pytest.raises(
            ConfigurationError, match=r"^'a\\x00b' is no name of a folder: embedded null byte$"
        ),
        alone_in(Path("a\0b")),
    ):
        raise AssertionError


def test_what_was_being_read_is_not_told_as_written(command, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "people.csv")

    monkeypatch.setattr("colonnade.config.load_config", refuse)
    code, err = command("plan", "run.yaml")
    assert (code, err) == (3, "error: people.csv cannot be read or written: Permission denied")
    monkeypatch.setattr(
        "colonnade.config.load_config", lambda *_: (_ for _ in ()).throw(OSError("gone"))
    )
    assert command("plan", "run.yaml") == (3, "error: the system refuses to read or write: gone")


UNREADABLE = [
    *("config.yaml", "history.csv", "ledger.csv", "summary.json"),
    *("parts/bank/part.json", "parts/bank/bottom.safetensors", "parts/bank/mean.json"),
]


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_nobody_may_read_is_not_told_as_damaged(trained, monkeypatch, name):
    predict = ("predict", "runs/run", "--rows", "test", "--json")
    assert trained(*predict)[0] == 0
    opened, refused = io.open, str(Path("runs/run", name))

    def refuse(path, *arguments, **settings):
        if str(path) == refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), refused)
        return opened(path, *arguments, **settings)

    monkeypatch.setattr("io.open", refuse)
    code, err = trained(*predict)
    assert code == 2
    assert re.fullmatch(rf"error: {refused}\b.* cannot be read: Permission denied", err)


def test_a_file_in_the_place_of_a_part_is_not_told_as_a_damaged_one(tmp_path):
    (tmp_path / "run.yaml").touch()
    with pytest.raises(DataError, match=r"run\.yaml/part\.json cannot be read: Not a directory$"):
        load_part(tmp_path / "run.yaml")


def test_what_cannot_be_looked_at_is_not_told_as_lost(tmp_path, monkeypatch):
    federation().train(method=svfl(), training=TRAINING, out=tmp_path / "run", stop_before=5)
    listed = Path.iterdir
    monkeypatch.setattr(
        Path, "iterdir", lambda path: _refused() if path.name == "checkpoint" else listed(path)
    )
    with pytest.raises(Unwritten, match="checkpoint cannot be read: Too many open files"):
        federation().train(svfl(), TRAINING, out=tmp_path / "run", resume=True)
    monkeypatch.setattr(Path, "iterdir", listed)
    store = CheckpointStore(tmp_path / "run" / "checkpoint", {})
    monkeypatch.setattr(store, "latest", _refused)
    with (
        pytest.raises(Unwritten, match=r"full. What of the run is left cannot be seen now: when"),
        RunFolder(tmp_path / "run").safeguarded(store),
    ):
        raise Unwritten("the disk is full")
    monkeypatch.undo()
    assert federation().train(svfl(), TRAINING, out=tmp_path / "run", resume=True)


def _refused(*_):
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
