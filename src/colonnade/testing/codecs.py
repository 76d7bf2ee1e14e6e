"""What every codec must do: one kit that runs over any of them.

Each function in ``CHECKS`` takes a ``Subject``, a codec and what a test must know of it, and
asserts one part of the contract in ``colonnade.codecs.codec``. With pytest, each is a test of its
own::

    from colonnade.testing.codecs import CHECKS, Subject

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    @pytest.mark.parametrize("subject", [Subject(MyCodec(3)), Subject(MyCodec(8))], ids=str)
    def test_my_codec_conforms(subject, check):
        check(subject)

For messages that show values, say ``pytest.register_assert_rewrite("colonnade.testing.codecs")``
in ``conftest.py``. Without pytest, ``check_codec(Subject(MyCodec(3)))`` runs them all, and raises
``AssertionError`` where one fails.

What a codec promises about its error is its ``law(shape)``, so the law chooses the oracle. What its
format looks like is for tests beside it: frozen bytes, which another release must still decode.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from colonnade import codecs
from colonnade.codecs import (
    Bounded,
    Codec,
    Contractive,
    Exact,
    RelativeVariance,
    Unbiased,
    UnbiasedCell,
)
from colonnade.errors import Diverged, RemoteProtocolError
from colonnade.streams import StreamKey

__all__ = [
    "CHECKS",
    "KEY",
    "ROUNDING",
    "Subject",
    "check_codec",
    "described",
    "is_its_configuration",
    "is_pure",
    "obeys_its_law",
    "patterns",
    "predicts_its_size",
    "rebuilt",
    "refuses_before_it_allocates",
    "refuses_garbage",
    "refuses_what_is_not_finite",
    "returns_a_float32_matrix",
    "stays_finite",
    "takes_a_saliency",
    "there_and_back",
]

if not __debug__:
    raise ImportError("the kit asserts, and python -O leaves assertions out: run it without -O")

KEY = StreamKey(seed=20, origin="bank", purpose="training/embedding", round=3)
"""The key that messages of the kit are encoded with."""

ROUNDING = 2.0**-20
"""What computing in float32 may add to an error, of the largest magnitude in play.

