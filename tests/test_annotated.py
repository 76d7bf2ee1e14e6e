"""What a part is given is of the kinds that it annotates, or is refused in one sentence."""

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
import pytest
import torch

import colonnade as cn
from colonnade.annotated import check_fields, check_kind
from colonnade.audits import Scope
from colonnade.channels import Gateway
from colonnade.codecs import (
    QSGD,
    ByRound,
    Float,
    LargeRows,
    Lattice,
    LloydMax,
    LowRank,
    ProductQuantised,
    Scalar,
    TopK,
)
from colonnade.costs import Delayed, Modelled
from colonnade.defences import GaussianDerivatives
from colonnade.delays import Constant
from colonnade.descriptions import content_of
from colonnade.errors import ConfigurationError
from colonnade.fallbacks import check_fallbacks
from colonnade.method import Method
from colonnade.methods import celu, cvfl, efvfl, fedbcd, lean, pbm_vfl, svfl, wait_dp
from colonnade.metrics import Metric
from colonnade.models import Bounded, Cnn, Mvcnn, Polynomial, Tabular, WideAndDeep, mlp
from colonnade.objectives import Classification, Regression
from colonnade.privacy import Budget, Clipped, Event, FixedPoint, Gaussian, PoissonBinomial
from colonnade.stragglers import Deadline, Fastest
from colonnade.streamed import Columns
from colonnade.tables import HashSplit, IdForm, RowSplit, TableTransformer
from colonnade.training import EarlyStopping, Training, checked_training
from colonnade.uplinks import Coded, Masked, Perturbed, Plain

if TYPE_CHECKING:
    from decimal import Decimal

S = Scalar(bits=4)
TENSOR = torch.tensor(0.1)

