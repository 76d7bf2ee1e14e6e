"""What stands for a party that has left: constants in the places of its embeddings."""

from __future__ import annotations

import json
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from colonnade import methods
from colonnade.codecs import Scalar
from colonnade.drivers import Processes, Simulate
from colonnade.errors import ColonnadeError, ConfigurationError, DataError, Diverged
from colonnade.export import read_mean, write_mean
from colonnade.fallbacks import check_fallbacks, completed, constants_of, lost_by, mean_embeddings
from colonnade.federation import Federation
from colonnade.metrics import ACCURACY
from colonnade.models import Additive, Concat, DotProduct, Learner, Max, Mean, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.training import Training
from toy_drawing import AlwaysDrops, AsItComputes

FUSIONS = [Concat(), Sum(), Mean(), Max(), DotProduct()]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("gone", [(0,), (1,), (3,), (0, 2), (0, 1, 2)])
def test_a_completed_fusion_is_that_of_everybody_with_constants(fusion, gone):
    embeddings = [drawn(5, 3, seed=place) for place in range(4)]
    constants = {place: drawn(3, seed=9 + place) for place in gone}
    everybody = [constants[p].expand(5, 3) if p in gone else z for p, z in enumerate(embeddings)]
    there = [z for place, z in enumerate(embeddings) if place not in gone]
    whole = completed(fusion, constants)
    assert torch.equal(whole(there), fusion(everybody))
    assert whole.width([3] * len(there)) == fusion.width([3] * 4)
    assert isinstance(whole, Additive) == isinstance(fusion, Additive)
    if isinstance(whole, Additive):
        total = whole.of_total(sum(there), len(there))
        assert torch.allclose(total, fusion(everybody), atol=1e-6)


def test_widths_of_a_completed_fusion_are_in_their_places():
    whole = completed(Concat(), {0: torch.zeros(2), 2: torch.ones(4)})
    assert whole.width([3]) == 9
    assert whole([torch.full((1, 3), 5.0)]).tolist() == [[0, 0, 5, 5, 5, 1, 1, 1, 1]]


def test_nobody_that_left_changes_no_fusion():
    fusion = Sum()
    assert completed(fusion, {}) is fusion


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ({"hotel": "zeros"}, "nothing can stand for 'hotel': the parties are bank, shop"),
        ({"bank": np.zeros(32)}, "what stands for 'bank' is 'zeros' or 'mean', not array"),
        ({"bank": ["zeros"]}, "what stands for 'bank' is 'zeros' or 'mean', not "),
        ({"bank": "median"}, "what stands for 'bank' is 'zeros' or 'mean', not 'median'"),
        ({"bank": "zeros", "shop": "mean"}, "every party has left"),
    ],
)
def test_fallbacks_that_cannot_be_are_told(without, message):
    with pytest.raises(ConfigurationError, match=message):
        check_fallbacks(without, ["bank", "shop"])


def test_constants_are_zeros_or_the_mean_that_was_given():
    widths = {"bank": 2, "shop": 3, "insurer": 1}
    mean = torch.tensor([1.0, 2.0, 3.0])
    found = constants_of({"shop": "mean", "bank": "zeros"}, widths, {"shop": mean})
    assert {place: constant.tolist() for place, constant in found.items()} == {
        0: [0, 0],
        1: [1, 2, 3],
    }
    with pytest.raises(ConfigurationError, match=r"the mean of 'bank' is not known.*zeros need"):
        constants_of({"bank": "mean"}, widths, {"shop": mean})
    with pytest.raises(ConfigurationError, match="has 3 components, and its embeddings 2"):
        constants_of({"bank": "mean"}, widths, {"bank": mean})


def test_a_mean_is_that_of_embeddings_as_the_uplink_takes_them():
    bottom, features = nn.Linear(3, 2), drawn(50, 3)
    rows = torch.arange(10, 40).numpy()
    embedder = methods.svfl().uplink.embedder
    found = mean_embeddings({"bank": (Learner(bottom), features)}, embedder, rows, 0)["bank"]
    assert torch.allclose(found, bottom(features[10:40]).mean(dim=0), atol=1e-6)
    many = torch.arange(30_000).numpy()
    of = {"bank": (Learner(bottom), drawn(30_000, 3))}
    sample = mean_embeddings(of, embedder, many, 0)["bank"]
    assert torch.allclose(sample, bottom(drawn(30_000, 3)[::8]).mean(dim=0), atol=1e-5)


