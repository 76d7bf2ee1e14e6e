"""Metrics: exact in cases small enough for the hand, equal to scikit-learn's elsewhere."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import sklearn.metrics
import torch
from torch import Tensor

from colonnade.errors import ConfigurationError, DataError
from colonnade.metrics import (
    ACCURACY,
    AUC,
    LOG_LOSS,
    MACRO_F1,
    RMSE,
    Metric,
    accuracy,
    auc,
    log_loss,
    macro_f1,
    rmse,
    top_k,
    top_k_accuracy,
)

CLASSIFIERS = [ACCURACY, LOG_LOSS, MACRO_F1, AUC, top_k(1)]


def named(metric: Metric) -> str:
    return metric.name


@pytest.fixture(params=[2, 3, 7])
def sample(request: pytest.FixtureRequest) -> tuple[Tensor, Tensor]:
    classes: int = request.param
    generator = torch.Generator().manual_seed(classes)
    scores = torch.randn(200, classes, generator=generator)
    targets = torch.randint(classes, (200,), generator=generator)
    return scores, targets


def test_as_scikit_learn_has_it(sample: tuple[Tensor, Tensor]) -> None:
    scores, targets = sample
    truth = targets.numpy()
    probabilities = scores.double().softmax(1).numpy()
    predicted = scores.argmax(1).numpy()
    binary = scores.shape[1] == 2
    assert accuracy(scores, targets) == sklearn.metrics.accuracy_score(truth, predicted)
    assert log_loss(scores, targets) == pytest.approx(
        sklearn.metrics.log_loss(truth, probabilities), rel=1e-12
    )
    assert macro_f1(scores, targets) == pytest.approx(
        sklearn.metrics.f1_score(truth, predicted, average="macro"), rel=1e-12
    )
    assert auc(scores, targets) == pytest.approx(
        sklearn.metrics.roc_auc_score(
            truth, probabilities[:, 1] if binary else probabilities, multi_class="ovr"
        ),
        rel=1e-12,
    )
    if not binary:
        assert top_k_accuracy(scores, targets, 2) == sklearn.metrics.top_k_accuracy_score(
            truth, probabilities, k=2
        )


@pytest.mark.parametrize("metric", CLASSIFIERS, ids=named)
def test_one_logit_is_a_pair_with_zero(metric: Metric) -> None:
    one = torch.tensor([-2.0, 0.5, 3.0, -0.1, 0.0])
    targets = torch.tensor([0, 1, 0, 1, 1])
    pair = torch.stack([torch.zeros(5), one], dim=1)
    assert metric(one, targets) == metric(pair, targets)
    assert metric(one[:, None], targets) == metric(pair, targets)


@pytest.mark.parametrize("metric", CLASSIFIERS, ids=named)
def test_adding_to_all_logits_of_a_row_changes_nothing(metric: Metric) -> None:
    scores = torch.tensor([[1.0, 2.0, 4.0], [0.0, -1.0, 2.0], [3.0, 1.0, 2.0]])
    targets = torch.tensor([2, 1, 0])
    shift = torch.tensor([[1.0], [-8.0], [64.0]])
    assert metric(scores + shift, targets) == pytest.approx(metric(scores, targets), rel=1e-12)


def test_accuracy_by_hand() -> None:
    scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert accuracy(scores, torch.tensor([0, 1, 2, 0])) == 0.5


def test_equal_logits_favour_the_lower_class() -> None:
    scores = torch.zeros(4, 4)
    targets = torch.arange(4)
    assert [top_k_accuracy(scores, targets, k) for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1.0]
    assert accuracy(scores, targets) == 0.25
    # All are called class 0: F1 is 2 / (2 + 3) for it and 0 for the three others.
    assert macro_f1(scores, targets) == pytest.approx(2 / 5 / 4)


def test_log_loss_by_hand() -> None:
    scores = torch.tensor([[0.0, math.log(3)], [0.0, math.log(3)]])  # probabilities 1/4, 3/4
    expected = -(math.log(1 / 4) + math.log(3 / 4)) / 2
    assert log_loss(scores, torch.tensor([0, 1])) == pytest.approx(expected, rel=1e-6)


def test_log_loss_of_sure_errors_stays_finite() -> None:
    assert log_loss(torch.tensor([[1e4, 0.0]]), torch.tensor([1])) == 1e4


def test_macro_f1_leaves_out_classes_that_do_not_occur() -> None:
    scores = torch.eye(5)[[0, 0, 1, 1]]
    # Class 0: 2 / (2 + 1), class 1: 2 / (2 + 1 + 1), class 2: 0; classes 3 and 4 nowhere.
    found = macro_f1(scores, torch.tensor([0, 1, 1, 2]))
    assert found == pytest.approx((2 / 3 + 2 / 4 + 0) / 3)


def test_auc_counts_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(6, (40,), generator=generator).float()  # with many ties
    targets = torch.randint(2, (40,), generator=generator)
    ones, zeros = scores[targets == 1], scores[targets == 0]
    wins = (ones[:, None] > zeros).double() + 0.5 * (ones[:, None] == zeros).double()
    assert auc(scores, targets) == pytest.approx(float(wins.mean()), rel=1e-12)


def test_auc_tells_very_sure_scores_apart() -> None:
    """As probabilities all four of these are exactly 1."""
    scores = torch.tensor([100.0, 200.0, 300.0, 400.0])
    assert auc(scores, torch.tensor([0, 0, 1, 1])) == 1.0


@pytest.mark.parametrize(
    ("scores", "targets", "missing"),
    [
        (torch.zeros(3), [0, 0, 0], "1"),
        (torch.zeros(3, 2), [1, 1, 1], "0"),
        (torch.zeros(3, 4), [0, 2, 2], "1, 3"),
    ],
)
def test_auc_without_a_class_is_an_error(scores: Tensor, targets: list[int], missing: str) -> None:
    with pytest.raises(DataError, match=f"no row among 3 is of class {missing};"):
        auc(scores, torch.tensor(targets))


def test_rmse_by_hand() -> None:
    expected = math.sqrt((1 + 4 + 0) / 3)
    scores, targets = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2, 0, 3])
    assert rmse(scores, targets) == pytest.approx(expected, rel=1e-12)
    assert rmse(scores[:, None], targets) == rmse(scores, targets[:, None])


@pytest.mark.parametrize(
    ("scores", "targets"),
    [
        (torch.zeros(3), torch.zeros(4)),
        (torch.zeros(3, 2), torch.zeros(3)),
        (torch.zeros(3), torch.zeros(3, 2)),
        (torch.zeros(0), torch.zeros(0)),
        (torch.zeros(()), torch.zeros(1)),
        (torch.zeros(1), torch.zeros(())),
    ],
)
def test_rmse_of_shapes_that_do_not_fit(scores: Tensor, targets: Tensor) -> None:
    with pytest.raises(DataError, match="one value a row"):
        rmse(scores, targets)


@pytest.mark.parametrize("metric", CLASSIFIERS, ids=named)
@pytest.mark.parametrize(
    ("scores", "targets", "message"),
    [
        (torch.zeros(0, 3), torch.zeros(0).long(), "N at least 1"),
        (torch.zeros(2, 0), torch.zeros(2).long(), "scores must have the shape"),
        (torch.zeros(2, 3, 1), torch.zeros(2).long(), "scores must have the shape"),
        (torch.zeros(()), torch.zeros(1).long(), "scores must have the shape"),
        (torch.zeros(2, 3), torch.zeros(3).long(), r"int64 of shape \[2\]"),
        (torch.zeros(2, 3), torch.zeros(2, 1).long(), r"found int64 of shape \[2, 1\]"),
        (torch.zeros(2, 3), torch.zeros(2), "found float32"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), "targets are 0 to 3, but .* 0 to 2"),
        (torch.zeros(2, 3), torch.tensor([-1, 2]), "targets are -1 to 2"),
        (torch.zeros(2), torch.tensor([0, 2]), "0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused(
    metric: Metric, scores: Tensor, targets: Tensor, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        metric(scores, targets)


@pytest.mark.parametrize("k", [0, -1, 4])
def test_top_k_of_more_than_there_are(k: int) -> None:
    with pytest.raises(ConfigurationError, match=f"k must be 1 to 3, the classes, not {k}"):
        top_k_accuracy(torch.zeros(2, 3), torch.tensor([0, 1]), k)


def test_top_k_checks_what_it_can_at_once() -> None:
    with pytest.raises(ConfigurationError, match="at least 1, not 0"):
        top_k(0)


@pytest.mark.parametrize("metric", [*CLASSIFIERS, RMSE], ids=named)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_diverged_model_has_no_value(metric: Metric, value: float) -> None:
    found = metric(torch.tensor([0.0, value]), torch.tensor([0, 1]))
    assert math.isnan(found)


@pytest.mark.parametrize("metric", [*CLASSIFIERS, RMSE], ids=named)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_may_be_of_any_precision_and_need_gradients(
    metric: Metric, dtype: torch.dtype
) -> None:
    scores = torch.tensor([0.5, -1.5, 2.0], dtype=dtype, requires_grad=True)
    targets = torch.tensor([0, 1, 1])
    found = metric(scores, targets)
    assert type(found) is float
    assert found == metric(scores.detach().double(), targets)


@pytest.mark.parametrize(
    ("metric", "function", "greater"),
    [
        (ACCURACY, accuracy, True),
        (LOG_LOSS, log_loss, False),
        (MACRO_F1, macro_f1, True),
        (AUC, auc, True),
        (RMSE, rmse, False),
    ],
)
def test_descriptions(
    metric: Metric, function: Callable[[Tensor, Tensor], float], greater: bool
) -> None:
    assert metric.function is function
    assert metric.name == function.__name__
    assert metric.greater_is_better is greater
    assert metric.better(2.0, 1.0) is greater
    assert metric.better(1.0, 2.0) is not greater
    assert not metric.better(1.0, 1.0)
    assert metric.better(1.0, math.nan)
    assert not metric.better(math.nan, 1.0)
    assert not metric.better(math.nan, math.nan)
    assert pickle.loads(pickle.dumps(metric)) == metric


def test_top_k_is_told_by_its_name() -> None:
    assert top_k(5).name == "top_5_accuracy"
    assert top_k(5) == top_k(5) != top_k(3)
    assert pickle.loads(pickle.dumps(top_k(2)))(torch.eye(3), torch.arange(3)) == 1.0
    assert len({top_k(5), top_k(5), ACCURACY}) == 2


def test_the_best_model_has_the_best_value() -> None:
    targets = torch.tensor([0, 1, 2, 0, 1, 2])
    good = 1e3 * torch.eye(3)[targets]
    generator = np.random.default_rng(0)
    for metric in CLASSIFIERS:
        other = torch.from_numpy(generator.standard_normal((6, 3)))
        assert not metric.better(metric(other, targets), metric(good, targets))
        assert metric(good, targets) == (0.0 if metric is LOG_LOSS else 1.0)
