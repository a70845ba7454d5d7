"""Gradients of PyTorch's functions where they have kinks, limits or equal elements, as PyTorch has them."""

import pytest

from jax_ipu import GraphCoreManager
from support.torch_models import torch_or_skip

torch = torch_or_skip()
functional = torch.nn.functional
INDEX = torch.tensor([[0, 1, 2, 0], [2, 2, 2, 2]])


class Weighted(torch.nn.Module):
    """A sum of what the functions give for parameters of their own, with a weight for each element."""

    def __init__(self, cases):
        super().__init__()
        self.functions = [function for function, _ in cases]
        self.operands = torch.nn.ParameterList(torch.nn.Parameter(x.clone()) for _, x in cases)

    def forward(self, scale):
        total = torch.zeros(())
        for function, x in zip(self.functions, self.operands, strict=True):
            for value in torch.utils._pytree.tree_leaves(function(x)):
                total = total + (value * torch.linspace(0.5, 2, value.numel()).view(value.shape)).sum()
        return total * scale


def difference(outputs, targets):
    """The loss."""
    return (outputs - targets).sum()


def check(*cases):
    """Compares the gradients of all cases, in one program: a step of gradient descent takes them away."""
    model = Weighted(cases)
    data = torch.ones(1), torch.zeros(1)
    with GraphCoreManager() as ipu:
        step = ipu.compile_training_step(model, difference, "sgd", data, learning_rate=1.0)
        step(*data)
        changed = step.weights()
    difference(model(data[0]), data[1]).backward()
    for i, (_, x) in enumerate(cases):
        slope = model.operands[i].grad
        torch.testing.assert_close(
            torch.as_tensor(changed[f"operands.{i}"]), x - slope, rtol=1e-4, atol=1e-4, msg=lambda m, i=i: f"{i}: {m}"
        )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(reduction):
    """Margins of exactly zero have no gradient, probabilities of 0 and 1 a finite one."""
    rows = torch.tensor([[3.0, 2, 1, 4], [0, 0.5, -1, -1], [1, 1, 0, 0]])
    labels, weight = torch.tensor([0, 3, 1]), torch.tensor([1.0, 2, 3, 4])
    sure, targets = torch.tensor([0.0, 1, 0.25, 0.75]), torch.tensor([0.0, 1, 0.5, 0.75])

    def margins(**options):
        return lambda x: functional.multi_margin_loss(x, labels, reduction=reduction, **options)

    def entropy(**options):
        return lambda x: functional.binary_cross_entropy(x, targets, reduction=reduction, **options)

    check(
        (margins(), rows),
        (margins(p=2, margin=0.5, weight=weight), rows),
        (lambda x: functional.multi_margin_loss(x[0], labels[:1], reduction=reduction), rows),
        (entropy(), sure),
        (entropy(weight=weight), sure),
        (lambda x: functional.binary_cross_entropy(sure * 0.5 + 0.2, x, reduction=reduction), targets),
    )


def test_maxima_of_windows():
    """Windows with gaps, windows of unequal size, and maxima put back where several windows have the same one."""
    rows, images = torch.randn(2, 3, 11), torch.randn(2, 2, 7, 6)
    overlapping = dict(kernel_size=3, stride=2, padding=1)

    def put_back(x):
        _, places = functional.max_pool2d(images, **overlapping, return_indices=True)
        return functional.max_unpool2d(x, places, **overlapping, output_size=images.shape)

    check(
        (lambda x: functional.max_pool1d(x, 3, 2, dilation=2), rows),
        (lambda x: functional.max_pool2d(x, 2, (1, 2), padding=1, dilation=(2, 3)), images),
        (lambda x: functional.max_pool2d(x, (3, 2), 2, dilation=2, ceil_mode=True), images),
        (lambda x: functional.max_pool3d(x, 2, dilation=(1, 2, 1)), images),
        (lambda x: functional.adaptive_max_pool1d(x, 4), rows),
        (lambda x: functional.adaptive_max_pool2d(x, (3, 4)), images),
        (lambda x: functional.adaptive_max_pool2d(x[0], (None, 2)), images),
        (lambda x: functional.adaptive_max_pool3d(x, (2, 1, 5)), images),
        (put_back, functional.max_pool2d(images, **overlapping)),
    )


def test_places_of_maxima_of_windows():
    """PyTorch's own places, the first of equal elements; a NaN is the maximum of its windows."""
    images = torch.randint(-2, 3, (2, 3, 7, 6)).float()
    images[0, 0, 3, 3] = torch.nan

    class Places(torch.nn.Module):
        def forward(self, x):
            return functional.adaptive_max_pool2d_with_indices(x, (3, 4)), functional.max_pool2d_with_indices(
                x, 2, 1, dilation=2
            )

    with GraphCoreManager() as ipu:
        found = ipu.execute_model(ipu.compile_model(Places(), images), images)
    expected = Places()(images)
    for (values, places), (wanted, wanted_places) in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(values), wanted, equal_nan=True)
        assert torch.equal(torch.as_tensor(places), wanted_places)


@pytest.mark.parametrize("reduction", ["amax", "amin"])
def test_extremes_without_what_was_there(reduction):
    def reduce(x, dim):
        return torch.scatter_reduce(x[:3, :3] if dim else x, dim, INDEX, x[:2], reduction, include_self=False)

    ties = torch.tensor([[0.0, 2, 1, 2], [1, 1, 1, 1], [2, 0, 2, 0]])
    check(*((lambda x, dim=dim: reduce(x, dim), x) for dim in (0, 1) for x in (ties, torch.randn(3, 4))))


