"""A run goes on as itself, alone in its folder, and what its folder tells is what it wrote."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import OrderedDict, UserList, defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, partialmethod, wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl
import pytest
import scipy
import sklearn
import torch
import yaml
from scipy.special import expit
from scipy.stats import norm
from sklearn.preprocessing import StandardScaler
from torch import nn

from colonnade import packages_told
from colonnade.codecs import Float, TopK
from colonnade.costs import Modelled
from colonnade.descriptions import content_of
from colonnade.drivers import Processes, Simulate
from colonnade.errors import CheckpointError, ConfigurationError, DataError, Unwritten
from colonnade.federation import Federation
from colonnade.links import Direct
from colonnade.method import Method
from colonnade.methods import efvfl, svfl
from colonnade.metrics import ACCURACY, LOG_LOSS, Metric, at_threshold
from colonnade.models import Mean
from colonnade.objectives import Classification, Regression
from colonnade.organisations import LabelHolder, Party
from colonnade.packages_told import packages_of
from colonnade.reports import write_comparison
from colonnade.reports.tables import step_columns
from colonnade.run_read import load_parts, load_run
from colonnade.stragglers import Wait
from colonnade.surrogates import Disk
from colonnade.training import Training, Watcher
from colonnade.uplinks import Plain
from test_training import assert_same

pytestmark = pytest.mark.usefixtures("no_pictures")

ROWS = 40
SIMULATE = Simulate(costs=Modelled(otherwise=0.001))
TRAINING = Training(epochs=3, batch_size=10, checkpoint_every=3)  # 9 rounds


def federation(loss=None, metrics=None, width=6, **learning):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(ROWS, 4, generator=generator)
    torch.manual_seed(1)
    return Federation(
        [
            Party("bank", x[:, :2], nn.Linear(2, 3), **learning),
            Party("shop", x[:, 2:], nn.Linear(2, 3)),
        ],
        LabelHolder("insurer", (x.sum(1) > 0).long(), nn.Linear(width, 2), loss=loss),
        train_rows=range(30),
        test_rows=range(30, ROWS),
        metrics=metrics,
    )


def train(out, made=None, **settings):
    method = settings.pop("method", svfl())
    settings = {"training": TRAINING, "driver": SIMULATE} | settings
    return (made or federation()).train(method, out=out, **settings)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The method


def halving(times, code):
    """A codec of one's own; another of the same name has other code."""

    @dataclass(frozen=True)
    class Halving(Float):
        times: float = field(default=1.0, repr=False)

        if code == "one":

            def encode(self, x, key, saliency=None):
                return super().encode(x * self.times, key, saliency)

        else:

            def encode(self, x, key, saliency=None):
                return super().encode(x * self.times / 2, key, saliency)

    return replace(svfl(), uplink=Plain(Direct(Halving(times=times))))


@pytest.mark.parametrize("given", [(1.0, "another"), (0.5, "one")], ids=["code", "hidden field"])
def test_a_run_does_not_go_on_with_another_codec_of_the_same_name(tmp_path, given):
    begun, other = halving(1.0, "one"), halving(*given)
    assert repr(begun) == repr(other)
    train(tmp_path, method=begun, stop_before=3)
    with pytest.raises(CheckpointError, match="the method was different"):
        train(tmp_path, method=other, resume=True)
    agreed = {federation().agreement(each, TRAINING).digest for each in (begun, other)}
    assert len(agreed) == 2
    assert train(tmp_path, method=halving(1.0, "one"), resume=True).summary["completed"]


class Everybody:
    """A part of one's own that is told by no fields."""

    drops = leaves_out = False

    def __init__(self):
        self.absent = Wait()

    def expect(self, everything):
        return everything

    def absences(self, layout):
        return self.absent.absences(layout)

    def bytes_remembered(self, layout):
        return 0


def test_a_run_goes_on_with_a_part_that_was_made_anew(tmp_path):
    train(tmp_path, method=Method("own", stragglers=Everybody()), stop_before=3)
    again = Method("own", stragglers=Everybody())
    assert train(tmp_path, method=again, resume=True).summary["completed"]


class Times(NamedTuple):
    scale: float

    def __call__(self, p, y):
        return self.scale * nn.functional.cross_entropy(p, y)


class Number(float):
    def __call__(self, p, y):
        return self * nn.functional.cross_entropy(p, y)


SHUFFLING = np.random.default_rng(0)


def shuffling(p, y):
    rows = np.arange(len(y))
    SHUFFLING.shuffle(rows)
    return nn.functional.cross_entropy(p, y[rows])


class Bound:
    def _of(self, p, y, scale):
        return scale * nn.functional.cross_entropy(p, y)

    __call__ = partialmethod(_of, scale=1.0)


def test_a_loss_counts_by_the_code_of_its_class_whatever_that_is_made_from(monkeypatch):
    def twice(self, p, y):
        return 2 * nn.functional.cross_entropy(p, y)

    for loss in (Times(2.0), Number(2.0)):
        before = content_of(loss)
        with monkeypatch.context() as edited:
            edited.setattr(type(loss), "__call__", twice)
            assert content_of(loss) != before
        assert content_of(loss) == before
    assert content_of(Times(2.0)) != content_of(Times(3.0))
    assert content_of(2.0) != content_of(Number(2.0))


def test_what_shuffles_and_what_a_method_was_made_with_counts(monkeypatch):
    before = content_of(shuffling), content_of(Bound())
    monkeypatch.setattr(sys.modules[__name__], "SHUFFLING", np.random.default_rng(1))
    monkeypatch.setattr(Bound, "__call__", partialmethod(Bound._of, scale=5.0))
    after = content_of(shuffling), content_of(Bound())
    assert all(one != other for one, other in zip(before, after, strict=True))


@dataclass(frozen=True)
class Stepped(Float):
    """A codec that cannot be hashed, nor compared with one that has another array."""

    steps: dict = field(default_factory=dict)
    by: np.ndarray = field(default_factory=lambda: np.ones(2))


def test_a_codec_need_be_neither_hashable_nor_comparable(tmp_path):
    method = svfl(Stepped(), Stepped())
    assert_same(train(None), train(tmp_path, method=method, report=False))


