"""TopK, QSGD, error feedback: the conformance kit, exact small cases, the bytes of supports."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from colonnade.channels import Channel, Network
from colonnade.codecs import (
    QSGD,
    Bounded,
    Codec,
    Contractive,
    Entropy,
    Float,
    LargeRows,
    RelativeVariance,
    Scalar,
    TopK,
)
from colonnade.config import parse_config
from colonnade.costs import Modelled
from colonnade.drivers import Processes, Simulate
from colonnade.errors import CheckpointError, ConfigurationError, RemoteProtocolError
from colonnade.exchanges import Split
from colonnade.federation import Federation
from colonnade.kernels.largest import largest, largest_in_rows
from colonnade.kernels.packing import pack_codes, pack_numbers, unpack_codes, unpack_numbers
from colonnade.kernels.philox import uniform_words
from colonnade.links import Delivery, Direct, ErrorFeedback
from colonnade.methods import Method, efvfl, svfl
from colonnade.models import Mean
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.streams import StreamKey
from colonnade.surrogates import Disk, Memory
from colonnade.testing.codecs import CHECKS, KEY, Subject
from colonnade.training import Training
from colonnade.uplinks import Plain

pytestmark = pytest.mark.usefixtures("no_pictures")

SUBJECTS = [
    *(Subject(LargeRows(below)) for below in (0.01, 0.3, 0.999)),
    Subject(LargeRows(0.5, QSGD(7, "max", 8))),
    Subject(LargeRows(0.5, TopK(0.5, values=Entropy(QSGD(7, "max", 8))))),
    *(Subject(TopK(ratio)) for ratio in (0.01, 0.3, 0.999, 1.0)),
    *(Subject(TopK(0.3, scope)) for scope in ("row", "columns")),
    Subject(TopK(0.25, "columns", "saliency")),
    Subject(TopK(0.3, values=Float("bf16"))),
    Subject(TopK(0.3, values=QSGD(3, "max", 8))),
    Subject(TopK(0.2, "row", values=Scalar(4, -8.0, 8.0)), step=lambda x: 16 / 15),
    *(Subject(QSGD(levels, norm)) for levels in (1, 3, 15, 127) for norm in ("l2", "max")),
    *(Subject(QSGD(3, norm, bucket)) for norm in ("l2", "max") for bucket in (1, 7, 256)),
    *(Subject(QSGD(levels, norm, 16, False)) for levels in (1, 15, 127) for norm in ("l2", "max")),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_conformance(check, subject):
    check(subject)


# The largest of many


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=60),
    st.integers(0, 60),
)
def test_the_largest_are_those_of_a_stable_sort(values, k):
    x = np.array(values, dtype=np.float32)
    k = min(k, len(x))
    order = sorted(range(len(x)), key=lambda i: (-abs(x[i]), i))
    assert largest(x, k).tolist() == sorted(order[:k])


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (200, 33), (64, 256)])
def test_rows_one_by_one_are_the_same(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)).round(decimals=1).numpy()
    for k in {1, 2, shape[1] // 3 or 1, shape[1]} & set(range(shape[1] + 1)):
        expected = [largest(row, k).tolist() for row in x]
        assert largest_in_rows(x, k).tolist() == expected


def test_ties_go_to_the_lower_index():
    assert largest(np.ones(10, dtype=np.float32), 3).tolist() == [0, 1, 2]
    assert largest(np.array([0, -0.0, 1e-45, -1e-45], np.float32), 3).tolist() == [0, 2, 3]
    assert largest(np.array([1, np.nan], np.float32), 1) is None
    assert largest(np.array([1, -np.inf], np.float32), 1) is None


@pytest.mark.parametrize("n", [1, 1000, 100_000])
def test_it_agrees_with_torch(n):
    x = torch.randn(n, generator=torch.Generator().manual_seed(n))
    for k in {1, n // 100 or 1, n // 2 or 1, n}:
        expected = x.abs().topk(k).indices.sort().values
        assert largest(x.numpy(), k).tolist() == expected.tolist()


# Packing


@pytest.mark.parametrize("width", range(1, 41))
def test_numbers_are_packed_to_the_bit(width):
    numbers = np.random.default_rng(width).integers(0, 2**width, 37)
    body = pack_numbers(numbers, width)
    assert int.from_bytes(body, "little") == sum(
        int(n) << (i * width) for i, n in enumerate(numbers)
    )
    assert len(body) == -(-37 * width // 8)
    assert unpack_numbers(np.frombuffer(body, np.uint8), width, 37).tolist() == numbers.tolist()
    if width <= 8:
        assert pack_codes(numbers.astype(np.uint8), width) == body
        codes = unpack_codes(np.frombuffer(body, np.uint8), width, 37)
        assert codes.tolist() == numbers.tolist()


# TopK, by hand


def there_and_back(codec, x, saliency=None):
    body = codec.encode(x, KEY, saliency)
    return codec.decode(body, tuple(x.shape), KEY)


X = torch.tensor([[1.0, -5.0, 3.0], [-4.0, 0.5, 2.0]])


@pytest.mark.parametrize(
    ("codec", "expected"),
    [
        (TopK(0.5), [[0, -5, 3], [-4, 0, 0]]),
        (TopK(0.01), [[0, -5, 0], [0, 0, 0]]),
        (TopK(0.4, "row"), [[0, -5, 0], [-4, 0, 0]]),
        (TopK(0.4, "columns"), [[0, -5, 0], [0, 0.5, 0]]),  # column norms 4.1, 5.0, 3.6
        (TopK(1.0), [[1, -5, 3], [-4, 0.5, 2]]),
    ],
)
def test_what_is_kept(codec, expected):
    assert there_and_back(codec, X).tolist() == expected


def test_saliency_decides_about_columns():
    codec = TopK(0.4, "columns", "saliency")
    assert there_and_back(codec, X, torch.tensor([0.0, 1.0, 2.0])).tolist() == [
        [0, 0, 3],
        [0, 0, 2],
    ]
    assert torch.equal(there_and_back(codec, X), there_and_back(TopK(0.4, "columns"), X))


def test_its_bytes_are_support_and_values():
    x = torch.randn(100, 50, generator=torch.Generator().manual_seed(0))
    body = TopK(0.1).encode(x, KEY)
    assert 500 * 4 < len(body) < 500 * 4 + 1.03 * 5000 * 0.469 / 8 + 8  # h(0.1) = 0.469 bits
    columns = TopK(0.1, "columns").encode(x, KEY)
    assert len(columns) <= 100 * 5 * 4 + 1 + 4  # 5 columns of 50: 5 gaps or indices


@pytest.mark.parametrize(
    "settings",
    [
        {"ratio": 0},
        {"ratio": 1.01},
        {"ratio": math.nan},
        {"ratio": -1},
        {"ratio": "1 %"},
        {"ratio": 0.1, "scope": "all"},
        {"ratio": 0.1, "by": "chance"},
        {"ratio": 0.1, "by": "saliency"},
    ],
)
def test_sparsity_that_cannot_be(settings):
    with pytest.raises(ConfigurationError):
        TopK(**settings)


# QSGD, by hand


def test_levels_of_the_norm():
    x = torch.tensor([[3.0, -4.0, 0.0]])
    codec = QSGD(5, "l2", contract=False)
    # |x| / 5 * 5 is whole: nothing is left to chance.
    assert there_and_back(codec, x).tolist() == [[3.0, -4.0, 0.0]]
    tau = 1 + min(3 / 25, math.sqrt(3) / 5)
    assert torch.allclose(there_and_back(QSGD(5), x), x / tau)
    assert QSGD(5).bytes_at_most((1, 3)) == 4 + 2  # 11 codes, 4 bits each


@pytest.mark.parametrize("levels", [1, 3, 15, 127])
@pytest.mark.parametrize("bucket", [1, 7, 256, 3000])
def test_levels_are_rounded_up_with_the_chance_of_the_fraction(levels, bucket):
    """Written again, an element after another: floor(s |x| / ||x|| + u), u of 32 bits each."""
    x = torch.randn(43, 61, generator=torch.Generator().manual_seed(bucket))
    draws = uniform_words(KEY, -(-x.numel() // 2)).view(np.uint32)
    norms, codes = [], []
    values = x.numpy().reshape(-1).tolist()
    for start in range(0, len(values), bucket):
        part = values[start : start + bucket]
        norms.append(np.float32(math.sqrt(sum(value * value for value in part))))
        for value, draw in zip(part, draws[start:].tolist(), strict=False):
            level = min(math.floor(abs(value) * (levels / float(norms[-1])) + draw / 2**32), levels)
            codes.append(levels - level if value < 0 else levels + level)
    packed = pack_codes(np.array(codes, dtype=np.uint8), (2 * levels).bit_length())
    assert QSGD(levels, "l2", bucket).encode(x, KEY) == np.array(norms).tobytes() + packed


def test_zeros_are_zeros():
    for codec in (QSGD(1), QSGD(7, "max", 4), QSGD(7, contract=False)):
        assert there_and_back(codec, torch.zeros(5, 3)).abs().max() == 0


def test_the_largest_numbers_stay_finite():
    x = torch.full((4, 4), torch.finfo(torch.float32).max)
    for codec in (QSGD(1), QSGD(15, "max"), QSGD(3, contract=False)):
        assert torch.isfinite(there_and_back(codec, x)).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"levels": 0},
        {"levels": 128},
        {"levels": 2.5},
        {"levels": 3, "norm": "l1"},
        {"levels": 3, "bucket": 0},
    ],
)
def test_levels_that_cannot_be(settings):
    with pytest.raises(ConfigurationError):
        QSGD(**settings)


def test_a_code_beyond_the_levels_is_refused():
    codec = QSGD(2, contract=False)  # 5 codes in 3 bits
    body = codec.encode(torch.ones(1, 2), KEY)
    with pytest.raises(RemoteProtocolError, match="a code is 7, above 4"):
        codec.decode(body[:4] + bytes([0b111]), (1, 2), KEY)
    with pytest.raises(RemoteProtocolError, match="a norm that is none"):
        codec.decode(np.float32(-1).tobytes() + body[4:], (1, 2), KEY)


@pytest.mark.parametrize("levels", range(1, 128))
def test_the_largest_numbers_come_back_as_they_were(levels):
    """A level's worth is rounded, and s times that may be beyond float32."""
    largest = float(np.finfo(np.float32).max)
    x = torch.tensor([[largest, -largest, 0.0]])
    codec = QSGD(levels, "max", contract=False)
    y = codec.decode(codec.encode(x, KEY), (1, 3), KEY)
    assert torch.isfinite(y).all()
    assert torch.allclose(y, x, rtol=2**-22)