@pytest.mark.parametrize("own", [True, False])
def test_products_of_what_goes_to_a_place(own):
    """Several factors go to one place; some are zero."""
    rows = torch.randn(3, 4)
    rows[0, 1] = rows[1, 1] = rows[1, 3] = rows[2, 0] = 0

    def scattered(x, source):
        return [torch.scatter_reduce(x, dim, INDEX, source, "prod", include_self=own) for dim in (0, 1)]

    def reduced(x, source):
        return torch.index_reduce(x, 1, INDEX[0], source, "prod", include_self=own)

    check(
        (lambda x: scattered(x, rows[:2]), rows),
        (lambda x: scattered(rows, x), rows[:2]),
        (lambda x: reduced(x, rows), rows),
        (lambda x: reduced(rows, x), rows),
    )


def test_attention_to_nothing():
    """A row that a mask hides as a whole gives zeros, without a gradient."""
    mask = torch.tensor([[True, False, True], [False, False, False], [False, True, True]])

    def attend(x):
        return functional.scaled_dot_product_attention(x, 2 * x + 0.1, x.flip(1), attn_mask=mask)

    check((attend, torch.randn(2, 3, 4)))


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
def test_matrices():
    """The gradient of what one triangle decides is shared between both."""
    linear, a = torch.linalg, torch.randn(3, 3)
    positive = a @ a.T + torch.eye(3)
    check(
        (linear.det, a),
        (lambda x: linear.slogdet(x)[1], a),
        (lambda x: linear.solve(x, a), positive),
        (lambda x: linear.solve(x, x[0], left=True), positive),
        (linear.cholesky, positive + torch.triu(a, 1)),
        (linear.eigvalsh, positive + torch.triu(a, 1)),
        (lambda x: linear.pinv(x, hermitian=True), positive + torch.triu(a, 1)),
        *((lambda x, upper=u: torch.cholesky(x, upper=upper), positive + torch.triu(a, 1)) for u in (False, True)),
    )


def test_factors_of_matrices():
    """Also the triangle that is not read has the gradient that PyTorch gives it."""
    factor, b = torch.randn(2, 4, 4) + 3 * torch.eye(4), torch.randn(2, 4, 2)
    check(
        *((lambda x, upper=u: torch.cholesky_solve(b, x, upper=upper), factor) for u in (False, True)),
        *((lambda x, upper=u: torch.cholesky_inverse(x, upper=upper), factor) for u in (False, True)),
        (lambda x: torch.cholesky_solve(x, factor), b),
        (lambda x: torch.linalg.householder_product(x, b[:, :3, 0] / 5), factor[..., :3] / 5),
        (lambda x: torch.linalg.householder_product(factor / 5, x), b[:, :3, 0] / 5),
        (lambda x: torch.ormqr(x, b[..., 0] / 5, b), factor / 5),
        (lambda x: torch.ormqr(factor / 5, b[..., 0] / 5, x, left=False, transpose=True), b.mT + 0),
    )


def test_large_numbers_have_no_part_in_exponentials():
    x = torch.tensor([0.0, -0.0, 90, -90, 1000, -3, 5.5])
    check(
        *((f, x) for f in (functional.elu, functional.celu, functional.selu, functional.mish)),
        (lambda x: functional.softplus(x, 2, 5), x),
        (lambda x: functional.rrelu(x, training=False), x),
        (lambda x: functional.mish(x.half()).float(), torch.tensor([-3.0, 12, 30])),
    )


def test_functions_of_two_numbers_at_zero():
    x, y = torch.tensor([0.0, 0, 0, 1, -2]), torch.tensor([2.0, -1, 0, 0, -3])

    def logarithms(x):
        """What is minus infinity is hidden, and with it its gradient."""
        values = torch.xlogy(x, y), torch.xlogy(x, 2), torch.special.xlog1py(x, y - 1)
        return [torch.where(v.isfinite(), v, 0) for v in values]

    check(
        (lambda x: torch.atan2(x, x.roll(1)), x),
        (lambda x: torch.complex(x, x.roll(1)).angle(), x),
        (lambda x: torch.pow(x.abs(), x.roll(1).round().abs()), x),
        (logarithms, x),
        (lambda x: torch.cdist(x.repeat(6)[:, None], x.repeat(6)[:, None] ** 2), torch.tensor([0.0, 1, 2, 0.5, 7])),
    )


def test_ctc_loss_of_what_is_no_logarithm_of_probabilities():
    """PyTorch's gradient is one of a log_softmax."""
    labels, lengths = torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([3, 2])

    def loss(x):
        return functional.ctc_loss(x, labels, torch.tensor([6, 5]), lengths, reduction="none")

    check((loss, torch.randn(7, 2, 4)))


def test_numbers_beside_numbers():
    x = torch.tensor([1.0, -2, 0])
    check((lambda x: torch.nextafter(x, 2 * x), x), (lambda x: torch.nextafter(torch.ones(3), x), x))


def test_special_functions_far_from_zero():
    special, x = torch.special, torch.tensor([0.0, 1, -1, 3.9, 4.1, 9.5, 30, 1e4, -5])
    check((special.erfcx, x), (special.log_ndtr, -x[:-2]), (special.entr, x[1:2] + 1))
    check((torch.digamma, torch.tensor([-8.4784, -0.5, 0.3, 4])))
