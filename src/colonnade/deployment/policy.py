"""What a site lets a job do: said in ``policy.yaml``, which nobody else is told and no job changes.

A job that goes beyond it is refused before any data are read, where that follows from the job; and
where it hangs on sizes that are agreed on first, before anything leaves that is made of data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pydantic
from pydantic import Field

from colonnade.config.choices import composition
from colonnade.config.parse import parse_section, read_file
from colonnade.config.registry import GROUPS, names
from colonnade.config.sections import Count, Name, Number, Section
from colonnade.deployment.job import OF_EMBEDDINGS, JobConfig, Task
from colonnade.deployment.leaving import Leaving
from colonnade.errors import ConfigurationError

__all__ = ["NO_POLICY", "PolicyConfig", "load_policy"]

COMPOSITION = "composition"

Protection = Literal["secure_sum", "differential_privacy"]


class PolicyConfig(Section):
    """What a site lets a job do."""

    tasks: list[Task] | None = Field(
        None, description="what may be done together; by default anything"
    )
    methods: list[Name] | None = Field(
        None,
        description="which methods may train, by the names that `colonnade methods` lists; "
        f"`{COMPOSITION}` for all that are composed of parts; by default any",
    )
    label_holders: list[Name] | None = Field(
        None, description="who may have the labels, where that is another; by default anybody"
    )
    label_holder_at: list[Literal["site", "server"]] = Field(
        ["site"],
        description="where the label holder's role may be played, where that is another: server "
        "lets whoever runs the server be the label holder, by whatever name a job gives it",
    )
    parties: list[Name] | None = Field(
        None, description="which other parties may take part; by default any"
    )
    labels: Literal["private", "shared"] = Field(
        "private", description="of a label holder: whether a job may send labels to every party"
    )
    embeddings: list[Protection] = Field(
        [],
        description="what must protect the parties' embeddings, all that is listed: secure_sum, "
        "nobody is shown one but in a sum with others', in a job; differential_privacy, noise "
        "bounds what they tell of a row",
    )
    kinds: list[str] | None = Field(
        None,
        description="kinds of messages that may leave this organisation, as its ledger calls "
        "them; by default any",
    )
    max_bytes: Count | None = Field(
        None,
        description="the most that may leave this organisation in a training, or in a prediction, "
        "a service or an alignment, in bytes of messages with their envelopes, as its ledger "
        "counts them; by default there is no limit",
    )
    max_epsilon: Number | None = Field(
        None,
        ge=0,
        lt=math.inf,
        description="the most that a whole run may tell of a row: of a party by its embeddings, of "
        "the label holder by derivatives of its labels; and the most that all predictions of the "
        "run together may; by default there is no limit",
    )
    max_delta: Number = Field(
        1e-5, gt=0, lt=1, description="the largest delta that this epsilon may be told at"
    )
    min_rows: Count = Field(
        5,
        description="of a label holder: of how many rows a loss or a metric must be that a job "
        "reports, at least; 1 lets it be of one row, whose label it may tell",
    )
    simulations: bool = Field(
        False,
        description="whether keys, masks and noise may come from the job's seed, which all know",
    )

    @pydantic.field_validator("methods")
    @classmethod
    def _are_known(cls, methods: list[str] | None) -> list[str] | None:
        known = [*names(GROUPS["methods"]), COMPOSITION]
        if unknown := [name for name in methods or () if name not in known]:
            raise ValueError(f"there is no method {unknown[0]!r}; there are {', '.join(known)}")
        return methods

    @property
    def compared_later(self) -> list[str]:
        """The keys that are compared with what all agree on, and not with a job alone."""
        keys = ("kinds", "max_bytes", "max_epsilon")
        said = [key for key in keys if getattr(self, key) is not None]
        said += ["min_rows"] * ("min_rows" in self.model_fields_set)
        return said + ["differential_privacy"] * ("differential_privacy" in self.embeddings)

    def check_job(self, job: JobConfig, name: str) -> None:
        """Raise ``ConfigurationError`` if a job is beyond it, as far as the job alone tells.

        Parameters
        ----------
        job
            What all are told.
        name
            The organisation whose policy this is.
        """
        others = [party for party in job.present if party != name]
        refused = [
            *_beyond("tasks", self.tasks, [job.task]),
            *_beyond("label_holders", self.label_holders, {job.label_holder.name} - {name}),
            *_beyond("label_holder_at", self.label_holder_at, _place_of_another(job, name)),
            *_beyond("parties", self.parties, others),
        ]
        if job.task in OF_EMBEDDINGS:
            refused += self._of_method(job, name)
        self._refuse(name, job, refused)

    def _of_method(self, job: JobConfig, name: str) -> list[str]:
        """Return why a job is refused by its method."""
        method, composed = job.method.build(), isinstance(job.method, composition())
        called = COMPOSITION if composed else job.method.name  # a composition takes any name
        refused = _beyond("methods", self.methods, [called])
        trains = job.task == "train"  # else neither labels leave, nor comes a secret from a seed
        if trains and name == job.label_holder.name and self.labels == "private":
            refused += _beyond("labels", ["private"], [method.exchange.labels])
        uplink = method.uplink if trains else method.uplink.of_new_rows()
        if "secure_sum" in self.embeddings and not uplink.sums_only:
            refused.append(
                f"embeddings asks for secure_sum, and by the job's method {method.name} each "
                "party's are seen by themselves"
            )
        elif "secure_sum" in self.embeddings and len({*job.present} - {job.label_holder.name}) < 2:
            refused.append("embeddings asks for secure_sum, and a sum of one party's hides nothing")
        if trains and job.training.secrets == "seed" and not self.simulations:
            refused.append(
                "simulations allows none, and the job declares one (training.secrets: seed)"
            )
        return refused

    def check_leaving(self, job: JobConfig, name: str, leaving: Leaving) -> None:
        """Raise ``ConfigurationError`` if what was agreed on is beyond it.

        Parameters
        ----------
        job, name
            As for ``check_job``.
        leaving
            What leaves the organisation by it.
        """
        refused = _beyond("kinds", self.kinds, sorted(leaving.kinds))
        if self.max_bytes is not None and (leaving.bytes or 0) > self.max_bytes:
            refused.append(
                f"max_bytes allows {self.max_bytes:,}, and by what was agreed up to "
                f"{leaving.bytes:,} would leave"
            )
        if name == job.label_holder.name:
            refused += self._of_rows(leaving.reported)
        if job.task in OF_EMBEDDINGS:
            refused += self._of_privacy(job, name, leaving)
        self._refuse(name, job, refused)

    def _of_rows(self, reported: Mapping[str, int]) -> Iterable[str]:
        """Yield why a job is refused by of how few rows it reports what."""
        for what, rows in reported.items():
            if rows < self.min_rows:
                default = "" if "min_rows" in self.model_fields_set else ", as by default,"
                yield (
                    f"min_rows{default} asks for {self.min_rows:,} or more rows, and the job's "
                    f"{what} may be of {rows:,}: let it evaluate on more, or less often"
                )

    def _refuse(self, name: str, job: JobConfig, reasons: Sequence[str]) -> None:
        if reasons:
            by = " by its policy.yaml"
            if self is NO_POLICY:
                by = ", as it has no policy.yaml that lets it run"
            told = "; ".join(reasons)
            raise ConfigurationError(f"{name!r} refuses the job {job.run!r}{by}: {told}")

    def _of_privacy(self, job: JobConfig, name: str, leaving: Leaving) -> Iterable[str]:
        """Yield why a job is refused by what it would tell."""
        private = leaving.of_embeddings.get("epsilon") is not None
        if "differential_privacy" in self.embeddings and not private:
            yield (
                "embeddings asks for differential_privacy, and nothing bounds what the job's tell "
                "of a row: let it take a method with noise, also where rows are evaluated"
            )
        if self.max_epsilon is None:
            return
        if name != job.label_holder.name:
            yield from self._of_account("embeddings", leaving.of_embeddings, self.max_epsilon)
        elif job.task == "train":  # who predicts sends nothing of labels
            yield from self._of_account("labels", leaving.of_labels, self.max_epsilon)

    def _of_account(self, what: str, spent: Mapping[str, Any], most: float) -> Iterable[str]:
        """Yield why an account is beyond what may be told."""
        epsilon = spent.get("epsilon")
        if epsilon is None:
            yield f"max_epsilon allows {most:g}, and nothing bounds that of the job's {what}"
            return
        if epsilon > most:
            yield f"max_epsilon allows {most:g}, and that of the job's {what} is {epsilon:.4g}"
        if spent["delta"] > self.max_delta:
            yield (
                f"max_delta allows {self.max_delta:g}, and the job's account of {what} is told at "
                f"{spent['delta']:g}"
            )


NO_POLICY = PolicyConfig(label_holder_at=["site", "server"], labels="shared", simulations=True)
"""That of a site that has none."""


def load_policy(path: Path | None) -> PolicyConfig:
    """Read what a site lets a job do; None is the path of who has said nothing.

    Raises
    ------
    ConfigurationError
        If the file is missing, is not YAML, or says something else.
    """
    return NO_POLICY if path is None else parse_section(PolicyConfig, read_file(path), str(path))


def _place_of_another(job: JobConfig, name: str) -> list[str]:
    """Return where the label holder's role is played, where that is another."""
    return [] if name == job.label_holder.name else [job.label_holder_at]


def _beyond(key: str, allowed: Collection[str] | None, wanted: Iterable[str]) -> list[str]:
    """Return why a job is refused that wants what a list has not; nothing if it has all of it."""
    if allowed is None or not (more := [each for each in wanted if each not in allowed]):
        return []
    return [f"{key} allows {', '.join(allowed) or 'none'}, and the job wants {', '.join(more)}"]