def test_a_party_that_has_diverged_has_no_mean():
    class Diverging(nn.Module):
        def forward(self, inputs):
            raise Diverged("no")

    rows = torch.arange(4).numpy()
    of = {
        "bank": (Learner(Diverging()), drawn(4, 2)),
        "shop": (Learner(nn.Identity()), drawn(4, 2)),
    }
    assert set(mean_embeddings(of, methods.svfl().uplink.embedder, rows, 0)) == {"shop"}


def trained_with(module, **named):
    """Train bottoms that end in a module; return the run, however much was drawn before."""
    torch.manual_seed(3)
    x = drawn(40, 4)
    parties = [
        Party(name, x[:, at : at + 2], nn.Sequential(nn.Linear(2, 2), module))
        for name, at in (("bank", 0), ("shop", 2))
    ]
    holder = LabelHolder("insurer", (x.sum(1) > 0).long(), nn.Linear(4, 2))
    federation = Federation(parties, holder, range(30), range(30, 40))
    torch.rand(next(_drawn_before))
    training = Training(epochs=1, batch_size=10, seed=4)
    return federation.train(training=training, report=False, **named)


_drawn_before = count(1)


@pytest.mark.parametrize("driver", [Simulate, Processes])
def test_a_mean_is_the_same_whatever_a_user_has_drawn_before(driver):
    """It was that of whatever a model that drops out in evaluation too drew of the user's."""
    one, other = (trained_with(AlwaysDrops(), driver=driver()).predictor.means for _ in range(2))
    assert one.keys() == {"bank", "shop"}
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_mean_leaves_a_trained_model_as_training_left_it(tmp_path):
    """A buffer that a bottom keeps its noise in was another whatever the seed."""
    runs = [trained_with(AsItComputes()) for _ in range(2)]
    trained_with(AsItComputes(), out=tmp_path, stop_before=2)
    runs.append(trained_with(AsItComputes(), out=tmp_path, resume=True))
    first, *others = (run.models["bank"]["bottom"][1].kept for run in runs)
    assert all(torch.equal(first, other) for other in others)


def test_a_model_that_cannot_be_copied_any_more_has_a_mean():
    class KeepsWhatItMade(nn.Module):
        def __init__(self):
            super().__init__()
            self.made = []

        def forward(self, x):
            self.made = [x]
            return x

    assert set(trained_with(KeepsWhatItMade()).predictor.means) == {"bank", "shop"}


def test_a_mean_is_read_as_it_was_written(tmp_path):
    mean = drawn(7)
    write_mean(tmp_path, "bank", mean)
    assert torch.equal(read_mean(tmp_path / "mean.json", "bank"), mean)
    with pytest.raises(DataError, match="it is of 'bank'"):
        read_mean(tmp_path / "mean.json", "shop")
    with pytest.raises(DataError, match=r"is not the mean that 'bank' wrote"):
        read_mean(tmp_path / "none.json", "bank")


def test_a_mean_that_was_changed_is_refused(tmp_path):
    write_mean(tmp_path, "bank", torch.tensor([1.0, 2.0]))
    file = tmp_path / "mean.json"
    for before, after in (("1.0", "1.5"), ("2.0", '"2.0"'), ("2.0]", "2.0, 3.0]"), ("[", "[[")):
        written = file.read_text()
        file.write_text(written.replace(before, after, 1))
        with pytest.raises(DataError, match="is not the mean that 'bank' wrote"):
            read_mean(file, "bank")
        file.write_text(written)
    told = json.loads(written)
    del told["digest"]
    file.write_text(json.dumps(told))
    with pytest.raises(DataError, match="is not the mean that 'bank' wrote"):
        read_mean(file, "bank")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.binary(max_size=80) | json_values.map(lambda v: json.dumps({"mean": v}).encode()))
