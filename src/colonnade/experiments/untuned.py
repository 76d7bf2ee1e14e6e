"""What the estimators are worth untuned: beside scikit-learn's on tables that somebody joined.

Each trial is the training that ``fit`` carries out with nothing said. The rows to test on are given
to the federation, so that they are evaluated once, by the finished model. Before the first round
scikit-learn's models are fitted to the same rows, joined: those that train here and those that
choose the best model, since their own defaults set none aside.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from colonnade import defaults
from colonnade.costs import Modelled
from colonnade.drivers import Simulate
from colonnade.estimators import VerticalClassifier, VerticalRegressor
from colonnade.experiments.default_sets import CHOOSING, REPORTED, Problem, TableSet
from colonnade.experiments.experiment import (
    Experiment,
    Findings,
    Result,
    Results,
    Scale,
    Trial,
    mean_and_deviation,
)
from colonnade.federation import Federation
from colonnade.methods import svfl
from colonnade.reports import Sheet, human_bytes
from colonnade.sent import bytes_sent
from colonnade.tables import HashSplit, IdSplit, VerticalTables, vertical_tables

__all__ = ["DEFAULTS", "DEFAULTS_CHOSEN", "joint_score", "untuned_trial"]

Values = NDArray[Any]
Settings = Mapping[str, Any]

MARGIN = {"auc": 0.01, "accuracy": 0.01, "r2": 0.02}
"""How far behind the better of scikit-learn's two the joint model may be."""

_MOST_CODES = 250  # of a category, for trees; what has more goes as a number

_NEVER = 2**31  # a trial takes a minute: begun anew is sooner than kept each epoch


def untuned_trial(
    table_set: TableSet,
    seed: int,
    folder: Path | None,
    name: str = "defaults",
    settings: Settings | None = None,
    compared: bool = True,
) -> Trial:
    """Return the training of an estimator on a data set.

    Parameters
    ----------
    table_set, seed
        What it is trained on; the seed is the estimator's too.
    folder
        Where the data are.
    name, settings
        What differs from the defaults, and what that is called.
    compared
        Whether scikit-learn's models are fitted as well.
    """
    estimator = _estimator(table_set, settings or {})
    return Trial(
        (table_set.name, name),
        seed,
        partial(_federation, table_set, folder, settings or {}),
        svfl(),
        replace(estimator.training(), checkpoint_every=_NEVER),
        Simulate(costs=Modelled(otherwise=0.0)),
        probes=(0,),
        probe=partial(_compared, table_set, seed, folder, compared),
    )


def joint_score(table_set: TableSet, result: Result) -> float:
    """Return the set's metric of a finished run, on its test rows."""
    test = result.run.summary["test"]
    if table_set.metric != "r2":
        return float(test[table_set.metric])
    return 1 - float(test["rmse"]) ** 2 / result.probed[0]["variance"]


# The joint model


def _estimator(
    table_set: TableSet, settings: Settings, seed: int = 0
) -> VerticalClassifier | VerticalRegressor:
    kind = VerticalRegressor if table_set.metric == "r2" else VerticalClassifier
    return kind(random_state=seed, **settings)


def _federation(
    table_set: TableSet, folder: Path | None, settings: Settings, seed: int
) -> Federation:
    estimator = _estimator(table_set, settings, seed)
    return estimator.federation(_aligned(table_set, table_set.make(folder, seed), seed))


def _aligned(table_set: TableSet, problem: Problem, seed: int) -> VerticalTables:
    """Return the tables with these test rows; of the others, as many choose the model as usual.

    Where these lack one of two classes, an estimator asks for a greater share: they are doubled.
    """
    others = pl.Series(np.setdiff1d(problem.labels["id"].to_numpy(), problem.test))
    labels = dict(problem.labels.select("id", "label").iter_rows())
    share = defaults.VALIDATION
    _, validation, _ = HashSplit(share, 0.0, seed).rows(others)
    while table_set.metric == "auc" and len({labels[i] for i in others[validation]}) < 2:
        share *= 2
        _, validation, _ = HashSplit(share, 0.0, seed).rows(others)
    return vertical_tables(
        problem.tables,
        problem.labels,
        id="id",
        split=IdSplit(others[validation].to_list(), problem.test.tolist()),
        task="regression" if table_set.metric == "r2" else "classification",
    )


# scikit-learn's, on the joined table


def _compared(
    table_set: TableSet,
    seed: int,
    folder: Path | None,
    compared: bool,
    federation: Federation,
    method: object,
    models: Mapping[str, Any],
) -> dict[str, float]:
    """Return the scores of scikit-learn's models, and the variance of the test rows' labels."""
    problem = table_set.make(folder, seed)
    labels = problem.labels["label"].to_numpy()
    test = np.isin(problem.labels["id"].to_numpy(), problem.test)
    numbers = table_set.metric == "r2"
    found = {"variance": float(np.var(labels[test]))} if numbers else {}
    if not compared:
        return found
    joined = pl.concat(
        [table.drop("id").rename(partial(_whose, name)) for name, table in problem.tables.items()],
        how="horizontal",
    )
    scaled, raw, categories = _joined(joined, ~test)
    for name, (model, x) in {
        "mlp": (_mlp(numbers, seed), scaled),
        "linear": (Ridge() if numbers else LogisticRegression(max_iter=1000), scaled),
        "trees": (_trees(numbers, categories, seed), raw),
    }.items():
        with warnings.catch_warnings():
            # Its default of 200 iterations is part of what is compared with.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x[~test], labels[~test])
        found[name] = _score(table_set, model, x[test], labels[test])
    return found