def test_a_run_goes_on_where_its_surrogates_were_moved(tmp_path):
    def surrogates(place):
        return efvfl(TopK(ratio=0.5), storage=Disk(tmp_path / place))

    train(tmp_path / "run", method=surrogates("here"), stop_before=3)
    (tmp_path / "here").rename(tmp_path / "there")
    assert train(tmp_path / "run", method=surrogates("there"), resume=True).summary["completed"]


def test_what_other_packages_brought_is_told_by_their_versions(monkeypatch):
    method = replace(svfl(), stragglers=Everybody())
    assert packages_of(method) == {}

    class Own(StandardScaler):
        pass

    learn = {"scikit-learn": sklearn.__version__}
    for each in (Own(), StandardScaler, partial(sklearn.clone), [StandardScaler().fit]):
        method.stragglers.brought = each
        assert packages_of(method) == learn
    digests = {federation().agreement(method, TRAINING).digest}
    monkeypatch.setattr(packages_told, "version", lambda name: "0")
    digests.add(federation().agreement(method, TRAINING).digest)
    assert len(digests) == 2


class Holding:
    __slots__ = ("part",)

    def __init__(self, part):
        self.part = part


def test_packages_of_what_is_compiled_of_slots_and_of_modules_are_told():
    assert packages_of([msgspec.json.encode]) == {"msgspec": msgspec.__version__}
    assert packages_of(msgspec.json.Encoder.encode) == {"msgspec": msgspec.__version__}
    assert packages_of(expit) == {"scipy": scipy.__version__}
    learn = {"scikit-learn": sklearn.__version__}
    assert packages_of(Holding(StandardScaler())) == packages_of(Holding(sklearn)) == learn
    assert packages_of(Holding([np, torch, np.add, torch.add, {}.get])) == {}


def test_packages_are_told_of_parts_however_deep():
    deep = StandardScaler()
    for _ in range(2000):
        deep = [deep]
    assert packages_of(deep) == {"scikit-learn": sklearn.__version__}


# The objective


class Focal:
    def __init__(self, gamma):
        self.gamma = gamma

    def __call__(self, predictions, labels):
        losses = nn.functional.cross_entropy(predictions, labels, reduction="none")
        return (losses * (1 - (-losses).exp()) ** self.gamma).mean()


def times(factor):
    def loss(predictions, labels):
        return factor * nn.functional.cross_entropy(predictions, labels)

    return loss


def weighted(*weights):
    return nn.CrossEntropyLoss(weight=torch.tensor(weights))


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, predictions, labels):
        return self.factor * nn.functional.cross_entropy(predictions, labels)

    def __repr__(self):
        return "a loss"


