"""How good predictions are: pure functions of scores and targets.

Scores of a classifier are logits, shape ``[N, C]``. With two classes a single logit a row, shape
``[N]`` or ``[N, 1]``, will do: s stands for the pair (0, s), as in the logistic model. Targets are
classes 0 ... C - 1, shape ``[N]``. Where logits are equal, the lower class counts as the higher
ranked, so no result depends on the order in which a machine compares.

Scores of a diverged model are not finite. It is no mistake of the caller, and comparisons must
live through it: every metric is then nan, which ``Metric.better`` never prefers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from colonnade.annotated import check_kind
from colonnade.errors import ColonnadeError, ConfigurationError, DataError, Unmeasurable
from colonnade.telling import first_line, shown

__all__ = [
    "ACCURACY",
    "AUC",
    "F1",
    "LARGEST",
    "LOG_LOSS",
    "MACRO_F1",
    "RMSE",
    "Metric",
    "accuracy",
    "at_threshold",
    "auc",
    "checked_metrics",
    "f1",
    "log_loss",
    "macro_f1",
    "rmse",
    "top_k",
    "top_k_accuracy",
    "usual_metrics",
]

LARGEST = 1e300
"""Of values beyond it no differences can be told, nor pictures made."""


@dataclass(frozen=True)
class Metric:
    """A function of scores and targets, with its name and its direction.

    Parameters
    ----------
    name
        What reports and configurations call it.
    greater_is_better
        Whether a better model has the greater value.
    function
        ``(scores, targets) -> value``.

    Raises
    ------
    ConfigurationError
        If its name is no text that can be printed, or its direction neither True nor False.

    Examples
    --------
    >>> ACCURACY(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0]))
    0.5
    >>> LOG_LOSS.better(0.2, 0.3)
    True
    """

    name: str
    greater_is_better: bool
    function: Callable[[Tensor, Tensor], float] = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ConfigurationError(
                f"a metric cannot be called {name!a}: reports have it as text that can be printed"
            )
        check_kind(f"greater_is_better of {name!r}", self.greater_is_better, bool)

    def __call__(self, scores: Tensor, targets: Tensor) -> float:
        """Return the value for these scores and targets, of which the function is given copies.

        One beyond ``LARGEST`` is infinite.

        Raises
        ------
        Unmeasurable
            If the function takes no such labels, returns no number, or raises what is not
            Colonnade's own.
        """
        try:
            value = self.function(scores.clone(), targets.clone())
        except ConfigurationError as error:
            raise Unmeasurable(str(error)) from error
        except ColonnadeError:  # which says itself what is wrong
            raise
        except Exception as error:  # a user's function may raise anything
            raise Unmeasurable(
                f"the metric {self.name!r} cannot be computed of {len(scores)} rows: "
                f"{first_line(error)}; let it return nan where it is not defined, as for equal "
                "scores"
            ) from error
        try:
            number = float(value)
        except Exception as error:  # whatever a class of somebody else does
            holds = " that a float holds" if isinstance(error, OverflowError) else ""
            raise Unmeasurable(
                f"the metric {self.name!r} must return a number{holds}, but returned {shown(value)}"
            ) from None
        return math.copysign(math.inf, number) if abs(number) > LARGEST else number

    def better(self, value: float, than: float) -> bool:
        """Return whether ``value`` is better ``than`` another; nan is the worst there is."""
        if math.isnan(value) or math.isnan(than):
            return math.isnan(than) and not math.isnan(value)
        return value > than if self.greater_is_better else value < than


def accuracy(scores: Tensor, targets: Tensor) -> float:
    """Return the share of rows whose highest logit is that of their class.

    Raises
    ------
    DataError
        If shapes do not fit, there is no row, or a target is no class.

    Examples
    --------
    >>> accuracy(torch.tensor([-1.0, 2.0, 3.0, 4.0]), torch.tensor([0, 1, 1, 0]))
    0.75
    """
    return top_k_accuracy(scores, targets, k=1)


def top_k_accuracy(scores: Tensor, targets: Tensor, k: int) -> float:
    """Return the share of rows whose class is among those of the ``k`` highest logits.

    Raises
    ------
    ConfigurationError
        If ``k`` is below 1 or more than there are classes.
    DataError
        If shapes do not fit, there is no row, or a target is no class.

    Examples
    --------
    >>> scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    >>> top_k_accuracy(scores, torch.tensor([1, 2]), k=2)
    0.5
    """
    logits, targets = _checked(scores, targets)
    if not 1 <= k <= logits.shape[1]:
        raise ConfigurationError(f"k must be 1 to {logits.shape[1]}, the classes, not {k}")
    if _diverged(logits):
        return math.nan
    own = logits.gather(1, targets[:, None])
    before = torch.arange(logits.shape[1]) < targets[:, None]
    rank = ((logits > own) | ((logits == own) & before)).sum(1)
    return int((rank < k).sum()) / len(logits)


def log_loss(scores: Tensor, targets: Tensor) -> float:
    """Return the mean negative log-likelihood of the targets, in nats.

    ``mean_i (log sum_c exp(s_ic) - s_i,target(i))``

    Raises
    ------
    DataError
        If shapes do not fit, there is no row, or a target is no class.

    Examples
    --------
    >>> round(log_loss(torch.zeros(3, 10), torch.tensor([0, 5, 9])), 6)  # log 10
    2.302585
    """
    logits, targets = _checked(scores, targets)
    if _diverged(logits):
        return math.nan
    return float(torch.nn.functional.cross_entropy(logits, targets))


def macro_f1(scores: Tensor, targets: Tensor) -> float:
    """Return the unweighted mean over classes of F1 = 2 TP / (2 TP + FP + FN).

    The mean is over the classes that occur in targets or predictions: F1 of another is 0 / 0.

    Raises
    ------
    DataError
        If shapes do not fit, there is no row, or a target is no class.

    Examples
    --------
    >>> scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> round(macro_f1(scores, torch.tensor([0, 0, 1, 1])), 6)  # (4/5 + 2/3) / 2
    0.733333
    """
    logits, targets = _checked(scores, targets)
    if _diverged(logits):
        return math.nan
    predicted = logits.argmax(1)
    hits = _per_class(targets[predicted == targets], logits)
    claims = _per_class(targets, logits) + _per_class(predicted, logits)  # 2 TP + FP + FN
    occurs = claims > 0
    return float((2 * hits[occurs] / claims[occurs]).mean())


def f1(scores: Tensor, targets: Tensor) -> float:
    """Return F1 = 2 TP / (2 TP + FP + FN) of class 1; over more than two classes, the macro mean.

    Where neither targets nor predictions are of class 1, nothing was missed and F1 is 1.

    Raises
    ------
    DataError
        If shapes do not fit, there is no row, or a target is no class.

    Examples
    --------
    >>> scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> round(f1(scores, torch.tensor([0, 0, 1, 1])), 6)  # 2 / (2 + 0 + 1)
    0.666667
    """
    logits, targets = _checked(scores, targets)
    if logits.shape[1] != 2:
        return macro_f1(scores, targets)
    if _diverged(logits):
        return math.nan
    predicted = logits.argmax(1)
    claims = int(predicted.sum()) + int(targets.sum())
    return 2 * int((predicted & targets).sum()) / claims if claims else 1.0


def at_threshold(metric: Metric, threshold: float) -> Metric:
    """Return ``metric`` of two classes, class 1 predicted where its probability is above this.

    The logit of class 0 is raised by log(threshold / (1 - threshold)), so that the higher logit is
    the decision.

    Raises
    ------
    ConfigurationError
        If ``threshold`` is not between 0 and 1.

    Examples
    --------
    >>> scores, targets = torch.tensor([0.0, 2.0]), torch.tensor([0, 1])
    >>> at_threshold(ACCURACY, 0.4)(scores, targets), at_threshold(ACCURACY, 0.6)(scores, targets)
    (0.5, 1.0)
    """
    if not (isinstance(threshold, int | float) and 0 < threshold < 1):
        raise ConfigurationError(f"a threshold is a probability between 0 and 1, not {threshold!r}")
    odds = math.log(threshold / (1 - threshold))

    def function(scores: Tensor, targets: Tensor) -> float:
        logits, targets = _checked(scores, targets)
        if logits.shape[1] != 2:
            raise ConfigurationError(
                f"a threshold decides between two classes, and there are {logits.shape[1]}"
            )
        return metric(logits + torch.tensor([odds, 0.0], dtype=logits.dtype), targets)

    return Metric(metric.name, metric.greater_is_better, function)


def auc(scores: Tensor, targets: Tensor) -> float:
    """Return the area under the ROC curve; over several classes, the mean of one against the rest.

    The area is the chance that a row of the class has a higher probability of it than a row of
    another class; a tie counts half.

    Raises
    ------
    DataError
        If a class has no row, or all rows: the area is not defined then. If shapes do not fit,
        there is no row, or a target is no class.

    Examples
    --------
    >>> auc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    0.75
    """
    logits, targets = _checked(scores, targets)
    classes = logits.shape[1]
    missing = (_per_class(targets, logits) == 0).nonzero().flatten().tolist()
    if missing:
        raise DataError(
            f"AUC is not defined: no row among {len(targets)} is of class "
            f"{', '.join(map(str, missing))}; evaluate on more rows, or by another metric"
        )
    if _diverged(logits):
        return math.nan
    if classes == 2:
        # The log odds, which order rows as the probability does but never round to 1.
        ranked = {1: logits[:, 1] - logits[:, 0]}
    else:
        ranked = dict(enumerate(logits.softmax(1).unbind(1)))
    # To import it takes longer than all of this module's others; most organisations need it never.
    from sklearn.metrics import roc_auc_score

    areas = [
        float(roc_auc_score((targets == c).numpy(), values.numpy())) for c, values in ranked.items()
    ]
    return math.fsum(areas) / len(areas)


def rmse(scores: Tensor, targets: Tensor) -> float:
    """Return the root of the mean squared error, in the unit of the targets.

    Parameters
    ----------
    scores
        Predicted values, shape ``[N]`` or ``[N, 1]``.
    targets
        True values, the same number of them, shape ``[N]`` or ``[N, 1]``.

    Raises
    ------
    DataError
        If shapes do not fit or there is no row.

    Examples
    --------
    >>> rmse(torch.tensor([[1.0], [5.0]]), torch.tensor([1.0, 2.0]))  # sqrt(9 / 2)
    2.1213203435596424
    """
    rows = targets.numel()
    for what, values in (("scores", scores), ("targets", targets)):
        if rows == 0 or values.shape not in ((rows,), (rows, 1)):
            raise DataError(
                "RMSE needs scores and targets of one value a row, [N] or [N, 1], N at least 1; "
                f"{what} have the shape {list(values.shape)}"
            )
    errors = scores.detach().cpu().double().flatten() - targets.detach().cpu().double().flatten()
    if _diverged(errors):
        return math.nan
    return math.sqrt(float(errors.square().mean()))


def top_k(k: int) -> Metric:
    """Return the metric ``top_k_accuracy`` with this ``k``, called e.g. ``top_5_accuracy``.

    Raises
    ------
    ConfigurationError
        If ``k`` is below 1.

    Examples
    --------
    >>> top_k(5)
    Metric(name='top_5_accuracy', greater_is_better=True)
    """
    if k < 1:
        raise ConfigurationError(f"k must be at least 1, not {k}")
    return Metric(f"top_{k}_accuracy", True, partial(top_k_accuracy, k=k))


ACCURACY = Metric("accuracy", True, accuracy)
LOG_LOSS = Metric("log_loss", False, log_loss)
MACRO_F1 = Metric("macro_f1", True, macro_f1)
F1 = Metric("f1", True, f1)
AUC = Metric("auc", True, auc)
RMSE = Metric("rmse", False, rmse)

_KNOWN = {
    "ACCURACY": ACCURACY,
    "LOG_LOSS": LOG_LOSS,
    "MACRO_F1": MACRO_F1,
    "F1": F1,
    "AUC": AUC,
    "RMSE": RMSE,
}


def checked_metrics(given: Any) -> tuple[Metric, ...]:
    """Return the metrics that somebody asked for; none for None.

    Raises
    ------
    ConfigurationError
        If they are no list, one is no ``Metric``, or two have one name.

    Examples
    --------
    >>> checked_metrics([ACCURACY, accuracy])
    Traceback (most recent call last):
    ...
    colonnade.errors.ConfigurationError: the function 'accuracy' is no metric: say \
