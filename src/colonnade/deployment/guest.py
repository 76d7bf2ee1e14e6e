"""The site's part of a job: say what is brought, agree, play the role, keep what came of it."""

from __future__ import annotations

import hashlib
import queue
from collections.abc import Callable
from typing import TypeVar

import msgspec

from colonnade.checkpoints import Checkpoint
from colonnade.deployment import meeting
from colonnade.deployment.aligning import AligningTogether
from colonnade.deployment.confided import confided
from colonnade.deployment.engagement import Engagement, Folders
from colonnade.deployment.job import OF_EMBEDDINGS, JobConfig
from colonnade.deployment.kept_here import Kept
from colonnade.deployment.leaving import Leaving
from colonnade.deployment.metered import Metered
from colonnade.deployment.policy import NO_POLICY, load_policy
from colonnade.deployment.predicting import PredictingTogether
from colonnade.deployment.serving import ServingTogether
from colonnade.deployment.site import SiteConfig
from colonnade.deployment.told_elsewhere import names_values, told_elsewhere
from colonnade.deployment.training import TrainingTogether
from colonnade.deployment.what_came import Bounded, contradictions, known, never_sent
from colonnade.drivers import Assignment, RunRecord, control
from colonnade.drivers.account import Account
from colonnade.drivers.courier import Post
from colonnade.drivers.couriered import CourierTransport
from colonnade.drivers.course import Course
from colonnade.drivers.driver import Discarded, Part, threads
from colonnade.drivers.keeping import Keeper, seconds_of
from colonnade.drivers.player import Player, Task, Transport
from colonnade.effects import Role
from colonnade.errors import Aborted, CheckpointError, RemoteProtocolError
from colonnade.faults import explained
from colonnade.ledger import Ledger
from colonnade.outputs import replacing
from colonnade.telling import first_line, plain

__all__ = ["Guest"]

_LAST_WORDS = 30.0  # seconds in which the server may hear that all went well
_MOST_WORDS = 16  # of the server's, besides what came of a run: there are four or five
_MOST_TOLD = 8192  # characters of why a run was ended

_Kind = TypeVar("_Kind", meeting.Everybody, meeting.Go, meeting.End)