class Private(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self._factor = factor
        self.register_buffer("also", torch.tensor(factor), persistent=False)

    def forward(self, predictions, labels):
        return self._factor * nn.functional.cross_entropy(predictions, labels)


class Drawing(Focal):
    def __init__(self, seed):
        super().__init__(2.0)
        self.noise = np.random.default_rng(seed)


FACTOR = [1.0]


def by_a_global(predictions, labels):
    return FACTOR[0] * nn.functional.cross_entropy(predictions, labels)


LABELS = torch.tensor([0, 0, 1])


def loss_of(objective, labels):
    return objective.loss(objective.learned(labels))


def drawing(generator):
    def loss(predictions, labels):
        return generator.random() * nn.functional.cross_entropy(predictions, labels)

    return loss


@pytest.mark.parametrize(
    "shared",
    [
        lambda: norm,
        lambda: norm(0, 1),
        lambda: np.random.random.__self__,
        lambda: np.random.Generator(np.random.get_bit_generator()),
        lambda: random.random.__self__,
        lambda: random.random,
        lambda: torch.default_generator,
    ],
    ids=["scipy", "frozen", "numpy", "numpy's bits", "Python", "a method", "torch"],
)
def test_what_others_draw_from_a_generator_of_all_is_no_part_of_a_loss(shared):
    loss = drawing(shared())
    told = content_of(loss)
    np.random.random(), random.random(), torch.rand(1)
    assert content_of(loss) == told != content_of(drawing(np.random.RandomState(1)))


def compiled(factor):
    return torch.compile(times(factor), backend="eager")


def around(function):
    @wraps(function)
    def loss(predictions, labels):
        return function(predictions, labels)

    return loss


LOSSES = {
    "usual": lambda: None,
    "a function": lambda: nn.functional.multi_margin_loss,
    "a module": lambda: nn.MultiMarginLoss(),
    "a module with a setting": lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
    "weights": lambda: weighted(1.0, 9.0),
    "other weights": lambda: weighted(9.0, 1.0),
    "balanced": lambda: loss_of(Classification(2, "balanced"), LABELS),
    "modules in one": lambda: nn.ModuleList([weighted(1.0, 9.0)])[0].forward,
    "part of a function": lambda: partial(nn.functional.cross_entropy, label_smoothing=0.1),
    "another part of it": lambda: partial(nn.functional.cross_entropy, label_smoothing=0.2),
    "an object": lambda: Focal(2.0),
    "an object with another setting": lambda: Focal(3.0),
    "a function around a number": lambda: times(2.0),
    "a function around another": lambda: times(3.0),
    "no name": lambda: lambda p, y: nn.functional.cross_entropy(p, y) + p.abs().mean(),
    "no name either": lambda: lambda p, y: nn.functional.cross_entropy(p, y) + p.square().mean(),
    "slots": lambda: Slotted(2.0),
    "other slots": lambda: Slotted(3.0),
    "what is private to a module": lambda: Private(2.0),
    "something else that is": lambda: Private(3.0),
    "a generator": lambda: Drawing(1),
    "another generator": lambda: Drawing(2),
    "a global": lambda: by_a_global,
    "compiled": lambda: compiled(2.0),
    "compiled otherwise": lambda: compiled(3.0),
    "around what is compiled": lambda: around(compiled(2.0)),
    "a number": lambda: loss_of(Regression(), LABELS.float()),
    "another number": lambda: loss_of(Regression(), 2 * LABELS.float()),
}


def test_a_loss_is_told_by_its_name_and_by_what_it_was_made_with():
    told = {name: content_of(make()) for name, make in LOSSES.items()}
    assert len(set(told.values())) == len(told)
    assert told == {name: content_of(make()) for name, make in LOSSES.items()}
    assert "0x" not in str(told)  # no addresses


def test_a_loss_is_told_alike_in_every_process():
    script = "import test_same_run as t\nfor m in t.LOSSES.values(): print(t.content_of(m()))"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines() == [content_of(make()) for make in LOSSES.values()]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself
def test_what_torch_compiles_and_numpy_registers_is_told_by_what_it_is():
    def compiled(smoothing):
        return content_of(torch.compile(nn.CrossEntropyLoss(label_smoothing=smoothing)))

    assert compiled(0.1) == compiled(0.1) != compiled(0.2)
    assert content_of(np.add) == content_of(np.add) != content_of(np.multiply)


def test_a_set_that_holds_itself_is_told_too():
    class Node:
        pass

    node = Node()
    node.others = {node}
    assert content_of(node) == content_of(node)


def test_what_holds_itself_is_told_too():
    def calls_itself(n):
        return calls_itself(n - 1)

    focal = Focal(2.0)
    focal.inner = {"again": [focal, calls_itself]}
    assert content_of(focal) == content_of(focal)


def test_a_function_is_told_by_the_globals_that_it_names_and_by_its_code(monkeypatch):
    told = content_of(by_a_global)
    monkeypatch.setitem(globals(), "FACTOR", [2.0])
    assert content_of(by_a_global) != told
    monkeypatch.undo()
    assert content_of(by_a_global) == told
    monkeypatch.setattr(by_a_global, "__code__", (lambda predictions, labels: FACTOR).__code__)
    assert content_of(by_a_global) != told
    assert "code" not in content_of(nn.functional.cross_entropy)


NOTED = []
ARGUMENTS = SimpleNamespace(smooth=0.1, mode="start")


def noting(predictions, labels):
    NOTED.append(float(labels[0]))
    return nn.functional.cross_entropy(predictions, labels, label_smoothing=ARGUMENTS.smooth)


class Configured:
    weight = 9.0

    def __call__(self, predictions, labels):
        return self.weight * nn.functional.cross_entropy(predictions, labels)


def test_what_a_function_notes_or_does_not_name_is_no_part_of_it(monkeypatch):
    told = content_of(noting)
    NOTED.append(1.0)
    monkeypatch.setattr(ARGUMENTS, "mode", "resume")
    assert content_of(noting) == told
    monkeypatch.setattr(ARGUMENTS, "smooth", 0.2)
    assert content_of(noting) != told


SEEN = {"n": 0, "losses": []}
STATISTICS = SimpleNamespace(n=0)
NEWEST = deque(maxlen=3)
NUMBERS = itertools.count()


def counting():
    calls = 0

    def loss(predictions, labels):
        nonlocal calls
        calls += 1
        STATISTICS.n += 1
        SEEN["n"] += 1
        SEEN["losses"].append(next(NUMBERS))
        NEWEST.append(calls)
        return nn.functional.cross_entropy(predictions, labels)

    return loss


def test_what_a_function_counts_is_no_part_of_it():
    loss = counting()
    told = content_of(loss)
    loss(torch.zeros(2, 2), torch.tensor([0, 1]))
    assert SEEN["n"] == STATISTICS.n == len(NEWEST) == 1
    assert content_of(loss) == told


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def scaled(self, value):
        return self.factor * value


SCALE = Scale(1.0)


def by_a_method(predictions, labels):
    return SCALE.scaled(nn.functional.cross_entropy(predictions, labels))


def by_a_look(predictions, labels):
    factor = getattr(ARGUMENTS, "smo" + "oth")
    return factor * nn.functional.cross_entropy(predictions, labels)


def test_an_object_is_told_by_what_its_methods_look_up(monkeypatch):
    told, looked = content_of(by_a_method), content_of(by_a_look)
    monkeypatch.setattr(SCALE, "factor", 2.0)
    assert content_of(by_a_method) != told
    monkeypatch.undo()
    monkeypatch.setattr(Scale, "scaled", lambda self, value: value)
    assert content_of(by_a_method) != told
    monkeypatch.setattr(ARGUMENTS, "smooth", 0.9)
    assert content_of(by_a_look) != looked


def test_a_class_is_told_by_its_attributes_and_by_the_code_of_its_methods(monkeypatch):
    told = content_of(Configured())
    monkeypatch.setattr(Configured, "weight", 8.0)
    assert content_of(Configured()) != told
    monkeypatch.undo()
    assert content_of(Configured()) == told
    monkeypatch.setattr(Configured, "__call__", lambda self, predictions, labels: 0)
    assert content_of(Configured()) != told


def test_each_object_is_told_once_however_many_ways_lead_to_it():
    one = other = [1.0]
    for _ in range(100):  # 2 to the 100 ways
        one, other = [one, other, "a"], [other, one, "b"]
    assert content_of(one) != content_of(other)
    names = {"columns": np.array(["age", None], dtype=object)}
    assert content_of(names) == content_of({"columns": np.array(["age", None], dtype=object)})
    assert content_of([names, names]) == content_of([names, dict(names)])  # shared or alike
    assert content_of(torch.eye(3).to_sparse()) != content_of(torch.ones(3, 3).to_sparse())


class Scaled(nn.Module):
    def __init__(self, factor=1.0, buffer=1.0, frozen=()):
        super().__init__()
        self.factor = factor
        self.linear = nn.Linear(2, 3)
        self.register_buffer("buffer", torch.tensor(buffer), persistent=False)
        for name in frozen:
            getattr(self.linear, name).requires_grad = False

    def forward(self, x):
        return self.factor * self.buffer * self.linear(x)


@pytest.mark.parametrize(
    "other", [{"factor": 5.0}, {"buffer": 5.0}, {"frozen": ["bias"]}], ids=" ".join
)
def test_a_run_does_not_go_on_with_a_model_that_its_parameters_do_not_tell(tmp_path, other):
    def made(**settings):
        usual = federation()
        torch.manual_seed(4)
        party = replace(usual.parties[0], bottom=Scaled(**settings))
        rows = {"train_rows": range(30), "test_rows": range(30, ROWS)}
        return Federation([party, usual.parties[1]], usual.label_holder, **rows)

    train(tmp_path, made(), stop_before=3)
    with pytest.raises(CheckpointError, match="another configuration"):
        train(tmp_path, made(**other), resume=True)
    assert_same(train(None, made()), train(tmp_path, made(), resume=True))


def clamps(module, inputs, output):
    return output.clamp(-0.1, 0.1)


def hooked(hook=None):
    layer = nn.Linear(2, 3)
    if hook:
        layer.register_forward_hook(hook)
    return layer


class Tied(nn.Module):
    def __init__(self, tied):
        super().__init__()
        torch.manual_seed(0)
        self.one = nn.Linear(3, 3)
        self.two = self.one if tied == "modules" else nn.Linear(3, 3)
        if tied != "modules":
            self.two.load_state_dict(self.one.state_dict())
        if tied == "weights":
            self.two.weight = self.one.weight


class InOrder(nn.Module):
    def __init__(self, *names):
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Identity() for name in names})


