"""What a bank, a bureau and a processor of payments know together, and what each knows alone.

    COLONNADE_DATA=FOLDER python benchmarks/partners_credit.py [SEED OF THE SPLIT]

Area under the ROC curve on the test clients of one split (``HashSplit()`` with seed 0 unless said
otherwise: a tenth for validation, a fifth for testing) of "default of credit card clients".

Trees: scikit-learn's HistGradientBoostingClassifier as it comes, on the companies' raw columns,
fitted on training rows alone. Networks: what a federation trains, but in one place and in plain
torch, which is faster: a bottom model for each company, a top model on all embeddings, and the
parameters of the epoch that was best on the validation clients. A company alone has the same bottom
and top model without the others. Mean and standard deviation over seeds, which decide the start,
the batches and the dropout. Last, the same companies without the logarithms of amounts.
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor, nn

from colonnade.datasets import credit_default, credit_tables
from colonnade.metrics import auc
from colonnade.models import mlp
from colonnade.tables import HashSplit, TableTransformer, VerticalTables, vertical_tables

SEEDS = range(5)
COMPANIES = ("bank", "bureau", "processor")
TEAMS = (*((name,) for name in COMPANIES), ("bank", "bureau"), ("bureau", "processor"), COMPANIES)


@dataclass(frozen=True)
class Settings:
    bottom: Sequence[int] = (64, 32)
    top: Sequence[int] = (32,)
    activation: str = "gelu"
    dropout: float = 0.5
    learning_rate: float = 2e-3  # falls to 0 as a cosine
    weight_decay: float = 1e-4
    batch_size: int = 256
    epochs: int = 15


class Network(nn.Module):
    def __init__(self, widths: Sequence[int], settings: Settings) -> None:
        super().__init__()
        rest = (settings.activation, None, settings.dropout)
        self.bottoms = nn.ModuleList(mlp(width, settings.bottom, *rest) for width in widths)
        self.top = mlp(
            settings.bottom[-1] * len(widths),
            [*settings.top, 2],
            settings.activation,
            last="identity",
            dropout=settings.dropout,
        )

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        embeddings = [bottom(x) for bottom, x in zip(self.bottoms, parts, strict=True)]
        return self.top(torch.cat(embeddings, dim=1))


def network_auc(
    clients: VerticalTables, team: Sequence[str], settings: Settings, seed: int
) -> float:
    torch.manual_seed(seed)
    order = np.random.default_rng(seed)
    parts = [clients.features[name] for name in team]
    network = Network([x.shape[1] for x in parts], settings)
    optimiser = torch.optim.Adam(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=settings.epochs)

    def area(rows: np.ndarray) -> float:
        network.eval()
        with torch.no_grad():
            return auc(network([x[rows] for x in parts]), clients.labels[rows])

    best, kept = -1.0, network.state_dict()
    for _ in range(settings.epochs):
        network.train()
        shuffled = order.permutation(clients.train)
        for start in range(0, len(shuffled) - settings.batch_size + 1, settings.batch_size):
            rows = shuffled[start : start + settings.batch_size]
            loss = nn.functional.cross_entropy(
                network([x[rows] for x in parts]), clients.labels[rows]
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
        if (value := area(clients.validation)) > best:
            best, kept = value, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return area(clients.test)


def trees_auc(clients: VerticalTables, team: Sequence[str]) -> float:
    x = np.concatenate([clients.features[name].numpy() for name in team], axis=1)
    y = clients.labels.numpy()
    trees = HistGradientBoostingClassifier(random_state=0).fit(x[clients.train], y[clients.train])
    odds = torch.from_numpy(trees.decision_function(x[clients.test]))
    return auc(odds, clients.labels[clients.test])


def without_logarithms(usual: VerticalTables, split: HashSplit) -> VerticalTables:
    tables, labels = credit_tables()
    same = {name: fitted.transformer for name, fitted in usual.transformers.items()}
    return vertical_tables(tables, labels, id="ID", split=split, transformers=same)


def raw(split: HashSplit) -> VerticalTables:
    tables, labels = credit_tables()
    plain = TableTransformer(scale="none")
    return vertical_tables(tables, labels, id="ID", split=split, transformers=plain)


def over_seeds(clients: VerticalTables, team: Sequence[str]) -> str:
    values = [network_auc(clients, team, Settings(), seed) for seed in SEEDS]
    return f"{statistics.fmean(values):.4f} ± {statistics.stdev(values):.4f}"


def main(seed: int = 0) -> None:
    torch.set_num_threads(1)
    split = HashSplit(seed=seed)
    clients = credit_default(split=split)
    numbers, plain = raw(split), without_logarithms(clients, split)
    print(f"split {seed}, {clients}, {Settings()}")
    print(f"{'who':26} {'trees':>7}   {'network':>15}   {'no logarithms':>15}")
    for team in TEAMS:
        trees = trees_auc(numbers, team)
        print(
            f"{' + '.join(team):26} {trees:7.4f}   {over_seeds(clients, team):>15}   "
            f"{over_seeds(plain, team):>15}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
