"""An organisation while predictions are served: whoever is asked for is predicted by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor

from colonnade.departures import departed
from colonnade.deployment.engagement import Folders
from colonnade.deployment.folders import numbered
from colonnade.deployment.job import JobConfig
from colonnade.deployment.leaving import Leaving
from colonnade.deployment.site import SiteConfig
from colonnade.deployment.with_trained_parts import WithTrainedParts
from colonnade.drivers import RunRecord
from colonnade.errors import ConfigurationError
from colonnade.faults import explained
from colonnade.flows import Flow
from colonnade.ledger import Ledger
from colonnade.outputs import replacing
from colonnade.prediction import ROWS_TOGETHER
from colonnade.roles import ServeLabelHolder, ServeParty
from colonnade.roles.serve import request_flow
from colonnade.serving import People, State, Waiting, serving
from colonnade.telling import first_line

__all__ = ["SERVICES", "ServingTogether"]

SERVICES = "services"
"""The folder of a run that has one for each time that it was served, called by its number."""


class ServingTogether(WithTrainedParts):
    """An organisation while predictions are served.

    Parameters
    ----------
    job, site
        See ``WithTrainedParts``.
    may_leave
        Called with what a request would let leave, before it does; raises what keeps it from that.
    say
        Called with a sentence where the service can be reached.
    """

    def __init__(
        self,
        job: JobConfig,
        site: SiteConfig,
        may_leave: Callable[[Leaving], None],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(job, site)
        self._may_leave, self._say = may_leave, say
        self._waiting = Waiting()

    @property
    def flows(self) -> list[Flow]:
        """Requests, and embeddings of the rows that are asked for."""
        return [*self.rows_flows(), request_flow(self.layout, ROWS_TOGETHER)]

    @property
    def pieces(self) -> int:
        """What is asked for travels in one."""
        return 1

    @property
    def leaving(self) -> Leaving:
        """See ``Engagement``: nobody knows how much, as nobody knows how much will be asked."""
        known = super().leaving
        return Leaving(known.kinds, None, known.of_embeddings)

    @contextmanager
    def folders(self) -> Iterator[Folders]:
        """See ``Engagement``: what leaves is on disk; the label holder serves meanwhile."""
        own = numbered(self.folder.path / SERVICES)
        with ExitStack() as stack:
            stack.callback(self._write_ledger, own)
            if self.part.is_label_holder:
                stack.enter_context(self._served())
            yield Folders(departures=own, forgets=True)

    noted_in = None  # but in its folder, as ``folders`` says

    def cast(self) -> ServeParty | ServeLabelHolder:
        """See ``Engagement``."""
        layout, uplink = self.layout, self.uplink
        if not self.part.is_label_holder:
            return ServeParty(layout, self.owned(), uplink, ROWS_TOGETHER, self._release)
        top, own, fusion = self.judging()
        return ServeLabelHolder(layout, top, own, uplink, fusion, self._waiting, self._release)

    def conclude(self, role: Any, ledger: Ledger, record: RunRecord | None) -> None:
        """See ``Engagement``: what left is in its folder already."""

    @cached_property
    def _discloses(self) -> bool:
        """Whether the uplink keeps an account of what a request tells of rows."""
        return bool(self.uplink.spending_of_predictions(self.layout, {len(self.layout.parties): 1}))

    def _release(self) -> None:
        """Count a request, where it discloses something of rows, and compare it with the policy."""
        if self._discloses:
            self.count_one()
            self._may_leave(self.leaving)

    def _write_ledger(self, folder: Path) -> None:
        """Write down all that has left, which was noted as it did."""
        ledger, file = Ledger(), folder / "ledger.csv"
        ledger.extend(departed(folder, self.name))
        with explained(file), replacing(file) as partial:
            ledger.write_csv(partial)

    @contextmanager
    def _served(self) -> Iterator[None]:
        config = self.site.serve
        if config is None:
            raise ConfigurationError(
                f"{self.name!r} does not say where predictions are served: say serve: {{}} in its "
                "site.yaml, for http://127.0.0.1:8008"
            )
        answers = _AnswersOfAll(self.job, self.part.people.ids, self.part.classes, self._waiting)
        with serving(answers, config) as service:
            self._say(f"predictions are served at {service.url}, to who shows {service.token}")
            for note in config.notes:
                self._say(note)
            why = "the service has ended"
            try:
                yield
            except BaseException as error:
                why = f"the service has ended: {first_line(error)}"
                raise
            finally:
                self._waiting.end(why)


class _AnswersOfAll:
    """Answers by everybody's parts, which are where they belong; see ``Answers``."""

    def __init__(
        self, job: JobConfig, ids: pl.Series, classes: Sequence[Any] | None, waiting: Waiting
    ) -> None:
        self.run, self.threshold = job.run, job.objective.threshold
        self.people, self.classes = People(ids, job.rows.form()), classes
        self._waiting = waiting

    @property
    def state(self) -> State:
        return self._waiting.state

    def ask(self, rows: NDArray[np.int64]) -> Future[Tensor]:
        return self._waiting.ask(rows)
