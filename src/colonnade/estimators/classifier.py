"""Classes over columns that several organisations hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from colonnade import defaults
from colonnade.annotated import is_number
from colonnade.assembly import Layers
from colonnade.drivers import Driver
from colonnade.errors import ConfigurationError
from colonnade.estimators.estimator import VerticalEstimator
from colonnade.estimators.scalars import plain
from colonnade.methods import Method
from colonnade.metrics import Metric, checked_metrics
from colonnade.models import OptimiserFactory, SchedulerFactory
from colonnade.objectives import Classification, Objective
from colonnade.tables import IdForm
from colonnade.tables.labels import encode_labels
from colonnade.tables.new_rows import Absent

__all__ = ["VerticalClassifier"]


class VerticalClassifier(ClassifierMixin, VerticalEstimator):  # type: ignore[misc]
    """A classifier over columns that several organisations hold.

    Every party gets a multi-layer perceptron over its own columns, the label holder a top model
    over their embeddings; they are trained by ``method``, in the simulator unless another driver is
    given. A share of the rows is set aside, training ends when the loss on them no longer improves,
    and the best model is kept. How the defaults were chosen, and what they are worth, is in
    ``docs/defaults.md``.

    Parameters
    ----------
    parties
        Where ``fit`` gets one table: whose the columns are, a dict from name to columns.
    id
        The column that says whom a row is about, in every table. Without it tables must be of
        pandas and share an index that has a name or is no whole numbers, or be ``aligned``.
    aligned
        Whether row i is the same person in every table and in the labels, whatever an index says;
        also where rows are predicted.
    normalise
        The form in which ids are compared, where different hands have written them; see
        ``IdForm``.
    method
        A value from ``colonnade.methods``; vanilla split learning by default.
    hidden
        Widths of each bottom model's layers, of which the last is that of the embedding; a number
        is the width of one layer.
    top
        Widths of the top model's layers before its outputs, or a module. With ``()`` it adds what
        the companies contribute, and learns nothing that lies between them.
    activation
        identity, relu, sigmoid, tanh or gelu.
    dropout
        Probability that a component is dropped between layers.
    bottoms
        Bottom models of parties that differ: modules, or ``Layers``.
    transformers
        How tables become features: a scikit-learn transformer, or one for each party;
        ``TableTransformer()`` by default. Where a message says to name a column in ``categorical``
        or ``ignore``, it is ``{"shop": TableTransformer(categorical=["zip"])}``.
    learning_rate
        Of Adam, above 0, where no other optimiser is given.
    optimiser, scheduler
        Make the optimiser of some parameters, and the scheduler of an optimiser.
    batch_size
        Rows in a batch; "auto" for 16 to 512, by the number of training rows.
    epochs
        Passes over the training rows at most; "auto" for about 3000 rounds, in 15 to 100 epochs.
    validation
        The share of rows that is set aside; 0 for none, and no early stopping.
    patience
        Epochs without improvement of the loss on those rows after which training ends; None trains
        all of them.
    class_weight
        None, "balanced", or the weight of each class by its label.
    threshold
        With two classes: the probability from which the second is predicted.
    metrics
        What is reported, the deciding one first; AUC (two classes) or accuracy by default.
    label_holder
        Who has the labels. A party that does holds its columns itself. By default the party whose
        table had the column of labels, else an organisation of its own.
    driver
        What runs the organisations' roles.
    device
        Where models compute, as torch names it.
    out
        The run's folder, which must be new; None keeps everything in memory.
    verbose
        Whether to show a progress bar.
    random_state
        Decides everything random: the same twice gives the same bits, but where real time decides
        the course, as of ``celu``, and where noise comes from secrets, as of ``pbm_vfl``.

    Attributes
    ----------
    classes_
        The labels, sorted.
    batch_size_
        Rows in a batch.
    run_
        The training run: summary, history, ledger, models.
    n_iter_
        How many epochs were trained.
    best_epoch_
        After which of them the model was best on the validation rows; None without such rows.
    data_
        How tables become features: the fitted transformers, the columns, the classes. The tables
        themselves are not kept: ``joblib.dump`` of a fitted estimator holds no row, id or label.

    Examples
    --------
    >>> import polars as pl
    >>> people = range(300)
    >>> bank = pl.DataFrame({"income": [i * 37 % 100 for i in people]})
    >>> shop = pl.DataFrame({"spent": [i * 59 % 101 for i in people]})
    >>> bought = ["yes" if i * 37 % 100 + i * 59 % 101 > 100 else "no" for i in people]
    >>> model = VerticalClassifier(aligned=True, epochs=30, learning_rate=0.01, batch_size=32)
    >>> model.fit({"bank": bank, "shop": shop}, bought)
    VerticalClassifier(aligned=True, batch_size=32, epochs=30, learning_rate=0.01)
    >>> model.score({"bank": bank, "shop": shop}, bought) > 0.9
    True
    """

    _task = "classification"

    def __init__(
        self,
        *,
        parties: Mapping[str, Sequence[str]] | None = None,
        id: str | None = None,
        aligned: bool = False,
        normalise: IdForm | None = None,
        method: Method | None = None,
        hidden: Sequence[int] = defaults.HIDDEN,
        top: Sequence[int] | nn.Module = defaults.TOP,
        activation: str = defaults.ACTIVATION,
        dropout: float = 0.0,
        bottoms: Mapping[str, nn.Module | Layers] | None = None,
        transformers: Any = None,
        learning_rate: float = defaults.LEARNING_RATE,
        optimiser: OptimiserFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        batch_size: int | Literal["auto"] = "auto",
        epochs: int | Literal["auto"] = "auto",
        validation: float = defaults.VALIDATION,
        patience: int | None = defaults.PATIENCE,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        threshold: float | None = None,
        metrics: Sequence[Metric] = (),
        label_holder: str | None = None,
        driver: Driver | None = None,
        device: str = "cpu",
        out: str | Path | None = None,
        verbose: bool = False,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            parties=parties,
            id=id,
            aligned=aligned,
            normalise=normalise,
            method=method,
            hidden=hidden,
            top=top,
            activation=activation,
            dropout=dropout,
            bottoms=bottoms,
            transformers=transformers,
            learning_rate=learning_rate,
            optimiser=optimiser,
            scheduler=scheduler,
            batch_size=batch_size,
            epochs=epochs,
            validation=validation,
            patience=patience,
            metrics=metrics,
            label_holder=label_holder,
            driver=driver,
            device=device,
            out=out,
            verbose=verbose,
            random_state=random_state,
        )
        self.class_weight = class_weight
        self.threshold = threshold

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted; the columns of ``predict_proba``."""
        check_is_fitted(self, "data_")
        given = self.data_.classes or ()
        names = np.array(given)
        # numpy's text ends before a NUL
        return names if names.tolist() == list(given) else np.array(given, dtype=object)

    def predict(self, X: Any, *, absent: Absent = "error") -> Any:  # noqa: N803
        """Return the predicted label of each row, in the order of the first table in ``X``.

        With ``absent="drop"`` people of whom some table has no row are left out, and a frame says
        whose the others are: the ids, and ``predicted``. A column of ids that is called as another
        column has `` (id)`` behind its name.
        """
        prediction = self.prediction(X, absent=absent)
        predicted = self.classes_[prediction.classes(plain(self.threshold)).numpy()]
        return predicted if absent == "error" else prediction.by_id({"predicted": predicted})

    def predict_proba(self, X: Any, *, absent: Absent = "error") -> Any:  # noqa: N803
        """Return the probability of each class, ``[rows, classes]``, rows as in ``predict``.

        With ``absent="drop"`` it is a frame: the ids, and a column for each class. A column of ids
        that is called as a class has `` (id)`` behind its name.
        """
        prediction = self.prediction(X, absent=absent)
        found = prediction.probabilities().numpy()
        if absent == "error":
            return found
        return prediction.by_id(dict(zip(map(str, self.classes_), found.T, strict=True)))

    def score(self, X: Any, y: Any, *, absent: Absent = "error") -> float:  # noqa: N803
        """Return the accuracy on new rows.

        Parameters
        ----------
        X, y
            As for ``fit``. Labels with ids are matched by these, in whatever order they are; labels
            without are one for each row, in the tables' common order.
        absent
            As for ``prediction``; those left out do not count.
        """
        prediction, targets = self._compared(X, y, absent)
        return float((prediction.classes(plain(self.threshold)).numpy() == targets).mean())

    def _targets(self, labels: pl.Series) -> NDArray[Any]:
        return encode_labels(labels, classes=self.data_.classes).values.numpy()

    def _objective(self, classes: tuple[Any, ...] | None) -> Objective:
        assert classes is not None
        weights: Any = self.class_weight
        if isinstance(weights, Mapping):
            absent = [label for label in classes if label not in weights]
            if absent:
                raise ConfigurationError(f"class_weight has no weight for {absent[0]!r}")
            given = (weights[label] for label in classes)
            weights = tuple(float(each) if is_number(each) else each for each in given)
        threshold = plain(self.threshold)
        return Classification(len(classes), weights, threshold, checked_metrics(self.metrics))