colonnade.metrics.ACCURACY
    """
    if given is None:
        return ()
    if isinstance(given, Metric) or not isinstance(given, Sequence | Callable):
        raise ConfigurationError(f"metrics must be a list of metrics, not {given!r}")
    for each in given if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
        if not isinstance(each, Metric):
            name = getattr(each, "__name__", None)
            found = repr(each) if name is None else f"the {_sort(each)} {name!r}"
            raise ConfigurationError(f"{found} is no metric: {_instead(each)}")
    names = [each.name for each in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f"two metrics are called {twice[0]!r}, by which reports tell them: give each a name of "
            "its own"
        )
    return tuple(given)


def _sort(given: Any) -> str:
    return "class" if isinstance(given, type) else "function"


def _instead(given: Any) -> str:
    """Return what may have been meant by what is no metric."""
    for name, metric in _KNOWN.items():
        if given is metric.function or (isinstance(given, str) and given == metric.name):
            return f"say colonnade.metrics.{name}"
    if given is top_k or given is top_k_accuracy:
        return "say colonnade.metrics.top_k(5), or another number"
    return (
        "give what colonnade.metrics has, such as ACCURACY, or "
        "Metric(name, greater_is_better, function)"
    )


def _checked(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return float64 logits ``[N, C]``, C at least 2, and targets, both on the CPU."""
    logits = scores.detach().cpu().double()  # in this order: not every device has float64
    if logits.ndim == 1:
        logits = logits[:, None]
    if logits.ndim == 2 and logits.shape[1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
    if logits.ndim != 2 or logits.shape[1] < 2 or len(logits) == 0:
        raise DataError(
            f"scores must have the shape [N, C], or [N] for two classes, N at least 1; "
            f"found {list(scores.shape)}"
        )
    if targets.dtype != torch.int64 or targets.shape != logits.shape[:1]:
        raise DataError(
            f"targets must be int64 of shape [{len(logits)}], one for each row of scores; "
            f"found {str(targets.dtype).removeprefix('torch.')} of shape {list(targets.shape)}"
        )
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= logits.shape[1]:
        raise DataError(
            f"targets are {low} to {high}, but scores are for the classes "
            f"0 to {logits.shape[1] - 1}"
        )
    return logits, targets.cpu()


def _diverged(values: Tensor) -> bool:
    return not bool(values.isfinite().all())


def _per_class(classes: Tensor, logits: Tensor) -> Tensor:
    return torch.bincount(classes, minlength=logits.shape[1]).double()


def usual_metrics(labels: Tensor) -> tuple[Metric, ...]:
    """Return what is reported where nothing else is asked for: of classes, or of numbers.

    >>> [metric.name for metric in usual_metrics(torch.tensor([0, 1]))]
    ['accuracy', 'log_loss']
    """
    return (RMSE,) if labels.is_floating_point() else (ACCURACY, LOG_LOSS)
