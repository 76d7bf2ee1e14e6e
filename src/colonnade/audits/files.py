"""What an audit leaves in its folder: a page, and its findings as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from colonnade.audits.audit import Audit
from colonnade.audits.sheets import MEANING, attack_sheets, overview_sheets
from colonnade.faults import explained
from colonnade.outputs import PAGE, Kind, check_outputs, replacing, table
from colonnade.reports import write_sheets

__all__ = ["AUDIT_FILES", "write_audits"]

_ATTACKS = (
    *("run", "attack", "by", "of", "measure", "success", "low", "high"),
    *("chance", "against", "gain", "gain_low", "gain_high", "rows", "succeeded"),
)
_GAMES = ("run", "of", "mechanism", "delta", "claim", "at_least", "holds", "games", "confidence")

AUDIT_FILES: dict[str, Kind] = {
    "audit.html": PAGE,
    "attacks.csv": table(",".join(_ATTACKS)),
    "games.csv": table(",".join(_GAMES)),
}
"""The files that ``write_audits`` writes."""


def write_audits(audits: Mapping[str, Audit], folder: Path, command: str) -> None:
    """Write ``audit.html``, ``attacks.csv`` and ``games.csv``.

    Parameters
    ----------
    audits
        By name.
    folder
        Where; made if it is not there.
    command
        What makes them again.

    Raises
    ------
    ConfigurationError
        If the folder cannot be written to, or a file is there that Colonnade did not write.
    """
    check_outputs(folder, AUDIT_FILES)
    overview = overview_sheets(audits)
    notes = [MEANING, *(f"{name}: {note}" for name, a in audits.items() for note in a.notes)]
    attacks = [
        (
            *(name, f.attack, f.by, f.of, f.measure, f.success.value, f.success.low),
            *(f.success.high, f.chance, f.against, f.gain.value, f.gain.low, f.gain.high),
            *(f.rows, f.succeeded),
        )
        for name, audit in audits.items()
        for f in audit.findings
    ]
    games = [
        (
            *(name, p.game.protects, str(p.game.mechanism), p.delta, p.claim, p.bound, p.holds),
            *(p.games, p.confidence),
        )
        for name, audit in audits.items()
        for p in audit.played
    ]
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("attacks.csv", _csv(_ATTACKS, attacks)),
            ("games.csv", _csv(_GAMES, games)),
        ):
            with replacing(folder / name) as partial:
                partial.write_text(text, encoding="utf-8")
        write_sheets(
            folder / "audit.html",
            "What can be learned of features and labels",
            "Found by trying it.",
            [*overview, *attack_sheets(audits)],
            [],
            notes,
            command,
            first=len(overview),
            units="",
        )


def _csv(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()