A quantiser rounds some seven times on its way there and back, each time by at most 2^-24 of a range
that is at most twice that magnitude.
"""

_LARGEST = float(np.finfo(np.float32).max)
_HUGE = [  # what a hostile body may have where a scale, a norm or a value belongs
    np.array(value, dtype=kind).tobytes()
    for kind in (np.dtype("<f4"), np.dtype("<f2"))
    for value in (math.inf, math.nan, np.finfo(kind).max, -np.finfo(kind).max)
]

_SAMPLE = (512, 512)  # the shape of messages whose mean error is looked at


@dataclass(frozen=True)
class Subject:
    """A codec, and what a test must know of it.

    Its text is the codec's, of characters that do for the name of a test.

    Parameters
    ----------
    codec
        The codec.
    within
        The law is claimed for components of at most this magnitude.
    step
        The size of the quantiser's step for a message, for laws in units of it.

    Examples
    --------
    >>> from colonnade.codecs import Float
    >>> subject = Subject(Float(16))
    >>> str(subject)
    'Float-format=16'
    >>> check_codec(subject)
    """

    codec: Codec
    within: float = 8.0
    step: Callable[[Tensor], float] | None = None

    def __str__(self) -> str:
        return re.sub(r"[^\w.=-]+", "-", repr(self.codec)).strip("-")

    def messages(self) -> Iterator[Tensor]:
        """Yield matrices that differ in shape, spread and degree of degeneration."""
        generator = torch.Generator().manual_seed(1)
        for shape in ((6, 5), (1, 17), (33, 1), (2, 512), (41, 101)):
            spread = self.within * torch.rand(1, generator=generator)
            x = torch.randn(shape, generator=generator) * spread
            yield x.clamp(-self.within, self.within)
        yield torch.zeros(3, 5)
        yield torch.full((3, 5), self.within)
        yield torch.full((4, 4), -0.3)
        yield torch.tensor([[-0.0, 0.0], [0.0, -0.0]])
        # 2^-148 to 2^2, both signs: float16, bfloat16 and float32 all lose digits down there
        magnitudes = torch.exp2(torch.arange(-148, 3).double()) * 1.2345
        mixed = torch.stack([magnitudes, -magnitudes]).float()
        yield mixed.clamp(-self.within, self.within)
        yield from (torch.zeros(shape) for shape in ((0, 5), (5, 0), (0, 0)))


def there_and_back(codec: Codec, x: Tensor, key: StreamKey = KEY) -> Tensor:
    """Return what decodes from the encoding of ``x``."""
    rows, width = x.shape
    return codec.decode(codec.encode(x, key), (rows, width), key)


def patterns(x: Tensor) -> Tensor:
    """Return float32 as integers: unlike floats, they tell 0 from -0, and nan equals itself."""
    return x.contiguous().view(torch.int32)


@contextmanager
def _raises(kind: type[Exception], words: str = "") -> Iterator[None]:
    try:
        yield
    except kind as error:
        said = str(error)
    else:
        raise AssertionError(f"nothing raised {kind.__name__}")
    assert words in said, f"{said!r} does not say {words!r}"


def returns_a_float32_matrix(subject: Subject) -> None:
    """Check that a new, contiguous, finite float32 matrix of the right shape is decoded."""
    for x in subject.messages():
        y = there_and_back(subject.codec, x)
        assert y.shape == x.shape
        assert y.dtype == torch.float32
        assert y.device.type == "cpu"
        assert y.is_contiguous()
        assert not y.requires_grad
        assert torch.isfinite(y).all()


def obeys_its_law(subject: Subject) -> None:
    """Check each message's law; and that what contracts does so for a single number."""
    contracting = False
    for x in subject.messages():
        law = subject.codec.law((x.shape[0], x.shape[1]))
        contracting |= isinstance(law, Exact | Contractive)
        match law:
            case Exact():
                _is_exact(subject, x)
            case Bounded(relative=relative, absolute=absolute, step=step):
                _is_bounded(subject, x, relative, absolute, step)
            case Unbiased(step=step) | UnbiasedCell(step=step):
                _is_bounded(subject, x, 0.0, 0.0, step)
            case Contractive(alpha=alpha):
                _contracts(subject, x, alpha)
            case RelativeVariance(omega=omega):
                _has_relative_variance(subject, x, omega)
            case _:
                raise AssertionError(f"there is no oracle for {law}")
    if contracting:
        assert isinstance(subject.codec.law((1, 1)), Exact | Contractive)
    match subject.codec.law(_SAMPLE):
        case Exact():
            generator = torch.Generator().manual_seed(2)
            # any pattern of a finite float32: zeros of both signs, subnormal and largest numbers
            any_pattern = torch.randint(0, 0x7F800000, _SAMPLE, generator=generator)
            any_pattern[0, :4] = torch.tensor([0x7F7FFFFF, 0, 0x007FFFFF, 1])
            any_pattern[1::2] -= 2**31
            _is_exact(subject, any_pattern.to(torch.int32).view(torch.float32))
        case Unbiased(step=step):
            _is_unbiased(subject, step)
        case UnbiasedCell(mean_square=mean_square, margin=margin):
            _is_unbiased_inside(subject, mean_square, margin)


def _is_exact(subject: Subject, x: Tensor) -> None:
    assert torch.equal(patterns(there_and_back(subject.codec, x)), patterns(x))


def _is_bounded(
    subject: Subject, x: Tensor, relative: float, absolute: float, steps: float
) -> None:
    if x.numel() == 0:
        return
    bound = relative * x.double().abs() + absolute
    if steps:
        assert subject.step is not None, "a law in steps needs the size of a step"
        bound += steps * subject.step(x) + ROUNDING * max(subject.within, float(x.abs().max()))
    error = (there_and_back(subject.codec, x).double() - x.double()).abs()
    assert (error <= bound).all(), f"{list(x.shape)}: error {error.max():g}"


