"""Operations that torchax, or PyTorch's own decompositions, get wrong: values, shapes and types of results."""

import itertools

import pytest

from jax_ipu import GraphCoreManager
from support.torch_models import torch_or_skip

torch = torch_or_skip()

from jax_ipu.models.frameworks import torch_operations  # noqa: E402

nn = torch.nn
NAN, INFINITY = float("nan"), float("inf")


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


REDUCTIONS = ("prod", "mean", "amax", "amin")
# What rows are reduced into, the rows, and where each goes.
ROWS = random(4, 3), random(5, 3), torch.tensor([0, 2, 2, 0, 2])


def rows_reduced(reduce):
    def reduced(x, rows, index):
        both = (False, True)
        whole = [(x * 9).long().index_reduce(0, index, (rows * 9).long(), reduce, include_self=s) for s in both]
        return *(x.index_reduce(0, index, rows, reduce, include_self=s) for s in both), *whole

    return reduced


def norm(order, **options):
    return Function(lambda x: torch.linalg.vector_norm(x, order, **options))


def bits(x):
    """With numbers, with tensors and in place."""
    y = x.clone()
    y &= 13
    y |= x.flip(0)
    y ^= 5
    return x & 6, x | 1, x ^ 7, x & x.flip(0), x | x.flip(0), x ^ x.flip(0), y


def samples(x, grid):
    settings = itertools.product(("bilinear", "nearest"), (False, True))
    return [
        torch.nn.functional.grid_sample(x, grid, mode=mode, padding_mode="reflection", align_corners=corners)
        for mode, corners in settings
    ]


def resized(mode):
    """Smaller, larger and both, by sizes and by factors."""

    def resize(x):
        sizes = [{"size": s, "align_corners": c} for s in ((4, 5), (11, 3), (1, 1)) for c in (False, True)]
        settings = [*sizes, {"scale_factor": 0.4}, {"scale_factor": (0.7, 1.7)}]
        return [torch.nn.functional.interpolate(x, mode=mode, antialias=True, **s) for s in settings]

    return Function(resize)


def bags(table, positions, *weights):
    """Sums, means and maxima of bags of rows, of which one is empty."""
    bag, begins = torch.nn.functional.embedding_bag, torch.tensor([0, 3, 3, 5])
    rows = [
        bag(positions, table, starts, mode=mode, padding_idx=padding, include_last_offset=last)
        for mode in ("sum", "mean", "max")
        for padding in (None, 4)
        for starts, last in ((begins, False), (torch.cat([begins, torch.tensor([8])]), True))
    ]
    return [*rows, *(bag(positions, table, begins, mode="sum", per_sample_weights=w) for w in weights)]


def ordered(x, small):
    """The smallest of unsigned numbers, of numbers without a negative and of NaN; where the most frequent is last."""
    numbers = [small, small.to(torch.uint8), torch.where(x > 1, float("nan"), x)]
    rows = torch.tensor([[-1.0, 0, 1], [0, 0.5, 2]])
    return [
        *(n.topk(2, largest=largest)[0] for n in numbers for largest in (True, False)),
        *small.mode(1),
        *small.mode(0, keepdim=True),
        torch.searchsorted(rows, x[:2], right=True),
        torch.searchsorted(rows[0], x, out_int32=True),
        torch.nonzero_static(small, size=7),
        torch.nonzero_static(small[:, :0], size=2),
        torch.searchsorted(rows[:, :0], x[:2]),
        torch.searchsorted(rows[:0, :0], x[:0, :0]),
    ]


