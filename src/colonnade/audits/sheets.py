"""What audits found, in tables and in words."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.audits.audit import Audit
from colonnade.audits.finding import Finding
from colonnade.privacy import Played
from colonnade.reports import Sheet

__all__ = ["MEANING", "attack_sheets", "overview_sheets"]

MEANING = (
    "An attack that fails proves nothing: a better one, or more knowledge, may succeed. One that "
    "succeeds is a lower bound on what is disclosed. Intervals are of 95 %, over rows; they do not "
    "cover another training. Only a claim that holds by proof, epsilon, is a guarantee, of what "
    "docs/privacy.md says it covers; a game can refute it and never prove it."
)

_KINDS = (
    "features from embeddings",
    "norm of derivatives",
    "direction of derivatives",
    "groups of directions",
    "model completion",
)


def overview_sheets(audits: Mapping[str, Audit]) -> list[Sheet]:
    """Return the strongest of each attack, of several audits side by side, and how games went."""
    return [sheet for sheet in (_strongest(audits), _games(audits)) if sheet.rows]


def attack_sheets(audits: Mapping[str, Audit]) -> list[Sheet]:
    """Return what every attack of each audit achieved."""
    sheets = [_attacks(name, audit) for name, audit in audits.items()]
    return [sheet for sheet in sheets if sheet.rows]


def _games(audits: Mapping[str, Audit]) -> Sheet:
    several = len(audits) > 1
    rows = [
        (
            *([name] if several else []),
            played.game.protects,
            str(played.game.mechanism),
            f"{played.delta:g}",
            f"{played.claim:.3f}",
            f"{played.bound:.3f}",
            _verdict(played),
        )
        for name, audit in audits.items()
        for played in audit.played
    ]
    head = ("of", "mechanism", "delta", "claimed", "at least", "claim")
    return Sheet(
        "Is the mechanism as private as claimed? One component, one use, values at the extremes",
        ("method", *head) if several else head,
        rows,
        text=(0, 1, 2, 6) if several else (0, 1, 5),
        wrap=(2,) if several else (1,),
        note="epsilon: what is claimed, and what the games prove (confidence 95 % for a game's "
        "deltas together)",
    )


def _verdict(played: Played) -> str:
    if not played.holds:
        return "BROKEN"
    return "not refuted" if played.bound else "not refuted: nothing seen"


def _strongest(audits: Mapping[str, Audit]) -> Sheet:
    rows = []
    for kind in _KINDS:
        found = {name: audit.strongest(kind) for name, audit in audits.items()}
        known = [finding for finding in found.values() if finding is not None]
        if known:
            cells = [_cell(finding) for finding in found.values()]
            rows.append((kind, known[0].measure, *cells))
    return Sheet(
        "The strongest of each attack: success / chance",
        ("attack", "measure", *audits),
        rows,
        text=(0, 1),
        note="* above chance by more than chance explains, before taking the strongest of several",
    )


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return "-"
    mark = "*" if finding.succeeded else ""
    return f"{finding.success.value:.3f} / {finding.chance:.3f}{mark}"


def _attacks(name: str, audit: Audit) -> Sheet:
    rows = [
        (
            finding.attack,
            finding.by if finding.of == "labels" else finding.of,
            finding.measure,
            _short(finding),
            f"{finding.chance:.2f}",
        )
        for finding in audit.findings
    ]
    return Sheet(
        f"{name}: what attacks achieve",
        ("attack", "party", "measure", "success", "chance"),
        rows,
        text=(0, 1, 2),
        wrap=(0,),
        note="by the label holder on a party's features, by a party on labels. * above chance",
    )


def _short(finding: Finding) -> str:
    found, mark = finding.success, "*" if finding.succeeded else ""
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f}){mark}"
