"""How a command shows what it does: a bar for people, lines of JSON for machines, or nothing."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from colonnade.errors import DataWarning, PrivacyWarning

if TYPE_CHECKING:
    from colonnade.training import Watcher

__all__ = ["Show", "Told", "Watch", "counted", "err", "out", "say", "watched"]

_said = os.environ.get("COLUMNS", "").strip("0")
if not (_said.isascii() and _said.isdigit()):  # rich would show nothing in a width of 0
    os.environ.pop("COLUMNS", None)
out = Console()
err = Console(stderr=True)


_SHOWN = 8  # runs that are shown together; of more, each takes the place of the one before it


class Show(Enum):
    """How much a command says, and to whom."""

    BAR = "bar"
    JSON = "json"
    NOTHING = "nothing"


def say(console: Console, text: str) -> None:
    """Print text with paths or values in it just as it is, a line a line."""
    console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


_TOLD = (DataWarning, PrivacyWarning)


class Told:
    """Says what should be known of data and their privacy, a line each, as soon as it is known.

    >>> with Told() as told:
    ...     warnings.warn("3 ids differ only in case", DataWarning)
    >>> "3 ids differ only in case" in told
    True
    """

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def __contains__(self, text: object) -> bool:
        return text in self._texts

    def __enter__(self) -> Told:
        self._texts.clear()
        self._changed = warnings.catch_warnings()
        self._changed.__enter__()
        for kind in _TOLD:
            warnings.simplefilter("always", kind)
        show = warnings.showwarning

        def tell(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if not issubclass(category, _TOLD):
                show(message, category, *rest)
            elif str(message) not in self._texts:
                self._texts |= {str(message), getattr(message, "kept", "") or str(message)}
                err.print("[yellow]warning:[/] ", end="")
                say(err, str(message))

        warnings.showwarning = tell  # type: ignore[assignment]  # what it passes on, it does not name
        return self

    def __exit__(self, *what: Any) -> None:
        self._changed.__exit__(*what)


class Watch:
    """Shows the progress of runs, and passes Ctrl-C on to them."""

    def __init__(self, show: Show, total: int, at_once: int = 1) -> None:
        self.interrupted = False
        self.show = show
        self._total = total
        self._at_once = at_once
        self._count = 0
        self._start = time.monotonic()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("[green]{task.fields[metric]}"),
            TextColumn("{task.fields[sent]}", justify="right"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=err,
        )

    def run(self, name: str) -> Watcher:
        """Return the watcher of one run."""
        # Imported here, as torch takes seconds and --help should not.
        from colonnade.training import Watcher

        self._count += 1
        label = f"{self._count}/{self._total} {name}" if self._total > 1 else name

        def interrupted() -> bool:
            return self.interrupted

        match self.show:
            case Show.BAR:
                return self._bar(label, Watcher(interrupted=interrupted))
            case Show.JSON:
                return self._log(name, Watcher(interrupted=interrupted))
            case Show.NOTHING:
                return Watcher(interrupted=interrupted)

    def tell(self, name: str, doing: str) -> None:
        """Say what is done next for a run, where that is no training."""
        if self.show is Show.BAR:
            say(err, f"{name}: {doing}")
        self.log("next", run=name, doing=doing)

    def log(self, event: str, **values: Any) -> None:
        """Write a line of JSON about something that happened."""
        if self.show is Show.JSON:
            seconds = round(time.monotonic() - self._start, 3)
            line = {"event": event, "seconds_since_start": seconds} | values
            say(err, json.dumps(line, allow_nan=True))

    def _bar(self, label: str, watcher: Watcher) -> Watcher:
        from dataclasses import replace

        from colonnade.reports import human_bytes

        progress = self.progress
        leader, evaluator = list[str](), list[str]()
        tasks, sent = list[TaskID](), dict[str, int]()

        def on_begin(first: int, last: int) -> None:
            # Only now is all input known to be good, and there is something to show.
            progress.start()
            if tasks:  # it goes on
                progress.update(tasks[0], completed=first, visible=True)
                return
            self._make_room()
            tasks.append(progress.add_task(label, total=last, completed=first, metric="", sent=""))

        def on_round(role: str, round: int, sent_bytes: int) -> None:
            # All roles go through the same rounds; the first to speak is shown.
            sent[role] = sent_bytes
            if not leader:
                leader.append(role)
            if role == leader[0]:
                total = human_bytes(sum(sent.values()))
                progress.update(tasks[0], completed=round, sent=total)

        def on_report(values: Mapping[str, float | int | str]) -> None:
            headline, is_metric = _headline(values)
            name = str(values.get("organisation"))
            # Others may report losses of their own; whoever evaluates the model is shown.
            if is_metric and not evaluator:
                evaluator.append(name)
            if headline and name in (evaluator or [name]):
                progress.update(tasks[0], metric=headline)

        return replace(watcher, on_begin=on_begin, on_round=on_round, on_report=on_report)

    def _make_room(self) -> None:
        """Hide bars that give their places to others: of many runs, those that have ended."""
        if self._total <= _SHOWN:
            return
        shown = [task for task in self.progress.tasks if task.visible]
        shown.sort(key=lambda task: not task.finished)
        for task in shown[: max(0, len(shown) + 1 - self._at_once)]:
            self.progress.update(task.id, visible=False)

    def _log(self, name: str, watcher: Watcher) -> Watcher:
        from dataclasses import replace

        sent = dict[str, int]()

        def on_begin(first: int, last: int) -> None:
            self.log("begin", run=name, round=first, rounds=last)

        def on_round(role: str, round: int, sent_bytes: int) -> None:
            sent[role] = sent_bytes

        def on_report(values: Mapping[str, float | int | str]) -> None:
            self.log("report", run=name, bytes_sent=sum(sent.values()), **values)

        return replace(watcher, on_begin=on_begin, on_round=on_round, on_report=on_report)


def _headline(values: Mapping[str, float | int | str]) -> tuple[str, bool]:
    """Return the first metric of a report, or its loss, or nothing; and whether it is a metric."""
    for name, value in values.items():
        kind, _, metric = name.partition("_")
        if kind in ("validation", "test"):
            return f"{metric.replace('_', ' ')} {value:.3f}", True
    return f"loss {values['train_loss']:.3f}" if "train_loss" in values else "", False


@contextmanager
def watched(total: int, show: Show = Show.BAR, at_once: int = 1) -> Iterator[Watch]:
    """Watch ``total`` runs; the first Ctrl-C stops after the round, a second one at once."""
    watch = Watch(show, total, at_once)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if watch.interrupted:
            raise KeyboardInterrupt
        watch.interrupted = True
        say(watch.progress.console, "stopping after this round; press Ctrl-C again to stop at once")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield watch
    finally:
        if watch.progress.live.is_started:
            watch.progress.stop()
        signal.signal(signal.SIGINT, before)


@contextmanager
def counted(what: str, shown: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Give a function that is told of work done, and of how much, and show a bar of it.

    The bar appears when something has been done: until then input may be refused.
    """
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=err,
    )
    task = progress.add_task(what, total=None)

    def told(done: int, total: int) -> None:
        if shown and not progress.live.is_started:
            progress.start()
        progress.update(task, completed=done, total=total)

    try:
        yield told
    finally:
        if progress.live.is_started:
            progress.stop()