def _is_unbiased(subject: Subject, steps: float) -> None:
    """Check mean and mean square of an error uniform within ``steps`` steps, at 5 sigma."""
    assert subject.step is not None, "a law in steps needs the size of a step"
    x = torch.rand(_SAMPLE, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    x = (subject.within * (2 * x**2 - 1)).float()
    reach = steps * subject.step(x)
    error = (there_and_back(subject.codec, x).double() - x.double()) / reach
    count = x.numel()
    assert abs(float(error.mean())) < 5 * math.sqrt(1 / 3 / count)
    assert abs(float((error**2).mean()) - 1 / 3) < 5 * math.sqrt(4 / 45 / count)


def _is_unbiased_inside(subject: Subject, mean_square: float, margin: float) -> None:
    """Check mean and mean square of either component of pairs within the margin, at 5 sigma."""
    assert subject.step is not None, "a law in steps needs the size of a step"
    x = torch.rand(_SAMPLE, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    ends = subject.within * torch.tensor([[-1.0, 1.0]]).repeat(1, _SAMPLE[1] // 2)  # of the range
    step = subject.step(ends)
    x = torch.cat([ends, ((subject.within - margin * step) * (2 * x**2 - 1)).float()])
    error = (there_and_back(subject.codec, x).double() - x.double())[1:] / step
    for each in (error[:, 0::2], error[:, 1::2]):
        spread = float((each**2).std())
        assert abs(float(each.mean())) < 5 * math.sqrt(mean_square / each.numel())
        assert abs(float((each**2).mean()) - mean_square) < 5 * spread / math.sqrt(each.numel())


def _contracts(subject: Subject, x: Tensor, alpha: float) -> None:
    """Check the mean over keys, since a compressor may contract in expectation only."""
    keys = [dataclasses.replace(KEY, round=round) for round in range(64)]
    norm = float((x.double() ** 2).sum())
    errors = []
    for key in keys:
        y = there_and_back(subject.codec, x, key)
        errors.append(float(((y.double() - x.double()) ** 2).sum()))
    uncertainty = 5 * float(np.std(errors)) / math.sqrt(len(keys))
    most = (1 - alpha) * (1 + ROUNDING) + ROUNDING**2  # a part is each component's own rounding
    assert np.mean(errors) <= most * norm + uncertainty


def _has_relative_variance(subject: Subject, x: Tensor, omega: float) -> None:
    """Check that the mean square error is bounded, and that the mean over keys is x.

    The mean's own error is random: its square is that of one message over the number of keys. Along
    x, where shrinking would show, it is told from 0 at 5 sigma.
    """
    keys = [dataclasses.replace(KEY, round=round) for round in range(256)]
    if x.numel() == 0:
        return
    norm = float((x.double() ** 2).sum())
    decoded = torch.stack([there_and_back(subject.codec, x, key).double() for key in keys])
    errors = ((decoded - x.double()) ** 2).sum((1, 2))
    uncertainty = 5 * float(errors.std()) / math.sqrt(len(keys))
    assert float(errors.mean()) <= omega * norm * (1 + ROUNDING) + uncertainty
    bias = decoded.mean(0) - x.double()
    assert float((bias**2).sum()) <= 2 * omega * norm / len(keys) + 1e-9 * norm
    along = ((decoded - x.double()) * x.double()).sum((1, 2))
    reach = 5 * float(along.std()) / math.sqrt(len(keys)) + 1e-6 * norm
    assert abs(float(along.mean())) <= reach


def predicts_its_size(subject: Subject) -> None:
    """Check that no body is longer than ``bytes_at_most``; with ``fixed_size`` none is shorter."""
    for x in subject.messages():
        rows, width = x.shape
        size = len(subject.codec.encode(x, KEY))
        most = subject.codec.at(KEY.round).bytes_at_most((rows, width))
        assert size <= most <= subject.codec.bytes_at_most((rows, width))
        if subject.codec.fixed_size:
            assert size == most


def takes_a_saliency(subject: Subject) -> None:
    """Check that who is told how much each column matters sends what it says, and decodes."""
    codec = subject.codec
    for x in subject.messages():
        rows, width = x.shape
        most = codec.at(KEY.round).bytes_at_most((rows, width))
        for saliency in (torch.arange(width).float(), torch.zeros(width)):
            before = saliency.clone()
            body = codec.encode(x, KEY, saliency)
            assert type(body) is bytes
            assert torch.equal(saliency, before), "encode changed the saliency"
            assert codec.encode(x, KEY, saliency) == body
            assert len(body) <= most
            assert len(body) == most or not codec.fixed_size
            y = codec.decode(body, (rows, width), KEY)
            assert y.shape == x.shape
            assert torch.isfinite(y).all()


def described(codec: Codec) -> dict[str, object]:
    """Return a codec's fields as JSON values; of codecs within it also the class."""
    return {name: _described(getattr(codec, name)) for name in _fields(codec)}


def _fields(codec: object) -> list[str]:
    assert dataclasses.is_dataclass(codec), f"{type(codec).__name__} is no dataclass"
    return [field.name for field in dataclasses.fields(codec)]


def _described(value: object) -> object:
    if isinstance(value, tuple):
        return [_described(each) for each in value]
    if isinstance(value, Codec):
        return {"class": type(value).__name__, **described(value)}
    return value


def rebuilt(
    cls: Callable[..., Codec],
    description: Mapping[str, object],
    classes: Mapping[str, Callable[..., Codec]] | None = None,
) -> Codec:
    """Return the codec that was described; codecs within it are of ``classes``, or Colonnade's."""
    known = vars(codecs) if classes is None else classes
    return cls(**{name: _rebuilt(value, known) for name, value in description.items()})


def _rebuilt(value: object, classes: Mapping[str, Callable[..., Codec]]) -> object:
    if isinstance(value, list):
        return [_rebuilt(each, classes) for each in value]
    if isinstance(value, dict):
        inner = dict(value)
        return rebuilt(classes[inner.pop("class")], inner, classes)
    return value


def _classes(value: object) -> dict[str, Callable[..., Codec]]:
    """Return the classes of a codec and of all within it, by name."""
    if isinstance(value, tuple):
        return {name: cls for each in value for name, cls in _classes(each).items()}
    if not isinstance(value, Codec):
        return {}
    inner = tuple(getattr(value, name) for name in _fields(value))
    return _classes(inner) | {type(value).__name__: type(value)}


def is_its_configuration(subject: Subject) -> None:
    """Check that fields that survive a text file make the codec again, and do not change."""
    codec = subject.codec
    again = rebuilt(type(codec), json.loads(json.dumps(described(codec))), _classes(codec))
    assert again == codec
    assert hash(again) == hash(codec)
    for x in subject.messages():
        rows, width = x.shape
        assert again.law((rows, width)) == codec.law((rows, width))
    assert isinstance(codec, Codec)
    x = next(subject.messages())
    assert again.encode(x, KEY) == codec.encode(x, KEY)
    for name in _fields(codec):
        with _raises(dataclasses.FrozenInstanceError):
            setattr(codec, name, None)


def is_pure(subject: Subject) -> None:
    """Check that bytes depend on values and key, values on bytes, shape and key, on no more."""
    codec = subject.codec
    generator_state, numpy_state = torch.get_rng_state(), repr(np.random.get_state())
    for x in subject.messages():
        rows, width = x.shape
        before = patterns(x).clone()
        body = codec.encode(x, KEY)
        assert type(body) is bytes
        assert torch.equal(patterns(x), before), "encode changed its input"
        assert codec.encode(x, dataclasses.replace(KEY)) == body

        every_other = torch.zeros(2 * rows, 3 * width)[::2, ::3]
        every_other.copy_(x)
        assert codec.encode(every_other, KEY) == body
        assert codec.encode(x.t().contiguous().t(), KEY) == body
        assert codec.encode(x.clone().requires_grad_(), KEY) == body
        assert codec.encode(x.double(), KEY) == body

        y = codec.decode(body, (rows, width), KEY)
        expected = patterns(y).clone()
        y.fill_(7.0)  # a caller owns what it was given
        assert torch.equal(patterns(codec.decode(body, (rows, width), KEY)), expected)
    assert torch.equal(torch.get_rng_state(), generator_state)
    assert repr(np.random.get_state()) == numpy_state


def refuses_what_is_not_finite(subject: Subject) -> None:
    """Check that it raises ``Diverged``, which names the component."""
    for value in (math.nan, math.inf, -math.inf):
        for row, column in ((0, 0), (2, 3), (4, 6)):
            x = torch.linspace(-1, 1, 35).view(5, 7).clone()
            x[row, column] = value
            with _raises(Diverged, f"component {column} of row {row} is {value}"):
                subject.codec.encode(x, KEY)


def stays_finite(subject: Subject) -> None:
    """Check that the largest numbers come back finite, or raise ``Diverged``.

    Nothing more is claimed of them: they may be beyond what the law is claimed for.
    """
    keys = [dataclasses.replace(KEY, round=round) for round in range(4)]
    generator = torch.Generator().manual_seed(6)
    for largest in (_LARGEST, 0.999 * _LARGEST, 2.0**127, 65504.0):
        one, two = torch.zeros(2, 6, 5)
        one[2, 3] = two[0, 0] = largest
        two[5, 4] = -largest
        signs = torch.randint(0, 2, (6, 5), generator=generator) * 2 - 1
        spread = torch.rand(6, 5, generator=generator) * 2 - 1
        for x in (one, two, largest * signs, largest * spread, torch.full((6, 5), -largest)):
            for key in keys:
                try:
                    y = there_and_back(subject.codec, x, key)
                except Diverged:
                    continue
                assert torch.isfinite(y).all(), f"of magnitude {largest:g} comes {y.abs().max()}"


def refuses_garbage(subject: Subject) -> None:
    """Check that any bytes whatever are refused, or are a finite matrix of the right shape."""
    codec, shape = subject.codec, (3, 5)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(4))
    body = codec.encode(x.clamp(-subject.within, subject.within), KEY)
    for size in range(len(body)):
        _refuses_or_decodes(subject, body[:size], shape, refuse=subject.codec.fixed_size)
    for tail in (b"\0", b"\xff", bytes(8), body):
        _refuses_or_decodes(subject, body + tail, shape, refuse=subject.codec.fixed_size)
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        _refuses_or_decodes(subject, bytes(flipped), shape)
    for number in _HUGE:
        for place in range(len(body) - len(number) + 1):
            changed = body[:place] + number + body[place + len(number) :]
            _refuses_or_decodes(subject, changed, shape)
        _refuses_or_decodes(subject, number * (len(body) // len(number) + 1), shape)
    source = random.Random(5)
    for size in [len(body)] * 300 + [source.randrange(2 * len(body)) for _ in range(100)]:
        _refuses_or_decodes(subject, source.randbytes(size), shape)


def _refuses_or_decodes(
    subject: Subject, body: bytes, shape: tuple[int, int], refuse: bool = False
) -> None:
    try:
        y = subject.codec.decode(body, shape, KEY)
    except RemoteProtocolError:
        return
    assert not refuse, f"a body of {len(body)} bytes was accepted for {shape}"
    assert tuple(y.shape) == shape
    assert y.dtype == torch.float32
    assert torch.isfinite(y).all(), f"{body[:16].hex()}... becomes what is not finite"


def refuses_before_it_allocates(subject: Subject) -> None:
    """Check with shapes that no machine has room for: to allocate raises something else."""
    body = subject.codec.encode(torch.zeros(3, 5), KEY)
    for shape in ((2**40, 2**20), (2**62, 1), (1, 2**62), (2**31, 2**31)):
        for short in (b"", body):
            with _raises(RemoteProtocolError):
                subject.codec.decode(short, shape, KEY)


CHECKS: tuple[Callable[[Subject], None], ...] = (
    returns_a_float32_matrix,
    obeys_its_law,
    predicts_its_size,
    takes_a_saliency,
    is_its_configuration,
    is_pure,
    refuses_what_is_not_finite,
    stays_finite,
    refuses_garbage,
    refuses_before_it_allocates,
)
"""What every codec must do, a function each."""


def check_codec(subject: Subject) -> None:
    """Run every check.

    Raises
    ------
    AssertionError
        If the codec breaks its contract.
    """
    for check in CHECKS:
        check(subject)
