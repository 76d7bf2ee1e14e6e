"""The simulator: all roles in one process, on a virtual clock.

Discrete events in one queue, ordered by (time, rank, role). Ranks at equal times: deliveries come
first, then the roles' own steps, then the answers to waiting roles — so whoever looks into its
mailbox at some time sees everything that arrives at that time. Each role has its own clock. Its
step runs until it works (the rest of the step is queued for when the work is done) or waits; the
queue always yields the role whose clock is earliest, and a ``Receive`` is answered when time
reaches it, never when a message is sent.

Messages pass through the modelled channels of a ``Network``; work takes what a ``CostModel`` says.

The world that is modelled knows of no restart. What roles that go on from a checkpoint do once more
to set up, such as to agree on keys anew, takes no time and no channel, so that a run whose course
hangs on time goes on as the one that nobody interrupted.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from colonnade.annotated import check_fields
from colonnade.channels import Network
from colonnade.checkpoints import decode_state
from colonnade.costs import CostModel, Measured, uses_measured
from colonnade.departures import Departures
from colonnade.descriptions import content_of
from colonnade.drivers.account import Account
from colonnade.drivers.course import Course
from colonnade.drivers.cut import Cut, saved_state
from colonnade.drivers.driver import (
    Assignment,
    Discarded,
    Outbox,
    Part,
    RunRecord,
    asked,
    check_roles,
    identities,
    lost_before,
    nobody_goes_on,
    perform,
    threads,
)
from colonnade.drivers.lanes import Entrance, Lane
from colonnade.drivers.mailbox import Mailbox
from colonnade.effects import (
    Arrivals,
    Attempt,
    Boundary,
    Close,
    Commit,
    Effect,
    Expect,
    Ready,
    Recall,
    Receive,
    Report,
    Role,
    Send,
    Work,
    sets_up,
)
from colonnade.errors import Aborted, ConfigurationError, Deadlock, LocalProtocolError
from colonnade.flows import Limits
from colonnade.journals import Journal, open_journals
from colonnade.ledger import Ledger
from colonnade.wire import Message, Purpose, carried_bytes, encode_header

__all__ = ["Simulate"]

_DELIVER, _STEP, _ANSWER = 0, 1, 2
_MANY = 64  # events that nothing will come of, which are let go where they are most of all
_LAST = 2**63 - 1  # nanoseconds, as a ledger's file holds them


@dataclass(frozen=True)
class Simulate:
    """Run all roles in this process, on a virtual clock.

    Parameters
    ----------
    network
        The modelled channels; by default infinitely fast.
    costs
        What work costs on the virtual clock; by default the CPU time measured here.
    untimed
        Purposes whose messages and work take no time. ``{Purpose.EVALUATION}`` tells the time of a
        training that is not held up by being looked at. What an evaluation waits for may be at work
        still, or behind messages of training: the history's ``seconds_evaluation`` says how many of
        its ``seconds`` went into that.

    Examples
    --------
    >>> from colonnade.channels import Channel
    >>> slow = Simulate(Network(Channel(bandwidth=300e6, latency=0.01)))
    """

    network: Network = field(default_factory=Network)
    costs: CostModel = field(default_factory=Measured)
    untimed: AbstractSet[Purpose] = frozenset()

    def __post_init__(self) -> None:
        check_fields(Simulate, self)
        object.__setattr__(self, "untimed", frozenset(self.untimed))

    @property
    def label(self) -> str:
        """The name that summaries use."""
        return "simulate"

    @property
    def clock(self) -> Mapping[str, str]:
        """How seconds come about: a modelled network, and compute as the cost model says."""
        clock = {"network": "modelled", "compute": self.costs.label}
        names = ", ".join(sorted(purpose.label for purpose in self.untimed))
        return clock | ({"untimed": names} if names else {})

    @property
    def timing(self) -> str:
        """Network and costs, with what traces of delays hold, and what takes no time."""
        free = " ".join(sorted(purpose.label for purpose in self.untimed))
        return f"{content_of(self.network)} {content_of(self.costs)} {free}".rstrip()

    @property
    def repeats(self) -> bool:
        """Modelled costs do; what is measured differs a little each time."""
        return not self.costs.label.startswith("measured")

    def run(self, roles: Sequence[Role], assignment: Assignment) -> RunRecord:
        """Step ``roles`` to their end or to an interruption.

        Raises
        ------
        Deadlock
            If every unfinished role waits and no message is under way.
        ConfigurationError
            If network or costs name an organisation that is not there, or the clock would pass 292
            years.
        """
        check_roles(roles)
        names = [role.name for role in roles]
        self.network.check(names)
        self.costs.check(names)
        with threads(assignment.threads):
            return _Simulation(self, roles, assignment).run()


class _Actor:
    """A role on the virtual clock."""

    def __init__(
        self,
        index: int,
        role: Role,
        account: Account,
        ledger: Ledger,
        journal: Journal,
        departures: Departures,
        limits: Limits,
    ) -> None:
        self.index = index
        self.name = role.name
        self.role = role
        self.account = account
        self.outbox = Outbox(role.name, ledger, account.sequence)
        self.mailbox = Mailbox(account.closed, limits)
        self.journal = journal
        self.departures = departures
        self.notes = journal.notes()  # as the role begins
        self.coroutine: Coroutine[Effect[Any], Any, None] = role.run()
        self.course = Course()
        self.boundary = -1  # the last one passed
        if account.trained is None:
            account.trained = role.round - 1
        self.trained = account.trained
        self.worked: set[str] = set()  # at what, in the last round in which it has worked
        self.answer: Any = None  # of the work that is done when its step comes
        self.blocked: Send | None = None  # waits for room in a full queue
        self.held: Effect[Any] | None = None  # the first that follows what is set up anew
        self.waiting: Receive | Ready | None = None
        self.attempting: _Attempting | None = None
        self.answering: int | None = None  # the time at which it is to be answered last of all
        self.finished = False
        self.parked = False
        self.lanes: dict[str, tuple[_Actor, Lane]] = {}
        self.entrance: Entrance | None = None
        # Messages to this role that it has not taken: arrival, and the sender's boundary then.
        self.unread: dict[tuple[str, int], tuple[Message, int, int]] = {}

    def part(self) -> Part:
        return Part(self.role.round, self.finished, self.account, self.course, self.notes)

    def snapshot(self) -> dict[str, Any]:
        self.account.sequence = self.outbox.sequence
        self.account.trained = self.trained
        self.account.note(self.journal)
        self.account.departed = self.departures.mark()
        return self.account.as_json()


@dataclass(frozen=True, eq=False, slots=True)
class _Attempting:
    """Work under way that a message may end."""

    attempt: Attempt[Any]
    began: int
    step: int  # the number of the event at which it would be done
    done: tuple[Any, int] | None  # its result and CPU time; None where its cost does not need them


def _is_plain(expect: Expect) -> bool:
    """Whether only the messages waited for decide when the wait is over, and with what.

    Such a wait need not be answered last of all that happens at a time: what else arrives then
    cannot change the answer.
    """
    return expect.quorum is None and expect.within is None


class _Simulation:
    """One run: the event queue and everything it moves."""

    def __init__(self, driver: Simulate, roles: Sequence[Role], assignment: Assignment) -> None:
        self.network = network = driver.network
        self.costs = driver.costs
        self.untimed = driver.untimed
        self.assignment = assignment
        self.ledger = Ledger()
        self.events: list[tuple[int, int, int, int, Message | None]] = []
        self.serial = 0
        self.called_off: set[int] = set()  # events of work that a message has ended
        self.cuts: dict[int, Cut] = {}
        self.discarded: list[Discarded] = []
        self.stop_at = assignment.stop_before
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        accounts: dict[str, Account] = {}
        resumed = None
        if assignment.resume is not None:
            resumed, self.ledger = Cut.read(assignment.resume, [role.name for role in roles])
            self.wall += assignment.resume.account["seconds_wall"]
            self.cpu += assignment.resume.account["seconds_cpu"]
            accounts = {
                name: Account.from_json(account) for name, account in resumed.accounts.items()
            }
        if assignment.keeps:
            for role in roles:
                accounts.setdefault(role.name, Account()).belong(role)
        if resumed is not None:
            for role in roles:
                role.load_state_dict(decode_state(resumed.states[role.name]))
        self.ledger.extend(lost_before(assignment, [role.name for role in roles], accounts))
        journals = open_journals(
            assignment.journals,
            [role.name for role in roles],
            {name: account.journal for name, account in accounts.items()},
        )
        self.setting_up_anew = resumed is not None
        self.mail = {} if resumed is None else resumed.mail
        self.actors = []
        with ExitStack() as opened:  # which are closed unless all can be
            for journal in journals.values():
                opened.callback(journal.close)
            for index, role in enumerate(roles):
                departures = Departures(assignment.departures, role.name)
                opened.callback(departures.close)
                account = accounts.get(role.name) or Account()
                journal = journals[role.name]
                self.actors.append(
                    _Actor(
                        index, role, account, self.ledger, journal, departures, assignment.limits
                    )
                )
            opened.pop_all()
        self.by_name = {actor.name: actor for actor in self.actors}
        for actor in self.actors:
            if (gateway := network.gateways.get(actor.name)) is not None:
                actor.entrance = Entrance(actor.account, gateway)

    def run(self) -> RunRecord:
        try:
            if self.setting_up_anew:
                self._set_up_anew()
            for actor in self.actors:
                if not actor.finished:
                    self._at(actor.account.clock, _STEP, actor)
                for message, arrival in self.mail.get(actor.name, []):
                    self._post(actor, message, arrival, epoch=-1)
            self._play()
            unfinished = [a for a in self.actors if not a.finished and not a.parked]
            if unfinished:
                raise Deadlock(self._who_waits(unfinished))
        except BaseException as error:
            self._abort(error)
            raise
        finally:
            for actor in self.actors:
                actor.journal.close()
                actor.departures.close()
        completed = all(actor.finished for actor in self.actors)
        if completed and self.assignment.store is not None:
            self._final_checkpoint()
        for actor in self.actors:
            actor.coroutine.close()
            actor.lanes.clear()  # which lead to all others: so roles and what they hold are let go
        return RunRecord.assembled(
            {actor.name: actor.part() for actor in self.actors},
            self.ledger,
            self.discarded,
            seconds_virtual=max((a.account.clock for a in self.actors), default=0) / 1e9,
            seconds_wall=self.wall + time.perf_counter(),
            seconds_cpu=self.cpu + time.process_time(),
        )

    def _set_up_anew(self) -> None:
        """Let roles set up once more, up to the first effect that is for anything else.

        Clocks, channels and gateways are afterwards as they were.
        """
        clocks = [actor.account.clock for actor in self.actors]
        untimed, self.untimed = self.untimed, frozenset(Purpose)
        for actor in self.actors:
            self._at(max(clocks), _STEP, actor)
        self._play(until=max(clocks))
        self.untimed, self.setting_up_anew = untimed, False
        self.events.clear()  # what is left of them would look at the clock
        for actor, clock in zip(self.actors, clocks, strict=True):
            actor.account.clock = clock
            if actor.outbox.sequence > actor.account.sequence:
                actor.account.anew.append((actor.account.sequence, actor.outbox.sequence))
            if actor.held is None:
                actor.held = actor.waiting
            actor.waiting, actor.answering = None, None

    def _play(self, until: int = _LAST) -> None:
        actors = self.actors
        while self.events and self.events[0][0] <= until:
            now, rank, index, serial, message = heapq.heappop(self.events)
            actor = actors[index]
            if message is not None:
                self._deliver(actor, message, now)
            elif rank == _STEP:
                if serial in self.called_off:
                    self.called_off.remove(serial)
                else:
                    self._step(actor, now)
            else:
                if actor.answering == now:
                    actor.answering = None
                if actor.waiting is not None:
                    self._resolve(actor, actor.waiting, now)

    def _at(self, when: int, rank: int, actor: _Actor, message: Message | None = None) -> None:
        if when > _LAST:
            raise ConfigurationError(
                f"the virtual clock of {actor.name!r} would pass 292 years, 2^63 ns; give channels "
                "and gateways more bandwidth, or let work and delays take less"
            )
        self.serial += 1
        heapq.heappush(self.events, (when, rank, actor.index, self.serial, message))

    # What happens to a role

    def _step(self, actor: _Actor, now: int) -> None:
        """Let a role go on at ``now`` until it works, waits, parks or ends."""
        account = actor.account
        account.clock = now
        answer, actor.answer = actor.answer, None
        if actor.attempting is not None:
            answer = self._attempted(actor, actor.attempting)
        if actor.blocked is not None:
            send, actor.blocked = actor.blocked, None
            if not self._send(actor, send, now):
                return
        while True:
            if actor.held is not None:
                effect, actor.held = actor.held, None
            else:
                try:
                    effect = asked(actor.role, actor.coroutine, answer)
                except StopIteration:
                    actor.finished = True
                    return
            answer = None
            if self.setting_up_anew and not sets_up(effect):
                actor.held = effect
                return
            if isinstance(effect, Send):
                if not self._send(actor, effect, now):
                    return
            elif isinstance(effect, Work):
                answer, cpu = perform(effect, actor.name, self.assignment.seed)
                cost = self._cost(actor, effect, cpu)
                account.spend(effect.purpose, effect.kind, cost, cpu)
                if cost:
                    actor.answer = answer
                    self._at(now + cost, _STEP, actor)
                    return
            elif isinstance(effect, Attempt):
                if self._attempt(actor, effect, now):
                    return
            elif isinstance(effect, Receive) and _is_plain(effect.expect):
                actor.mailbox.check(effect.expect, actor.name)
                if not actor.mailbox.satisfied(effect.expect, now, now):
                    actor.waiting = effect
                    return
                answer = self._take(actor, effect, waited=0)
            elif (
                isinstance(effect, Ready)
                and _is_plain(effect.expect)
                and actor.mailbox.satisfied(effect.expect, now, now)
            ):
                answer = True  # which nothing else that happens at this time could change
                actor.course.append(answer)
            elif isinstance(effect, (Receive, Ready)):
                actor.mailbox.check(effect.expect, actor.name)
                # Others may still act at this time: answer when all have.
                actor.waiting = effect
                self._answer_at(actor, now)
                self._set_timer(actor, effect.expect, now)
                return
            elif isinstance(effect, Boundary):
                if not self._boundary(actor, effect.round):
                    return
            elif isinstance(effect, Close):
                account.closed = max(account.closed, effect.before)
                for late in actor.mailbox.close(effect.before):
                    self._discard(actor, late)
            elif isinstance(effect, Report):
                stamped = account.report(
                    actor.name, effect.values, now / 1e9, self._evaluating(account)
                )
                self.assignment.on_report(stamped)
            elif isinstance(effect, Commit):
                actor.journal.commit(effect.record)
            elif isinstance(effect, Recall):
                answer = actor.journal.notes()
            else:
                raise LocalProtocolError(f"{actor.name} awaited {effect!r}, which is no effect")

    def _evaluating(self, account: Account) -> float | None:
        """Return the seconds that went into evaluations, where these were to take none."""
        purpose = Purpose.EVALUATION
        if purpose not in self.untimed:
            return None
        spent = (a.nanoseconds for (why, _), a in account.activities.items() if why is purpose)
        return sum(spent) / 1e9

    def _attempt(self, actor: _Actor, attempt: Attempt[Any], now: int) -> bool:
        """Begin work that a message may end; False if it is here already.

        Where time does not hang on what was measured the work is done when it is over, and not at
        all where a message ends it.
        """
        work, unless = attempt.work, attempt.unless
        actor.mailbox.check(unless, actor.name)
        if actor.mailbox.satisfied(unless, now, now):
            actor.course.append(False)
            return False
        measured = uses_measured(self.costs) and work.purpose not in self.untimed
        done = perform(work, actor.name, self.assignment.seed) if measured else None
        cost = self._cost(actor, work, done[1] if done else 0)
        self._at(now + cost, _STEP, actor)
        actor.attempting = _Attempting(attempt, now, self.serial, done)
        return True

    def _attempted(self, actor: _Actor, attempting: _Attempting) -> Any:
        """Return the result of an attempt that nothing has ended."""
        actor.attempting = None
        work = attempting.attempt.work
        answer, cpu = attempting.done or perform(work, actor.name, self.assignment.seed)
        actor.account.spend(work.purpose, work.kind, actor.account.clock - attempting.began, cpu)
        actor.course.append(True)
        return answer

    def _call_off(self, actor: _Actor, attempting: _Attempting, now: int) -> None:
        """End an attempt, as what makes it superfluous has come."""
        actor.attempting = None
        self.called_off.add(attempting.step)
        if len(self.called_off) > max(_MANY, len(self.events) // 2):
            self.events = [event for event in self.events if event[3] not in self.called_off]
            heapq.heapify(self.events)
            self.called_off.clear()
        work, cpu = attempting.attempt.work, attempting.done[1] if attempting.done else 0
        actor.account.spend(work.purpose, work.kind, now - attempting.began, cpu)
        actor.course.append(False)
        self._step(actor, now)

    def _cost(self, actor: _Actor, work: Work[Any], measured: int) -> int:
        """Return what work costs, and what the role loses in a round before its first training."""
        if work.purpose in self.untimed:
            return 0
        cost = self.costs.nanoseconds(actor.name, work, measured)
        if work.purpose is not Purpose.TRAINING:
            return cost
        if work.round > actor.trained:
            actor.trained = work.round
            actor.worked.clear()
            cost += self.costs.lost_nanoseconds(actor.name, work.round)
        if work.round == actor.trained and work.kind not in actor.worked:
            actor.worked.add(work.kind)
            cost += self.costs.lost_nanoseconds(actor.name, work.round, work.kind)
        return cost

    def _send(self, actor: _Actor, send: Send, now: int) -> bool:
        """Put a message into its channel; False if the role must wait for room."""
        receiver, lane = actor.lanes.get(send.receiver) or self._lane(actor, send)
        queue = lane.queue
        while queue and queue[0] <= now:
            queue.popleft()
        timed = send.purpose not in self.untimed
        if timed and len(queue) >= self.network.queue:
            actor.blocked = send
            actor.account.spend(send.purpose, "wait", queue[0] - now)
            self._at(queue[0], _STEP, actor)
            return False
        message, header, row = actor.outbox.stamp(send, now)
        actor.departures.note(row, actor.journal.extent)
        arrival = now
        if timed:
            number = message.sequence
            if actor.account.anew:
                number = actor.account.number(number)
                header = encode_header(send.kind, send.purpose, send.round, number, send.part)
            arrival = lane.enter(carried_bytes(header, len(send.body)), number, now)
        self._post(receiver, message, arrival, actor.boundary)
        for round, cut in self.cuts.items():
            if actor.boundary < round <= receiver.boundary:
                self._hold(cut, receiver, message, arrival)
        return True

    def _lane(self, actor: _Actor, send: Send) -> tuple[_Actor, Lane]:
        receiver = self.by_name.get(send.receiver)
        if receiver is None or receiver is actor:
            raise LocalProtocolError(f"{actor.name} sent {send.kind!r} to {send.receiver!r}")
        network = self.network
        lane = Lane(
            actor.name,
            receiver.name,
            actor.account,
            network.channel(actor.name, receiver.name),
            network.gateways.get(actor.name),
            self.assignment.seed,
        )
        way = actor.lanes[receiver.name] = (receiver, lane)
        return way

    def _post(self, receiver: _Actor, message: Message, arrival: int, epoch: int) -> None:
        if self.assignment.store is not None:
            receiver.unread[message.sender, message.sequence] = (message, arrival, epoch)
        self._at(arrival, _DELIVER, receiver, message)

    def _deliver(self, actor: _Actor, message: Message, now: int) -> None:
        entrance = self._entrance(actor, message)
        if entrance is not None:
            number = self.by_name[message.sender].account.number(message.sequence)
            if (due := entrance.admit(message, number, now)) is not None:
                key = (message.sender, message.sequence)
                if key in actor.unread:
                    actor.unread[key] = (message, due, actor.unread[key][2])
                self._at(due, _DELIVER, actor, message)
                return
        waiting = actor.waiting
        if waiting is None:
            attempting = actor.attempting
            if not actor.mailbox.put(message, now):
                self._discard(actor, message)
            elif attempting and actor.mailbox.satisfied(attempting.attempt.unless, now, now):
                self._call_off(actor, attempting, now)
            return
        expect = waiting.expect
        sender, _, kind, purpose, round, _, _, part = message
        mine = (kind, round, (sender,), purpose) == expect[:4] and part == expect.part
        if isinstance(waiting, Receive) and mine:
            # It is all that the role waits for: hand it over without the mailbox.
            self.assignment.limits.admit(message)
            arrivals = Arrivals((message,))
            self._note_taken(actor, waiting, arrivals, waited=now - actor.account.clock)
            self._resume(actor, arrivals, now)
            return
        if not actor.mailbox.put(message, now):
            self._discard(actor, message)
        elif not actor.mailbox.satisfied(expect, actor.account.clock, now):
            self._set_timer(actor, expect, now)
        elif _is_plain(expect):
            self._resolve(actor, waiting, now)
        else:
            self._answer_at(actor, now)

    def _answer_at(self, actor: _Actor, now: int) -> None:
        """Answer a waiting role when all others have acted at this time."""
        if actor.answering != now:
            actor.answering = now
            self._at(now, _ANSWER, actor)

    def _discard(self, actor: _Actor, message: Message) -> None:
        """Note that a message came too late for its receiver."""
        self._forget(actor, message)
        self.ledger.discard(message.sender, message.sequence)
        self.discarded.append((actor.name, message.sender, message.sequence))

    def _set_timer(self, actor: _Actor, expect: Expect, now: int) -> None:
        """Look again at a waiting role when its deadline has come."""
        deadline = actor.mailbox.deadline(expect, actor.account.clock)
        if deadline is not None and deadline > now:
            self._at(deadline, _ANSWER, actor)

    def _resolve(self, actor: _Actor, waiting: Receive | Ready, now: int) -> None:
        """Answer a waiting role, if what it waits for is there by ``now``."""
        expect, since = waiting.expect, actor.account.clock
        satisfied = actor.mailbox.satisfied(expect, since, now)
        if isinstance(waiting, Ready):
            actor.course.append(satisfied)
            self._resume(actor, satisfied, now)
        elif satisfied:
            self._resume(actor, self._take(actor, waiting, waited=now - since), now)

    def _resume(self, actor: _Actor, answer: Any, now: int) -> None:
        actor.waiting = None
        actor.answer = answer
        self._step(actor, now)

    def _take(self, actor: _Actor, receive: Receive, *, waited: int) -> Arrivals:
        arrivals = actor.mailbox.take(receive.expect)
        self._note_taken(actor, receive, arrivals, waited=waited)
        return arrivals

    def _note_taken(
        self, actor: _Actor, receive: Receive, arrivals: Arrivals, *, waited: int
    ) -> None:
        for message in arrivals.messages:
            self._forget(actor, message)
        actor.account.spend(receive.expect.purpose, receive.waiting, waited)
        actor.course.append(identities(arrivals))

    def _forget(self, actor: _Actor, message: Message) -> None:
        """Note that a message was taken or discarded, so that no checkpoint need hold it."""
        if self.assignment.store is not None:
            del actor.unread[message.sender, message.sequence]
        if (entrance := self._entrance(actor, message)) is not None:
            entrance.leave(message)

    def _entrance(self, actor: _Actor, message: Message) -> Entrance | None:
        """Return what a message passes on its way in: nothing, where it takes no time."""
        return None if message.purpose in self.untimed else actor.entrance

    # Between rounds

    def _boundary(self, actor: _Actor, round: int) -> bool:
        """Pass a boundary; False if the run stops here."""
        assignment = self.assignment
        actor.boundary = round
        assignment.on_round(actor.name, round, actor.outbox.sent_bytes)
        if self.stop_at is None and assignment.interrupted():
            # Nobody has passed the next boundary yet, so everybody can stop there.
            self.stop_at = max(other.boundary for other in self.actors) + 1
        stops = round == self.stop_at
        if assignment.store is not None and (stops or assignment.checkpoint_due(round)):
            self._enter_cut(actor, round)
        if assignment.store is None:  # then no run goes back to before this
            self.ledger.settle()
        actor.parked = stops
        return not stops

    def _enter_cut(self, actor: _Actor, round: int) -> None:
        cut = self.cuts.setdefault(round, Cut(round))
        cut.states[actor.name] = saved_state(actor.role)
        cut.accounts[actor.name] = actor.snapshot()
        cut.mail[actor.name] = []
        for message, arrival, epoch in actor.unread.values():
            if epoch < round:
                self._hold(cut, actor, message, arrival)
        if len(cut.states) == len(self.actors):
            del self.cuts[round]
            self._commit(cut)

    def _hold(self, cut: Cut, receiver: _Actor, message: Message, arrival: int) -> None:
        cut.hold(receiver.name, message, arrival, occupies=receiver.entrance is not None)

    def _final_checkpoint(self) -> None:
        round = max(actor.boundary for actor in self.actors)
        cut = Cut(round)
        for actor in self.actors:
            cut.states[actor.name] = saved_state(actor.role)
            cut.accounts[actor.name] = actor.snapshot()
        self._commit(cut)

    def _commit(self, cut: Cut) -> None:
        assert self.assignment.store is not None
        cut.write(
            self.assignment.store,
            self.ledger,
            self.wall + time.perf_counter(),
            self.cpu + time.process_time(),
        )

    # When it goes wrong

    def _abort(self, error: BaseException) -> None:
        """Tell every unfinished role that the run is over."""
        for actor in self.actors:
            if actor.finished:
                continue
            with suppress(Exception):
                actor.coroutine.throw(Aborted(f"{type(error).__name__}: {error}"))
            actor.coroutine.close()

    def _who_waits(self, unfinished: list[_Actor]) -> str:
        lines = []
        for actor in unfinished:
            assert actor.waiting is not None
            lines.append(f"{actor.name} {actor.mailbox.lacks(actor.waiting.expect)}")
        return nobody_goes_on(lines, [actor.name for actor in self.actors if actor.finished])
