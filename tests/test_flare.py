"""A federation of real processes and certificates: a worker is killed, and the run goes on."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from colonnade.deployment.folders import write_job, write_site
from colonnade.deployment.local import local_federation
from colonnade.run_folder import load_run
from test_deployment import prepared, same_as

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.usefixtures("no_pictures"),
]


def worker(site, number):
    """Return the process in which a site plays its role in a job."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
        except (OSError, ValueError):
            continue
        if number in words and f"uid={site}" in words and "-m" in words:
            return int(process.name)
    raise AssertionError(f"{site} has no process of the job {number}")


def marked(folder, markers):
    """Return which files of a folder have one of these texts in them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if any(m in path.read_bytes() for m in markers)]


def test_a_run_whose_worker_is_killed_goes_on_to_the_simulators_bits(tmp_path):
    settings = {"epochs": 120, "checkpoint_every": 20, "evaluate_every": 200}
    config, job, sites = prepared(tmp_path, parties=["bank"], **settings)  # each is a process
    write_job(job, tmp_path / "job")
    federation = tmp_path / "federation"
    with local_federation(federation, job.everybody) as local:
        for name in job.everybody:
            own = {"alignment": tmp_path / name / "aligned", "runs": tmp_path / name / "runs"}
            write_site(config, name, local.site(name), **own)
        local.start(job.everybody)
        number = local.submit(tmp_path / "job")
        checkpoints = sites["bank"].runs / "first" / "checkpoint"
        deadline = time.monotonic() + 120
        while not list(checkpoints.glob("round-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(worker("bank", number), signal.SIGKILL)
        assert not local.wait(number)
        assert local.wait(local.submit(tmp_path / "job"))
    expected = same_as(config, sites)
    run = load_run(sites["insurer"].runs / "first")
    assert run.ledger.without_time() == expected.ledger.without_time()
    assert run.summary["driver"] == "flare"
    # No log, job or file of the engine's holds an id, a label or a row of a table.
    assert marked(federation, [b"person-", b"bought"]) == []
