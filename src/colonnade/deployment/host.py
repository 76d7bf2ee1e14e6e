"""The server's part of a run: bring the sites together, keep the gate, and see them to the end.

It knows no data, no model and no state; what it hears of the roles is how far they have come, what
they report, and the sizes of what they sent. So a server that was killed has lost nothing: the
sites tell all of it again to another.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from colonnade.deployment import meeting
from colonnade.deployment.job import JobConfig
from colonnade.deployment.told_elsewhere import spoken_by
from colonnade.deployment.what_came import WhatCame
from colonnade.drivers import Assignment, control
from colonnade.drivers.courier import STALLED, Courier, Post
from colonnade.drivers.driver import refuse_disagreement
from colonnade.drivers.failures import ours
from colonnade.drivers.gatekeeper import Gatekeeper, rebuilt
from colonnade.drivers.roll import out_of_turn
from colonnade.drivers.writers import Writers
from colonnade.errors import Aborted, ConfigurationError, RemoteProtocolError, RoleFailed
from colonnade.telling import first_line, plain, short

__all__ = ["Host"]

_LONGEST = 2**26  # bytes of what a site tells
_MOST_TOLD = 4096  # characters of why a site failed
_LOOK = 0.2  # seconds after which the host looks around, heard anything or not
_LAST_WORDS = 15.0  # seconds in which these come of a site that has ended
_LINGER = 5.0  # seconds in which the last words may be acknowledged

_SAME = {  # what every site must bring alike, in words
    "protocol": "versions of the protocol",
    "version": "versions of colonnade",
    "job": "jobs",
    "people": "alignments: they are about other people, so align again",
    "rows": "numbers of rows",
    "trained": "trainings behind their parts of the model: no part of one fits those of another",
}

_Kind = TypeVar("_Kind", meeting.Brings, meeting.Held)


class _Ended:
    """A site has ended well, as whoever runs it tells."""


def _nothing(*_: Any) -> None:
    """Do nothing with what is reported."""


class Host:
    """Brings the sites of a job together.

    Parameters
    ----------
    job
        What all are told.
    post
        Carries datagrams to sites, by the names of their organisations.
    aborted
        Asked now and then: whether whoever runs this wants it to end.
    on_round, on_report
        Told how it goes; see ``Assignment``.
    patience
        After how many seconds without a word a site is given up.
    """

    def __init__(
        self,
        job: JobConfig,
        post: Post,
        aborted: Callable[[], bool] = lambda: False,
        on_round: Callable[[str, int, int], None] = _nothing,
        on_report: Callable[[Mapping[str, float | int | str]], None] = _nothing,
        patience: float = 120.0,
    ) -> None:
        self.job = job
        self._aborted, self._on_round, self._on_report = aborted, on_round, on_report
        self._patience = patience
        self._inbox: queue.Queue[tuple[str, bytes | Exception | _Ended]] = queue.Queue()
        self._courier = Courier(post, self._deliver, self._lose, self._fail, patience)
        for name in job.everybody:
            self._courier.admit(name, _LONGEST, watched=True)
        self._words = Writers[bytes](job.everybody, 0, self._courier.send, self._fail)
        self._courier.start()
        self._words.start()
        self._came = WhatCame(job.everybody, job.recorded)
        self._rows = 0  # of each site's table
        self._asked = False  # by the label holder what came of all
        self._before = 0.0  # seconds that the run took until what it goes on from
        self._begun = time.monotonic()
        self._done: set[str] = set()
        self._ended: dict[str, float] = {}  # when whoever runs it told so

    def receive(self, name: str, datagram: bytes) -> None:
        """Take a datagram of a site; any thread may."""
        try:
            self._courier.receive(name, datagram)
        except Exception as error:  # such as a lack of memory
            self._fail(ours(f"messages of {name!r} cannot be received", error))

    def lose(self, name: str, why: str) -> None:
        """Know that a site has failed, from whoever runs it; any thread may tell."""
        self._inbox.put((name, RoleFailed(f"{name!r} failed: {plain(why[:_MOST_TOLD])}")))

    def finish(self, name: str) -> None:
        """Know that a site has ended well, from whoever runs it: its last word may be lost."""
        self._inbox.put((name, _Ended()))

    def preside(self) -> None:
        """See the run to its end.

        Raises
        ------
        ColonnadeError
            As which a site failed, or why the run cannot be; every site is told.
        """
        try:
            self._watch(self._meet())
        except BaseException as error:
            self._tell_everybody(control.Abort(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._words.finish(_LINGER)
            self._courier.flush(self.job.everybody, _LINGER)
            self._courier.close()

    # Before anybody plays

    def _meet(self) -> Gatekeeper:
        brought = self._of_everybody(meeting.Brings)
        self._refuse_strangers(brought)
        self._rows = brought[self.job.label_holder.name].rows
        names, holder = self.job.everybody, self.job.label_holder.name
        widths = {n: width for n in names if (width := brought[n].width) is not None}
        terms = {n: known for n in names if (known := brought[n].terms) is not None}
        self._tell(holder, meeting.Everybody(widths, terms, None))
        name, top = self._hear()
        if name != holder or not isinstance(top, meeting.Top):
            raise out_of_turn(name, top)
        self._tell_everybody(meeting.Everybody(widths, terms, top))
        held = self._of_everybody(meeting.Held)
        refuse_disagreement({name: each.agreed for name, each in held.items()})
        common = set.intersection(*(set(each.rounds) for each in held.values()))
        anew = not common and all(each.can_begin_anew for each in held.values())
        if not common and not anew and any(each.rounds for each in held.values()):
            has = [name for name, each in held.items() if each.rounds]
            raise ConfigurationError(
                f"{' and '.join(map(repr, has))} would go on with the run {self.job.run!r}, and "
                "the others have nothing of it, or of no common round; give the run another name"
            )
        first = max(common, default=None)
        self._came.begin(first or 0, [name for name, each in held.items() if each.has_begun])
        self._before = max(each.seconds for each in held.values()) if common else 0.0
        assignment = Assignment(
            checkpoint_every=held[holder].every,
            kept_apart=True,
            begins_at=first or 0,
            on_round=self._on_round,
            on_report=self._on_report,
        )
        patience = STALLED * self._patience
        gatekeeper = Gatekeeper(
            names, assignment, self._tell, self._begin, _nothing, patience, answers_within=patience
        )
        self._tell_everybody(meeting.Go(first, gatekeeper.gate))
        return gatekeeper

    def _of_everybody(self, kind: type[_Kind]) -> dict[str, _Kind]:
        """Return what every site tells, each one message of this kind."""
        told: dict[str, _Kind] = {}
        while len(told) < len(self.job.everybody):
            name, message = self._hear()
            if not isinstance(message, kind) or name in told:
                raise out_of_turn(name, message)
            told[name] = message
        return told

    def _refuse_strangers(self, brought: Mapping[str, meeting.Brings]) -> None:
        """Refuse sites that could not train together, in words."""
        for field, what in _SAME.items():
            found = {name: getattr(each, field) for name, each in brought.items()}
            if len(set(found.values())) > 1:
                told = ", ".join(f"{n!r} has {short(str(value))}" for n, value in found.items())
                raise ConfigurationError(f"the sites have different {what} ({told})")

    # While they play

    def _watch(self, gatekeeper: Gatekeeper) -> None:
        while not gatekeeper.roll.everybody_has_played:
            self._heed(gatekeeper)
        gatekeeper.let_leave()
        while len(self._done) < len(self.job.everybody):
            self._heed(gatekeeper)

    def _heed(self, gatekeeper: Gatekeeper) -> None:
        heard = self._wait_for(_LOOK)
        if heard is not None:
            name, message, size = heard
            match message:
                case meeting.Concluding():
                    if (
                        name != self.job.label_holder.name
                        or not gatekeeper.roll.everybody_has_played
                    ):
                        raise out_of_turn(name, message)  # it alone sees metrics
                    self._asked = True
                case _Ended():
                    self._ended.setdefault(name, time.monotonic())
                case meeting.Done():
                    if name not in self._came.left:
                        raise out_of_turn(name, message)
                    self._know_done(name)
                case meeting.Brings() | meeting.Top() | meeting.Held():
                    raise out_of_turn(name, message)
                case _:
                    with _making_sense(name):
                        self._came.note(name, message, size)
                        gatekeeper.heed(name, message, size)
        for name, when in self._ended.items():
            if name in self._came.left:
                self._know_done(name)
            elif time.monotonic() - when > _LAST_WORDS:
                raise RoleFailed(f"{name!r} has ended, and its last words have not come")
        if self._asked and gatekeeper.roll.everybody_has_left:
            self._asked = False
            self._tell_what_came(self.job.label_holder.name)
        if gatekeeper.roll.everybody_is_there and not gatekeeper.roll.everybody_has_left:
            gatekeeper.look_after()

    def _know_done(self, name: str) -> None:
        self._done.add(name)
        self._courier.abandon([name])  # it need not be there any more

    def _begin(self) -> control.Begin:
        self._begun = time.monotonic()
        return control.Begin(-round(self._before * 1e9))

    def _tell_what_came(self, name: str) -> None:
        """Tell the label holder what came of the whole run, in pieces of which each has an end."""
        for piece in self._came.pieces():
            self._tell(name, piece)
        came = self._came
        parts = {n: (p.finished, p.round, p.account) for n, p in came.played.items()}
        received = {n: left.received for n, left in came.left.items()}
        seconds = self._before + time.monotonic() - self._begun
        cpu = sum(left.cpu_seconds for left in came.left.values())
        self._tell(name, meeting.End(parts, received, seconds, cpu))

    # Words

    def _tell(self, name: str, message: meeting.FromServer | control.FromGatekeeper) -> None:
        self._words.put(name, meeting.encode(message))  # if it was given up, the inbox tells

    def _tell_everybody(self, message: meeting.FromServer) -> None:
        for name in self.job.everybody:
            self._tell(name, message)

    def _hear(self) -> tuple[str, meeting.FromSite]:
        """Return what a site tells next; raise what went wrong at one."""
        while True:
            heard = self._wait_for(_LOOK)
            if heard is None:
                continue
            name, message, _ = heard
            if isinstance(message, control.Failed):
                raise rebuilt(name, message)
            if isinstance(message, _Ended):
                raise RoleFailed(f"{name!r} has ended before the run began")
            return name, message

    def _wait_for(self, seconds: float) -> tuple[str, meeting.FromSite | _Ended, int] | None:
        """Return who told what, in how many bytes, unless nothing is told."""
        if self._aborted():
            raise Aborted("the run was stopped")
        try:
            name, frame = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(frame, Exception):
            raise frame
        if isinstance(frame, _Ended):
            return name, frame, 0
        self._came.admit(name, len(frame), self._rows)  # before memory is taken for it
        return name, _as_its_own(name, meeting.from_site(frame, name)), len(frame)

    def _deliver(self, name: str, frame: bytes) -> None:
        self._inbox.put((name, frame))

    def _fail(self, error: Exception) -> None:
        self._inbox.put(("", error))

    def _lose(self, name: str) -> None:
        self._inbox.put((name, RoleFailed(f"nothing is heard of {name!r} any more")))


@contextmanager
def _making_sense(name: str) -> Iterator[None]:
    """Blame a site for what it told where that is of no use."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        what = short(f"{type(error).__name__}: {first_line(error)}")
        raise RemoteProtocolError(f"{name!r} told what makes no sense: {what}") from None


def _as_its_own(name: str, message: meeting.FromSite) -> meeting.FromSite:
    """Return what a site tells; how it failed in its own name, whatever it says of others."""
    if not isinstance(message, control.Failed):
        return message
    return control.Failed(short(message.error), spoken_by(name, message.message), "")
