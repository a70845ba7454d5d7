"""Operations that torchax, or PyTorch's own decompositions, get wrong: values, shapes and types of results."""

import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchax")

from jax_ipu import GraphCoreManager  # noqa: E402
from jax_ipu.models.frameworks import torch_operations  # noqa: E402

nn = torch.nn


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Translator(nn.Module):
    """The state of one LSTM begins another."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(6, 8), nn.LSTM(6, 8)

    def forward(self, x, y):
        return self.decoder(y, self.encoder(x)[1])[0]


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def norm(order, **options):
    return Function(lambda x: torch.linalg.vector_norm(x, order, **options))


MODELS = {
    **{
        f"transposed convolution, {groups} groups": (
            nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1, dilation=2, groups=groups),
            random(2, 4, 6, 6),
        )
        for groups in (1, 2, 4)
    },
    "transposed convolution of lines": (nn.ConvTranspose1d(6, 9, 3, stride=2, groups=3), random(2, 6, 7)),
    "transposed convolution of volumes": (nn.ConvTranspose3d(4, 4, 2, groups=2), random(1, 4, 3, 3, 3)),
    "transposed convolution of one image": (nn.ConvTranspose2d(4, 6, 3, groups=2), random(4, 6, 6)),
    "convolution": (nn.Conv2d(4, 6, (3, 2), stride=(1, 2), padding=1, dilation=2, groups=2), random(2, 4, 8, 9)),
    "average of lines": (nn.AvgPool1d(3, 2, 1, ceil_mode=True), random(2, 3, 8)),
    "average of volumes": (nn.AvgPool3d(2, 2, ceil_mode=True), random(1, 2, 5, 5, 5)),
    "average of one image": (nn.AvgPool2d((2, 3), (3, 2), (1, 0), ceil_mode=True), random(3, 6, 7)),
    "average with a divisor": (nn.AvgPool2d(3, 2, ceil_mode=True, divisor_override=5), random(2, 3, 6, 6)),
    "LSTM": (nn.LSTM(6, 8), random(5, 3, 6)),
    "LSTM of one sequence": (nn.LSTM(6, 8), random(5, 6)),
    "LSTM of two layers": (nn.LSTM(6, 8, num_layers=2, batch_first=True), random(3, 4, 6)),
    "LSTM in both directions": (nn.LSTM(6, 8, bidirectional=True, bias=False), random(5, 3, 6)),
    "LSTM with projections": (nn.LSTM(6, 8, proj_size=4), random(5, 3, 6)),
    "LSTM after LSTM": (Translator(), random(5, 3, 6), random(4, 3, 6)),
    "GRU": (nn.GRU(6, 8, num_layers=2, bidirectional=True), random(5, 3, 6)),
    **{f"norm {order}": (norm(order), torch.tensor([1.0, 0, -2])) for order in (0, 1, 2, 3, float("inf"))},
    "norm of rows": (norm(0, dim=(1,), keepdim=True), random(3, 4)),
    "distance": (Function(lambda x, y: torch.dist(x, y, 0)), random(4), torch.tensor([0.0, 1, 2, 3])),
}


def compare(model, *inputs):
    model = model.eval()
    given = inputs if len(inputs) > 1 else inputs[0]
    with GraphCoreManager() as ipu:
        actual = ipu.execute_model(ipu.compile_model(model, given), given)
    torch.testing.assert_close(actual, model(*inputs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_pytorch(name):
    compare(*MODELS[name])


@pytest.mark.parametrize("size", [4, 7])
def test_averages(size):
    """Each combination as one result of a model."""
    settings = itertools.product((2, 3), (1, 2, 3), (0, 1), (False, True), (False, True))
    pools = [
        nn.AvgPool2d(kernel, stride, padding, ceil_mode=up, count_include_pad=counted)
        for kernel, stride, padding, up, counted in settings
    ]
    compare(Function(lambda x: [pool(x) for pool in pools]), random(2, 3, size, size))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.reshape(1, -1), r"aten\.tanh\.default gives float32\[1, 4\] here and float32\[4\] in PyTorch"),
        (lambda x: x.astype("int32"), r"aten\.tanh\.default gives int32\[4\] here and float32\[4\] in PyTorch"),
        (lambda x: x > 0, r"aten\.tanh\.default gives bool\[4\] here"),
    ],
)
def test_a_result_of_another_shape_or_type_is_refused(wrong, message, monkeypatch):
    monkeypatch.setitem(torch_operations.OPERATIONS, torch.ops.aten.tanh.default, wrong)
    with pytest.raises(NotImplementedError, match=message):
        compare(Function(lambda x: torch.tanh(x).sum()), random(4))


def test_pytorch_is_left_as_it_was():
    before = torch._decomp.decompositions.one_layer_lstm
    compare(nn.LSTM(2, 3), random(2, 2, 2))
    assert torch._decomp.decompositions.one_layer_lstm is before