def traced(function):
    class Module(nn.Module):
        def forward(self, x):
            return function(x)

    return torch.fx.symbolic_trace(Module())


def doubled(scale):
    @lru_cache
    def factor():
        return scale

    return factor


@dataclass
class Weighing:
    weights: torch.Tensor = field(compare=False)

    def __post_init__(self):
        self.doubled = 2 * self.weights

    def __call__(self, predictions, labels):
        return nn.functional.cross_entropy(predictions, labels, weight=self.doubled)


def with_attribute(factor):
    def loss(predictions, labels):
        return loss.factor * nn.functional.cross_entropy(predictions, labels)

    loss.factor = factor
    return loss


def in_a_class(value):
    class Holds:
        weights = value

        def __call__(self, predictions, labels):
            return nn.functional.cross_entropy(predictions, labels, weight=self.weights)

    return Holds()


def scaled(self, factor=1.0):
    return factor


def half_bound(factor):
    return type("Bound", (), {"scaled": partialmethod(scaled, factor), "__module__": __name__})()


class Named(dict):
    pass


class NamedLate(defaultdict):
    pass


def named(more):
    made = Named(a=1)
    made.more = more
    return made


def from_a_file(text):
    module = ModuleType("nowhere_to_be_found")
    exec(text, vars(module))
    return module.loss


def rated(rate):
    def call(self, predictions, labels):
        return self.__rate__ * nn.functional.cross_entropy(predictions, labels)

    return type("Rated", (), {"__rate__": rate, "__call__": call, "__module__": __name__})()


def takes(parameters):
    return from_a_file(f"def loss({parameters}): return p")


class Doubling(torch.Tensor):
    factor = 2.0


class Halving(torch.Tensor):
    factor = 0.5


class Nameless(Focal):
    def __reduce__(self):
        return "nobody_has_it"


def ragged(*lengths):
    tensors = [torch.ones(length) for length in lengths]
    return torch.nested.nested_tensor(tensors, layout=torch.jagged)