def _whose(company: str, column: str) -> str:
    return f"{company}'s {column}"


def _mlp(numbers: bool, seed: int) -> BaseEstimator:
    # The target is standardised for it, as it is here; by itself it would take it as it is.
    if numbers:
        return TransformedTargetRegressor(
            MLPRegressor(random_state=seed), transformer=StandardScaler()
        )
    return MLPClassifier(random_state=seed)


def _trees(numbers: bool, categories: Sequence[bool], seed: int) -> BaseEstimator:
    kind = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    return kind(categorical_features=list(categories), random_state=seed)


def _joined(table: pl.DataFrame, train: Values) -> tuple[Values, Values, list[bool]]:
    """Return the table scaled and one-hot, for networks; with codes, for trees; what is a code."""
    numeric = _columns(table.select(cs.numeric()), table.height).astype(np.float64)
    texts = _columns(table.select((cs.string() | cs.categorical()).cast(pl.String)), table.height)
    scaled, raw = [], [numeric]
    if numeric.shape[1]:
        filled = make_pipeline(
            SimpleImputer(strategy="median", add_indicator=True), StandardScaler()
        )
        scaled.append(filled.fit(numeric[train]).transform(numeric))
    if texts.shape[1]:
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(texts[train])
        scaled.append(one_hot.transform(texts))
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        raw.append(codes.fit(texts[train]).transform(texts))
    counts = [len(set(column)) for column in texts.T]
    is_code = [False] * numeric.shape[1] + [count <= _MOST_CODES for count in counts]
    return np.hstack(scaled), np.hstack(raw), is_code


def _columns(table: pl.DataFrame, rows: int) -> Values:
    return table.to_numpy() if table.width else np.empty((rows, 0))


def _score(table_set: TableSet, model: Any, x: Values, labels: Values) -> float:
    if table_set.metric != "auc":
        return float(model.score(x, labels))
    second = labels == model.classes_[1]
    return float(roc_auc_score(second, model.predict_proba(x)[:, 1]))


# The experiments

_QUICK = ("few mixed", "wine", "diabetes", "iris", "petals")


def _trials(half: Sequence[TableSet], scale: Scale) -> list[Trial]:
    sets = [each for each in half if not scale.quick or each.name in _QUICK]
    return [
        untuned_trial(each, seed, scale.folder)
        for each in sets
        for seed in scale.repetitions(each.seeds)
    ]


def _findings(half: Sequence[TableSet], results: Results) -> Findings:
    found = [(each, results.of(each.name, "defaults")) for each in half]
    rows, behind, trees = [], [], []
    for each, of_set in found:
        if not of_set:
            continue
        joint = [joint_score(each, result) for result in of_set]
        others = {
            name: [result.probed[0][name] for result in of_set]
            for name in ("mlp", "linear", "trees")
        }
        mean = _mean(joint)
        gap = mean - max(_mean(others["mlp"]), _mean(others["linear"]))
        if gap < -MARGIN[each.metric]:
            behind.append(each.name)
        if _mean(others["trees"]) - mean > MARGIN[each.metric]:
            trees.append(f"{each.name} (by {_plain(_mean(others['trees']) - mean)})")
        rows.append(
            (
                each.name,
                f"{each.rows:,}",
                str(each.companies),
                _METRICS[each.metric],
                *map(_cell, (joint, *others.values())),
                f"{gap:+.3f}".replace("0.", "."),
                "no" if each.name in behind else "yes",
                f"{_mean([r.run.summary['rounds'] for r in of_set]):.0f}",
                human_bytes(_mean([_sent(r) for r in of_set])),
                str(len(of_set)),
            )
        )
    sheet = Sheet(
        "The untuned joint model beside scikit-learn's on joined tables",
        (
            *("data", "rows", "companies", "metric", "joint", "MLP", "linear", "trees"),
            *("ahead", "holds", "rounds", "sent", "seeds"),
        ),
        rows,
        text=(0, 3, 9),
        note="Test rows, mean and deviation over seeds. Ahead: of the better of MLP and linear. It "
        "holds at .01 behind at most, .02 of R2. Sent: embeddings and derivatives of training.",
    )
    notes = [
        f"Behind by more than that on {len(behind)} of {len(rows)}: {', '.join(behind) or 'none'}.",
        f"Boosted trees on the joined table are better than the joint model by more than that on "
        f"{len(trees)} of {len(rows)}: {', '.join(trees) or 'none'}.",
    ]
    return Findings([sheet], notes=notes)


_METRICS = {"auc": "AUC", "accuracy": "accuracy", "r2": "R2"}


def _mean(values: Sequence[float]) -> float:
    return mean_and_deviation(values)[0]


def _sent(result: Result) -> float:
    return float(bytes_sent(result.run.summary))


def _plain(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def _cell(values: Sequence[float]) -> str:
    mean, spread = mean_and_deviation(values)
    return f"{_plain(mean)} ± {_plain(spread)}"


_SOURCE = "scikit-learn's MLP, linear models and boosted trees, untuned on joined tables"

DEFAULTS = Experiment(
    name="defaults",
    title="what the joint model is worth untuned",
    source=_SOURCE,
    data=("credit_default",),
    trials=partial(_trials, REPORTED),
    findings=partial(_findings, REPORTED),
    minutes=25,
)

DEFAULTS_CHOSEN = Experiment(
    name="defaults-chosen",
    title="the same on the data sets that defaults were chosen on",
    source=_SOURCE,
    data=("fashion_mnist",),
    trials=partial(_trials, CHOOSING),
    findings=partial(_findings, CHOOSING),
    minutes=25,
)
