"""Factors of low rank: the conformance kit, what they leave out, and their bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from colonnade.codecs import QSGD, Entropy, Float, LargeRows, LowRank, Scalar
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.kernels.factors import multiply
from colonnade.testing.codecs import CHECKS, KEY, Subject
from test_codecs import step_of


def where_x_is_sent(quantiser: Scalar) -> Callable[[torch.Tensor], float]:
    """Return what tells the step where X itself is sent."""
    return partial(step_of, quantiser)


SUBJECTS = [
    Subject(LowRank(1)),
    Subject(LowRank(3, Entropy(Scalar(4)), Entropy(Scalar(6))), step=where_x_is_sent(Scalar(4))),
    Subject(LowRank(2, Scalar(8), Float()), step=where_x_is_sent(Scalar(8))),
    Subject(LargeRows(0.5, LowRank(4))),
]


def of_rank(rank: int, rows: int = 96, width: int = 64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, rank, generator=generator)
    return left @ torch.randn(rank, width, generator=generator)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_low_rank_conforms(subject: Subject, check: Callable[[Subject], None]) -> None:
    check(subject)


@pytest.mark.parametrize("rank", [1, 3, 9])
def test_what_has_the_rank_comes_back(rank) -> None:
    x = of_rank(rank)
    codec = LowRank(9)
    body = codec.encode(x, KEY)
    assert len(body) == 4 + 4 * 9 * (96 + 64)
    assert torch.allclose(codec.decode(body, x.shape, KEY), x, atol=1e-4 * float(x.abs().max()))


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_no_more_is_left_out_than_the_smallest_singular_values(rank) -> None:
    x = of_rank(64)
    lost = x - LowRank(rank).decode(LowRank(rank).encode(x, KEY), x.shape, KEY)
    exact = np.square(np.linalg.svd(x.numpy().astype(np.float64))[1])
    assert float(lost.square().sum()) == pytest.approx(exact[rank:].sum(), rel=1e-4)


def test_a_coarse_basis_is_made_up_for_by_the_coefficients() -> None:
    # The best coefficients for the decoded basis leave nothing that it spans.
    x, codec = of_rank(3), LowRank(3, Float(), Scalar(3))
    body = codec.encode(x, KEY)
    end = 4 + int.from_bytes(body[:4], "little")
    basis = codec.basis.decode(body[4:end], (3, 64), codec._basis(KEY)).numpy()
    lost = (x - codec.decode(body, x.shape, KEY)).numpy()
    assert np.abs(lost @ basis.T).max() < 1e-2 < np.abs(lost).max()


@pytest.mark.parametrize("rows", [1, 2, 18, 23, 24, 40, 500])
def test_the_bound_is_one_of_fewer_rows_too(rows) -> None:
    codec = LowRank(9, Float(), Scalar(2))
    bound = codec.bytes_at_most((rows, 64))
    for fewer in range(1, rows + 1):
        assert len(codec.encode(of_rank(9, fewer), KEY)) <= bound


def test_the_product_is_rounded_after_every_step() -> None:
    generator = np.random.default_rng(0)
    left, right = (generator.normal(size=s).astype(np.float32) for s in ((5, 7), (7, 3)))
    expected = np.zeros((5, 3), dtype=np.float32)
    for inner in range(7):
        expected = (expected + left[:, inner : inner + 1] * right[inner]).astype(np.float32)
    assert (multiply(left, right) == expected).all()


def test_bodies_that_are_cut_or_overflow_are_refused() -> None:
    x, codec = of_rank(1), LowRank(1)
    body = codec.encode(x, KEY)
    for cut in (0, 3, 4, 100, len(body) - 1):
        with pytest.raises(RemoteProtocolError):
            codec.decode(body[:cut], x.shape, KEY)
    huge = np.full(1, 3e38, dtype="<f4").tobytes()
    with pytest.raises(RemoteProtocolError, match="not finite"):
        codec.decode(body[:4] + huge * 64 + huge * 96, x.shape, KEY)


@pytest.mark.parametrize("shape", [(128, 3), (33, 5), (16, 16), (96, 64)])
@pytest.mark.parametrize(
    "codec",
    [LowRank(1), LowRank(1, Entropy(QSGD(7)), Entropy(QSGD(7))), LowRank(1, basis=Scalar(3))],
)
def test_what_is_too_large_for_factors_is_refused_where_it_is_sent(codec, shape) -> None:
    signs = torch.randn(shape, generator=torch.Generator().manual_seed(0)).sign()
    for large in (1e28, 1e36, 3e38):
        for x in (torch.full(shape, large), large * signs):
            if large < 3e38:
                body = codec.encode(x, KEY)
                assert torch.isfinite(codec.decode(body, shape, KEY)).all()
                continue
            with pytest.raises(Diverged, match=r"3e\+38 in size, too large for factors of 32 bits"):
                codec.encode(x, KEY)


def test_a_rank_is_a_number_from_1() -> None:
    for rank in (0, -1, 1.5):
        with pytest.raises(ConfigurationError, match=r"a rank is 1|is a whole"):
            LowRank(rank)