# Error feedback

CONTRACTIONS = [TopK(0.1), TopK(0.3, "row"), TopK(0.3, "columns"), QSGD(3, "l2", 16), Float(32)]


@pytest.mark.parametrize(
    ("first", "second"), [(Memory("float16"), Memory("float16")), (Memory(), Disk), (Disk, Disk)]
)
def test_surrogates_may_be_kept_anywhere(tmp_path, first, second):
    """In one precision both ends hold the same bits, wherever they keep them."""
    first, second = (Disk(tmp_path) if kept is Disk else kept for kept in (first, second))
    sender = ErrorFeedback(TopK(0.1), first).sender(40, 8, "one")
    receiver = ErrorFeedback(TopK(0.1), second).receiver(40, 8, "other")
    random, everything = np.random.default_rng(0), np.arange(40)
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(1))
    for round in range(400):
        rows = random.choice(40, 10, replace=False)
        key = StreamKey(0, "bank", "training/embedding", round)
        body = sender.send(x[rows], rows, key)
        received = receiver.receive(body, rows, key)
        assert torch.equal(received, sender.delivered(body, rows, key))
    zeros, key = torch.zeros(40, 8), StreamKey(0, "bank", "training/embedding", 400)
    nothing = Direct(TopK(0.1)).sender(40, 8, "none").send(zeros, everything, key)
    known = receiver.receive(nothing, everything, key)
    assert torch.norm(known - x) < 1e-2 * torch.norm(x)