def test_no_file_that_is_handed_over_is_more_than_finite_numbers(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("means") / "mean.json"
    file.write_bytes(data.replace(b'{"mean"', b'{"organisation": "bank", "mean"'))
    try:
        mean = read_mean(file, "bank")
    except DataError:
        return
    assert mean.dim() == 1
    assert mean.isfinite().all()


def test_what_is_lost_is_beside_what_the_model_could():
    scores, truth = torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([1, 0])
    summary = {"metric": "validation_accuracy", "best": 0.9, "final": 0.8}
    last = lost_by(summary, [ACCURACY], scores, truth, best_counts=False)
    assert (last.everybody, last.without, last.rows) == (0.8, 0.5, 2)
    assert str(last) == "validation_accuracy is 0.5000 on 2 rows, and was 0.8000"
    assert lost_by(summary, [ACCURACY], scores, truth, best_counts=True).everybody == 0.9
    other = {"metric": "test_accuracy", "best": 0.9, "final": 0.8}
    assert lost_by(other, [ACCURACY], scores, truth, best_counts=True).everybody is None


def run_of(method, parties=3, width=4):
    names = ["bank", "shop", "club", "gym"][:parties]
    x = {name: drawn(60, 3, seed=place) for place, name in enumerate(names)}
    y = (sum(columns[:, 0] for columns in x.values()) > 0).long()
    torch.manual_seed(0)
    members = [
        Party(name, columns, nn.Sequential(nn.Linear(3, width), nn.Tanh()))
        for name, columns in x.items()
    ]
    top = nn.Linear(method.fusion.width([width] * parties), 2)
    federation = Federation(members, LabelHolder("insurer", y, top), train_rows=range(40))
    return federation.train(method, Training(epochs=1, batch_size=10, secrets="seed")), x


@pytest.mark.parametrize("kind", ["zeros", "mean"])
def test_a_prediction_without_a_party_is_the_models_with_a_constant(kind):
    run, x = run_of(methods.svfl())
    new = {name: columns[40:] for name, columns in x.items() if name != "shop"}
    found = run.predict(new, without={"shop": kind})
    with torch.no_grad():
        bottoms = {name: modules["bottom"] for name, modules in run.models.items() if name in x}
        stands = torch.zeros(4) if kind == "zeros" else bottoms["shop"](x["shop"][:40]).mean(dim=0)
        places = [
            stands.expand(20, -1) if name == "shop" else bottom(x[name][40:])
            for name, bottom in bottoms.items()
        ]
        expected = run.models["insurer"]["top"](torch.cat(places, dim=1))
    assert torch.allclose(found.scores, expected, atol=1e-6)
    assert {entry.sender for entry in found.ledger} == {"bank", "club"}


@pytest.mark.parametrize(
    "method",
    [
        methods.pbm_vfl(trials=4096, beta=0.25),
        methods.cvfl(Scalar(bits=8)),
        methods.lean(),
        methods.svfl(fusion=Sum()),
    ],
)
@pytest.mark.filterwarnings("ignore::colonnade.errors.PrivacyWarning")
def test_every_uplink_goes_on_without_a_party(method):
    run, x = run_of(method)
    new = {name: columns[40:] for name, columns in x.items()}
    whole = run.predict(new)
    zeros = run.predict({n: c for n, c in new.items() if n != "bank"}, without={"bank": "zeros"})
    assert zeros.scores.shape == whole.scores.shape
    assert zeros.scores.isfinite().all()
    assert not torch.equal(zeros.scores, whole.scores)


def test_a_sum_that_would_be_of_one_is_refused():
    run, x = run_of(methods.pbm_vfl(trials=16, beta=0.2), parties=2)
    with pytest.raises(ColonnadeError):
        run.predict({"bank": x["bank"][40:]}, without={"shop": "zeros"})


def test_who_has_left_has_no_columns():
    run, x = run_of(methods.svfl())
    new = {name: columns[40:] for name, columns in x.items()}
    with pytest.raises(ConfigurationError, match="needs the columns of bank, club, but there are"):
        run.predict(new, without={"shop": "zeros"})
    with pytest.raises(ConfigurationError, match="nothing can stand for 'insurer'"):
        run.predict(new, without={"insurer": "zeros"})