WRONG = {
    "threads of Training is a whole number, not True": partial(Training, threads=True),
    "threads of Training is a whole number, not 1.0": partial(Training, threads=1.0),
    "threads of Training is a whole number, not np.True_": partial(Training, threads=np.True_),
    "evaluation_rows of Training is a whole number, not 1.0": partial(
        Training, evaluation_rows=1.0
    ),
    "epochs of Training is a whole number or 'auto', not array([1, 2])": partial(
        Training, epochs=np.array([1, 2])
    ),
    "secrets of Training is 'system' or 'seed', not array([1, 2])": partial(
        Training, secrets=np.array([1, 2])
    ),
    "by of EarlyStopping is 'loss' or 'metric', not []": partial(EarlyStopping, by=[]),
    "training is Training(...) or None, not '5'": partial(checked_training, "5"),
    "budget of wait_dp is Budget(epsilon, delta) or None, not 0": partial(wait_dp, budget=0),
    "budget of wait_dp is Budget(epsilon, delta) or None, not False": partial(
        wait_dp, budget=False
    ),
    "or None, not 0": partial(svfl, 0),
    "or None, not False": partial(svfl, False),
    "codec of svfl is ByRound(...), ": partial(svfl, "x"),
    "codec of svfl is a value, not a class: write Scalar(...)": partial(svfl, Scalar),
    "derivative_codec of svfl is ByRound(...), ": partial(svfl, None, "float16"),
    "derivative_codec of pbm_vfl is ByRound(...), ": partial(pbm_vfl, derivative_codec="x"),
    "top_codec of cvfl is ByRound(...), ": partial(cvfl, S, labels="shared", top_codec="x"),
    "codec of cvfl is ByRound(...), ": partial(cvfl, None),
    "codec of efvfl is ByRound(...), ": partial(efvfl, None),
    "storage of efvfl is Disk(...), Memory(...) or None, not 'disk'": partial(
        efvfl, TopK(ratio=0.5), storage="disk"
    ),
    "defence of wait_dp is GaussianDerivatives(...) or None, not 'x'": partial(
        wait_dp, defence="x"
    ),
    "identities of pbm_vfl is a dict from a text to a text or None, not 0": partial(
        pbm_vfl, identities=0
    ),
    "held_out of pbm_vfl is FixedPoint(...), PoissonBinomial(...) or None, not 'x'": partial(
        pbm_vfl, held_out="x"
    ),
    "local_steps of pbm_vfl is a whole number, not '2'": partial(
        pbm_vfl, local_steps="2", overlap=True
    ),
    "local_steps of fedbcd is a whole number, not True": partial(fedbcd, True),
    "overlap of celu is True or False, not 'no'": partial(celu, overlap="no"),
    "step of lean is a number, not 'x'": partial(lean, step="x"),
    "correction of svfl is a number, not '0.1'": partial(svfl, correction="0.1"),
    "correction of Split is a number, not tensor(0.1000)": partial(cn.Split, correction=TENSOR),
    "defence of Split is GaussianDerivatives(...) or None, not False": partial(
        cn.Split, defence=False
    ),
    "defence of Asynchronous is ": partial(cn.Asynchronous, defence=[]),
    "downlink of Split is Direct(...), ErrorFeedback(...) or LearnedEntropy(...), not Sc": partial(
        cn.Split, S
    ),
    "downlink of EventDriven is ": partial(cn.EventDriven, S),
    "codec of Direct is ByRound(...), ": partial(cn.Direct, "x"),
    "link of Plain is Direct(...), ": partial(Plain, S),
    "held_out of Plain is Direct(...), ": partial(Plain, cn.Direct(S), S),
    "noise of Perturbed is Clipped(...) or Gaussian(...), not None": partial(Perturbed, None),
    "mechanism of Masked is FixedPoint(...) or PoissonBinomial(...), not None": partial(
        Masked, None
    ),
    "values of TopK is ByRound(...), ": partial(TopK, ratio=0.5, values=None),
    "ratio of TopK is a number, not True": partial(TopK, ratio=True),
    "values of LowRank is ByRound(...), ": partial(LowRank, 1, values="x"),
    "basis of LowRank is ByRound(...), ": partial(LowRank, 1, basis=3),
    "rank of LowRank is a whole number, not True": partial(LowRank, True),
    "values of LargeRows is ByRound(...), ": partial(LargeRows, below=0.5, values=4),
    "bits of Scalar is a whole number, not True": partial(Scalar, bits=True),
    "high of Scalar is a number or None, not '1'": partial(Scalar, 4, low=-1, high="1"),
    "high of Scalar is a number or None, not []": partial(Scalar, 4, low=-1, high=[]),
    "dither of Lattice is True or False, not 1": partial(Lattice, 4, dither=1),
    "contract of QSGD is True or False, not 'no'": partial(QSGD, 7, contract="no"),
    "format of Float is 16, 32 or 'bf16', not []": partial(Float, []),
    "format of Float is 16, 32 or 'bf16', not 32.0": partial(Float, 32.0),
    "codebook of ProductQuantised is 'float32' or 'float16', not []": partial(
        ProductQuantised, 2, 2, codebook=[]
    ),
    "rounds of ByRound is a list, each a whole number, not (0, '3')": partial(
        ByRound, (S, S), (0, "3")
    ),
    "codecs of ByRound is a list, each ByRound(...), ": partial(ByRound, None, (0,)),
    "pull of Proximal is a number, not True": partial(cn.Proximal, pull=True),
    "label_holder of Proximal is Consecutive(...), ": partial(cn.Proximal, label_holder=None),
    "steps of Consecutive is a whole number, not True": partial(cn.Consecutive, True),
    "folder of Disk is Path or None, not 3": partial(cn.Disk, 3),
    "keep of Disk is a whole number, not None": partial(cn.Disk, keep=None),
    "keep of Disk is a whole number, not nan": partial(cn.Disk, keep=float("nan")),
    "network of Simulate is Network(...), not 'lan'": partial(cn.Simulate, "lan"),
    "network of Simulate is Network(...), not Channel(": partial(cn.Simulate, cn.Channel()),
    "pairs of Network is a dict from (a text, a text) to Channel(...), not {'ab'": partial(
        cn.Network, pairs={"ab": cn.Channel()}
    ),
    "bound of Bounded is a number, not None": partial(Bounded, None),
    "degree of Polynomial is a whole number, not '2'": partial(Polynomial, 3, 2, "2"),
    "outputs of Mvcnn is a whole number, not None": partial(Mvcnn, None),
    "inputs of Cnn is (a whole number, a whole number, a whole number), not None": partial(
        Cnn, None, 3
    ),
    "cardinalities of Tabular is a list, each a whole number, not (3, '4')": partial(
        Tabular, 2, (3, "4"), [8]
    ),
    "wide of WideAndDeep is a whole number, not True": partial(WideAndDeep, 2, [3], wide=True),
    "greater_is_better of 'm' is True or False, not 1": partial(Metric, "m", 1, max),
    "greater_is_better of 'm' is True or False, not np.True_": partial(
        Metric, "m", np.bool_(True), max
    ),
    "method.name is a text, not 3": partial(Method, 3),
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_of_another_kind_is_refused_in_words(said):
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        WRONG[said]()


def test_numbers_of_numpy_and_lists_of_any_kind_are_taken_as_ever():
    assert ByRound([S, Float()], np.array([0, 3])).rounds == (0, 3)
    assert TopK(ratio=np.float64(0.5)).ratio == 0.5
    assert Polynomial(np.int64(3), 2).degree == 2
    assert cn.Simulate(untimed=[cn.Purpose.EVALUATION]).untimed == {cn.Purpose.EVALUATION}


BY_A_NUMBER = [
    lambda n: Training(epochs=n, batch_size=n, seed=n, threads=n, evaluate_every=n),
    lambda n: Training(evaluation_rows=n, checkpoint_every=n),
    lambda n: EarlyStopping(patience=n, min_delta=n),
    lambda n: (Scalar(n), LloydMax(n), QSGD(n, bucket=n), LowRank(n), ProductQuantised(n, n)),
    lambda n: (TopK(0.1 * n), Lattice(n), ByRound((S, Float()), (0, n)), Float(16 * n // 3)),
    lambda n: (cn.Consecutive(n), cn.Proximal(n, n, n), cn.Workset(n, n)),
    lambda n: (celu(capacity=n), fedbcd(n), pbm_vfl(trials=n), lean(step=n)),
    lambda n: (Fastest(n), Deadline(n), Coded(segments=n, colluders=n, data_bits=n)),
    lambda n: (PoissonBinomial(n, 0.1), FixedPoint(n), Gaussian(n, n), Clipped(n), Budget(n, 0.1)),
    lambda n: PoissonBinomial.calibrated(8.0, 1e-5, uses=n, parties=n, width=n, trials=n),
    lambda n: Gaussian.calibrated(n, n, 1e-5, uses=n),
    lambda n: GaussianDerivatives.calibrated(n, n, 1e-5, uses=n),
    lambda n: cn.Network(cn.Channel(n, n, n), queue=n, gateways={"bank": Gateway(n)}),
    lambda n: Delayed(Modelled({}, {}, {"bank": n}, n), {"bank": Constant(n)}, n),
    lambda n: (HashSplit(seed=n), RowSplit(seed=n), IdForm(pad=n)),
    lambda n: Columns(categorical=["shop"], buckets={"shop": n}, endings={"shop": n}),
    lambda n: (
        Scope(known_labels=n, seed=n),
        Classification(n, (n, n, n)),
        Regression(mean=n, scale=n),
    ),
]


@pytest.mark.parametrize("made", BY_A_NUMBER)
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
def test_what_is_made_of_numbers_of_numpy_is_what_pythons_make(made, kind):
    assert repr(made(kind(3))) == repr(made(3))
    assert content_of(made(kind(3))) == content_of(made(3))


def test_fractions_of_numpy_are_kept_as_pythons():
    assert repr(cn.Split(correction=np.float32(0.5))) == repr(cn.Split(correction=0.5))
    assert content_of(Deadline(np.float64(0.1))) == content_of(Deadline(0.1))


def test_a_run_says_the_same_of_numbers_of_numpy(tmp_path):
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    made = cn.Federation(
        [cn.Party("bank", x[:, :2], mlp(2, [3])), cn.Party("shop", x[:, 2:], mlp(2, [3]))],
        cn.LabelHolder("insurer", torch.arange(20) % 2, mlp(6, [2])),
        range(10),
        range(10, 20),
    )
    for name, of in (("own", int), ("numpys", np.int64)):
        training = Training(epochs=of(2), batch_size=of(5), seed=of(4))
        method = svfl(Scalar(of(4)))
        made.train(method, training, out=tmp_path / name, stop_before=3)
    said = [(tmp_path / name / "config.yaml").read_text() for name in ("own", "numpys")]
    assert said[0] == said[1]
    again = Training(epochs=2, batch_size=5, seed=4)
    assert made.train(svfl(S), again, out=tmp_path / "numpys", resume=True)


def test_lists_may_be_arrays():
    for widths in (np.array([8, 4]), [np.int64(8), 4], np.array([8, 4], dtype=np.uint8)):
        torch.manual_seed(0)
        assert str(mlp(5, widths)) == str(mlp(5, [8, 4]))
    assert Tabular(2, np.array([3, 4]), [8]).cardinalities == (3, 4)
    for widths in (np.array(3), np.array([[3]]), np.array([3.5]), torch.tensor([3])):
        with pytest.raises(ConfigurationError, match="widths of mlp is a list, each a whole numb"):
            mlp(5, widths)
    with pytest.raises(ConfigurationError, match=r"an mlp needs layers .*, not \[\]"):
        mlp(5, np.array([], dtype=int))


def test_a_transformer_of_numbers_of_numpy_is_kept_as_one_of_pythons():
    frame = pl.DataFrame({"shop": ["a", "b", "c"]})
    one, other = (
        TableTransformer(one_hot_up_to=of(2), hash_buckets=of(5)) for of in (int, np.int8)
    )
    assert one.fit(frame).state() == other.fit(frame).state()


def test_a_call_that_python_refuses_is_refused_by_python():
    with pytest.raises(TypeError, match="codec"):
        cvfl()
    with pytest.raises(TypeError, match=r"^mlp\(\) missing 1 required .*'widths'$"):
        mlp(5, activation="relu")
    with pytest.raises(TypeError, match=r"^mlp\(\) got an unexpected keyword argument 'nope'$"):
        mlp(5, nope=3)


class Halved:
    """A codec that lacks what says how large its messages are."""

    fixed_size = True

    def law(self, shape):
        raise NotImplementedError

    def encode(self, x, key, saliency=None):
        raise NotImplementedError

    def decode(self, body, shape, key):
        raise NotImplementedError

    def at(self, round):
        return self


def test_a_part_of_ones_own_is_told_what_it_lacks():
    with pytest.raises(ConfigurationError, match=r"would answer .*bytes_at_most"):
        cn.Direct(Halved())


@dataclass(frozen=True)
class Sloppy(Scalar):
    """Adds fields whose annotations say nothing that could be looked up, or something else."""

    extra: "Decimal" = 3
    more: int = None


def test_what_a_derived_part_annotates_is_its_own_matter():
    assert Sloppy(bits=4).more is None
    with pytest.raises(ConfigurationError, match="bits of Sloppy is a whole number, not '4'"):
        Sloppy(bits="4")
    check_fields(Sloppy, Sloppy(bits=4))  # not all of its annotations can be looked up


@pytest.mark.parametrize("annotation", [Any, TypeVar("T"), Event, np.typing.NDArray[np.int64]])
def test_an_annotation_that_is_not_understood_lets_all_pass(annotation):
    check_kind("it", object(), annotation)


def test_a_table_in_the_place_of_a_value_is_not_quoted():
    with pytest.raises(ConfigurationError, match=r"'bank' is .*, not a DataFrame$"):
        check_fallbacks({"bank": pl.DataFrame({"age": [41]})}, ["bank", "shop"])