APART = {
    "a number of a column": (
        lambda: torch.tensor([[1.0, 5.0], [2.0, 3.0]])[:1, 1],
        lambda: torch.tensor([[1.0, 6.0], [2.0, 3.0]])[:1, 1],
    ),
    "imaginary parts": (
        lambda: torch.tensor([1 + 1j]).imag,
        lambda: torch.tensor([1 + 1j]).conj().imag,
    ),
    "a function of numpy's around another": (
        lambda: np.frompyfunc(times(1.0), 2, 1),
        lambda: np.frompyfunc(times(2.0), 2, 1),
    ),
    "what is copied by a name that nobody has": (lambda: Nameless(1.0), lambda: Nameless(2.0)),
    "a class of tensors": (
        lambda: torch.ones(2).as_subclass(Doubling),
        lambda: torch.ones(2).as_subclass(Halving),
    ),
    "a class of arrays": (lambda: np.eye(2), lambda: np.eye(2).view(np.matrix)),
    "bytes that are looked at": (lambda: memoryview(b"a"), lambda: memoryview(b"b")),
    "what a variable of a context is": (
        lambda: ContextVar("factor", default=1.0),
        lambda: ContextVar("factor", default=2.0),
    ),
    "tensors in one": (lambda: ragged(1, 2), lambda: ragged(2, 1)),
    "a field that is not compared": (
        lambda: Weighing(torch.ones(2)),
        lambda: Weighing(torch.zeros(2)),
    ),
    "an attribute of a function": (lambda: with_attribute(1.0), lambda: with_attribute(2.0)),
    "a tensor of a class": (lambda: in_a_class(torch.ones(2)), lambda: in_a_class(torch.zeros(2))),
    "a module of a class": (
        lambda: in_a_class(nn.Linear(1, 1)),
        lambda: in_a_class(nn.Linear(1, 2)),
    ),
    "arguments of a method": (lambda: half_bound(1.0), lambda: half_bound(2.0)),
    "what a built-in function is of": (lambda: {"a": 1}.get, lambda: {"a": 2}.get),
    "all other arguments": (lambda: takes("p, y"), lambda: takes("p, *y")),
    "arguments by their names": (lambda: takes("p, y, a, b"), lambda: takes("p, y, b, a")),
    "arguments by name alone": (lambda: takes("p, y"), lambda: takes("p, *, y")),
    "arguments by place alone": (lambda: takes("p, y"), lambda: takes("p, y, /")),
    "an attribute with underscores": (lambda: rated(1.0), lambda: rated(2.0)),
    "a dictionary in another order": (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    "what a dictionary holds beside": (
        lambda: defaultdict(int, a=1),
        lambda: defaultdict(float, a=1),
    ),
    "what a dictionary of one's own does": (
        lambda: NamedLate(lambda: 1, a=1),
        lambda: NamedLate(lambda: 2, a=1),
    ),
    "the type of a dictionary": (lambda: {"a": 1}, lambda: OrderedDict(a=1)),
    "attributes of a dictionary": (lambda: named(1), lambda: named(2)),
    "a generator's state": (
        lambda: torch.Generator().manual_seed(1),
        lambda: torch.Generator().manual_seed(2),
    ),
    "code without a file": (
        lambda: from_a_file("def loss(p, y): return 1.0"),
        lambda: from_a_file("def loss(p, y): return 2.0"),
    ),
    "a hook": (hooked, lambda: hooked(clamps)),
    "parts in another order": (lambda: InOrder("a", "b"), lambda: InOrder("b", "a")),
    "weights in common": (lambda: Tied("none"), lambda: Tied("weights")),
    "parts in common": (lambda: Tied("weights"), lambda: Tied("modules")),
    "a graph": (lambda: traced(torch.tanh), lambda: traced(torch.sigmoid)),
    "what is cached": (lambda: doubled(2.0), lambda: doubled(3.0)),
}


@pytest.mark.parametrize("what", APART)
def test_models_are_told_apart_by(what):
    told = []
    for make in (*APART[what], *APART[what]):
        torch.manual_seed(0)
        told.append(content_of(make()))
    assert told[0] == told[2] != told[1] == told[3]


def in_order(*names):
    made = Everybody()
    for name in names:
        setattr(made, name, name)
    settings = {name: float(name == "a") for name in names}
    return [made, partial(scaled, **settings), Modelled(otherwise=0.1, seconds=settings)]


def test_the_order_of_names_is_no_part_of_what_has_them():
    assert content_of(in_order("a", "b")) == content_of(in_order("b", "a"))


def test_a_function_is_told_by_the_settings_that_it_looks_up_in_a_module(tmp_path, monkeypatch):
    (tmp_path / "settings_of_a_loss.py").write_text("GAMMA, UNUSED = 2.0, 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings = importlib.import_module("settings_of_a_loss")
    monkeypatch.setitem(globals(), "settings", settings)
    told = content_of(by_settings)
    settings.UNUSED = 1
    assert content_of(by_settings) == told
    settings.GAMMA = 3.0
    assert content_of(by_settings) != told


def by_settings(predictions, labels):
    return settings.GAMMA * nn.functional.cross_entropy(predictions, labels)  # noqa: F821


READ = {
    "in a mask": "w = torch.ones(2); w[y == SET] = 4.0",
    "as an index that is added to": "w = torch.ones(2); w[SET] += 3.0",
    "as a column": "w = torch.ones(1, 2); w[:, SET] = 3.0",
    "between two others": "w = 1.0 if -9 < SET < 0.5 else 2.0",
    "by a method called add": "w = TENSOR.add(p)",
    "under the name of an attribute": "y.SET = SET",
    "into what is given by its name": "ARRAY.dot(np.ones((1, 1)), out=np.empty((1, 1))[0])",
    "into what is given by its place": "ARRAY.dot(np.ones((1, 1)), np.empty((1, 1))[0])",
    "into what an addition is given": "TENSOR.add(p, out=torch.empty(1))",
    "once it has been told something": "TABLE.update(b=0); w = TABLE['a']",
    "where it may be bound anew": "global SET\n if SET is None: SET = 3",
    "of an object that goes elsewhere": "w = read_by(OBJECT)",
    "of an object whose method calls another": "w = OBJECT.outer()",
    "of an object whose property looks up another": "w = OBJECT.wide",
    "of an object whose method hands it on": "w = OBJECT.handed_on()",
    "of an object that changes what it is told": "OBJECT.scale_(p)",
    "of a module in a module": "w = outer.within.VALUE",
    "of a module that goes elsewhere": "w = getattr(inner, 'VAL' + 'UE')",
    "of a module that is told something": "outer.within.call(p)",
    "of an object that holds what is told something": "HOLDER.call(p)",
    "of a class that is told something": "Methods.half(p)",
    "of a module that is imported": "from inner_of_a_loss import VALUE",
    "of a module in an import": "import inner_of_a_loss as inside",
    "of a method that is a part of another": "w = Methods().half()",
    "of a private name": "w = Methods()._value",
    "of what calls": "w = Methods()()",
}
LOOKED_UP = """
from functools import partial
from types import SimpleNamespace
import numpy as np
import torch
from test_same_run import scaled
class Object:
    def inner(self): return self.set
    def outer(self): return self.inner()
    def handed_on(self): return read_by(self)
    def scale_(self, p): p.mul_(self.set)
    narrow = property(inner)
    wide = property(lambda self: self.narrow)
class Methods:
    _value = SET
    half = staticmethod(partial(scaled, SET))
    __call__ = partial(scaled, SET)
def read_by(an_object): return an_object.set
OBJECT = Object()
OBJECT.set = SET
HOLDER = SimpleNamespace(call=partial(scaled, SET))
TABLE = {"a": SET}
TENSOR, ARRAY = torch.tensor(SET), np.array([SET])
def loss(p, y):
"""


@pytest.mark.parametrize("how", READ)
def test_a_function_is_told_by_a_value_that_it_reads(monkeypatch, how):
    outer, inner = ModuleType("outer_of_a_loss"), ModuleType("inner_of_a_loss")
    outer.within = inner
    monkeypatch.setitem(sys.modules, inner.__name__, inner)
    told = []
    for inner.VALUE in (0, 1, 0):
        inner.call = partial(scaled, inner.VALUE)
        module = ModuleType("nowhere_to_be_found")
        vars(module).update(SET=inner.VALUE, outer=outer, inner=inner)
        exec(LOOKED_UP + f" {READ[how]}\n return p", vars(module))
        told.append(content_of(module.loss))
    assert told[0] == told[2] != told[1]


LOG = UserList()
COUNTED = {"calls": 0, "factor": 1.0}


def writing(predictions, labels):
    rows = len(labels)
    COUNTED["calls"] += 1
    if rows > 1:
        COUNTED[rows] = COUNTED["last"] = rows
        LOG.append(float(predictions.sum()))
    writing.calls += 1
    writing.rows.append(rows)
    return COUNTED["factor"] * nn.functional.cross_entropy(predictions, labels)


writing.calls, writing.rows = 0, []


def test_what_a_function_only_writes_is_no_part_of_it(monkeypatch):
    told = content_of(writing)
    writing(torch.zeros(2, 2), torch.tensor([0, 1]))
    assert (COUNTED["calls"], COUNTED[2], len(LOG), writing.rows) == (1, 2, 1, [2])
    assert content_of(writing) == told
    monkeypatch.setitem(COUNTED, "factor", 2.0)
    assert content_of(writing) != told


CHANGED = {
    "the loss": {"loss": nn.functional.multi_margin_loss},
    "the loss and its weights": {"loss": weighted(1.0, 9.0)},
    "the metrics": {"metrics": [at_threshold(ACCURACY, 0.3), LOG_LOSS]},
    "the metrics and their direction": {
        "metrics": [Metric("accuracy", False, ACCURACY.function), LOG_LOSS]
    },
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_run_does_not_go_on_with_another_objective(tmp_path, what):
    usual = {"metrics": [ACCURACY, LOG_LOSS]}
    train(tmp_path, federation(**usual), stop_before=3)
    before = contents(tmp_path)
    told = f"another configuration .*: {what[:8]}.* were different"
    with pytest.raises(CheckpointError, match=told):
        train(tmp_path, federation(**usual | CHANGED[what]), resume=True)
    assert contents(tmp_path) == before
    assert train(tmp_path, federation(**usual), resume=True).summary["completed"]


def classifying(*classes):
    made = federation()
    return Federation(
        made.parties,
        made.label_holder,
        made.train_rows,
        made.test_rows,
        classes=classes or None,
    )


@pytest.mark.parametrize("other", [("yes", "no"), ("no", "maybe"), ()], ids=str)
def test_a_run_does_not_go_on_with_other_names_of_its_classes(tmp_path, other):
    train(tmp_path, classifying("no", "yes"), stop_before=3)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match="what classes are called was different"):
        train(tmp_path, classifying(*other), resume=True)
    assert contents(tmp_path) == before
    run = train(tmp_path, classifying("no", "yes"), resume=True)
    assert run.summary["classes"] == ["no", "yes"]


@pytest.mark.parametrize("what", ["what classes are called", "the metrics"])
def test_what_an_earlier_checkpoint_does_not_tell_is_not_compared(tmp_path, monkeypatch, what):
    fingerprint = Federation._fingerprint

    def earlier(self, *given):
        told = fingerprint(self, *given)
        del told[what]
        return told

    with monkeypatch.context() as then:
        then.setattr(Federation, "_fingerprint", earlier)
        train(tmp_path, classifying("no", "yes"), stop_before=3)
    assert train(tmp_path, classifying("no", "yes"), resume=True).summary["completed"]


def test_a_run_does_not_go_on_with_one_organisation_more(tmp_path):
    train(tmp_path, federation(width=6), stop_before=3)
    made = federation(width=9)
    more = Party("club", made.parties[0].features, nn.Linear(2, 3))
    made = Federation([*made.parties, more], made.label_holder, made.train_rows, made.test_rows)
    with pytest.raises(CheckpointError, match="the layout and"):
        train(tmp_path, made, resume=True)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_goes_on_with_the_same_loss_made_anew(tmp_path, loss):
    make = LOSSES[loss]
    if loss.split()[-1] == "number" and "around" not in loss:
        pytest.skip("is of numbers, not of classes")
    if "compiled" in loss:
        pytest.skip("takes seconds to compile")
    train(tmp_path, federation(make()), stop_before=3)
    rest = train(tmp_path, federation(make()), resume=True)
    assert_same(train(None, federation(make())), rest)


class Slowed(torch.optim.SGD):
    def __init__(self, parameters, factor):
        super().__init__(parameters, lr=0.1 / factor)
        self.factor = factor
        self.defaults["lr"] = 0.1  # what an optimiser tells of itself need not be all

    def step(self, closure=None):
        self.param_groups[0]["lr"] = 0.1 / self.factor
        return super().step(closure)


def decaying(rate):
    return partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda epoch: rate**epoch)


LEARNING = {
    "optimiser": lambda factor: {"optimiser": partial(Slowed, factor=factor)},
    "scheduler": lambda factor: {"scheduler": decaying(1 / factor)},
}


@pytest.mark.parametrize("what", LEARNING)
def test_a_run_does_not_go_on_with_what_an_optimiser_or_scheduler_does_not_tell(tmp_path, what):
    made = LEARNING[what]
    train(tmp_path, federation(**made(2.0)), stop_before=3)
    with pytest.raises(CheckpointError, match="another configuration"):
        train(tmp_path, federation(**made(3.0)), resume=True)
    rest = train(tmp_path, federation(**made(2.0)), resume=True)
    assert_same(train(None, federation(**made(2.0))), rest)


# The folder


def test_a_file_in_place_of_the_checkpoints_is_told_as_that(tmp_path):
    train(tmp_path, stop_before=3)
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "checkpoint").write_text("x", encoding="utf-8")
    with pytest.raises(DataError, match=r"checkpoint is a file, where a folder of the run will be"):
        train(tmp_path, resume=True)


