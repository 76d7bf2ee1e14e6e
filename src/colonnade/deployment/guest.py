"""The site's part of a run: say what is brought, agree, play the role, keep what came of it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl
import torch
from torch import nn

from colonnade import __version__
from colonnade.agreement import Agreement, HolderSeat, PartySeat
from colonnade.checkpoints import Checkpoint, CheckpointStore, decode_state
from colonnade.deployment import meeting
from colonnade.deployment.job import JobConfig
from colonnade.deployment.site import OwnPart, SiteConfig, own_part
from colonnade.descriptions import device_told
from colonnade.drivers import Assignment, RunRecord, control
from colonnade.drivers.account import Account
from colonnade.drivers.courier import Post
from colonnade.drivers.couriered import CourierTransport
from colonnade.drivers.driver import Part, threads
from colonnade.drivers.failures import failed
from colonnade.drivers.keeping import Keeper, seconds_of
from colonnade.drivers.player import Player, Task
from colonnade.effects import Role
from colonnade.errors import Aborted, CheckpointError, ConfigurationError, RemoteProtocolError
from colonnade.export import blank, form_of
from colonnade.layout import Layout
from colonnade.ledger import Ledger
from colonnade.models import parameter_count, terms_of
from colonnade.organisations import LabelHolder
from colonnade.prediction import Predictor
from colonnade.reports import draw_run, write_page
from colonnade.run_folder import RunFolder
from colonnade.runs import Run
from colonnade.runs_told import Circumstances, run_told
from colonnade.tables.together import LABELS

__all__ = ["Guest"]

_VERSIONS = {"colonnade": __version__, "torch": torch.__version__}
_ALIGNED = "rows were aligned by private set intersection; who learned what is with each alignment"
_LOOK = 0.2  # seconds after which a site that waits looks whether it is to end


_Kind = TypeVar("_Kind", meeting.Everybody, meeting.Go, meeting.End)


@dataclass(frozen=True)
class _Over:
    """How a run was carried out, as its account tells."""

    label: str
    repeats: bool = False
    network: None = None

    @property
    def clock(self) -> Mapping[str, str]:
        return {"network": "measured", "compute": "measured"}


@dataclass(frozen=True)
class _Seated:
    """What an organisation has, once all are agreed."""

    part: OwnPart
    agreement: Agreement
    seat: PartySeat | HolderSeat

    def cast(self) -> Any:
        """Return the role."""
        exchange = self.agreement.method.exchange
        if isinstance(self.seat, PartySeat):
            return exchange.party(self.agreement, self.seat)
        return exchange.label_holder(self.agreement, self.seat)

    def check(self, checkpoint: Checkpoint) -> None:
        """Raise ``CheckpointError`` unless a role takes it: it may name files elsewhere."""
        self.cast().load_state_dict(checkpoint.state(self.part.name))


def _fingerprint(seated: _Seated) -> str:
    return seated.agreement.fingerprint(seated.seat)


class Guest:
    """An organisation in a run.

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
    aborted
        Asked now and then: whether whoever runs this wants it to end.
    """

    def __init__(
        self,
        job: JobConfig,
        site: SiteConfig,
        post: Post,
        label: str,
        aborted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.job, self.site, self.name = job, site, site.organisation
        self._label, self._aborted = label, aborted
        self._heard: queue.Queue[bytes | Exception] = queue.Queue()
        self.transport = CourierTransport(post, self._heard.put, self._heard.put)
        self._player: Player | None = None

    def receive(self, peer: str, datagram: bytes) -> None:
        """Take a datagram of another; any thread may."""
        self.transport.receive(peer, datagram)

    def end(self, reason: str) -> None:
        """End by an error, from any thread: whoever runs this has given the run up."""
        error = Aborted(reason)
        self._heard.put(error)
        if self._player is not None:
            self._player.fail(error)

    def attend(self) -> None:
        """Take part in the run to its end.

        Raises
        ------
        Aborted
            If another's failure ended it; its reason is told.
        ColonnadeError
            As which it failed here; all others are told.
        """
        try:
            self._attend()
        except Aborted:
            raise
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self.transport.close()

    def _attend(self) -> None:
        part = own_part(self.job, self.site)
        folder = RunFolder(self.site.runs / self.job.run)
        with folder.alone(), threads(self.job.training.threads):
            seated = self._agree(part)
            store = folder.store({"what it agreed to, or brings,": _fingerprint(seated)})
            held = {checkpoint.round: checkpoint for checkpoint in store.held(seated.check)}
            folder.begin(self._told(), resume=True, known=bool(held))
            with folder.safeguarded(store):
                store.make()
                go = self._meet(seated, held)
                checkpoint = None if go.round is None else held[go.round]
                if checkpoint is not None:
                    store.go_back_to(checkpoint)
                self._play(seated, folder, store, checkpoint, go.gate)

    # Before anybody plays

    def _agree(self, part: OwnPart) -> _Seated:
        """Say what is brought, hear what others bring, and take a seat."""
        job, is_holder = self.job, part.is_label_holder
        if job.method.build().exchange.labels == "shared":
            raise ConfigurationError(
                f"the method {job.method.build().name} shares labels, which organisations on "
                "computers of their own do not yet; take one that keeps them private"
            )
        terms = {} if part.party is None else terms_of({self.name: part.party.bottom})
        self._say(
            meeting.Brings(
                meeting.PROTOCOL,
                __version__,
                job.digest,
                len(part.tables.ids),
                part.kept.digest,
                part.width,
                terms.get(self.name),
            )
        )
        everybody = self._hear(meeting.Everybody)
        widths = {
            name: everybody.widths[name] for name in job.everybody if name in everybody.widths
        }
        holder: LabelHolder | None = None
        if is_holder:
            holder = part.label_holder([*widths.values()])
            self._say(meeting.Top(parameter_count(holder.top)))
            everybody = self._hear(meeting.Everybody)
        assert everybody.parameters is not None
        rows = part.tables
        training = job.training.build(len(rows.validation)).for_rows(len(rows.train))
        agreement = Agreement(
            job.method.build(),
            training,
            Layout(
                tuple(job.parties),
                job.label_holder.name,
                widths,
                len(rows.ids),
                training.seed,
                simulated=training.secrets == "seed",
                terms=everybody.terms,
            ),
            everybody.parameters,
            rows.train,
            rows.validation,
            rows.test,
        )
        agreement.warm_up()
        if holder is not None:
            metrics = tuple(part.blueprint.objective.metrics())
            return _Seated(part, agreement, HolderSeat(holder, metrics))
        assert part.party is not None
        return _Seated(part, agreement, PartySeat(part.party))

    def _meet(self, seated: _Seated, held: Mapping[int, Checkpoint]) -> meeting.Go:
        """Say from where the role could go on; return where all do."""
        seconds = max((seconds_of(checkpoint) for checkpoint in held.values()), default=0.0)
        agreement = seated.agreement
        every = agreement.training.checkpoint_every or agreement.batches.rounds_per_epoch
        self._say(meeting.Held(agreement.digest, sorted(held), seconds, every))
        go = self._hear(meeting.Go)
        if go.round is not None and go.round not in held:
            raise CheckpointError(f"{self.name} has no checkpoint of round {go.round}")
        return go

    # Playing

    def _play(
        self,
        seated: _Seated,
        folder: RunFolder,
        store: CheckpointStore,
        checkpoint: Checkpoint | None,
        gate: int,
    ) -> None:
        agreement, job = seated.agreement, self.job
        everybody = job.everybody
        assignment = Assignment(
            seed=job.training.seed,
            store=store,
            resume=checkpoint,
            journals=folder.journals,
            departures=folder.departures,
        )
        role = seated.cast()
        keeper = Keeper(store, self.name, assignment, everybody)
        keeper.account.belong(role)
        if keeper.state is not None:
            role.load_state_dict(decode_state(keeper.state))
        limits = agreement.limits()
        self.transport.admit([name for name in everybody if name in role.peers], limits.body)
        task = Task(
            role,
            None,
            keeper.account,
            keeper.mail,
            gate=gate,
            seed=job.training.seed,
            limits=limits,
            saves=False,
            journals=folder.journals,
            departures=folder.departures,
            keeper=keeper,
        )
        self._player = Player(task, self.transport)
        self.transport.start(self._player)
        self._player.play()
        self.transport.release()
        self._player = None
        self._conclude(seated, role, folder, keeper)
        self._say(meeting.Done())

    # What came of it

    def _conclude(self, seated: _Seated, role: Role, folder: RunFolder, keeper: Keeper) -> None:
        """Write the organisation's own results; those of the whole run at the label holder."""
        part, agreement = seated.part, seated.agreement
        models = {self.name: _modules(role)}
        predictor = _predictor(part, agreement, models)
        config = self._told()
        if not part.is_label_holder:
            summary = {"method": agreement.method.name, "versions": _VERSIONS}
            ledger = keeper.ledger
            run = Run(summary, pl.DataFrame(), ledger, models, None, config, predictor=predictor)
            run.export(folder.parts)
            folder.keep(ledger)
            return
        self._say(meeting.Concluding())
        record = _record(self._hear(meeting.End), agreement.layout)
        circumstances = Circumstances(
            {self.name: device_told(part.blueprint.device)},
            {"left_out": part.kept.left_out[LABELS], "absent": dict(part.kept.absent)},
            part.tables.warnings,
            _ALIGNED,
        )
        metrics = part.blueprint.objective.metrics()
        over = _Over(self._label)
        history, others, summary = run_told(record, agreement, role, metrics, over, circumstances)
        ledger = record.ledger
        own = (folder.path, predictor, others)
        run = Run(summary, history, ledger, models, record, config, *own)
        run.export(folder.parts)
        folder.finish(run)
        draw_run(run, folder.path / "run.png")
        write_page(run, folder.path / "report.html")

    # Words to and from the gatekeeper

    def _told(self) -> dict[str, Any]:
        """Return what the run's folder says of it."""
        return {"job": self.job.model_dump(mode="json"), "organisation": self.name}

    def _say(self, message: meeting.FromSite) -> None:
        self.transport.say(meeting.encode(message))

    def _hear(self, kind: type[_Kind]) -> _Kind:
        """Return what the gatekeeper tells next, which is of this kind."""
        while True:
            try:
                heard = self._heard.get(timeout=_LOOK)
            except queue.Empty:
                if self._aborted():
                    raise Aborted("the run was stopped") from None
                continue
            if isinstance(heard, Exception):
                raise heard
            message = meeting.from_server(heard)
            if isinstance(message, control.Abort):
                raise Aborted(message.reason)
            if not isinstance(message, kind):
                raise RemoteProtocolError(
                    f"the server told {type(message).__name__} where {kind.__name__} was due"
                )
            return message

    def _fail(self, error: BaseException) -> None:
        """Tell the gatekeeper what went wrong here."""
        self.transport.tell(failed(error))