def selected(x, whole):
    """Of NaN, infinities, zeros of both signs, equal elements, and whole numbers that float32 and a negation lose."""
    found = [
        *x.sort(descending=True, stable=True),
        *(x.topk(3, 0, largest=largest)[0] for largest in (True, False)),
        *(tensor.kthvalue(k, 1)[0] for tensor in (x, whole) for k in (1, 3)),
        *(tensor.median() for tensor in (x, whole)),
        x.nanmedian(),
        *x.min(1),
        *x.max(0, keepdim=True),
        *(result for tensor in (x, whole) for result in (*tensor.cummax(1), *tensor.cummin(1))),
        whole.max(),
        *x[:2].aminmax(dim=1),
        *whole.mode(),
        torch.bucketize(x, torch.tensor([-1.0, 0, 0, 2])),
        torch.bucketize(x, torch.tensor([-1.0, 0, 0, 2]), right=True, out_int32=True),
        torch.bucketize(x, x[:0, 0]),
    ]
    for tensor in (x, whole):
        for values, places in (tensor.median(1, keepdim=True), tensor.nanmedian(1, keepdim=True)):
            found += [values, tensor.gather(1, places)]
    return found


def placed(x, places):
    return [
        x.put(places, torch.ones(4), accumulate=True),
        torch.slice_scatter(x, x[:, :1], -1, 2, 3),
        x.repeat_interleave(torch.tensor([1, 0, 2]), 0, output_size=3),
        -x.to(torch.uint8),
        x.to(memory_format=torch.contiguous_format),
    ]


def reduced(x):
    half = x.half()
    settings = {"dtype": torch.float32}
    whole, double, norm = (9 * x).to(torch.int8), x.double(), torch.linalg.vector_norm
    return [
        half.sum(**settings),
        half.mean(1, **settings),
        whole.sum(**settings),
        double.sum(**settings),
        norm(half, **settings),
    ]


def distances(x, y):
    orders = (0, 0.5, 1, 2, 3, float("inf"))
    return [d for p in orders for d in (torch.cdist(x, y, p), torch.pdist(x, p), torch.dist(x, y, p))]


def matrices(a):
    positive = a @ a.mT + torch.eye(3)
    factors = [torch.linalg.cholesky(positive, upper=upper) for upper in (False, True)]
    return [
        *(torch.cholesky_solve(a, factor, upper=bool(i)) for i, factor in enumerate(factors)),
        *(torch.cholesky_inverse(factor, upper=bool(i)) for i, factor in enumerate(factors)),
        *torch.linalg.lu(a),
        *torch.linalg.lu(a[:, :2]),
    ]


def systems(a):
    """Batches of matrices: determinants, solutions of square right sides, and where an elimination ends."""
    linear = torch.linalg
    singular = torch.cat([a, a[:1] * torch.tensor([1, 0, 1])])
    return [
        linear.det(singular),
        *linear.slogdet(a),
        linear.solve(a, a + 1),
        linear.solve(a, a[..., 0]),
        linear.solve(a, a + 1, left=False),
        linear.solve_ex(singular, singular)[1],
        linear.inv_ex(a)[0],
        linear.inv_ex(singular)[1],
        *linear.lu_factor(a),
        linear.lu_factor_ex(singular)[2],
    ]


def polygammas(x):
    return [torch.polygamma(order, x) for order in range(6)]


def pooled_backwards(x, y):
    """The operation of the gradient itself, where windows overlap, are padded and dilated."""
    settings = ((3, 2, 1, 1), (2, 1, 0, 1), (2, 2, 1, 2))
    results = []
    for pool, backward, images in (
        (nn.functional.max_pool2d, torch.ops.aten.max_pool2d_with_indices_backward, x),
        (nn.functional.max_pool2d, torch.ops.aten.max_pool2d_with_indices_backward, x[0]),
        (nn.functional.max_pool3d, torch.ops.aten.max_pool3d_with_indices_backward, y),
    ):
        for kernel, stride, padding, dilation in settings:
            out, places = pool(images, kernel, stride, padding, dilation, return_indices=True)
            space = 3 if images is y else 2
            each = [[n] * space for n in (kernel, stride, padding, dilation)]
            results.append(backward(out.cos(), images, *each, False, places))
    return results