def test_a_message_that_cannot_be_added_is_the_senders_fault():
    end = ErrorFeedback(Float(32)).receiver(2, 1, "other")
    key = StreamKey(0, "bank", "training/embedding", 0)
    body = Float(32).encode(torch.tensor([[3e38]]), key)
    end.receive(body, np.array([0]), key)
    with pytest.raises(RemoteProtocolError, match=r"a message cannot be added .* finite"):
        end.receive(body, np.array([0]), key)


@pytest.mark.parametrize("codec", CONTRACTIONS, ids=repr)
def test_both_ends_stay_equal_and_what_is_left_out_arrives(codec):
    link = ErrorFeedback(codec)
    sender, receiver = link.sender(40, 8, "one"), link.receiver(40, 8, "other")
    random = np.random.default_rng(0)
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(1))
    for round in range(600):
        rows = random.choice(40, 10, replace=False)
        key = StreamKey(0, "bank", "training/embedding", round)
        received = receiver.receive(sender.send(x[rows], rows, key), rows, key)
        one, other = sender.state_dict()["surrogate"], receiver.state_dict()["surrogate"]
        assert torch.equal(one, other)
        assert torch.equal(received, other[rows])
        if round % 50 == 7:  # going on from a saved state changes nothing
            fresh = link.sender(40, 8, "one")
            fresh.load_state_dict({"surrogate": one.clone()})
            sender = fresh
    assert torch.norm(one - x) < 1e-2 * torch.norm(x)


