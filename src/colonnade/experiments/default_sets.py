"""The data sets that defaults were chosen on, and those that they are reported on.

The division was written down before any result: ``CHOOSING`` was looked at while defaults were
chosen, ``REPORTED`` was not. Some are real, others generated; of the latter, companies hold columns
that matter by themselves, together with others of the same company, and only together with those of
another. Every seed has test rows of its own, and of generated sets rows of its own.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn import datasets as bundled

from colonnade.datasets import credit_tables, fashion_mnist
from colonnade.datasets.files import data_folder, plain_or_packed
from colonnade.errors import DataError

__all__ = ["CHOOSING", "REPORTED", "Problem", "TableSet"]

Values: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """Companies' tables and a table of labels, each with the column ``id``, and who is for testing.

    Parameters
    ----------
    tables
        By company.
    labels
        ``id`` and ``label``.
    test
        The ids to test on.
    """

    tables: Mapping[str, pl.DataFrame]
    labels: pl.DataFrame
    test: Values


@dataclass(frozen=True)
class TableSet:
    """A data set.

    Parameters
    ----------
    name
        What tables call it.
    about
        What it is, in a line.
    metric
        What it is judged by; R^2 is for numbers.
    rows
        How many there are, those for testing included.
    companies
        How many there are.
    make
        Returns it, from the folder of the data and a seed.
    seeds
        How often it is tried: small sets need more, since few rows are tested on.
    """

    name: str
    about: str
    metric: Literal["auc", "accuracy", "r2"]
    rows: int
    companies: int
    make: Callable[[Path | None, int], Problem]
    seeds: int = 5


def _problem(
    parts: Mapping[str, pl.DataFrame], labels: Sequence[Any] | Values, seed: int, test: int = 0
) -> Problem:
    """Return a problem whose test rows are the last ones, or by default a quarter by the seed."""
    count = len(labels)
    ids = pl.Series("id", np.arange(count))
    chosen = (
        np.arange(count - test, count)
        if test
        else np.random.default_rng([seed, count]).permutation(count)[: count // 4]
    )
    return Problem(
        {name: frame.with_columns(ids) for name, frame in parts.items()},
        pl.DataFrame([ids, pl.Series("label", labels)]),
        np.sort(chosen),
    )


def _divided(x: Values, widths: Sequence[int]) -> dict[str, pl.DataFrame]:
    """Return companies that hold so many columns each, one after another."""
    ends = np.cumsum(widths)
    return {
        f"company-{number}": pl.DataFrame(
            {f"x{j}": x[:, j] for j in range(int(end - width), int(end))}
        )
        for number, (width, end) in enumerate(zip(widths, ends, strict=True), start=1)
    }


# Real data


def _iris(folder: Path | None, seed: int) -> Problem:
    x, y = bundled.load_iris(return_X_y=True)
    return _problem(_divided(x, [2, 2]), y, seed)


def _petals(folder: Path | None, seed: int) -> Problem:
    x, _ = bundled.load_iris(return_X_y=True)
    return _problem(_divided(x[:, :3], [2, 1]), x[:, 3], seed)


def _quadrants(pictures: Values) -> dict[str, pl.DataFrame]:
    """Return the four quarters of square pictures ``[N, side, side]``."""
    half = pictures.shape[1] // 2
    return {
        f"{vertical}-{horizontal}": pl.DataFrame(
            {f"p{j}": column for j, column in enumerate(quarter.reshape(len(quarter), -1).T)}
        )
        for vertical, rows in (("upper", slice(0, half)), ("lower", slice(half, None)))
        for horizontal, columns in (("left", slice(0, half)), ("right", slice(half, None)))
        for quarter in (pictures[:, rows, columns],)
    }


def _fashion(folder: Path | None, seed: int) -> Problem:
    whole = fashion_mnist(folder)
    chosen = np.random.default_rng(seed).permutation(len(whole.train))[:5000]
    parts = {
        name: pl.DataFrame({f"p{j}": column for j, column in enumerate(pixels[chosen].numpy().T)})
        for name, pixels in whole.features.items()
    }
    return _problem(parts, whole.labels[chosen].numpy(), seed)


def _digits(folder: Path | None, seed: int) -> Problem:
    digits = bundled.load_digits()
    return _problem(_quadrants(digits.images), digits.target, seed)


def _breast_cancer(folder: Path | None, seed: int) -> Problem:
    x, y = bundled.load_breast_cancer(return_X_y=True)
    return _problem(_divided(x, [10, 10, 10]), y, seed)


def _wine(folder: Path | None, seed: int) -> Problem:
    x, y = bundled.load_wine(return_X_y=True)
    return _problem(_divided(x, [7, 6]), y, seed)


def _diabetes(folder: Path | None, seed: int) -> Problem:
    x, y = bundled.load_diabetes(return_X_y=True)
    return _problem(_divided(x, [4, 6]), y, seed)


@cache
def _file(name: str, folder: Path | None, separator: str, header: bool) -> pl.DataFrame:
    place = data_folder(name, folder)
    found = plain_or_packed(place / name)
    if found is None:
        raise DataError(f"{place}: there is no file {name}")
    content = found.read_bytes()
    content = gzip.decompress(content) if found.suffix == ".gz" else content
    return pl.read_csv(content, separator=separator, has_header=header, infer_schema_length=None)


_RARE = 20


def _frequent(frame: pl.DataFrame) -> pl.DataFrame:
    """Return columns as categories, whose values of fewer than 20 rows are one of their own."""
    texts = frame.with_columns(pl.all().cast(pl.String).fill_null("none"))
    return texts.with_columns(
        pl.when(pl.len().over(name) < _RARE)
        .then(pl.lit("rare"))
        .otherwise(pl.col(name))
        .cast(pl.Categorical)
        .alias(name)
        for name in texts.columns
    )


def _criteo(folder: Path | None, seed: int) -> Problem:
    frame = _file("criteo_8000.tsv", folder, "\t", header=False)
    label, *columns = frame.columns
    parts = {
        "counts": frame.select(columns[:13]),
        "shop": _frequent(frame.select(columns[13:26])),
        "page": _frequent(frame.select(columns[26:])),
    }
    return _problem(parts, frame[label].to_list(), seed)


def _avazu(folder: Path | None, seed: int) -> Problem:
    frame = _file("avazu_8999.csv", folder, ",", header=True)
    names = frame.columns
    held = {
        "page": [n for n in names if n.startswith(("site", "app")) or n == "banner_pos"],
        "phone": [n for n in names if n.startswith("device")],
        "shop": [n for n in names if n[0] == "C"],
    }
    parts = {company: _frequent(frame.select(columns)) for company, columns in held.items()}
    return _problem(parts, frame["click"].to_list(), seed)


def _speech(folder: Path | None, seed: int) -> Problem:
    frame = _file("pd_speech_252x752.csv", folder, ",", header=True)
    columns = [name for name in frame.columns if name not in ("rownames", "class")]
    x = frame.select(columns).to_numpy()
    return _problem(_divided(x, [188, 188, 188, x.shape[1] - 564]), frame["class"].to_list(), seed)


def _credit(folder: Path | None, seed: int) -> Problem:
    tables, labels = credit_tables(folder)
    (id,) = (name for name in labels.columns if all(name in t.columns for t in tables.values()))
    ordered = {name: table.sort(id).drop(id) for name, table in tables.items()}
    return _problem(ordered, labels.sort(id).drop(id).to_series().to_list(), seed)


# Generated data

Rule: TypeAlias = Callable[[Values, np.random.Generator], Values]


def _drawn(
    rule: Rule,
    widths: Sequence[int],
    train: int,
    test: int,
    uniform: bool,
    folder: Path | None,
    seed: int,
) -> Problem:
    """Return rows of independent columns, uniform in [-1, 1] or normal, and labels by a rule."""
    random = np.random.default_rng([seed, train, sum(widths)])
    shape = train + test, sum(widths)
    x = random.uniform(-1, 1, shape) if uniform else random.normal(size=shape)
    return _problem(_divided(x, widths), rule(x, random), seed, test)


def _generated(
    rule: Rule, widths: Sequence[int], train: int, test: int, uniform: bool = False
) -> Callable[[Path | None, int], Problem]:
    return partial(_drawn, rule, widths, train, test, uniform)


def _chance(score: Values, random: np.random.Generator) -> Values:
    """Return classes drawn by the logistic of a score."""
    return (random.random(len(score)) < 1 / (1 + np.exp(-score))).astype(np.int64)


def _xor(x: Values, random: np.random.Generator) -> Values:
    return (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def _ring(x: Values, random: np.random.Generator) -> Values:
    return _chance(8 * (1.2 - np.hypot(x[:, 0], x[:, 1])), random)


def _few_linear(x: Values, random: np.random.Generator) -> Values:
    return _chance(x @ np.array([1.5, -1, 0.5, 1, 0, 0, -1.5, 0.5, 0, 0]), random)


def _few_mixed(x: Values, random: np.random.Generator) -> Values:
    return _chance(1.5 * x[:, 0] - 1.5 * x[:, 4] + x[:, 1] * x[:, 5] + x[:, 2], random)


def _wide_linear(x: Values, random: np.random.Generator) -> Values:
    plane: Values = x[:, ::2] @ np.linspace(0, 1, 20)
    return 20 + 5 * (plane + 1.5 * random.normal(size=len(x)))


def _friedman(x: Values, random: np.random.Generator) -> Values:
    # Friedman (1991), with the product's factors apart: columns 0 and 3 are two companies'.
    u = (x + 1) / 2
    smooth = 10 * np.sin(np.pi * u[:, 0] * u[:, 3]) + 20 * (u[:, 1] - 0.5) ** 2
    return smooth + 10 * u[:, 4] + 5 * u[:, 6] + random.normal(size=len(x))


def _products(x: Values, random: np.random.Generator) -> Values:
    between = x[:, 0] * x[:, 2] - x[:, 4] * x[:, 6]
    numbers: Values = between + x[:, 0] * x[:, 1] + x[:, 8] + 0.5 * random.normal(size=len(x))
    return 1000 * numbers


def _impedance(x: Values, random: np.random.Generator) -> Values:
    # After Friedman's second: a length whose parts are two companies'.
    u = (x + 1) / 2
    reactance = 4 * u[:, 0] * u[:, 2] - 1 / (1 + 3 * u[:, 3])
    ohms: Values = 100 * np.sqrt(u[:, 1] ** 2 + reactance**2) + 3 * random.normal(size=len(x))
    return ohms


def _many_classes(x: Values, random: np.random.Generator) -> Values:
    between = 1.5 * x[:, 0] * x[:, 5] + np.abs(x[:, 6] + x[:, 11]) - 1.1
    return _chance(between + x[:, 1] * x[:, 2] + x[:, 12] - 0.5 * x[:, 16], random)


def _many_levels(x: Values, random: np.random.Generator) -> Values:
    between = np.where(x[:, 0] > 0, x[:, 4], -x[:, 8]) + 1.2 * np.tanh(2 * x[:, 5] * x[:, 12])
    within = np.sin(2 * x[:, 1]) * x[:, 2] + np.maximum(x[:, 9], x[:, 10])
    return _chance(between + within + x[:, 16] - 0.6, random)


def _many_numbers(x: Values, random: np.random.Generator) -> Values:
    between = x[:, 0] * x[:, 5] + np.maximum(x[:, 1], x[:, 10])
    within = np.sin(2 * x[:, 6]) + x[:, 11] * x[:, 12]
    numbers: Values = between + within + random.normal(size=len(x))
    return 50 + 10 * numbers


def _seasons(folder: Path | None, seed: int) -> Problem:
    """Return rows where a category of one company turns the sign of what another one knows."""
    random = np.random.default_rng([seed, 3])
    count = 6000
    season = random.choice(["spring", "summer", "autumn", "winter"], count)
    city = random.choice([f"city-{number}" for number in range(12)], count)
    size, price = random.normal(size=(2, count))
    warm = np.isin(season, ["spring", "summer"])
    score = np.where(warm, 2, -2) * price + size + np.isin(city, ["city-1", "city-7"])
    parts = {
        "weather": pl.DataFrame({"season": season, "city": city}),
        "shop": pl.DataFrame({"price": price, "size": size}),
    }
    return _problem(parts, _chance(score, random), seed, test=3000)


CHOOSING = (
    TableSet("iris", "kinds of iris", "accuracy", 150, 2, _iris, 10),
    TableSet("petals", "the width of an iris's petals", "r2", 150, 2, _petals, 10),
    TableSet("fashion", "5000 of Fashion-MNIST, in quadrants", "accuracy", 5000, 4, _fashion, 3),
    TableSet("criteo", "clicks on Criteo's advertisements", "auc", 8000, 3, _criteo),
    TableSet(
        *("ring", "inside of a circle, a coordinate each", "auc", 2500, 2),
        _generated(_ring, [1, 1], 500, 2000),
    ),
    TableSet(
        *("few linear", "a noisy line, 100 rows to train on", "auc", 2100, 3),
        _generated(_few_linear, [4, 3, 3], 100, 2000),
        10,
    ),
    TableSet(
        *("wide linear", "a noisy plane of 40 columns, 200 rows to train on", "r2", 2200, 4),
        _generated(_wide_linear, [10] * 4, 200, 2000),
        10,
    ),
    TableSet(
        *("friedman 1", "Friedman's first, its product between two companies", "r2", 3000, 3),
        _generated(_friedman, [3, 3, 4], 1000, 2000, uniform=True),
    ),
    TableSet("seasons", "a category turns another's number", "auc", 6000, 2, _seasons),
    TableSet(
        *("products", "products within and between companies", "r2", 12_000, 5),
        _generated(_products, [2] * 5, 10_000, 2000),
        3,
    ),
    TableSet(
        *("many classes", "products and corners within and between", "auc", 100_000, 4),
        _generated(_many_classes, [5] * 4, 80_000, 20_000),
        2,
    ),
)
"""The half that defaults were chosen on."""

REPORTED = (
    TableSet(
        *("xor", "whether two companies' numbers have one sign", "accuracy", 4000, 2),
        _generated(_xor, [1, 1], 2000, 2000),
    ),
    TableSet(
        *("few mixed", "a line and a product, 100 rows to train on", "auc", 2100, 2),
        _generated(_few_mixed, [4, 4], 100, 2000),
        10,
    ),
    TableSet("wine", "kinds of wine", "accuracy", 178, 2, _wine, 10),
    TableSet("speech", "Parkinson's disease by speech", "auc", 252, 4, _speech, 10),
    TableSet("diabetes", "the progress of diabetes", "r2", 442, 2, _diabetes, 10),
    TableSet("breast cancer", "whether a tumour is benign", "auc", 569, 3, _breast_cancer, 10),
    TableSet("digits", "handwritten digits, in quadrants", "accuracy", 1797, 4, _digits),
    TableSet(
        *("impedance", "after Friedman's second", "r2", 7000, 2),
        _generated(_impedance, [2, 2], 5000, 2000, uniform=True),
    ),
    TableSet("avazu", "clicks on Avazu's advertisements", "auc", 8999, 3, _avazu),
    TableSet("credit", "clients who do not pay", "auc", 30_000, 3, _credit, 3),
    TableSet(
        *("many numbers", "a number by interactions within and between", "r2", 60_000, 3),
        _generated(_many_numbers, [5] * 3, 50_000, 10_000),
        3,
    ),
    TableSet(
        *("many levels", "steps and products within and between", "auc", 100_000, 5),
        _generated(_many_levels, [4] * 5, 80_000, 20_000),
        3,
    ),
)
"""The half that they are reported on."""