class Guest:
    """An organisation in a job.

    Parameters
    ----------
    job
        What all are told.
    site
        What the organisation keeps to itself.
    post
        Carries datagrams to the others by their names, and to the gatekeeper by ``GATEKEEPER``.
    label
        How runs are carried out, for the summary.
    notice
        Called with a sentence that whoever runs the site should read.
    """

    def __init__(
        self,
        job: JobConfig,
        site: SiteConfig,
        post: Post,
        label: str,
        notice: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.job, self.site, self.name = job, site, site.organisation
        self.kept = Kept(site.runs, job.run)
        self._label, self._notice = label, notice
        self._heard: queue.Queue[meeting.FromServer | Exception] = queue.Queue()
        self._bounded: Bounded | None = None  # until there can be something to tell of
        self._words = 0
        self._is_over = False
        self._transport = CourierTransport(post, self._take, self._take)
        self._player: Player | None = None
        self._policy = NO_POLICY  # until it is read, where others can be told what is wrong

    def receive(self, peer: str, datagram: bytes) -> None:
        """Take a datagram of another; any thread may."""
        self._transport.receive(peer, datagram)

    def end(self, reason: str) -> None:
        """End by ``Aborted``, from any thread: whoever runs this has given the job up."""
        error = Aborted(reason)
        self._take(error)
        player = self._player  # after that: one that starts meanwhile is told of what was heard
        if player is not None:
            player.fail(error)
        self._transport.abandon()

    def attend(self) -> None:
        """Take part in the job to its end.

        Raises
        ------
        Aborted
            If another's failure ended it; its reason is told.
        ColonnadeError
            As which it failed here; all others are told.
        """
        linger = None
        try:
            with confided():
                self._policy = load_policy(self.site.policy)
            self._policy.check_job(self.job, self.name)
            with threads(self.job.training.threads):
                self._attend(self._engaged())
            linger = _LAST_WORDS  # without which the run has failed for all others
        except Aborted:
            raise
        except BaseException as error:
            if names_values(error):
                self.kept.fail(error)
            self._transport.tell(told_elsewhere(error, self.site))
            raise
        finally:
            self._transport.close(linger)

    def _engaged(self) -> Engagement:
        match self.job.task:
            case "align" | "align_new":
                return AligningTogether(self.job, self.site)
            case "predict":
                return PredictingTogether(self.job, self.site)
            case "serve":
                return ServingTogether(self.job, self.site, self._check_leaving, self._notice)
            case "train":
                return TrainingTogether(self.job, self.site, self._label)

    def _attend(self, engagement: Engagement) -> None:
        brings = engagement.brings()
        self._say(brings)
        everybody = self._hear(meeting.Everybody)
        if everybody.top is None and self.name == self.job.label_holder.name:
            top = engagement.top(everybody)
            self._say(top)
            everybody = self._hear(meeting.Everybody)
            if everybody.top != top:
                raise RemoteProtocolError("the server has changed what was told of the labels")
        _check_told(everybody, self.job)
        agreed = _agreed(brings, everybody, engagement.agree(everybody))
        self._check_leaving(engagement.leaving)
        with engagement.folders() as folders:
            go = self._meet(agreed, engagement.every, folders)
            checkpoint = None if go.round is None else folders.held[go.round]
            with confided():
                role = engagement.cast()
            ledger, own = self._play(role, engagement, folders, checkpoint, go.gate, agreed)
            record = None
            if self.job.recorded and self.name == self.job.label_holder.name:
                self._bounded = Bounded(
                    self.job.everybody, engagement.limits.of_a_round, role.round, brings.rows
                )
                self._say(meeting.Concluding())
                record = self._what_came(role.round, ledger, own)
            engagement.conclude(role, ledger, record)
        self._say(meeting.Done())

    def _check_leaving(self, leaving: Leaving) -> None:
        self._policy.check_leaving(self.job, self.name, leaving)

    def _meet(self, agreed: str, every: int, folders: Folders) -> meeting.Go:
        """Say from where the role could go on; return where all do."""
        held = folders.held
        seconds = max((seconds_of(checkpoint) for checkpoint in held.values()), default=0.0)
        told = meeting.Held(agreed, sorted(held), seconds, every, folders.has_begun)
        self._say(told)
        go = self._hear(meeting.Go)
        if go.round is not None and go.round not in held:
            raise CheckpointError(f"{self.name} has no checkpoint of round {go.round}")
        if go.round is None and held and not told.can_begin_anew:
            raise CheckpointError(
                f"{self.name} is told to begin anew, and has checkpoints up to round {max(held)}"
            )
        return go

    def _play(
        self,
        role: Role,
        engagement: Engagement,
        folders: Folders,
        checkpoint: Checkpoint | None,
        gate: int,
        agreed: str,
    ) -> tuple[Ledger, Account]:
        """Play the role to its end; return what it has sent, and what was kept of it besides."""
        everybody, limits = self.job.everybody, engagement.limits
        keeper, account, mail = None, Account(), []
        if folders.store is not None:
            folders.store.go_back_to(checkpoint)
            assignment = Assignment(resume=checkpoint, departures=folders.departures)
            keeper = Keeper(folders.store, self.name, assignment, everybody)
            account, mail = keeper.account, keeper.mail
            account.belong(role)
            keeper.restore(role)
        ledger = Ledger() if keeper is None else keeper.ledger
        # A crash may have made it send in vain, or another job have let something leave meanwhile.
        self._check_leaving(engagement.leaving_again(ledger))
        noted = engagement.noted_in
        peers = [name for name in everybody if name in role.peers]
        self._transport.admit(peers, limits.body, agreed.encode())
        task = Task(
            role,
            None,
            account,
            mail,
            gate=gate,
            seed=self.job.training.seed,
            limits=limits,
            saves=False,
            journals=folders.journals,
            departures=folders.departures if noted is None else noted,
            shows=False,
            keeper=keeper,
            sent=None if folders.forgets else ledger,
            traced=self.job.recorded,
        )
        self._player = player = Player(task, self._metered(ledger))
        self._transport.start(player)
        while not self._heard.empty():  # the run was ended while the role was cast
            player.fail(_reason_in(self._heard.get()))
        try:
            finished = player.play()
        finally:
            if noted is not None:
                file = noted / "ledger.csv"
                with explained(file), replacing(file) as partial:
                    ledger.write_csv(partial)
        self._player = None  # whoever runs the site reads of an end from now on
        self._transport.release()
        if not finished:  # what it has is kept for a server that goes on
            raise RemoteProtocolError(
                f"the server ended the run before round {role.round}, and it is not over"
            )
        return ledger, account

    def _metered(self, ledger: Ledger) -> Transport:
        """Return the transport, limited by the policy, of who has sent this in the run before."""
        most = self._policy.max_bytes
        if most is None:
            return self._transport
        return Metered(self._transport, self.name, most, ledger.framed_bytes())

    def _what_came(self, round: int, sent: Ledger, own: Account) -> RunRecord:
        """Return what came of the whole run, which the gatekeeper tells in pieces.

        What is of the organisation itself, it takes from nobody.
        """
        everybody = self.job.everybody
        ledger, discarded = Ledger(sent), list[Discarded]()
        courses = {name: Course() for name in everybody}
        while isinstance(told := _told_in(self._heard.get()), meeting.Came):
            ledger.extend(entry for entry in told.entries if entry.sender != self.name)
            discarded += told.discarded
            if told.decided is not None:
                name, some = told.decided
                courses.setdefault(name, Course()).extend(some)
        end = _due(meeting.End, told)
        if not set(end.parts) == set(courses) == set(everybody):
            raise RemoteProtocolError("the server told what came of others than those of the job")
        parts = {}
        for name in everybody:
            if end.parts[name][:2] != (True, round):
                raise RemoteProtocolError(
                    f"the server told of another end of {name!r} than the run's, round {round}"
                )
            account = end.parts[name][2]
            try:
                kept = own if name == self.name else Account.told(account)
            except (TypeError, ValueError) as error:
                raise RemoteProtocolError(
                    f"the server told of {name!r} what makes no sense: {first_line(error)}"
                ) from None
            parts[name] = Part(round, True, kept, courses[name], None)
        received = {**end.received, self.name: own.received}
        claimed, discarded = discarded, known(discarded, ledger)
        for _, sender, sequence in discarded:
            if sender == self.name:
                ledger.discard(sender, sequence)
        return RunRecord.assembled(
            parts,
            ledger,
            discarded,
            seconds_virtual=None,
            seconds_wall=end.seconds_wall,
            seconds_cpu=end.seconds_cpu,
            contradictions=[
                *contradictions(ledger, received),
                *never_sent({*claimed} - {*discarded}),
            ],
        )

    # Words to and from the gatekeeper

    def _take(self, heard: bytes | Exception) -> None:
        """Take what the gatekeeper tells, and why the run ends, while no role is played.

        Of an end whoever runs the site reads at once: much may have to be done before it is heard,
        and the site may be given less time than that. Of a server that says more than there is to
        say nothing more is kept.
        """
        if self._is_over and not isinstance(heard, Exception):
            return
        told = _read(heard)
        try:
            self._count(told)
        except RemoteProtocolError as error:
            told = error
        self._is_over = isinstance(told, Exception)
        self._heard.put(told)
        if self._player is None and isinstance(told, Aborted):
            self._notice(f"the run is being ended: {told}")

    def _count(self, told: meeting.FromServer | Exception) -> None:
        """Raise ``RemoteProtocolError`` if the server tells more than there is."""
        if not isinstance(told, meeting.Came):
            self._words += 1
            if self._words > _MOST_WORDS:
                raise RemoteProtocolError("the server says more than it was asked")
        elif self._bounded is None:
            raise RemoteProtocolError("the server tells what came of the run before its end")
        else:
            self._bounded.admit(told)

    def _say(self, message: meeting.FromSite) -> None:
        self._transport.say(meeting.encode(message))

    def _hear(self, kind: type[_Kind]) -> _Kind:
        """Return what the gatekeeper tells next, which is of this kind."""
        return _due(kind, _told_in(self._heard.get()))


def _read(heard: bytes | Exception) -> meeting.FromServer | Exception:
    """Return what the gatekeeper tells, or how the job ended."""
    if isinstance(heard, Exception):
        return heard
    try:
        message = meeting.from_server(heard)
    except RemoteProtocolError as error:
        return error
    if isinstance(message, control.Abort):
        return Aborted(plain(message.reason[:_MOST_TOLD]))
    return message


def _told_in(heard: meeting.FromServer | Exception) -> meeting.FromServer:
    """Return what the gatekeeper tells; raise it where that is how the job ended."""
    if isinstance(heard, Exception):
        raise heard
    return heard


def _due(kind: type[_Kind], message: meeting.FromServer) -> _Kind:
    """Return a message, which is of this kind."""
    if not isinstance(message, kind):
        told = type(message).__name__
        raise RemoteProtocolError(f"the server told {told} where {kind.__name__} was due")
    return message


def _reason_in(heard: meeting.FromServer | Exception) -> Exception:
    """Return as an error what the gatekeeper tells, which says nothing else where this is asked."""
    if isinstance(heard, Exception):
        return heard
    told = type(heard).__name__
    return RemoteProtocolError(f"the server told {told} before the run has begun")


def _agreed(brings: meeting.Brings, everybody: meeting.Everybody, agreed: str) -> str:
    """Return the digest of all that must be alike at every site, and that the server passes on.

    That is what each brings but for its embeddings, what the label holder said, and the agreement
    that was made of it, which has the widths of all.
    """
    assert everybody.top is not None
    alike = msgspec.structs.replace(brings, width=None, terms=None)
    said = meeting.encode(alike) + meeting.encode(everybody.top) + agreed.encode()
    return hashlib.blake2b(said, digest_size=16).hexdigest()


def _check_told(everybody: meeting.Everybody, job: JobConfig) -> None:
    """Raise ``RemoteProtocolError`` unless what is told of all is of all whom the job names."""
    if everybody.top is None:
        raise RemoteProtocolError("the server told of all, and not of the top model")
    for what in (everybody.widths, everybody.terms):
        if strangers := sorted(set(what) - set(job.everybody)):
            raise RemoteProtocolError(f"the server told of {strangers[0]!r}, whom the job lacks")
    lacking = [name for name in job.present if name not in everybody.widths]
    if lacking and job.task in OF_EMBEDDINGS:
        raise RemoteProtocolError(f"the server told of no embeddings of {lacking[0]!r}")