def test_its_first_message_is_the_codecs_own():
    x, rows = torch.randn(3, 4), np.arange(3)
    key = StreamKey(0, "bank", "training/embedding", 0)
    codec = TopK(0.5)
    assert ErrorFeedback(codec).sender(5, 4, "one").send(x, rows, key) == codec.encode(x, key)


@pytest.mark.parametrize(
    "codec",
    [Scalar(4), Float(16), TopK(0.5, "columns", "saliency"), QSGD(3, contract=False)],
    ids=repr,
)
def test_what_does_not_contract_is_refused(codec):
    with pytest.raises(ConfigurationError, match="needs a codec that contracts"):
        ErrorFeedback(codec)


@dataclass(frozen=True)
class Small(TopK):
    """Contracts for messages of up to 12 numbers."""

    def law(self, shape):
        return super().law(shape) if shape[0] * shape[1] <= 12 else Bounded(relative=2.0)


def test_a_shape_for_which_nothing_contracts_is_refused():
    link = ErrorFeedback(Small(0.5))
    end = link.sender(100, 4, "one")
    key, x = StreamKey(0, "bank", "training/embedding", 0), torch.ones(4, 4)
    end.send(x[:3], np.arange(3), key)
    with pytest.raises(ConfigurationError, match=r"Small promises .* for messages of 4 x 4: what"):
        end.send(x, np.arange(4), key)
    for make in (link.sender, link.receiver):
        with pytest.raises(ConfigurationError, match="for messages of 1 x 13: what"):
            make(100, 13, "one")


def test_a_surrogate_of_another_shape_is_refused():
    end = ErrorFeedback(TopK(0.5)).sender(5, 4, "one")
    with pytest.raises(CheckpointError, match=r"shape \[6, 4\].*\[5, 4\]"):
        end.load_state_dict({"surrogate": torch.zeros(6, 4)})


def test_laws():
    assert TopK(0.2).law((3, 3)) == Contractive(1 / 9)
    assert TopK(0.2).law((1, 1)) == TopK(1.0).law((9, 9)) == Contractive(1.0)
    assert TopK(0.2, "row").law((3, 19)) == Contractive(3 / 19)
    assert TopK(0.2, "columns").law((3, 4)) == Contractive(1 / 4)
    assert TopK(0.2, values=QSGD(3, "max", 8)).law((10, 10)) == Contractive(0.2 / (1 + 8 / 36))
    assert TopK(0.2, values=QSGD(3, "max", 8)).law((1, 10)) == Contractive(0.2 / (1 + 2 / 36))
    assert QSGD(2, "l2", 16).law((9, 9)) == Contractive(1 / (1 + 2))
    assert QSGD(2, "l2", 16, contract=False).law((9, 9)) == RelativeVariance(2.0)
    assert QSGD(2, "l2", contract=False).law((1, 4)) == RelativeVariance(1.0)
    assert QSGD(2, "l2", contract=False).law((100, 100)) == RelativeVariance(50.0)
    assert QSGD(2, "max", contract=False).law((100, 100)) == RelativeVariance(625.0)
    assert LargeRows(0.5).law((1, 7)) == Contractive(1.0)
    assert LargeRows(0.5).law((4, 7)) == Contractive(1 - 0.25 * 3 / 4)
    # with all of four rows sent the quantiser has most to do
    assert LargeRows(0.5, QSGD(1, "max")).law((4, 2)) == Contractive(1 / (1 + 8 / 4))
    for empty in ((0, 5), (5, 0), (0, 0)):
        for codec in (TopK(0.2), TopK(0.2, "row"), TopK(0.2, "columns"), QSGD(2), LargeRows(0.5)):
            assert isinstance(codec.law(empty), Contractive)
    assert ErrorFeedback(TopK(0.2)).delivery is Delivery.EVERY_IN_ORDER


