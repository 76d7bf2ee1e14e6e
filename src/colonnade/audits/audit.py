"""One audit: a method is trained with a recorder, its mechanisms are tried, and it is attacked.

Nothing that an attack needs is kept by a run: what travelled is gone. So training is repeated,
under a driver that notes what the parties were told; with the same seed it takes the same course,
but for private noise, which is drawn anew where the run is not declared a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from colonnade.agreement import Agreement
from colonnade.annotated import check_kind, make_plain
from colonnade.audits.completion import complete
from colonnade.audits.finding import Finding
from colonnade.audits.labels import Told, infer_labels
from colonnade.audits.listening import heard_of
from colonnade.audits.reconstruction import Known, columns_of, reconstruct
from colonnade.audits.recording import Derivatives, Recording
from colonnade.drivers import Driver, Simulate
from colonnade.effects import Purpose
from colonnade.errors import ConfigurationError
from colonnade.federation import Federation
from colonnade.links import Rows
from colonnade.method import Method
from colonnade.methods import svfl
from colonnade.models import Learner, drawing_alike, take
from colonnade.organisations import Party
from colonnade.privacy import NEAR, Played, check_games, play
from colonnade.privacy.accountant import check_delta
from colonnade.reports import human_epsilon
from colonnade.runs import Run
from colonnade.training import Training, Watcher, checked_training

__all__ = ["Audit", "Scope", "audit"]

_FEWEST = 50  # held-out rows
_DRAWS = 5  # of known labels, for model completion
_AT_ONCE = 1024
_USUAL_DELTA = 1e-5
_SIGHTINGS = 10  # of a row, whose noise is averaged
_FEWEST_OTHERS = 25  # held-out rows whose features are not known


@dataclass(frozen=True)
class Scope:
    """How much is tried, and what attackers are taken to know.

    Parameters
    ----------
    attacks
        Whether to train and to attack; without, only mechanisms are tried.
    games
        How often each world of a game is played; 0 for no game.
    delta
        That of the claims; by default that of the uplink's budget, or 1e-5.
    known_features
        Of which part of the held-out rows the label holder knows the features.
    known_labels
        Of how many training rows a party knows the labels, evenly over classes.
    rows
        At most so many held-out rows are attacked, and so many training rows' labels.
    seed
        Draws which rows are known, and how attacks start.

    Raises
    ------
    ConfigurationError
        If a number is out of range.
    """

    attacks: bool = True
    games: int = 100_000
    delta: float | None = None
    known_features: float = 0.1
    known_labels: int = 40
    rows: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        make_plain(Scope, self)
        if self.delta is not None:
            check_delta(self.delta)
        if not 0 < self.known_features < 1:
            raise ConfigurationError(
                f"known_features is {self.known_features}, but the label holder knows the features "
                "of a part of the rows and attacks the others: say a number between 0 and 1"
            )
        if self.known_labels < 2 or self.rows < _FEWEST or self.seed < 0:
            raise ConfigurationError(
                f"an audit takes 2 known_labels, {_FEWEST} rows and a seed of 0, or more of each, "
                f"not {self.known_labels}, {self.rows} and {self.seed}"
            )
        if self.games:
            check_games(self.games)
        if not self.attacks and not self.games:
            raise ConfigurationError("there is nothing to do without games and without attacks")


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Parameters
    ----------
    method
        What was audited, by its name.
    scope
        How much was tried.
    played
        How each game went, of the mechanisms that add noise.
    findings
        What each attack achieved.
    notes
        What was not tried, and why; what was repeated.
    run
        The training that was recorded; None where there was none, or it was interrupted.
    """

    method: str
    scope: Scope
    played: tuple[Played, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    run: Run | None

    @property
    def holds(self) -> bool:
        """Whether no mechanism was seen to disclose more than it claims."""
        return all(played.holds for played in self.played)

    def strongest(self, attack: str) -> Finding | None:
        """Return where an attack, of those whose names begin so, gained most."""
        of = [finding for finding in self.findings if finding.attack.startswith(attack)]
        return max(of, key=lambda finding: finding.gain.value, default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        games = [
            {
                "mechanism": str(played.game.mechanism),
                "event": str(played.game.claim),
                "of": played.game.protects,
                "delta": played.delta,
                "claim": played.claim,
                "at_least": played.bound,
                "holds": played.holds,
                "tightness": played.tightness,
                "games": played.games,
                "confidence": played.confidence,
            }
            for played in self.played
        ]
        return {
            "method": self.method,
            "holds": self.holds,
            "games": games,
            "attacks": [finding.as_dict() for finding in self.findings],
            "notes": list(self.notes),
        }


def audit(
    federation: Federation,
    method: Method | None = None,
    training: Training | None = None,
    driver: Driver | None = None,
    *,
    scope: Scope | None = None,
    watcher: Watcher | None = None,
    told: Callable[[str], None] = lambda doing: None,
) -> Audit:
    """Audit a method on a federation: play its mechanisms' games, train it, attack it.

    Parameters
    ----------
    federation, method, training
        As for ``Federation.train``.
    driver
        By default the simulator; one whose roles play in this process.
    scope
        How much is tried.
    watcher
        Who is told how training goes, and may interrupt it.
    told
        Is told what is done next.

    Raises
    ------
    ConfigurationError
        If this is no federation, or the method does not fit it.

    Examples
    --------
    ::

        found = audit(federation, cvfl(Scalar(bits=4)), Training(epochs=10))
        for finding in found.findings:
            print(finding.attack, finding.by, finding.success, "against", finding.chance)
    """
    check_kind("federation", federation, Federation)
    method, scope = method or svfl(), scope or Scope()
    training = checked_training(training).for_rows(len(federation.train_rows))
    federation.check(method)
    agreement = federation.agreement(method, training)
    notes: list[str] = []
    played = _played(agreement, scope, notes, told)
    if not scope.attacks:
        return Audit(method.name, scope, played, (), tuple(notes), None)
    _check_known(federation, scope)
    recorder = Recording(driver or Simulate(), agreement.batches)
    run = federation.train(method, training, recorder, watcher=watcher)
    if not run.summary["completed"]:
        return Audit(method.name, scope, played, (), tuple(notes), None)
    notes += _accounted(run)
    attacks = _Attacks(federation, agreement, run.models, scope, notes)
    findings: list[Finding] = []
    told("features from embeddings")
    findings += attacks.on_features()
    told("labels from derivatives")
    findings += attacks.on_labels(recorder.heard)
    told("model completion")
    findings += attacks.by_completion()
    return Audit(method.name, scope, played, tuple(findings), tuple(notes), run)


def _played(
    agreement: Agreement, scope: Scope, notes: list[str], told: Callable[[str], None]
) -> tuple[Played, ...]:
    """Play the games of the uplink and of the exchange."""
    if not scope.games:
        return ()
    method, layout = agreement.method, agreement.layout
    once = agreement.uses(1)
    claims = {
        "embeddings": method.uplink.spending(layout, once, method.stragglers),
        "labels": method.exchange.spending(layout, 1),
    }
    games = (*method.uplink.games(layout), *method.exchange.games(layout))
    tried = {game.protects for game in games}
    if not tried and not any(claims.values()):
        notes.append("embeddings travel without noise: there is no epsilon to test")
    for what, claim in claims.items():
        if claim.get("epsilon") is not None and what not in tried:
            notes.append(f"an epsilon of {what} is claimed, but no game tries it")
    if games:
        told("distinguishing games")
    source = layout.secrets_for("audit").begin("audit", incarnation=0)
    played: list[Played] = []
    for number, game in enumerate(games):
        delta = scope.delta
        if delta is None:
            delta = claims.get(game.protects, {}).get("delta", _USUAL_DELTA)
        stream = source.keystream("game", part=number)
        played += play(game, stream, tuple(dict.fromkeys((delta, NEAR))), scope.games)
    return tuple(played)


def _check_known(federation: Federation, scope: Scope) -> None:
    """Refuse an attacker who knows all but a few of the rows that it attacks."""
    rows = min(len(federation.validation_rows) + len(federation.test_rows), scope.rows)
    if rows >= _FEWEST and rows - _known(scope, rows) < _FEWEST_OTHERS:
        raise ConfigurationError(
            f"known_features is {scope.known_features}, which leaves "
            f"{rows - _known(scope, rows)} of {rows} held-out rows to attack: say "
            f"{(rows - _FEWEST_OTHERS) / rows:.2g} or less, or hold out more rows"
        )


def _known(scope: Scope, rows: int) -> int:
    """Return of how many held-out rows the label holder knows the features."""
    return max(10, int(scope.known_features * rows))


def _accounted(run: Run) -> list[str]:
    """Return what the run's own accounts say."""
    accounts = {"embeddings": "privacy_loss", "labels": "privacy_loss_of_labels"}
    told = {what: run.summary.get(key) or {} for what, key in accounts.items()}
    return [_said(what, loss) for what, loss in told.items() if "epsilon" in loss]


def _said(what: str, loss: Mapping[str, Any]) -> str:
    says = f"the run's account of {what} says"
    if loss["epsilon"] is not None:
        return (
            f"{says} epsilon {human_epsilon(loss['epsilon'])} at delta {loss['delta']:g} of the "
            "row that was used most, with all components and uses; a game tries one of each"
        )
    noisy = loss.get("epsilon_with_noise")
    if noisy is None:
        return f"{says} that nothing bounds what is known of a row, as none had noise"
    return (
        f"{says} that nothing bounds what is known of rows that were sent without noise, and "
        f"epsilon {human_epsilon(noisy)} at delta {loss['delta']:g} of the others"
    )


class _Attacks:
    """All that is tried on one run."""

    def __init__(
        self,
        federation: Federation,
        agreement: Agreement,
        models: Mapping[str, Mapping[str, nn.Module]],
        scope: Scope,
        notes: list[str],
    ) -> None:
        self._federation = federation
        self._agreement = agreement
        self._parties = federation.parties
        self._bottoms = {party.name: models[party.name]["bottom"] for party in self._parties}
        self._labels = federation.label_holder.labels
        self._scope = scope
        self._notes = notes

    def on_features(self) -> list[Finding]:
        """Attack the features of each party as the label holder, by what it sees once and often."""
        rows, random = self._held_out(), self._random(0)
        if rows is None:
            return []
        known = random.permutation(len(rows))[: _known(self._scope, len(rows))]
        knows = Known(self._anyway(rows), np.sort(known))
        found = self._reconstructed(rows, knows, 1, random)
        times = min(
            _SIGHTINGS, self._agreement.uses(self._agreement.batches.rounds)[Purpose.TRAINING]
        )
        uplink = self._agreement.method.uplink.of_new_rows()
        if times > 1 and uplink.games(self._agreement.layout):
            found += self._reconstructed(rows, knows, times, self._random(4))
        return found

    def _reconstructed(
        self, rows: Rows, knows: Known, times: int, random: np.random.Generator
    ) -> list[Finding]:
        """Reconstruct features from the mean of what is seen of a row that is sent so often."""
        sent = np.tile(rows, times)  # as so many rows, each with noise of its own
        heard = heard_of(self._agreement, self._parties, self._bottoms, sent)
        holder = self._agreement.layout.label_holder
        found = []
        for party in self._parties:
            seen = heard[party.name].reshape(times, len(rows), -1)
            if times > 1 and torch.equal(seen[0], seen[1]):
                continue  # held-out rows are sent without noise
            features = take(party.features, rows)
            finding = reconstruct(seen.mean(dim=0), features, knows, random, holder, party.name)
            if finding is not None:
                often = f", seen {times} times" if times > 1 else ""
                found.append(replace(finding, attack=finding.attack + often))
            elif times == 1:
                self._notes.append(f"{party.name} has constants alone: nothing to reconstruct")
        return found

    def on_labels(self, heard: Mapping[str, Derivatives]) -> list[Finding]:
        """Attack the labels as each party, by what it was told."""
        if not self._has_secret_labels():
            return []
        found: list[Finding] = []
        for number, party in enumerate(self._parties):
            if party.name not in heard:
                self._notes.append(f"{party.name} was sent no derivative: nothing to infer from")
                continue
            told = heard[party.name]
            epochs = {"first epoch": self._together(told.first)}
            if self._agreement.batches.rounds > self._agreement.batches.rounds_per_epoch:
                epochs["last epoch"] = self._together(told.last)
                epochs["mean of all epochs"] = told.mean()
            inferred: list[Finding] = []
            for when, noted in epochs.items():
                random = self._random(1, number)
                inferred += infer_labels(self._told(*noted, when, random), random, party.name)
            if not inferred:
                self._notes.append(
                    f"{party.name} infers no labels: of known_labels {self._scope.known_labels} "
                    "no two classes, or hardly any other row, are left; let it know fewer"
                )
            found += inferred
        return found

    def by_completion(self) -> list[Finding]:
        """Complete each party's own model, as that party."""
        rows = self._held_out(quietly=True)
        if rows is None or not self._has_secret_labels(quietly=True):
            return []
        found = []
        for number, party in enumerate(self._parties):
            random = self._random(2, number)
            train = self._sample(self._federation.train_rows, random)
            labels = self._labels.numpy()
            draws = [self._few(labels[train], random) for _ in range(_DRAWS)]
            trained, untrained = (
                (_embedded(party, bottom, train), _embedded(party, bottom, rows))
                for bottom in (self._bottoms[party.name], party.bottom)
            )
            truth = labels[train], labels[rows]
            finding = complete(trained, untrained, truth, draws, random, party.name)
            if finding is None:
                self._notes.append(f"{party.name} knows labels of one class: it completes no model")
            else:
                found.append(finding)
        return found

    def _together(self, noted: Iterable[tuple[int, torch.Tensor]]) -> tuple[Rows, torch.Tensor]:
        """Put derivatives of batches together, each as that of its own row's loss."""
        batches = self._agreement.batches
        rows = np.concatenate([batches.rows(round) for round, _ in noted])
        return rows, torch.cat([len(derivative) * derivative for _, derivative in noted])

    def _told(
        self, rows: Rows, derivatives: torch.Tensor, when: str, random: np.random.Generator
    ) -> Told:
        """Choose of rows that derivatives tell of as many as are attacked."""
        chosen = self._sample(np.arange(len(rows)), random)
        labels = self._labels.numpy()[rows[chosen]]
        told = derivatives.numpy()[chosen].astype(np.float64)
        return Told(told, labels, self._few(labels, random), when)

    def _few(self, labels: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """Return row numbers whose labels a party knows, as many of each class as there are."""
        classes = np.unique(labels)
        each = max(1, self._scope.known_labels // len(classes))
        chosen = [random.permutation(np.flatnonzero(labels == c))[:each] for c in classes]
        return np.sort(np.concatenate(chosen))

    def _anyway(self, rows: Rows) -> NDArray[np.float64]:
        """Return what the label holder has of these rows besides what it is sent."""
        labels = self._labels[torch.from_numpy(rows)].reshape(len(rows), -1)
        own = self._federation.label_holder.features
        parts = [columns_of(labels)]
        if own is not None:
            parts.append(columns_of(take(own, rows)))
        return np.concatenate(parts, axis=1)

    def _has_secret_labels(self, quietly: bool = False) -> bool:
        why = ""
        if self._agreement.method.exchange.labels == "shared":
            why = "the labels are shared with all parties: there is nothing to infer"
        elif self._labels.is_floating_point():
            why = "labels are numbers, and what is tried on labels is for classes"
        if why and not quietly:
            self._notes.append(why)
        return not why

    def _held_out(self, quietly: bool = False) -> Rows | None:
        """Return the held-out rows that are attacked; None if there are too few."""
        federation = self._federation
        rows = np.concatenate([federation.validation_rows, federation.test_rows])
        if len(rows) >= _FEWEST:
            return self._sample(rows, self._random(3))
        if not quietly:
            self._notes.append(
                f"{len(rows)} rows are held out, and attacks on embeddings take {_FEWEST} or more: "
                "hold out more rows for validation or test"
            )
        return None

    def _sample(self, rows: Rows, random: np.random.Generator) -> Rows:
        if len(rows) <= self._scope.rows:
            return rows
        return np.sort(random.choice(rows, self._scope.rows, replace=False))

    def _random(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._scope.seed, *purpose])


def _embedded(party: Party, bottom: nn.Module, rows: Rows) -> NDArray[np.float64]:
    """Return exact embeddings, which the party itself can compute."""
    learner = Learner(bottom, device=party.device)
    with torch.no_grad(), drawing_alike():  # of a model that draws in evaluation too
        parts = [
            learner(take(party.features, rows[start : start + _AT_ONCE]), training=False).cpu()
            for start in range(0, len(rows), _AT_ONCE)
        ]
    return torch.cat(parts).double().numpy()
