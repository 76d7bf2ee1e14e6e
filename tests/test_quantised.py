"""Polynomial networks on whole numbers: what a field's arithmetic gives is the rounded network."""

from __future__ import annotations

import hashlib
from functools import partial

import numpy as np
import pytest
import torch

from colonnade.errors import ConfigurationError, Diverged, OutOfRange
from colonnade.kernels.mersenne import products
from colonnade.models import Polynomial
from colonnade.secure import Field, Keystream, LagrangeCode, Quantised

KEY = bytes(range(16))


def network(seed, inputs=5, width=3, degree=3):
    torch.manual_seed(seed)
    return Polynomial(inputs, width, degree)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_polynomial_network_is_its_formula(degree):
    made, x = network(0, degree=degree), torch.randn(7, 5)
    padded = torch.cat([x, torch.ones(7, 1)], dim=1)
    expected = sum(padded**i @ made.weight[i - 1] for i in range(1, degree + 1))
    torch.testing.assert_close(made(x), expected)
    assert repr(made) == f"Polynomial(inputs=5, width=3, degree={degree})"


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_embeddings_begin_with_variance_one(degree):
    """Of inputs spread evenly over [0, 1]; 2000 components leave a few per cent of chance."""
    torch.manual_seed(0)
    made, x = Polynomial(400, 2000, degree), torch.rand(20, 400)
    with torch.no_grad():
        assert made(x).var(dim=1).mean().item() == pytest.approx(1, rel=0.1)


def test_what_has_a_shape_is_flattened():
    made, x = network(0, inputs=6), torch.randn(7, 1, 3, 2)
    assert torch.equal(made(x), made(x.flatten(1)))
    assert made.powers(x).shape == (7, 3, 7)


def test_a_polynomial_network_learns_what_a_line_cannot():
    made, x = network(0, 1, 1, 2), torch.linspace(-1, 1, 50)[:, None]
    sgd = torch.optim.SGD(made.parameters(), lr=0.3)
    for _ in range(300):
        sgd.zero_grad()
        loss = torch.nn.functional.mse_loss(made(x), x**2)
        loss.backward()
        sgd.step()
    assert loss < 1e-3


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_polynomial_network_of_nothing_is_refused(sizes):
    with pytest.raises(ConfigurationError, match="of a polynomial network is 0"):
        Polynomial(*sizes)
    with pytest.raises(ConfigurationError, match="network is 10000000000, but 1000 at most"):
        Polynomial(3, 2, degree=10**10)


def rounded(quantised, made, x, noise):
    """Data and weights of a party as whole numbers."""
    data = quantised.data(made.powers(x).double().numpy())
    weights = quantised.weights(made.weight.detach().double().numpy(), noise)
    return data, weights


@pytest.mark.parametrize("bits", [31, 61])
def test_what_is_decoded_is_the_rounded_network_exactly_and_the_network_nearly(bits):
    """Five parties, two segments, one mask: from any five answers of seven, all rows of all."""
    field = Field(bits)
    quantised, code = Quantised(9, 9, field), LagrangeCode(7, 2, 1, field)
    torch.manual_seed(0)
    tables = [torch.randn(8, 5).clamp(-2, 2) for _ in range(7)]
    networks, noise = [network(seed) for seed in range(7)], Keystream(KEY)
    exact = np.zeros((8, 3), dtype=np.int64)
    answers: dict[int, np.ndarray] = {}
    worst = 0.0
    for made, x in zip(networks, tables, strict=True):
        data, weights = rounded(quantised, made, x, noise)
        quantised.check_range(np.abs(data).max(axis=0), weights, 7)
        exact += np.einsum("bij,ijc->bc", data, weights)
        # |x w - X W| is at most half a step of |w|, a step of |x|, and both.
        away = np.abs(made.weight.detach().numpy()).sum((0, 1)) * 2.0**-10
        away = away + (np.abs(data).max(0).sum() * 2.0**-9 + 18 * 2.0**-10) * 2.0**-9
        worst += away.max()
        segments = field.elements(data).reshape(4, 2, -1).swapaxes(0, 1)
        shares = code.encoded(segments, field.uniform((1, *segments.shape[1:]), noise))
        flat = field.elements(weights).reshape(-1, 3)
        coded = code.repeated(flat, field.uniform((1, *flat.shape), noise))
        for n in range(7):
            term = products(shares[n], coded[n])
            answers[n] = (answers[n] + term) % field.prime if n in answers else term
    for subset in ([0, 1, 2, 3, 4], [6, 5, 3, 2, 0], range(7)):
        decoded = code.decoded({n: answers[n] for n in subset}, "sums").swapaxes(0, 1)
        assert (field.numbers(decoded).reshape(8, 3) == exact).all()
    mean = sum(made(x) for made, x in zip(networks, tables, strict=True)) / 7
    found = quantised.values(exact) / 7
    assert found.dtype == np.float32
    assert np.abs(found - mean.detach().numpy()).max() <= worst / 7 + 1e-6


