"""Disclosures: who learns what by a method, in the words that a run's summary uses.

An uplink says what it shows of embeddings, an exchange what comes back and who has the labels.
Privacy statement and warnings are derived from these and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "HELD_OUT",
    "NOT_COVERED",
    "SECRETS",
    "Disclosure",
    "privacy_statement",
    "privacy_warnings",
    "promise_warnings",
    "source_of_secrets",
]

HELD_OUT = "held-out embeddings"
"""What is disclosed of embeddings that are evaluated or predicted, where it is told apart."""

SECRETS = "secrets"
"""Where keys, masks and noise come from, where something is hidden by any."""


@dataclass(frozen=True)
class Disclosure:
    """One thing that an organisation learns of another's data, or how it is kept from it.

    Parameters
    ----------
    what
        What it is about: ``embeddings``, ``labels``, ``top model``, ...
    statement
        Who learns what of it, or that nobody does, in a few words.
    to, sees
        Where it is seen unprotected: who sees, and what, as in "every party" sees "the labels".
        Empty where it is protected.
    mechanism
        What protects it; empty for nothing.

    Examples
    --------
    >>> Disclosure("labels", "known to every party", to="every party", sees="the labels").mechanism
    ''
    """

    what: str
    statement: str
    to: str = ""
    sees: str = ""
    mechanism: str = ""


NOT_COVERED = Disclosure(
    "not covered",
    "predictions, which add to it; the trained models; what a row leaves in its party's bottom "
    "model, which shapes the embeddings of other rows",
)
"""What an account of embeddings' uses says nothing of; of labels their exchange tells."""


def source_of_secrets(simulated: bool) -> Disclosure:
    """Return where keys, masks and private noise come from, and what that means.

    Each part that hides something by them says this; of several it is told once.

    >>> source_of_secrets(simulated=True).to
    'whoever knows the seed'
    """
    if simulated:
        return Disclosure(
            SECRETS,
            "a declared simulation: keys, masks and noise come from the run's seed, so it repeats "
            "to the bit, and nothing is secret from who knows the seed",
            to="whoever knows the seed",
            sees="all that masks and noise hide",
        )
    return Disclosure(
        SECRETS,
        "keys, masks and noise come from each organisation's own source, so no other run repeats "
        "this one",
    )


def privacy_statement(disclosures: Sequence[Disclosure]) -> dict[str, str]:
    """Return what is protected by which mechanism, and what is told of each thing.

    >>> privacy_statement([Disclosure("labels", "known to every party")])
    {'mechanism': 'none', 'labels': 'known to every party'}
    """
    mechanisms = dict.fromkeys(d.mechanism for d in disclosures if d.mechanism)
    statements: dict[str, list[str]] = {}
    for disclosure in dict.fromkeys(disclosures):
        statements.setdefault(disclosure.what, []).append(disclosure.statement)
    return {"mechanism": ", ".join(mechanisms) or "none"} | {
        what: "; ".join(said) for what, said in statements.items()
    }


def privacy_warnings(disclosures: Sequence[Disclosure]) -> list[str]:
    """Return a warning that names who sees what unprotected; none where nobody does.

    >>> seen = Disclosure("labels", "known to all", to="every party", sees="the labels")
    >>> privacy_warnings([seen])
    ['no protection is on: every party sees the labels']
    """
    seen: dict[str, list[str]] = {}
    for disclosure in dict.fromkeys(disclosures):
        if disclosure.sees:
            seen.setdefault(disclosure.to, []).append(disclosure.sees)
    if not seen:
        return []
    sights = "; ".join(f"{to} sees {_listed(things)}" for to, things in seen.items())
    off = "no protection is on" if not any(d.mechanism for d in disclosures) else "not protected"
    exposed = any(d.sees and d.what == "embeddings" for d in disclosures)
    tail = "; from embeddings features can in part be reconstructed" if exposed else ""
    return [f"{off}: {sights}{tail}"]


_PROMISE = 10.0  # exp(10) is 22,000: by so much may an outcome be more likely


def promise_warnings(
    loss: Mapping[str, Any] | None, of_labels: Mapping[str, Any] | None
) -> list[str]:
    """Return that an epsilon is too large to promise anything, where it is.

    Parameters
    ----------
    loss, of_labels
        The accounts of embeddings and of labels, as a summary has them.

    Examples
    --------
    >>> promise_warnings({"epsilon": 2643.0, "delta": 1e-5}, None)[0].partition(":")[0]
    'epsilon of embeddings is 2,643 at delta 1e-05'
    >>> partly = {"epsilon": None, "epsilon_with_noise": 327.0, "delta": 1e-5}
    >>> promise_warnings(partly, None)[0].partition(":")[0]
    'epsilon of embeddings, where there was noise, is 327 at delta 1e-05'
    """
    warnings = []
    for what, told in (("embeddings", loss), ("labels", of_labels)):
        if not told:
            continue
        epsilon, where = told["epsilon"], ""
        if epsilon is None:  # something was released without noise
            epsilon, where = told.get("epsilon_with_noise"), ", where there was noise,"
        if epsilon is not None and epsilon > _PROMISE:
            warnings.append(
                f"epsilon of {what}{where} is {epsilon:,.0f} at delta {told['delta']:g}: above "
                f"about {_PROMISE:g} it is no promise in practice; more noise, fewer epochs or "
                "evaluations, or a budget make it smaller"
            )
    return warnings


def _listed(things: Sequence[str]) -> str:
    """Return things as a sentence lists them."""
    *others, last = things
    return f"{', '.join(others)} and {last}" if others else last