def _modules(role: Any) -> dict[str, nn.Module]:
    parts = {part: getattr(role, part, None) for part in ("bottom", "top")}
    return {part: learner.module for part, learner in parts.items() if learner is not None}


def _predictor(
    part: OwnPart, agreement: Agreement, models: Mapping[str, Mapping[str, nn.Module]]
) -> Predictor:
    """Return the organisation's own part of what predicts."""
    party, name, layout = part.party, part.name, agreement.layout
    return Predictor(
        layout.label_holder,
        models,
        dict(layout.widths),
        agreement.method.uplink.of_new_rows(),
        agreement.method.fusion,
        {name: part.blueprint.device},
        {} if party is None or party.transformer is None else {name: party.transformer},
        {} if party is None else {name: blank(form_of(party.features))},
        agreement.training.seed,
        part.tables.classes,
        {},
    )


def _record(end: meeting.End, layout: Layout) -> RunRecord:
    """Return what happened, as the gatekeeper knows it."""
    parts = {
        name: Part(round, finished, Account.from_json(account), [], None)
        for name, (finished, round, account) in end.parts.items()
    }
    everybody = (*layout.parties, layout.label_holder)
    return RunRecord.assembled(
        {name: parts[name] for name in everybody},
        Ledger(end.entries),
        end.discarded,
        seconds_virtual=None,
        seconds_wall=end.seconds_wall,
        seconds_cpu=end.seconds_cpu,
    )