# Training by error feedback


def problem(parties=3, rows=300):
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(rows, 4 * parties, generator=generator)
    labels = (x.sum(1) > 0).long()
    optimiser = partial(torch.optim.SGD, lr=0.5)
    torch.manual_seed(0)
    members = [
        Party(
            f"party_{i}",
            x[:, 4 * i : 4 * i + 4],
            nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.05)),
            optimiser,
        )
        for i in range(parties)
    ]
    holder = LabelHolder("holder", labels, nn.Linear(8, 2), optimiser=optimiser)
    return Federation(members, holder, range(200), range(200, rows))


SLOW = Simulate(Network(Channel(1e6, 0.01)), Modelled({"forward": 0.002}, otherwise=0.0))
FEEDBACK = {
    "top-k": efvfl(TopK(0.05), fusion=Mean()),
    "qsgd": efvfl(QSGD(1, "l2", 64), fusion=Mean()),
    "both ways": Method(
        "both", Mean(), Plain(ErrorFeedback(TopK(0.2))), Split(ErrorFeedback(TopK(0.3)))
    ),
}


def states(run):
    return [
        value
        for parts in run.models.values()
        for module in parts.values()
        for value in module.state_dict().values()
    ]


@pytest.mark.parametrize("method", FEEDBACK.values(), ids=FEEDBACK)
def test_drivers_agree_and_resumed_runs_too(method, tmp_path):
    federation, training = problem(), Training(epochs=3, batch_size=50)
    whole = federation.train(method, training, SLOW)
    real = federation.train(method, training, Processes())
    for stop in (1, 5, 8):
        out = tmp_path / str(stop)
        federation.train(method, training, SLOW, out=out, stop_before=stop)
        resumed = federation.train(method, training, SLOW, out=out, resume=True)
        for run in (real, resumed):
            assert run.ledger.without_time() == whole.ledger.without_time()
            assert all(torch.equal(a, b) for a, b in zip(states(run), states(whole), strict=True))


@pytest.mark.parametrize("driver", [SLOW, Processes()], ids=["simulate", "processes"])
@pytest.mark.parametrize("labels", ["private", "shared"])
def test_surrogates_on_a_disk_change_nothing_and_survive(labels, driver, tmp_path):
    federation, training = problem(), Training(epochs=3, batch_size=50)

    def method(folder):
        storage = None if folder is None else Disk(tmp_path / folder)
        return efvfl(TopK(0.05), None, Mean(), labels, storage=storage)

    whole = federation.train(method(None), training, SLOW)
    assert states(federation.train(method("whole"), training, driver))[0].equal(states(whole)[0])
    for stop in (1, 5, 8):
        out, disk = tmp_path / f"run-{stop}", f"disk-{stop}"
        federation.train(method(disk), training, driver, out=out, stop_before=stop)
        resumed = federation.train(method(disk), training, driver, out=out, resume=True)
        assert resumed.ledger.without_time() == whole.ledger.without_time()
        assert all(torch.equal(a, b) for a, b in zip(states(resumed), states(whole), strict=True))


def test_a_run_whose_surrogates_are_gone_cannot_be_resumed(tmp_path):
    federation, training = problem(), Training(epochs=3, batch_size=50)
    method = efvfl(TopK(0.05), fusion=Mean(), storage=Disk(tmp_path / "disk"))
    federation.train(method, training, SLOW, out=tmp_path / "run", stop_before=5)
    shutil.rmtree(tmp_path / "disk")
    with pytest.raises(CheckpointError, match="surrogate"):
        federation.train(method, training, SLOW, out=tmp_path / "run", resume=True)


def test_surrogates_of_another_precision_cannot_be_resumed(tmp_path):
    federation, training = problem(), Training(epochs=3, batch_size=50)
    coarse = efvfl(TopK(0.05), fusion=Mean(), storage=Memory("float16"))
    federation.train(coarse, training, SLOW, out=tmp_path / "run", stop_before=5)
    with pytest.raises((CheckpointError, ConfigurationError)):
        federation.train(
            efvfl(TopK(0.05), fusion=Mean()), training, SLOW, out=tmp_path / "run", resume=True
        )


def test_held_out_rows_travel_exactly():
    run = problem().train(efvfl(TopK(0.05), fusion=Mean()), Training(batch_size=50), SLOW)
    assert run.summary["bytes_evaluation"] == 3 * 100 * 8 * 4
    new = {f"party_{i}": torch.randn(5, 4) for i in range(3)}
    assert run.predict(new).ledger.bytes() == 3 * 5 * 8 * 4