def test_weights_are_rounded_without_a_bias():
    """200 000 draws of a third: the mean is a third to five standard errors."""
    quantised = Quantised(0, 0)
    drawn = quantised.weights(np.full(200_000, 1 / 3), Keystream(KEY))
    assert set(drawn.tolist()) == {0, 1}
    assert abs(drawn.mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / 200_000)
    drawn = quantised.weights(np.full(200_000, -1.75), Keystream(KEY))
    assert set(drawn.tolist()) == {-2, -1}
    assert abs(drawn.mean() + 1.75) < 5 * np.sqrt(3 / 16 / 200_000)


def test_what_is_whole_stays_as_it_is():
    quantised = Quantised(3, 5)
    numbers = np.arange(-40, 40) / 8
    assert (quantised.data(numbers) == np.arange(-40, 40)).all()
    assert (quantised.weights(numbers, Keystream(KEY)) == 4 * np.arange(-40, 40)).all()


def test_a_bound_that_holds_lets_nothing_wrap():
    """At the bound exactly, in the field of 31: sums of N terms stay what they are."""
    field, parties = Field(31), 3
    quantised = Quantised(0, 0, field)
    room = field.largest // parties
    largest = np.array([[1]])
    quantised.check_range(largest, np.array([[[room // 2]]]), parties)
    assert field.numbers(field.elements(np.array([room * parties])))[0] == room * parties
    with pytest.raises(OutOfRange, match=r"0 \+ 0 bits leave room .*or the field of 61"):
        quantised.check_range(largest, np.array([[[room + 1]]]), parties)
    finer, most = Quantised(2, 2, field), field.largest // parties
    with pytest.raises(OutOfRange, match=r"scale: unit.*, 2 fewer of data_bits or weight_bits, or"):
        finer.check_range(largest, np.array([[[3 * most]]]), parties)
    with pytest.raises(OutOfRange, match="embedding"):
        finer.check_range(largest, np.array([[[-most - 1]]]), parties)


def test_the_bound_is_of_the_worst_row_there_might_be():
    quantised = Quantised(0, 0)
    largest, weights = np.array([[3, 1], [2, 5]]), np.array([[[1, -7], [2, 0]], [[-4, 0], [0, 6]]])
    most = max(3 * 1 + 1 * 2 + 2 * 4, 3 * 7 + 5 * 6)
    parties = Field(31).largest // most
    quantised.check_range(largest, weights, parties - 1)
    with pytest.raises(OutOfRange):
        quantised.check_range(largest, weights, parties + 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(Diverged, match="a power of a feature is too large"):
        Quantised().data(np.array([bad]))
    with pytest.raises(Diverged, match="a weight is too large"):
        Quantised().weights(np.array([bad]), Keystream(KEY))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (partial(Quantised, -1), "data_bits is -1"),
        (partial(Quantised, 1, 2.0), "weight_bits is 2.0"),
        (partial(Quantised, 1, True), "weight_bits is True"),
        (partial(Quantised, 20, 10), "20 bits for data and 10 for weights leave no room"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, why):
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_rounding_is_frozen():
    """Parties that go on from a checkpoint elsewhere round as before."""
    drawn = Quantised(4, 6).weights(np.linspace(-2, 2, 1000), Keystream(KEY))
    digest = hashlib.blake2b(drawn.astype("<i8").tobytes(), digest_size=8).hexdigest()
    assert digest == "3ae7ad23feb6c51c"