def factors(a):
    """LU with its pivots, and what can be left out."""
    packed, pivots = torch.linalg.lu_factor(a)
    parts = [
        torch.lu_unpack(packed, pivots, data, order) for data, order in ((True, True), (False, True), (True, False))
    ]
    return parts, torch.linalg.lu(a)


def empty_matrices(a):
    linear = torch.linalg
    return linear.cholesky(a), *linear.inv_ex(a), *linear.lu_factor_ex(a), linear.solve(a, a)


def pseudo_inverses(a):
    """With each bound of what counts as zero, and of the lower triangle."""
    bounds = ({}, {"atol": 1.0}, {"rtol": 0.3}, {"atol": 0.5, "rtol": 0.3}, {"atol": torch.tensor([0.1, 2.0])})
    return [torch.linalg.pinv(a, **bound) for bound in bounds], torch.linalg.pinv(a, hermitian=True)


def orthogonal(a, wide):
    return [torch.linalg.qr(m, mode=mode) for m in (a, wide) for mode in ("reduced", "complete", "r")]


def triangles(a):
    """Matrices of which one triangle counts."""
    positive = a @ a.mT + torch.eye(3)
    lower = positive + torch.triu(a, 1)
    factors = [torch.linalg.cholesky_ex(m, upper=m is not lower) for m in (lower, lower.mT)]
    orders = [torch.linalg.cholesky_ex(positive - torch.diag(torch.eye(3)[k]) * 100)[1] for k in range(3)]
    return [f for f, _ in factors], orders, [torch.linalg.eigvalsh(lower, UPLO=side) for side in "LU"]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)

    def forward(self, x, mask, padding):
        return self.encoder(x, mask=mask, src_key_padding_mask=padding)


