"""Networks for pictures, views and series: what they compute, and the shapes that they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from colonnade.errors import ConfigurationError, DataError
from colonnade.models import Cnn, Lstm, Mvcnn, ResNet18, group_norm


def parameters(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


# --- views ------------------------------------------------------------------------------------


def test_views_go_through_the_same_convolutions_and_the_largest_values_count() -> None:
    model = Mvcnn(outputs=5, inputs=1, grid=2)
    first, second = (layer for layer in model.view if isinstance(layer, nn.Conv2d))
    x = torch.rand(2, 3, 1, 47, 47)
    each = []
    for view in range(3):
        z = functional.conv2d(x[:, view], first.weight, first.bias, stride=4, padding=2)
        z = functional.max_pool2d(functional.relu(z), 3, stride=2)
        z = functional.relu(functional.conv2d(z, second.weight, second.bias, padding=1))
        assert z.shape == (2, 256, 5, 5)
        each.append(functional.max_pool2d(z, 3, stride=2).flatten(1))
    by_hand = model.embed(torch.stack(each).amax(0))
    torch.testing.assert_close(model(x), by_hand)


def test_the_pool_on_a_grid_is_the_paper_s_for_its_pictures() -> None:
    model = Mvcnn(outputs=1, grid=13)
    x = torch.rand(1, 3, 224, 224)
    before = model.view[:-1](x)
    assert before.shape == (1, 256, 27, 27)
    assert torch.equal(model.view(x), functional.max_pool2d(before, 3, stride=2))
    assert model.embed.in_features == 256 * 13 * 13


def test_the_order_of_views_does_not_matter_and_a_repeated_view_adds_nothing() -> None:
    model = Mvcnn(outputs=4)
    x = torch.rand(2, 3, 3, 32, 32)
    torch.testing.assert_close(model(x), model(x[:, [2, 0, 1]]))
    torch.testing.assert_close(model(x), model(x[:, [0, 1, 2, 1]]))


@pytest.mark.parametrize("size", [(15, 15), (15, 40), (64, 33)])
def test_one_model_takes_pictures_of_many_sizes(size: tuple[int, int]) -> None:
    assert Mvcnn(outputs=4)(torch.rand(2, 1, 3, *size)).shape == (2, 4)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((2, 3, 32, 32), "views must have the shape"),
        ((2, 0, 3, 32, 32), "views must have the shape"),
        ((2, 1, 1, 32, 32), r"\[rows, views, 3, height, width\], not \[2, 1, 1, 32, 32\]"),
        ((2, 1, 3, 14, 32), "15 x 15 pixels or more, not 14 x 32"),
    ],
)
def test_what_are_no_views_is_refused(shape: tuple[int, ...], why: str) -> None:
    with pytest.raises(DataError, match=why):
        Mvcnn(outputs=4)(torch.zeros(shape))


# --- small pictures ---------------------------------------------------------------------------


def test_resnet18_has_as_many_parameters_as_is_known() -> None:
    """By hand: convolutions have 9 or 1 weights a pair of channels, norms 2 a channel."""
    assert parameters(ResNet18(outputs=10)) == 11_173_962
    by_hand = 9 * 3 * 64 + 2 * 64 + 4 * (9 * 64 * 64 + 2 * 64)
    for width in (128, 256, 512):
        half = width // 2
        by_hand += 9 * half * width + 3 * 9 * width * width + half * width + 5 * 2 * width
    assert by_hand + 513 * 10 == 11_173_962
    assert parameters(ResNet18(outputs=100)) == by_hand + 513 * 100
    assert parameters(ResNet18(outputs=10, inputs=1)) == 11_173_962 - 9 * 2 * 64


def test_resnet18_has_seventeen_convolutions_and_three_shortcuts() -> None:
    convolutions = [m for m in ResNet18(outputs=10).modules() if isinstance(m, nn.Conv2d)]
    assert sum(m.kernel_size == (3, 3) for m in convolutions) == 17
    assert sum(m.kernel_size == (1, 1) for m in convolutions) == 3
    assert sum(m.stride == (2, 2) for m in convolutions) == 6
    assert all(m.bias is None for m in convolutions)


@pytest.mark.parametrize(("size", "left"), [(32, 4), (16, 2), (15, 2), (1, 1)])
def test_resnet18_halves_three_times(size: int, left: int) -> None:
    model = ResNet18(outputs=6, width=4)
    x = torch.rand(2, 3, size, size)
    assert model.blocks(model.stem(x)).shape == (2, 32, left, left)
    assert model(x).shape == (2, 6)


def test_a_block_whose_convolutions_are_nothing_passes_its_input() -> None:
    block = ResNet18(outputs=1, width=4).blocks[0]
    nn.init.zeros_(block.second[1].weight)
    x = torch.rand(2, 4, 5, 5)
    assert torch.equal(block(x), x)


def test_statistics_are_state_and_make_predictions_repeat() -> None:
    model = ResNet18(outputs=2, width=4)
    x = torch.rand(8, 3, 8, 8)
    for _ in range(3):
        model(x)
    model.eval()
    copy = ResNet18(outputs=2, width=4).eval()
    assert not torch.equal(copy(x), model(x))
    copy.load_state_dict(model.state_dict())
    assert torch.equal(copy(x), model(x))
    torch.testing.assert_close(model(x)[:1], model(x[:1]))


def test_with_norms_of_groups_a_row_does_not_hang_on_its_batch() -> None:
    x = torch.rand(8, 3, 16, 16)
    for norm, apart in ((group_norm, True), (nn.BatchNorm2d, False)):
        model = ResNet18(outputs=2, width=4, norm=norm)
        assert torch.allclose(model(x)[:1], model(x[:1]), atol=1e-5) is apart
    grouped, usual = ResNet18(outputs=10, norm=group_norm), ResNet18(outputs=10)
    assert parameters(grouped) == parameters(usual)
    assert not [m for m in grouped.modules() if isinstance(m, nn.BatchNorm2d)]


@pytest.mark.parametrize("shape", [(2, 3, 16), (2, 1, 16, 16), (2, 768), (2, 3, 0, 4)])
def test_what_are_no_pictures_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"pictures must have the shape \[rows, 3, height, width\]"):
        ResNet18(outputs=2, width=4)(torch.zeros(shape))


# --- parts of small pictures ------------------------------------------------------------------


def test_a_convolutional_network_is_its_formula() -> None:
    model = Cnn((2, 7, 5), outputs=3, channels=(4, 6))
    first, second = (layer for layer in model.layers if isinstance(layer, nn.Conv2d))
    x = torch.rand(3, 2, 7, 5)
    z = x
    for layer in (first, second):
        z = functional.relu(functional.conv2d(z, layer.weight, layer.bias, padding=1))
        odd = [n % 2 for n in z.shape[2:]]
        z = functional.max_pool2d(functional.pad(z, (0, odd[1], 0, odd[0])), 2)
    assert z.shape == (3, 6, 2, 2)
    torch.testing.assert_close(model(x), model.embed(z.flatten(1)))
    assert parameters(model) == (9 * 2 + 1) * 4 + (9 * 4 + 1) * 6 + (6 * 4 + 1) * 3


@pytest.mark.parametrize("shape", [(1, 14, 14), (3, 16, 16), (1, 28, 1), (1, 1, 1)])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_quadrants_and_strips_have_convolutions(shape: tuple[int, int, int], layers: int) -> None:
    assert Cnn(shape, 8, [2] * layers)(torch.rand(4, *shape)).shape == (4, 8)


@pytest.mark.parametrize("shape", [(2, 196), (2, 1, 14, 13), (2, 3, 14, 14), (1, 14, 14)])
def test_pictures_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"the shape \['rows', 1, 14, 14\]"):
        Cnn((1, 14, 14), 8)(torch.zeros(shape))


@pytest.mark.parametrize(
    ("inputs", "outputs", "channels"),
    [((0, 3, 3), 1, [1]), ((1, 3, 3), 0, [1]), ((1, 3, 3), 1, [])],
)
def test_a_convolutional_network_of_nothing_is_refused(
    inputs: tuple[int, int, int], outputs: int, channels: list[int]
) -> None:
    with pytest.raises(ConfigurationError, match="of 1 or more, not"):
        Cnn(inputs, outputs, channels)


# --- series -----------------------------------------------------------------------------------


def test_a_series_is_described_by_the_last_hidden_state() -> None:
    model = Lstm(inputs=3, hidden=4, outputs=2)
    x = torch.rand(5, 7, 3)
    cell = nn.LSTMCell(3, 4)
    cell.load_state_dict({name[:-3]: value for name, value in model.memory.state_dict().items()})
    h, c = torch.zeros(5, 4), torch.zeros(5, 4)
    for step in range(7):
        h, c = cell(x[:, step], (h, c))
    torch.testing.assert_close(model(x), model.embed(h))


def test_without_outputs_the_embedding_is_bounded() -> None:
    model = Lstm(inputs=3, hidden=4, layers=2)
    embeddings = model(1000 * torch.randn(50, 10, 3))
    assert embeddings.shape == (50, 4)
    assert embeddings.abs().max() <= 1


def test_time_has_a_direction() -> None:
    model = Lstm(inputs=3, hidden=4, outputs=2)
    x = torch.rand(5, 7, 3)
    assert not torch.allclose(model(x), model(x.flip(1)))


@pytest.mark.parametrize("shape", [(2, 3), (2, 5, 4), (2, 0, 3), (2, 5, 3, 1)])
def test_what_are_no_series_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"series must have the shape \[rows, times, 3\]"):
        Lstm(inputs=3, hidden=4)(torch.zeros(shape))


# --- all of them ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: Mvcnn(outputs=3, inputs=1, grid=1), (6, 2, 1, 16, 16)),
        (lambda: ResNet18(outputs=3, inputs=1, width=4), (6, 1, 8, 8)),
        (lambda: Lstm(inputs=2, hidden=16, outputs=3, layers=2, dropout=0.1), (6, 4, 2)),
    ],
    ids=["Mvcnn", "ResNet18", "Lstm"],
)
def test_they_learn(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """Every parameter has a derivative, and some steps fit a few rows."""
    model = make()
    x, y = torch.randn(shape), torch.tensor([0, 1, 2] * 2)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        if not losses:
            assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Mvcnn(outputs=0),
        lambda: Mvcnn(outputs=1, inputs=0),
        lambda: Mvcnn(outputs=1, grid=0),
        lambda: ResNet18(outputs=0),
        lambda: ResNet18(outputs=1, inputs=0),
        lambda: ResNet18(outputs=1, width=0),
        lambda: Lstm(inputs=0, hidden=1),
        lambda: Lstm(inputs=1, hidden=0),
        lambda: Lstm(inputs=1, hidden=1, outputs=0),
        lambda: Lstm(inputs=1, hidden=1, layers=0),
        lambda: Lstm(inputs=1, hidden=1, layers=2, dropout=1.0),
        lambda: Lstm(inputs=1, hidden=1, dropout=0.5),
    ],
)
def test_numbers_out_of_range_are_refused(make: Callable[[], nn.Module]) -> None:
    with pytest.raises(ConfigurationError):
        make()
