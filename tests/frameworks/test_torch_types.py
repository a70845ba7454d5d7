"""Types of 64 bits in PyTorch models: values, types and shapes are PyTorch's, and the process keeps JAX's types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.torch_models import torch_or_skip

torch = torch_or_skip()

from jax_ipu import GraphCoreManager  # noqa: E402

nn = torch.nn
BIG = 1 << 40


class Function(nn.Module):
    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *inputs):
        return self.function(*inputs, *self.buffers())


def whole(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def double(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


MODELS = {
    "sum beyond 32 bits": (Function(lambda x: x.sum()), whole(BIG, 3, -1)),
    "sum of int32": (Function(lambda x: x.sum()), whole(1 << 30, 1 << 30, 1 << 30, dtype=torch.int32)),
    "product": (Function(lambda x: x * x), whole(1 << 20, -(1 << 20), 3)),
    "comparison": (Function(lambda x: x > BIG), whole(BIG, BIG + 1)),
    "division": (Function(lambda x: torch.div(x, 3, rounding_mode="trunc")), whole(BIG + 1, -BIG - 1)),
    "remainder": (Function(lambda x: x % 7), whole(BIG + 1, -BIG - 1)),
    "average of windows": (nn.AvgPool1d(3, 2, 1), whole(-BIG, *range(-9, 5), BIG).reshape(1, 1, -1)),
    "average with a divisor": (nn.AvgPool2d(2, 1, divisor_override=-3), whole(*range(-8, 8)).reshape(1, 4, 4)),
    "power": (Function(lambda x: x**2), whole(1 << 20, 7)),
    "shift": (Function(lambda x: x << 33), whole(1, 5)),
    "cumulative sum": (Function(lambda x: x.cumsum(0)), whole(BIG, BIG, 1)),
    "maximum with index": (Function(lambda x: x.max(0)), whole(BIG, BIG + 2, 1)),
    "argmax": (Function(lambda x: x.argmax(-1)), double(3, 5)),
    "top-k": (Function(lambda x: x.topk(3)), double(9)),
    "sort": (Function(lambda x: x.sort()), double(9)),
    "count": (Function(lambda x: (x > 0).sum()), double(9)),
    "iota": (Function(lambda x: torch.arange(5) + x), whole(BIG)),
    "buffer": (Function(lambda x, y: x + y, y=whole(BIG, 1)), whole(1, BIG)),
    "mean": (Function(lambda x: x.mean(0)), double(4, 3)),
    "constant": (Function(lambda x: x + torch.tensor(1e-12, dtype=torch.float64)), double(4)),
    "to float64": (Function(lambda x: x.double() / 3), torch.ones(3)),
    "linear": (nn.Linear(4, 3, dtype=torch.float64), double(2, 4)),
    "embedding": (nn.Embedding(10, 4), whole(1, 9, 3)),
    "full": (Function(lambda x: torch.full((2,), 7) + x), whole(BIG, 1)),
    "full of truth values": (Function(lambda x: torch.full((2,), True) & (x > 1)), whole(BIG, 1)),
    "full of numbers": (Function(lambda x: torch.full((2,), 0.5) * x), whole(3, 1)),
    "cast": (Function(lambda x: x.to(torch.int32)), whole(5, -7)),
}


@pytest.mark.parametrize("name", MODELS)
def test_types_and_values_are_those_of_pytorch(name):
    model, x = MODELS[name]
    expected = model(x)
    with GraphCoreManager() as manager:
        found = manager.execute_model(manager.compile_model(model.eval(), x), x)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for result, wanted in pairs:
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        exact = wanted.dtype not in (torch.float32, torch.float64)
        rounding = 0 if exact else 1e-12 if wanted.dtype == torch.float64 else 1e-6
        torch.testing.assert_close(result, wanted.detach(), rtol=rounding, atol=rounding)


def test_other_programs_of_the_process_keep_their_types():
    model, x = MODELS["linear"]
    with GraphCoreManager() as manager:
        run = manager.compile_model(model.eval(), x)
        assert jnp.arange(3).dtype == np.int32 and jnp.ones(3).dtype == np.float32
        manager.execute_model(run, x)
    assert not jax.config.jax_enable_x64 and jnp.asarray(np.ones(2)).dtype == np.float32


def test_indices_cost_no_more_for_being_of_64_bits():
    """Token ids and labels are int64 everywhere in PyTorch."""
    model = nn.Sequential(nn.Embedding(512, 64), nn.Linear(64, 16))
    ids = torch.arange(32) * 7
    with GraphCoreManager() as manager:
        wide, narrow = (manager.compile_model(model, x).cost for x in (ids, ids.to(torch.int32)))
    assert wide.cycles <= 1.05 * narrow.cycles


def test_an_input_that_does_not_fit_its_compiled_type_is_refused():
    model = Function(lambda x: x + 1)
    with GraphCoreManager() as manager:
        run = manager.compile_model(model, whole(1, 2, dtype=torch.int32))
        with pytest.raises(ValueError, match="int32 and has the value 1099511627776"):
            manager.execute_model(run, whole(1, BIG))


BOOLEANS = torch.tensor([True, False, True, True])
BYTES = whole(0, 1, 4, 200, dtype=torch.uint8)
INTEGERS = whole(-7, 0, 4, (1 << 24) + 1, dtype=torch.int32)
FLOATS = torch.tensor([-1.5, 0.0, 2.5, float("nan")])
PLACES = whole(0, 2, 2, 1)
EVERY = (BOOLEANS, BYTES, INTEGERS, FLOATS, whole(-BIG - 5, 0, 4, BIG + 1), FLOATS.double())


def scatters(x, places):
    """What is combined in the same place."""
    zeros, ones = torch.zeros(5, dtype=x.dtype), torch.ones(5, dtype=x.dtype)
    reductions = ("amax", "sum") if x.dtype == torch.bool else ("amax", "amin", "sum", "prod")
    return [
        zeros.scatter_add(0, places, x),
        zeros.index_add(0, places, x),
        zeros.index_put((places,), x, accumulate=True),
        *(ones.scatter_reduce(0, places, x, name, include_self=own) for name in reductions for own in (True, False)),
    ]


# Function and inputs; the results are lists, so that each row is one program.
OF_TYPES = {
    "signs": (lambda *xs: [f(x) for f in (torch.sign, torch.sgn) for x in xs], *EVERY),
    "sums": (
        lambda *xs: [x + x.flip(0) for x in xs] + [torch.add(xs[0], xs[0].flip(0), alpha=a) for a in (True, False)],
        *EVERY,
    ),
    "remainders": (lambda *xs: [y for x in xs for y in (torch.fmod(x, 3), torch.fmod(x.flip(0), x | 3))], *EVERY[1:3]),
    "remainders of floats": (lambda *xs: [torch.fmod(x, y) for x in xs for y in (0.7, xs[1])], FLOATS, FLOATS.double()),
    "remainders beyond 32 bits": (lambda x: [torch.fmod(x, 3), torch.fmod(x, x.flip(0) | 3)], EVERY[4]),
    "functions": (
        lambda *xs: [f(x) for f in (torch.rsqrt, torch.erf, torch.lgamma, torch.exp2, torch.acos) for x in xs],
        *EVERY[:3],
    ),
    "special functions": (
        lambda *xs: [f(x) for f in (torch.special.bessel_j0, torch.special.modified_bessel_i1) for x in xs],
        *EVERY[:3],
    ),
    "poles": (
        lambda x, y: [*(torch.polygamma(n, z) for n in (1, 2) for z in (x, y)), torch.special.zeta(x, y)],
        BOOLEANS,
        torch.tensor([0.0, -0.5, -1.5, 0]),
    ),
    "truth values": (
        lambda x, i: [
            torch.prod(x, 0, dtype=torch.bool),
            torch.sum(x, 0, dtype=torch.bool),
            x.put(i, x.flip(0), accumulate=True),
            torch.nonzero(x[:0]),
        ],
        BOOLEANS,
        PLACES,
    ),
    "functions of float64": (lambda x: [torch.lgamma(x), torch.digamma(x)], double(4)),
    **{f"scatters of {x.dtype}": (lambda x, i: scatters(x, i), x, PLACES) for x in EVERY[:4]},
}


@pytest.mark.parametrize("name", OF_TYPES)
def test_operations_of_every_type(name):
    function, *inputs = OF_TYPES[name]
    given = tuple(inputs) if len(inputs) > 1 else inputs[0]
    with GraphCoreManager() as manager:
        found = manager.execute_model(manager.compile_model(Function(function).eval(), given), given)
    for result, wanted in zip(found, function(*inputs), strict=True):
        torch.testing.assert_close(result, wanted, equal_nan=True)


def halves(x, far):
    """Functions that are computed in f32: of numbers around zero and far from it, both [4, 6]."""
    functional, part = nn.functional, x[:, :4] / 8
    return [
        torch.linalg.vector_norm(x, 6, 1),
        torch.dist(x, x.flip(0), 4),
        x.repeat(1, 9).cumsum(1),
        functional.group_norm(far, 2, x[0], x[1]),
        functional.layer_norm(far, (6,)),
        functional.batch_norm(far, x[0], far[1], x[2], x[3]),
        functional.bilinear(part, part.flip(0), part.expand(4, 4, 4), x[0, :4]),
        functional.grid_sample(x.view(1, 1, 2, 3, 4), far.view(1, 1, 2, 4, 3) / 128, align_corners=False),
        torch.linalg.matrix_exp(part / 8),
        torch.polygamma(2, far),
        torch.renorm(x, 2, 0, 3.0),
    ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_types_of_16_bits(dtype):
    x, far = (double(4, 6) * 20).to(dtype), (double(4, 6) + 50).to(dtype)
    with GraphCoreManager() as manager:
        found = manager.execute_model(manager.compile_model(Function(halves).eval(), (x, far)), (x, far))
    rounding = 2 * torch.finfo(dtype).eps
    for i, (result, wanted) in enumerate(zip(found, halves(x.float(), far.float()), strict=True)):
        assert result.dtype == dtype
        torch.testing.assert_close(result.float(), wanted, rtol=rounding, atol=rounding, msg=lambda m, i=i: f"{i}: {m}")


def test_results_whose_size_depends_on_values_are_refused_with_what_to_write_instead():
    rows = [
        (lambda x: torch.bincount(x, minlength=5), "bincount.* write torch.zeros.*scatter_add"),
        (lambda x: torch.nonzero(x), "nonzero.* write torch.nonzero_static"),
        (lambda x: x[x > 1], "size depends on the values"),
        (lambda x: torch.tensor_split(x, x[1:3]), "asks for the values of a tensor"),
        (lambda x: x.to(torch.complex32), "no type for torch.complex32: use .* torch.complex64"),
    ]
    with GraphCoreManager() as manager:
        for function, message in rows:
            with pytest.raises(NotImplementedError, match=message):
                manager.compile_model(Function(function), PLACES)