@pytest.mark.parametrize(
    "name", ["history.csv", "ledger.csv", "summary.json", "parts", "parts/bank/bottom.safetensors"]
)
def test_a_folder_in_place_of_a_file_is_told_before_training(tmp_path, name):
    train(tmp_path, stop_before=3)
    place = tmp_path / name
    is_file = place.is_file()
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.mkdir() if is_file else place.write_text("x")
    rounds = []
    with pytest.raises(DataError, match=f"{name} is a f.*, where a f.* of the run will be; move"):
        train(tmp_path, resume=True, watcher=Watcher(on_begin=lambda *told: rounds.append(told)))
    assert not rounds
    place.rmdir() if is_file else place.unlink()
    assert train(tmp_path, resume=True).summary["completed"]


@pytest.mark.parametrize("names", [[True], ["../bank"], [["bank"]], None, "bank"], ids=str)
def test_parts_of_a_summary_that_names_nobody_are_refused(tmp_path, names):
    train(tmp_path)
    file = tmp_path / "summary.json"
    summary = json.loads(file.read_text()) | {"parties": names}
    del summary["digest"]
    if names in (None, "bank"):
        summary["label_holder"] = 3
    digest = hashlib.blake2b(json.dumps(summary).encode(), digest_size=16).hexdigest()
    file.write_text(json.dumps(summary | {"digest": digest}))
    with pytest.raises(DataError, match="does not say whose parts there are: an organisation"):
        load_parts(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that have names")
@pytest.mark.parametrize(
    "name", ["config.yaml", "journal/bank", "manifest.json", "others_history.csv"]
)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path, name):
    train(tmp_path, stop_before=3)
    if name == "manifest.json":
        name = f"checkpoint/round-00000003/{name}"
    place = tmp_path / name
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)
    with pytest.raises(DataError, match=f"{name} is no ordinary file; move it away"):
        train(tmp_path, resume=True)


@pytest.mark.parametrize("name", ["history.csv", "summary.json", "report.html", "parts"])
@pytest.mark.parametrize("epochs", [3, 4])
def test_what_a_run_has_told_is_not_written_over_without_a_checkpoint(tmp_path, name, epochs):
    train(tmp_path)
    for folder in {"checkpoint", "parts"} - {name}:
        shutil.rmtree(tmp_path / folder)
    if name == "report.html":
        (tmp_path / name).write_text("<!doctype html>Written by Colonnade")
    for other in ("history.csv", "ledger.csv", "summary.json"):
        if other != name:
            (tmp_path / other).unlink()
    before = contents(tmp_path)
    training = Training(epochs=epochs, batch_size=10)
    with pytest.raises(ConfigurationError, match=f"holds {name} of a run, but no checkpoint"):
        train(tmp_path, resume=True, training=training)
    assert contents(tmp_path) == before