def test_plans_bound_what_depends_on_values():
    federation, training = problem(), Training(epochs=2, batch_size=50)
    method = efvfl(TopK(0.05), fusion=Mean())
    costs = plan(federation, method, training, SLOW)
    run = federation.train(method, training, SLOW)
    assert not costs.exact
    assert run.summary["bytes_up"] <= costs.bytes_up
    assert run.summary["bytes_down"] == costs.bytes_down
    assert costs.memory["party_0"].surrogates == 300 * 8 * 4
    assert costs.memory["holder"].surrogates == 3 * 300 * 8 * 4


def test_feedback_learns_where_direct_compression_cannot():
    """At 5 % of a full batch, as in the paper's Figure 2 in kind."""
    federation = problem()
    training = Training(epochs=150, batch_size=200)
    exact = federation.train(svfl(fusion=Mean()), training).history["train_loss"][-1]
    feedback = federation.train(efvfl(TopK(0.05), fusion=Mean()), training)
    direct = federation.train(svfl(TopK(0.05), fusion=Mean()), training)
    assert feedback.history["train_loss"][-1] < exact + 0.05
    assert direct.history["train_loss"][-1] > exact + 0.2
    assert feedback.summary["bytes_up"] < 0.07 * 150 * 3 * 200 * 8 * 4


# Configuration


def test_surrogates_in_a_configuration(tmp_path):
    section = {
        "name": "efvfl",
        "embedding": {"codec": "top_k", "ratio": 0.1},
        "surrogates": {"storage": "disk", "folder": str(tmp_path), "dtype": "float16"},
    }
    config = parse_config({"method": section})
    assert config.method.build() == efvfl(TopK(0.1), storage=Disk(tmp_path, "float16"))
    assert parse_config(config.as_dict()) == config
    with pytest.raises(ConfigurationError, match=r"method\.surrogates: unknown key; there are"):
        parse_config({"method": {"surrogates": {"storage": "memory", "dtype": "float16"}}})


def test_codecs_in_a_configuration():
    section = {
        "name": "efvfl",
        "embedding": {"codec": "top_k", "ratio": 0.1, "values": {"codec": "qsgd", "levels": 7}},
    }
    config = parse_config({"method": section})
    codec: Codec = TopK(0.1, values=QSGD(7))
    assert config.method.build() == efvfl(codec)
    assert parse_config(config.as_dict()) == config
    assert parse_config(
        {"method": {"embedding": {"codec": "top_k", "ratio": 1}}}
    ).method.build() == (svfl(TopK(1.0)))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            {"name": "efvfl", "embedding": {"codec": "scalar", "bits": 4}},
            "needs a codec that contracts",
        ),
        ({"embedding": {"codec": "top_k", "ratio": 2}}, "ratio must be above 0"),
        ({"embedding": {"codec": "top_k", "ratio": 0.5, "values": "tpk"}}, "names none of"),
        ({"embedding": {"codec": "qsgd", "levels": 200}}, "levels must be a whole number"),
        ({"embedding": {"codec": "qsgd", "level": 2}}, "method.embedding.level: unknown key"),
    ],
)
def test_methods_that_cannot_be(method, message):
    with pytest.raises(ConfigurationError, match=message):
        parse_config({"method": method})


def test_direct_links_remember_nothing():
    assert Direct().bytes_remembered(10, 10) == 0


@pytest.mark.parametrize("rows", [2, 3, 40])
@pytest.mark.parametrize("below", [0.3, 0.6, 0.9])
def test_large_rows_leave_out_as_much_as_their_law_allows_and_no_more(rows, below):
    """All rows but one just under the bound: the largest error that there can be."""
    small = below**2 * (1 - 1e-4)  # squared norm of a row, where the mean is 1
    squares = torch.tensor([small] * (rows - 1) + [rows - (rows - 1) * small])
    x = torch.zeros(rows, 4)
    x[:, 1] = squares.sqrt()
    codec, key = LargeRows(below), StreamKey(0, "bank", "training/derivative", 0)
    left = float((codec.decode(codec.encode(x, key), (rows, 4), key) - x).square().sum())
    allowed = (1 - codec.law((rows, 4)).alpha) * float(x.square().sum())
    assert 0.999 * allowed <= left <= allowed