POSITIONS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
MODELS = {
    "bits": (Function(bits), torch.tensor([-7, 0, 4, 123456])),
    "bits of booleans": (Function(lambda x, y: [x & y, x | y, x ^ True, x & 1]), random(9) > 0, random(9) > 0.3),
    "samples with reflection": (Function(samples), random(2, 3, 5, 6), 2 * random(2, 4, 5, 2)),
    "antialiased, bilinear": (resized("bilinear"), random(2, 3, 7, 9)),
    "antialiased, bicubic": (resized("bicubic"), random(2, 3, 7, 9)),
    "bags": (Function(bags), random(10, 4), POSITIONS, random(8)),
    "order": (Function(ordered), random(3, 3), torch.tensor([[3, 1, 1], [0, 255, 255], [7, 7, 2]])),
    "selections": (
        Function(selected),
        torch.tensor([[1, NAN, -0.0, 0, INFINITY], [NAN, INFINITY, NAN, 3, 3], [NAN] * 5, [2, -0.0, 0, -INFINITY, 2]]),
        torch.tensor(
            [[2**24 + 1, 2**24 + 2, 2**24, 5, -(2**31)], [-(2**31), 2**31 - 1, 7, 7, -(2**31)]], dtype=torch.int32
        ),
    ),
    "places": (Function(placed), random(3, 4).abs(), torch.tensor([0, -1, 5, 5])),
    "reductions to a type": (Function(reduced), random(3, 4)),
    "distances": (Function(distances), random(4, 3), random(4, 3).flip(0)),
    "matrices": (Function(matrices), random(3, 3, 3)),
    "systems": (Function(systems), random(2, 3, 3)),
    "triangles": (Function(triangles), random(2, 3, 3)),
    "matrices of no rows": (Function(empty_matrices), random(2, 0, 0)),
    "pseudo-inverses": (Function(pseudo_inverses), random(2, 4, 4)),
    "pseudo-inverses of rank 2": (Function(torch.linalg.pinv), random(4, 2) @ random(2, 5)),
    "orthogonal factors": (Function(orthogonal), random(2, 4, 3), random(3, 4)),
    "losses of scalars": (
        Function(
            lambda x, t: [f(x, t) for f in (nn.functional.multi_margin_loss, nn.functional.multilabel_margin_loss)]
        ),
        torch.tensor(0.3),
        torch.tensor(0),
    ),
    "gradients of maxima": (Function(pooled_backwards), random(2, 3, 6, 7), random(1, 2, 5, 5, 4)),
    **{f"factors of {m} x {n}": (Function(factors), random(2, 2, m, n)) for m, n in ((3, 5), (5, 3), (4, 4))},
    "a table with max_norm": (nn.Embedding(10, 4, max_norm=1.0), POSITIONS),
    "slopes at random": (nn.RReLU(), random(3, 4)),
    "complex of float64": (Function(torch.complex), random(3).double(), random(2, 3).double()),
    "special functions": (
        Function(lambda x: [f(x) for f in (torch.special.erfcx, torch.special.log_ndtr, torch.special.entr)]),
        torch.tensor([0, -0.0, 1, -1, 3.99, 4.01, 9.5, 30, 1e4, -9, -30, -1e3, NAN, INFINITY, -INFINITY]),
    ),
    "polygamma": (Function(polygammas), torch.tensor([0.3, 1, 4, 30, -0.3, -1.7, -2.8, -8.4784, -20.3, -105.1])),
    "bags of one length": (nn.EmbeddingBag(10, 4, mode="max"), POSITIONS.reshape(2, 4)),
    "encoder with two masks": (
        Encoder(),
        random(2, 5, 8),
        torch.triu(torch.ones(5, 5, dtype=torch.bool), 1),
        torch.tensor([[False] * 3 + [True] * 2, [False] * 5]),
    ),
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
    "powers of whole numbers": (
        Function(lambda x, y: (x**y, 3**y, (-1) ** y, 1**y)),
        torch.tensor([3, -3, 1, -1, -1, 0, 2, 3]),
        torch.tensor([-1, 3, -5, -3, -2, 0, 70, 70]),
    ),
    "products with powers of two": (
        Function(lambda x, y: (torch.ldexp(x, y), torch.ldexp(y, y), torch.ldexp(x, x), torch.ldexp(x.double(), y))),
        torch.tensor([0.75, -3, 1.5, 0]),
        torch.tensor([3, -2, 100, -100]),
    ),
    **{f"rows reduced by {reduce}": (Function(rows_reduced(reduce)), *ROWS) for reduce in REDUCTIONS},
    "distance": (Function(lambda x, y: torch.dist(x, y, 0)), random(4), torch.tensor([0.0, 1, 2, 3])),
}


def compare(model, *inputs):
    model = model.eval()
    given = inputs if len(inputs) > 1 else inputs[0]
    with GraphCoreManager() as ipu:
        actual = ipu.execute_model(ipu.compile_model(model, given), given)
    torch.testing.assert_close(actual, model(*inputs), atol=1e-4, rtol=1e-4, equal_nan=True)


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


def test_what_needs_memory_or_pivots_is_refused():
    for function, message in (
        (lambda x: x.t().as_strided((2, 2), (1, 3)), "not contiguous or is a part of another"),
        (lambda x: torch.linalg.ldl_factor(x)[0], "ldl_factor pivots by values"),
        (lambda x: torch.linalg.lu_factor_ex(x, pivot=False)[0], "LU without pivoting"),
    ):
        with pytest.raises(NotImplementedError, match=message):
            compare(Function(function), random(3, 3))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_labels_of_a_margin_loss_end_at_the_first_negative_one(reduction):
    labels = torch.tensor([[3, 0, -1, 1], [1, -1, 0, 2], [-1, 0, 0, 0]])
    compare(
        Function(lambda x, t: nn.functional.multilabel_margin_loss(x, t, reduction=reduction)), random(3, 4), labels
    )


def test_pytorch_is_left_as_it_was():
    before = torch._decomp.decompositions.one_layer_lstm
    compare(nn.LSTM(2, 3), random(2, 2, 2))
    assert torch._decomp.decompositions.one_layer_lstm is before
