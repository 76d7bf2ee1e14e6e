"""A line of FLARE's logs is of who wrote it, and of no length."""

from __future__ import annotations

import io
import logging

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.sec.audit import Auditor

from colonnade.deployment.plain_logs import guard_logs
from toy_guarded import put_back

FORGED = "7\n2026-01-01 00:00:00,000 - ServerEngine - INFO - job finished"


@pytest.fixture(autouse=True)
def _guarded(monkeypatch):
    put_back(monkeypatch)
    guard_logs()
    guard_logs()


@pytest.fixture
def log():
    """Return a log, and what is written of it."""
    written, log = io.StringIO(), logging.Logger("an example")
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("2026-11-28 - %(message)s"))
    log.addHandler(handler)
    return log, written


@pytest.mark.parametrize("said", [("job %s failed", FORGED), (f"job {FORGED} failed",)])
def test_what_others_say_begins_no_line(log, said):
    log, written = log
    log.warning(*said)
    first, *others = written.getvalue().splitlines()
    assert first == "2026-11-28 - job 7"
    assert others == ["    2026-01-01 00:00:00,000 - ServerEngine - INFO - job finished failed"]


@pytest.mark.parametrize("end", ["\r", "\v", "\f", "\x85", "\u2028", "\u2029", "\x1e", "\r\n"])
def test_no_other_end_of_a_line_is_one(log, end):
    log, written = log
    log.info("site %s", f"bank{end}forged \x1b[31m")
    assert all(line.startswith(("2026", "    ")) for line in written.getvalue().splitlines())
    assert "\x1b" not in written.getvalue()


def test_what_an_error_says_begins_no_line(log):
    log, written = log
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("no job")
    first, *others = written.getvalue().splitlines()
    assert first == "2026-11-28 - no job"
    assert "ValueError: 7" in written.getvalue()
    assert all(line.startswith("    ") for line in others[1:]), others
    assert others[0] == "Traceback (most recent call last):"


def test_there_is_an_end_of_what_others_say(log):
    """One of 30 MB was a line of 29 MB, in three files."""
    log, written = log
    log.error("first words %s last words", "x" * 3_000_000)
    text = written.getvalue()
    assert len(text) < 20_000
    assert text.startswith("2026-11-28 - first words x")
    assert text.endswith("x last words\n")
    assert "... 2,983,639 characters left out ..." in text


def test_what_stands_on_one_line_stays_as_it_was_told(log):
    """Formatters, as those of web servers, look at the words apart."""
    log, written = log
    records = []
    log.addFilter(lambda record: records.append(record) or True)
    log.info("%s asks for %d", "bank", 5)
    log.info({"round": 3})
    log.info("%d %%", 5)
    assert written.getvalue().splitlines() == [
        "2026-11-28 - bank asks for 5",
        "2026-11-28 - {'round': 3}",
        "2026-11-28 - 5 %",
    ]
    assert [record.args for record in records] == [("bank", 5), (), (5,)]


def test_who_calls_a_log_wrongly_is_told_as_ever(log, capsys):
    log, written = log
    log.info("%s of %s", "one")
    log.info("next")
    assert "not enough arguments for format string" in capsys.readouterr().err
    assert written.getvalue() == "2026-11-28 - next\n"


def test_an_audit_has_a_line_for_each_event(tmp_path):
    file = tmp_path / "audit.log"
    auditor = Auditor(str(file))
    auditor.add_event("ann", FORGED, ref=FORGED)
    auditor.add_job_event(job_id="7", task_name="train", ref=f"{FORGED}{'x' * 10_000}")
    auditor.close()
    lines = file.read_text().splitlines()
    assert len(lines) == 2
    assert all(line.startswith("[E:") and len(line) < 1500 for line in lines)
    assert "[U:ann][A:7 2026-01-01" in lines[0]
    assert "[A:train#]" in lines[1]
