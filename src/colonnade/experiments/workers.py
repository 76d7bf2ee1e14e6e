"""Several trials at once, each in a process of its own.

A process is spawned and not forked: threads of torch and polars, and a GPU's context, do not
survive a fork. It lists the trials itself, so that data are read once in each process, whatever
number of trials it runs, and nothing large is sent to it. It is then told the number of a trial,
sends how that goes and what came of it, and is told the next. Whatever it is told in the midst of a
trial, also the end of the connection when this process dies, interrupts the trial: the run stops at
a round with a checkpoint, and can be resumed.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from colonnade import errors
from colonnade.drivers.deaf import deaf
from colonnade.errors import DataWarning, RoleFailed
from colonnade.experiments.experiment import Result, Scale, Trial
from colonnade.experiments.one_trial import run_trial
from colonnade.training import Watcher

__all__ = ["run_trials"]

Trials = Callable[[Scale], Sequence[Trial]]
Values = Mapping[str, float | int | str]

_LOOK = 0.2  # seconds after which is asked whether somebody interrupts
_TELL = 0.1  # seconds between two messages of a role's rounds


@dataclass(frozen=True)
class _Began:
    first: int
    last: int


@dataclass(frozen=True)
class _Round:
    role: str
    round: int
    sent: int


@dataclass(frozen=True)
class _Report:
    values: Values


@dataclass(frozen=True)
class _Warned:
    message: str


@dataclass(frozen=True)
class _Done:
    result: Result | None


@dataclass(frozen=True)
class _Failed:
    error: str
    message: str
    traceback: str


_Told = _Began | _Round | _Report | _Warned | _Done | _Failed


def run_trials(
    listed: Trials,
    scale: Scale,
    trials: Sequence[Trial],
    out: Path,
    watcher: Callable[[str], Watcher],
    workers: int,
) -> list[Result] | None:
    """Run trials at once, so many at a time, and return their results in the trials' order.

    None if they were interrupted.

    Parameters
    ----------
    listed, scale
        List the trials, in each process.
    trials
        What they list, here.
    out
        The folder of the runs.
    watcher
        Makes the watcher of a trial, from its name, when the trial begins.
    workers
        How many processes there are at most.

    Raises
    ------
    ColonnadeError
        If a trial fails, or its process dies; the message names it.
    """
    found: dict[int, Result] = {}
    failure: Exception | None = None
    waiting, stopped = deque(range(len(trials))), False
    with _processes(listed, scale, out, min(workers, len(trials))) as processes:
        busy = {pipe: _Busy(trials, waiting.popleft(), watcher, pipe) for pipe in processes}
        while busy:
            for pipe in wait(list(busy), _LOOK):
                assert isinstance(pipe, Connection)
                here = busy[pipe]
                try:
                    told: _Told = pipe.recv()
                except EOFError:
                    told = _died(processes[pipe])
                if isinstance(told, _Failed):
                    failure = failure or _rebuilt(here.trial, told)
                elif isinstance(told, _Done):
                    if told.result is not None:
                        found[here.number] = told.result
                else:
                    here.tell(told)
                    continue
                del busy[pipe]
                if waiting and not stopped and failure is None:
                    busy[pipe] = _Busy(trials, waiting.popleft(), watcher, pipe)
                elif not stopped:
                    _stop(pipe)
            interrupted = any(here.watcher.interrupted() for here in busy.values())
            if not stopped and (interrupted or failure is not None):
                stopped = True
                for pipe in busy:
                    _stop(pipe)
    if failure is not None:
        raise failure
    return [found[number] for number in range(len(trials))] if len(found) == len(trials) else None


class _Busy:
    """A trial that a process runs."""

    def __init__(
        self,
        trials: Sequence[Trial],
        number: int,
        watcher: Callable[[str], Watcher],
        pipe: Connection,
    ) -> None:
        self.number, self.trial = number, trials[number]
        self.watcher = watcher(self.trial.name)
        with suppress(BrokenPipeError):  # it died, and the end of its connection will tell
            pipe.send(number)

    def tell(self, told: _Told) -> None:
        match told:
            case _Began(first, last):
                self.watcher.on_begin(first, last)
            case _Round(role, round, sent):
                self.watcher.on_round(role, round, sent)
            case _Report(values):
                self.watcher.on_report(values)
            case _Warned(message):
                warnings.warn(message, DataWarning, stacklevel=2)


def _stop(pipe: Connection) -> None:
    with suppress(BrokenPipeError):
        pipe.send(None)


def _died(process: BaseProcess) -> _Failed:
    process.join()
    message = f"its process ended, with exit code {process.exitcode}"
    return _Failed(RoleFailed.__name__, message, "")


def _rebuilt(trial: Trial, failed: _Failed) -> Exception:
    """Return what went wrong in a process as an error of ours that names the trial."""
    ours = failed.error in errors.__all__
    if ours:
        error: Exception = getattr(errors, failed.error)(failed.message)
    else:
        error = RoleFailed(f"{failed.error}: {failed.message}")
    if trial.name not in str(error):
        error = type(error)(f"{trial.name}: {error}")
    if failed.traceback:
        error.add_note(f"in the process of the trial {trial.name}:\n{failed.traceback}")
    return error


@contextmanager
def _processes(
    listed: Trials, scale: Scale, out: Path, count: int
) -> Iterator[dict[Connection, BaseProcess]]:
    """Start so many processes; at the end they end by themselves, or are ended at an error."""
    context = multiprocessing.get_context("spawn")
    processes: dict[Connection, BaseProcess] = {}
    try:
        with deaf():
            for _ in range(count):
                ours, theirs = context.Pipe()
                process: BaseProcess = context.Process(
                    target=_work, args=(theirs, listed, scale, out)
                )
                process.start()
                processes[ours] = process
                theirs.close()
        yield processes
    except BaseException:
        for process in processes.values():
            process.terminate()
        raise
    finally:
        for pipe, process in processes.items():
            pipe.close()
            process.join()


# In a process of its own


def _work(pipe: Connection, listed: Trials, scale: Scale, out: Path) -> None:
    """Run the trials whose numbers come, until None or the end of the connection does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def warned(message: Warning | str, category: type[Warning], *rest: object) -> None:
        if issubclass(category, DataWarning):
            pipe.send(_Warned(str(message)))

    warnings.showwarning = warned  # type: ignore[assignment]  # what it is told besides is not used
    warnings.simplefilter("always", DataWarning)
    trials: Sequence[Trial] = ()
    with suppress(EOFError, BrokenPipeError):
        while (number := pipe.recv()) is not None:
            try:
                trials = trials or listed(scale)
                told: _Told = _Done(run_trial(trials[number], out, _watcher(pipe), scale.device))
            except BrokenPipeError:
                raise
            except Exception as error:
                text = "".join(traceback.format_exception(error))
                told = _Failed(type(error).__name__, str(error), text)
            pipe.send(told)


def _watcher(pipe: Connection) -> Watcher:
    """Return a watcher that sends what it is told, but not every round."""
    last_round, next_time = -1, dict[str, float]()

    def on_begin(first: int, last: int) -> None:
        nonlocal last_round
        last_round = last
        pipe.send(_Began(first, last))

    def on_round(role: str, round: int, sent: int) -> None:
        now = time.monotonic()
        if round >= last_round or now >= next_time.get(role, now):
            next_time[role] = now + _TELL
            pipe.send(_Round(role, round, sent))

    def on_report(values: Values) -> None:
        pipe.send(_Report(dict(values)))

    return Watcher(on_begin, on_round, on_report, pipe.poll)