def killed_early(folder):
    """Leave of a run what one has that was killed before its first checkpoint."""
    train(folder, stop_before=3)
    for path in sorted(folder.iterdir()):
        if path.name in ("checkpoint", "departures", "parts"):
            shutil.rmtree(path)
        elif path.suffix in (".csv", ".json"):
            path.unlink()
    assert {path.name for path in folder.iterdir()} == {"config.yaml", "journal"}


def test_a_configuration_of_another_run_is_not_written_over(tmp_path):
    killed_early(tmp_path)
    config = tmp_path / "config.yaml"
    for text in (config.read_text().replace("epochs: 3", "epochs: 4"), "# Written by Colonnade: ["):
        config.write_text(text)
        before = contents(tmp_path)
        with pytest.raises(ConfigurationError, match="describes another run, and there is no"):
            train(tmp_path, resume=True)
        assert contents(tmp_path) == before


def test_a_run_killed_before_its_first_checkpoint_begins_again(tmp_path):
    killed_early(tmp_path)
    config = tmp_path / "config.yaml"
    noted = config.read_text() + "# why I did this\n"
    config.write_text(noted)
    assert_same(train(None), train(tmp_path, resume=True))
    assert config.read_text() == noted


# One run at a time


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("driver", [SIMULATE, Processes()], ids=lambda d: d.label)
def test_a_second_run_in_a_folder_is_refused_while_the_first_is_at_work(tmp_path, driver, resume):
    train(tmp_path, stop_before=3)
    refused = []

    def second(role, round, sent_bytes):
        if not refused:
            before = (tmp_path / "config.yaml").stat()
            with pytest.raises(ConfigurationError, match="another run is at work in ") as caught:
                train(tmp_path, federation(nn.MultiMarginLoss()), resume=resume)
            refused.append(caught.value)
            assert (tmp_path / "config.yaml").stat() == before

    run = train(tmp_path, resume=True, driver=driver, watcher=Watcher(on_round=second))
    assert refused
    assert run.summary["completed"]
    train(tmp_path, resume=True)  # the folder is free again


def test_another_process_is_kept_out_until_it_is_killed(tmp_path):
    script = (
        "import sys, time, pathlib, test_same_run as t\n"
        "def wait(*_): print('at work', flush=True); time.sleep(600)\n"
        "t.train(pathlib.Path(sys.argv[1]), report=False, watcher=t.Watcher(on_round=wait))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    with subprocess.Popen(
        command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "at work\n"
        with pytest.raises(ConfigurationError, match="another run is at work in "):
            train(tmp_path / "run", resume=True)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert_same(train(None), train(tmp_path / "run", resume=True))


@pytest.mark.parametrize("driver", [SIMULATE, Processes()], ids=lambda driver: driver.label)
def test_a_run_whose_folder_was_moved_writes_nothing_into_one_in_its_place(tmp_path, driver):
    folder = tmp_path / "run"

    def move(role, round, sent):
        if round == 4 and not (tmp_path / "moved").exists():
            folder.rename(tmp_path / "moved")
            (folder / "checkpoint").mkdir(parents=True)

    with pytest.raises(Unwritten, match=r"checkpoint cannot be written: .* moved or removed"):
        train(folder, driver=driver, watcher=Watcher(on_round=move))
    assert not list((folder / "checkpoint").iterdir())


def test_two_runs_in_two_threads_draw_each_its_own():
    def made():
        usual = federation()
        torch.manual_seed(5)
        dropping = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
        party = replace(usual.parties[0], bottom=dropping)
        return Federation([party, usual.parties[1]], usual.label_holder)

    alone = train(None, made())
    both = [made(), made()]
    with ThreadPoolExecutor(2) as pool:
        for run in pool.map(lambda each: train(None, each), both):
            assert_same(alone, run)


def test_a_run_that_failed_leaves_its_folder_free(tmp_path):
    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(tmp_path, watcher=Watcher(on_report=fail))
    assert train(tmp_path, resume=True).summary["completed"]


# Surrogates beside checkpoints


def test_runs_of_one_configuration_share_a_folder_of_surrogates(tmp_path):
    method = efvfl(TopK(0.4), fusion=Mean(), storage=Disk(tmp_path / "surrogates"))
    other = replace(TRAINING, seed=TRAINING.seed + 1)
    train(tmp_path / "one", federation(width=3), method=method, stop_before=7)
    whole = train(tmp_path / "other", federation(width=3), method=method, training=other)
    rest = train(tmp_path / "one", federation(width=3), method=method, resume=True)
    for run, training in ((rest, TRAINING), (whole, other)):
        alone = efvfl(TopK(0.4), fusion=Mean())
        assert_same(train(None, federation(width=3), method=alone, training=training), run)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda d: d.label)
@pytest.mark.parametrize("stopped", [7, None], ids=["interrupted", "finished"])
def test_with_a_damaged_surrogate_a_run_goes_on_from_the_checkpoint_before(
    tmp_path, driver, stopped
):
    method = efvfl(TopK(0.4), fusion=Mean(), storage=Disk(tmp_path / "surrogates"))
    go_on = partial(train, tmp_path / "run", method=method, driver=driver, resume=True)
    whole = train(
        None,
        federation(width=3),
        method=efvfl(TopK(0.4), fusion=Mean(), storage=Disk(tmp_path / "whole")),
    )
    go_on(federation(width=3), stop_before=stopped)
    for table in (tmp_path / "surrogates").iterdir():
        newest = sorted(table.rglob("*.mark"))[-1]
        newest.write_bytes(newest.read_bytes()[:-1])
    for _ in range(2):  # what was given up is written anew
        begun = []
        rest = go_on(
            federation(width=3),
            watcher=Watcher(on_begin=lambda first, last, begun=begun: begun.append(first)),
        )
        assert_same(whole, rest)
    assert begun == [9]


