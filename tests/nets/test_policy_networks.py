"""Policy networks: the sizes of the papers, and the choices they reject."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.nets.fast import map_convolution
from tokenworlds.nets.policy_networks import FrameNetwork, GridNetwork, MapLeakyReLU


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_parameters_are_those_of_the_papers() -> None:
    assert count(GridNetwork.Config().build(shape=(32, 6, 6))) == 1_293_824
    plain = FrameNetwork.Config(orthogonal=False)
    assert count(plain.build(shape=(4, 84, 84))) == 1_684_128


@pytest.mark.parametrize("shape", [(32, 6, 6), (32, 36, 1), (40, 1, 1)])
def test_maps_of_any_shape_become_vectors(shape: tuple[int, int, int]) -> None:
    network = GridNetwork.Config(filters=4, width=7).build(shape=shape)
    assert network(torch.randn(2, *shape)).shape == (2, 7)
    assert network.width == 7


def test_a_grid_network_is_its_layers_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_convolution, "MIN_SAVING", 0.0)
    torch.manual_seed(0)
    network = GridNetwork.Config(filters=4, kernel=5, width=3).build(shape=(5, 6, 6))
    x = torch.randn(2, 5, 6, 6)
    hidden: Tensor = x
    for layer in network.layers:
        if isinstance(layer, nn.Conv2d):
            hidden = functional.conv2d(hidden, layer.weight, padding=layer.padding)
        elif isinstance(layer, nn.LayerNorm):
            nn.init.normal_(layer.weight)
            hidden = functional.layer_norm(hidden, (4, 6, 6), layer.weight, layer.bias)
            hidden = functional.leaky_relu(hidden)
    expected, found = network.output(hidden.flatten(1)), network(x)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    ours, theirs = (
        torch.autograd.grad(each.square().sum(), list(network.parameters()))
        for each in (found, expected)
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_on_a_single_cell_all_layers_are_linear() -> None:
    torch.manual_seed(0)
    network = GridNetwork.Config(filters=4, kernel=1, width=3).build(shape=(5, 1, 1))
    x = torch.randn(2, 5)
    hidden: Tensor = x
    for layer in network.layers:
        if isinstance(layer, nn.Conv2d):
            hidden = hidden @ layer.weight[:, :, 0, 0].T
            hidden = functional.leaky_relu(functional.layer_norm(hidden, (4,)))
    expected = network.output(hidden)
    torch.testing.assert_close(network(x[:, :, None, None]), expected)


def test_an_even_kernel_is_an_error() -> None:
    with pytest.raises(UserError, match="kernel=4"):
        GridNetwork.Config(kernel=4).build(shape=(32, 6, 6))


def test_frames_too_small_for_the_convolutions_are_an_error() -> None:
    with pytest.raises(UserError, match="frames of 35x84 are too small"):
        FrameNetwork.Config().build(shape=(4, 35, 84))
    network = FrameNetwork.Config(width=2).build(shape=(1, 36, 36))
    assert network(torch.rand(3, 1, 36, 36)).shape == (3, 2)


def test_every_layer_needs_filters_kernel_and_stride() -> None:
    with pytest.raises(UserError, match="one number for each layer"):
        FrameNetwork.Config(filters=(32, 64))


def test_orthogonal_layers_double_what_a_relu_halves() -> None:
    torch.manual_seed(0)
    network = FrameNetwork.Config(filters=(4,), kernels=(4,), strides=(4,), width=6).build(
        shape=(1, 8, 8)
    )
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    assert len(layers) == 2
    for layer in layers:
        weight = layer.weight.detach().flatten(1)
        torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(len(weight)))
        assert layer.bias is not None
        assert not layer.bias.any()


def test_gradients_of_a_channels_last_map_are_channels_last_too() -> None:
    maps = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).requires_grad_()
    layouts: list[bool] = []

    class Below(torch.autograd.Function):
        """Notes the layout of the gradient that reaches it."""

        @staticmethod
        def forward(ctx: object, maps: Tensor) -> Tensor:
            return maps.clone()

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            layouts.append(grad.is_contiguous(memory_format=torch.channels_last))
            return grad

    made: Tensor = Below.apply(maps)  # type: ignore[no-untyped-call]
    weights = torch.linspace(-1, 1, 120)
    (found,) = torch.autograd.grad((MapLeakyReLU()(made).flatten() * weights).sum(), maps)
    plain = (functional.leaky_relu(maps).flatten() * weights).sum()
    assert torch.equal(found, torch.autograd.grad(plain, maps)[0])
    assert layouts == [True]


@torch.no_grad()
def test_without_autograd_a_leaky_relu_overwrites_its_map() -> None:
    maps = torch.tensor([[[[-1.0, 2.0]]]])
    assert MapLeakyReLU()(maps).data_ptr() == maps.data_ptr()
    assert maps.flatten().tolist() == pytest.approx([-0.01, 2.0])
