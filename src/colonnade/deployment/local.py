"""A federation on this machine: provisioned with certificates of its own, run, and taken down.

Each site is a process with its own folder, as it would be at its organisation, and all connections
are secured by mutual TLS. It is what companies do, but that one hand does it all.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from nvflare.lighter.entity import Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.signature import SignatureBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner

from colonnade.deployment.ending import ending_signals
from colonnade.deployment.kits import prepare_kit
from colonnade.errors import RoleFailed, Unwritten
from colonnade.faults import explained

__all__ = ["SERVER", "Local", "free_ports", "local_federation"]

SERVER = "localhost"
_OPERATOR = "operator@colonnade.local"
_START = 180.0  # seconds in which all are there, on a busy machine too; who ends is seen at once
_END = 10.0  # seconds in which processes end that were asked to
_LOOK = 0.2
_SCRIPTS = (("startup", "start.sh"), ("startup", "sub_start.sh"))
_MODULES = ("nvflare.", "colonnade.deployment.")
_BETWEEN = 0.05  # seconds until it is looked again whether what was killed is gone


class Local:
    """A federation that runs on this machine.

    Parameters
    ----------
    folder
        Where its processes' folders are, by name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._operator: subprocess.Popen[str] | None = None

    def site(self, name: str) -> Path:
        """Return where a site has what it keeps to itself; the server's is that of ``SERVER``."""
        return self.folder / name / "local" / "colonnade"

    def start(self, names: Sequence[str]) -> None:
        """Start the server and these sites, and wait until all are there.

        Raises
        ------
        RoleFailed
            If one is not there in time; its log says why.
        """
        for name in (SERVER, *names):
            self.start_one(name)
        self._start_operator()
        deadline = time.monotonic() + _START
        while not set(self._asked("there")) >= set(names):
            self.check_alive(" as it started")
            if time.monotonic() > deadline:
                raise RoleFailed(
                    f"the federation did not come together in {_START:g} s; see {self.log(SERVER)}"
                )
            time.sleep(_LOOK)

    def check_alive(self, when: str = "") -> None:
        """Raise ``RoleFailed`` if the process of the server or of a site has ended; say when."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise RoleFailed(
                    f"{name!r} ended{when} ({self._last_line(name)}); see {self.log(name)}"
                )

    def start_one(self, name: str) -> None:
        """Start the process of the server or of a site."""
        own = self.folder / name
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                ["bash", str(own / "startup" / "sub_start.sh"), "--once"],
                env=os.environ | {"PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        """Return the log of the server or of a site."""
        return self.folder / f"{name}.log"

    def job_log(self, number: str) -> Path:
        """Return what the server logs of a job."""
        return self.folder / SERVER / number / "log.txt"

    def _last_line(self, name: str) -> str:
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "its log says nothing")

    def submit(self, job: Path) -> str:
        """Submit a job; return its number.

        Raises
        ------
        RoleFailed
            If FLARE does not take it.
        """
        return str(self._asked("submit", str(job.absolute())))

    def wait(self, number: str) -> bool:
        """Wait until the job that ``submit`` gave this number has ended; return if completed."""
        while not self.has_ended(number):
            time.sleep(_LOOK)
        return self._status(number) == "FINISHED:COMPLETED"

    def has_ended(self, number: str) -> bool:
        """Return whether a job has ended, however it did."""
        return self._status(number).startswith("FINISHED")

    def abort(self, number: str) -> None:
        """End a job, and wait until it has ended."""
        if not self.has_ended(number):
            self._asked("abort", number)
            self.wait(number)

    def _status(self, number: str) -> str:
        return str(self._asked("status", number))

    def stop(self) -> None:
        """End all processes, those of a job included, which have sessions of their own."""
        if self._operator is not None:
            self._operator.kill()
            self._operator.communicate()
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _END
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _end_all_in(self.folder)

    def _start_operator(self) -> None:
        with self.log(_OPERATOR).open("ab") as log:
            self._operator = subprocess.Popen(
                [sys.executable, "-m", "colonnade.deployment.operator", self.folder / _OPERATOR],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def _asked(self, question: str, *given: str) -> Any:
        """Return what the operator answers."""
        operator = self._operator
        assert operator is not None
        assert operator.stdin is not None
        assert operator.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            operator.stdin.write(json.dumps([question, *given]) + "\n")
            operator.stdin.flush()
        line = operator.stdout.readline()
        answer = json.loads(line) if line else {"error": "the operator ended"}
        if "error" in answer:
            raise RoleFailed(f"{answer['error']}; see {self.log(_OPERATOR)}")
        return answer["answer"]


@contextmanager
def local_federation(folder: Path, names: Sequence[str]) -> Iterator[Local]:
    """Provision a federation in a folder, and end it in the end; it is started by ``start``.

    Parameters
    ----------
    folder
        Where; what is there of an earlier one is ended and written over, so nobody else may be at
        work in it.
    names
        The sites.

    Raises
    ------
    RoleFailed
        If a process of an earlier one does not end.
    Unwritten
        If FLARE cannot write what it needs.
    """
    folder = folder.resolve()  # FLARE's own paths have to be absolute; processes are found by it
    _end_all_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    with explained(folder):
        folder.mkdir(parents=True)
    provisioned = _provisioned(folder, names)
    local = Local(provisioned)
    try:
        for name in (SERVER, *names, _OPERATOR):
            prepare_kit(provisioned / name)
        yield local
    finally:
        with _undisturbed():
            local.stop()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let nobody break off what is in hand: who asks to end it meanwhile is heard afterwards."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield
        return
    heard: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: heard.append(number))
        for number in (signal.SIGINT, *ending_signals())
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if heard:
            signal.raise_signal(heard[0])


def _end_all_in(folder: Path) -> None:
    """Kill the processes of servers and sites in a folder, until there are none."""
    deadline = time.monotonic() + _END
    while there := [*_processes_in(folder)]:
        if time.monotonic() > deadline:
            numbers = ", ".join(str(each.pid) for each in there)
            raise RoleFailed(
                f"processes of a federation in {folder} do not end: end {numbers}, and try again"
            )
        for each in there:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                each.kill()
        time.sleep(_BETWEEN)


def _processes_in(folder: Path) -> Iterator[psutil.Process]:
    """Yield the processes of the server, of sites and of the operator, by their commands."""
    for process in psutil.process_iter(["cmdline"]):
        if _is_of(folder, process.info["cmdline"] or ("",)):
            yield process


def _is_of(folder: Path, command: Sequence[str]) -> bool:
    """Return whether a command is that of a process of a federation in a folder.

    It starts a kit there, or runs a module of FLARE's that is told a kit: any other program, of
    Python's too, only looks at what is there.

    >>> folder, kit = Path("/srv/flare"), "/srv/flare/clinic"
    >>> _is_of(folder, ["bash", f"{kit}/startup/sub_start.sh", "--once"])
    True
    >>> _is_of(folder, ["python3", "-u", "-m", "nvflare.private.fed.app.client", "-m", kit])
    True
    >>> _is_of(folder, ["python3", "analyse.py", f"{kit}.log"])
    False
    """
    program, *told = command
    if not Path(program).name.startswith(("bash", "sh", "python")):
        return False
    own = f"{folder}{os.sep}"
    if told and told[0].startswith(own):
        return Path(told[0]).parts[-2:] in _SCRIPTS
    module, *given = [*told[told.index("-m") + 1 :], ""] if "-m" in told else [""]
    return module.startswith(_MODULES) and any(word.startswith(own) for word in given)


def _provisioned(folder: Path, names: Sequence[str]) -> Path:
    """Make certificates and the folders of all; return where they are."""
    project = Project("colonnade", "a federation on one machine")
    fed_learn, admin = free_ports(2)
    project.set_server(SERVER, "colonnade", {"fed_learn_port": fed_learn, "admin_port": admin})
    for name in names:
        project.add_client(name, "colonnade", {})
    project.add_admin(_OPERATOR, "colonnade", {"role": "project_admin"})
    builders = [
        WorkspaceBuilder(),
        StaticFileBuilder(scheme="tcp"),
        CertBuilder(),
        SignatureBuilder(),
    ]
    with _quietly() as said:
        context = Provisioner(str(folder), builders).provision(project)
    where = context.get_result_location()
    if not where or not Path(where).is_dir():
        raise Unwritten(f"FLARE could not provision a federation in {folder}: {said.getvalue()}")
    return Path(where)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody listens at."""
    with contextlib.ExitStack() as open_sockets:
        found = []
        for _ in range(count):
            end = open_sockets.enter_context(socket.socket())
            end.bind(("127.0.0.1", 0))
            found.append(int(end.getsockname()[1]))
        return found


@contextmanager
def _quietly() -> Iterator[io.StringIO]:
    """Keep what FLARE prints from the screen."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield said