def test_without_its_surrogates_no_checkpoint_is_given_up(tmp_path):
    method = efvfl(TopK(0.4), fusion=Mean(), storage=Disk(tmp_path / "surrogates"))
    train(tmp_path / "run", federation(width=3), method=method, stop_before=7)
    (tmp_path / "surrogates").rename(tmp_path / "elsewhere")
    before = contents(tmp_path / "run")
    with pytest.raises(CheckpointError, match="and there is none: resume where the run was begun"):
        train(tmp_path / "run", federation(width=3), method=method, resume=True)
    assert contents(tmp_path / "run") == before


# What a folder tells


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    train(folder, training=Training(epochs=1, batch_size=15), report=False)
    return folder


@pytest.mark.parametrize("name", ["config.yaml", "history.csv", "ledger.csv", "summary.json"])
def test_a_flipped_bit_is_found_or_changes_nothing(finished, tmp_path, name):
    shutil.copytree(finished, tmp_path / "run")
    whole = load_run(finished)
    file = tmp_path / "run" / name
    data = file.read_bytes()
    luck = random.Random(0)
    found = 0
    for bit in luck.sample(range(8 * len(data)), 400):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        try:
            run = load_run(tmp_path / "run")
        except DataError as error:
            found += f"{name} is damaged" in str(error) or "is of colonnade" in str(error)
        else:
            assert (run.summary, run.config) == (whole.summary, whole.config)
            assert run.history.equals(whole.history)
            assert list(run.ledger) == list(whole.ledger)
    assert found > (200 if name == "summary.json" else 399)  # JSON has spaces


def test_files_of_two_moments_are_told_apart_and_a_resume_puts_them_right(tmp_path):
    train(tmp_path, stop_before=3)
    early = (tmp_path / "summary.json").read_bytes()
    late = train(tmp_path, resume=True)
    (tmp_path / "summary.json").write_bytes(early)  # as when killed before it was written
    with pytest.raises(DataError, match=r"history\.csv is damaged: it is not what was written"):
        load_run(tmp_path)
    train(tmp_path, resume=True)
    assert load_run(tmp_path).history.equals(late.history)


def written_as(finished, folder, **changes):
    """Return a copy of a run whose summary has other values, and lacks those that are None."""
    shutil.copytree(finished, folder)
    file = folder / "summary.json"
    summary = json.loads(file.read_text())
    lacks = {name for name, value in changes.items() if value is None}
    file.write_text(json.dumps({k: v for k, v in (summary | changes).items() if k not in lacks}))
    return folder


OLDER = {"format": None, "digests": None, "digest": None}


def test_a_run_from_before_there_were_digests_is_read(finished, tmp_path):
    run = load_run(written_as(finished, tmp_path / "run", **OLDER))
    assert run.summary == load_run(finished).summary
    for name in OLDER:
        with pytest.raises(DataError, match=r"summary\.json is damaged: it lacks its "):
            load_run(written_as(finished, tmp_path / name, **{name: None}))


FORGED = {
    "best": "x",
    "warnings": [3],
    "activities": [{"activity": "wait", "seconds": 1.0}],
    "bytes_up": None,
    "parties": {"bank": 1},
    "privacy": [],
    "held_back": {"bank": "much"},
    "seconds_training": {},
    "clock": {"network": "modelled"},
    "bytes_framed": -1,
    "privacy_loss": {"epsilon": 3.0},
    "people": {"left_out": 3},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_summary_of_another_kind_is_refused_before_anything_is_made_of_it(
    finished, tmp_path, name
):
    folder = written_as(finished, tmp_path / "run", **OLDER, **{name: FORGED[name]})
    with pytest.raises(DataError, match=r"summary\.json is damaged"):
        load_run(folder)


def test_a_history_of_another_kind_is_refused_before_anything_is_made_of_it(finished, tmp_path):
    folder = written_as(finished, tmp_path / "run", **OLDER)
    history = pl.read_csv(folder / "history.csv")
    history.with_columns(train_loss=pl.lit("low")).write_csv(folder / "history.csv")
    with pytest.raises(DataError, match=r"history\.csv is damaged.*'train_loss' holds String"):
        load_run(folder)
    history.drop("epoch").write_csv(folder / "history.csv")
    with pytest.raises(DataError, match=r"history\.csv is damaged.*no column epoch"):
        load_run(folder)


def test_reports_of_others_that_are_nobodys_are_refused_before_anything_is_made_of_them(
    finished, tmp_path
):
    folder = written_as(finished, tmp_path / "run", **OLDER)
    (folder / "others_history.csv").write_text("round,epoch,local_steps\n1,0.5,3\n")
    with pytest.raises(DataError, match=r"others_history\.csv is damaged.*no column organisation"):
        load_run(folder)


def test_a_run_that_was_interrupted_before_it_was_evaluated_is_read(tmp_path):
    run = train(tmp_path, stop_before=1)
    again = load_run(tmp_path)
    assert again.summary == run.summary
    assert not len(again.history)
    write_comparison({"run": again}, tmp_path / "comparison.html")


def test_a_metric_with_a_quotation_mark_is_read_by_its_name(tmp_path):
    good = replace(ACCURACY, name='share of "good", or so')
    run = train(tmp_path, federation(metrics=[good]))
    assert load_run(tmp_path).history.columns == run.history.columns


def test_steps_that_an_older_version_counted_of_all_together_are_not_told_as_somebodys(
    finished, tmp_path
):
    run = load_run(written_as(finished, tmp_path / "run", **OLDER, local_updates=3))
    assert "local_updates" not in run.summary
    assert step_columns({"run": run}) == {}


def test_a_run_of_a_version_that_cannot_be_read_is_refused_naming_the_version(finished, tmp_path):
    of = {"versions": {"colonnade": "0.0.3"}}
    older = written_as(finished, tmp_path / "older", **OLDER, **of)
    (older / "ledger.csv").write_text("from,to\nbank,shop\n")
    with pytest.raises(DataError, match=r"older than colonnade .* can read \(it is of 0\.0\.3\)"):
        load_run(older)
    of = {"versions": {"colonnade": "9.1"}, "format": 2}
    with pytest.raises(DataError, match=r"is of colonnade 9\.1 \(format 2; .*; read it with that"):
        load_run(written_as(finished, tmp_path / "later", **of))


def test_the_configuration_tells_the_objective(finished):
    told = yaml.safe_load((finished / "config.yaml").read_text(encoding="utf-8"))
    assert told["objective"].startswith("torch.nn.functional.cross_entropy")
