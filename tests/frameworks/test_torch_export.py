"""PyTorch's functions that ask for values of tensors, and models that do."""

import pytest

from jax_ipu import GraphCoreManager
from support.torch_models import torch_or_skip

torch = torch_or_skip()

functional = torch.nn.functional
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
POSITIVE = X.abs() + 0.1
COUNTS = torch.tensor([1, 2, 0, 3, 1, 1])
SQUARE = X[:, :4]
SPOKEN = torch.randn(9, 3, 5, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([[1, 1, 2, 1], [3, 4, 4, 4], [2, 1, -9, 7]])


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def run(function, *inputs):
    given = inputs if len(inputs) > 1 else inputs[0]
    with GraphCoreManager() as ipu:
        return ipu.execute_model(ipu.compile_model(Function(function), given), given)


def least_squares(**options):
    return lambda a, b: tuple(torch.linalg.lstsq(a, b, **options))


FUNCTIONS = {
    "cov": (torch.cov, X),
    "cov of integers": (torch.cov, COUNTS),
    "cov of a number": (torch.cov, X[0, 0]),
    "cov without rows to spare": (lambda x: x.cov(correction=9), X),
    "cov with weights": (
        lambda x, n, w: (x.cov(fweights=n), x.cov(aweights=w, correction=0), x.cov(fweights=n, aweights=w)),
        X,
        COUNTS,
        POSITIVE[0],
    ),
    "cov of complex rows": (torch.cov, torch.complex(X, X.flip(1).square())),
    "corrcoef": (lambda x: (torch.corrcoef(x), x[0].corrcoef()), X),
    "corrcoef of complex rows": (torch.corrcoef, torch.complex(X, X.flip(1).square())),
    "combinations": (
        lambda x: (torch.combinations(x), torch.combinations(x, 3, with_replacement=True), torch.combinations(x[:1])),
        COUNTS,
    ),
    "gaussian loss": (
        lambda x, y, v: tuple(
            functional.gaussian_nll_loss(x, y, v, full=full, reduction=reduction)
            for full in (False, True)
            for reduction in ("none", "mean", "sum")
        ),
        X,
        X.flip(0),
        POSITIVE,
    ),
    "gaussian loss, a variance for each row": (torch.nn.GaussianNLLLoss(), X, X.flip(0), POSITIVE[:, 0]),
    "ctc loss": (
        lambda p, labels, times, lengths: tuple(
            functional.ctc_loss(p.log_softmax(-1), labels, times, lengths, reduction=reduction)
            for reduction in ("none", "mean", "sum")
        ),
        SPOKEN,
        LABELS,
        torch.tensor([9, 8, 7]),
        torch.tensor([4, 0, 2]),
    ),
    "ctc loss, labels one after another": (
        lambda p, labels: torch.nn.CTCLoss(blank=2)(p.log_softmax(-1), labels, (9, 9, 8), (3, 1, 2)),
        SPOKEN,
        torch.tensor([1, 1, 0, 3, 4, 0]),
    ),
    "ctc loss without labels": (
        lambda p, labels: functional.ctc_loss(p.log_softmax(-1), labels, (9, 9, 8), (0, 0, 0)),
        SPOKEN,
        torch.zeros(0, dtype=torch.int64),
    ),
    "ctc loss of a row by itself": (
        lambda p, labels: functional.ctc_loss(p.log_softmax(-1), labels, (9,), (4,), reduction="none"),
        SPOKEN[:, 0],
        LABELS[0],
    ),
    "ctc loss of labels that do not fit": (
        lambda p, labels: tuple(
            torch.nn.CTCLoss(reduction="none", zero_infinity=zero)(p.log_softmax(-1), labels, [9, 4, 3], [4, 4, 4])
            for zero in (False, True)
        ),
        SPOKEN,
        LABELS,
    ),
    "ctc loss of a row": (
        lambda p, labels: torch.nn.CTCLoss(reduction="sum")(p.log_softmax(-1), labels, (9,), (4,)),
        SPOKEN[:, 0],
        LABELS[0],
    ),
    "narrow from a computed row": (lambda x, n: (x.narrow(0, n, 2), torch.narrow(x, 1, n + 1, 3)), X, COUNTS[0]),
    **(
        {
            "cross entropy of a linear layer, in chunks": (
                lambda x, w, labels: tuple(
                    functional.linear_cross_entropy(
                        x, w, labels, reduction=reduction, options=torch.nn.LinearCrossEntropyOptions()
                    )
                    for reduction in ("none", "mean", "sum")
                ),
                X,
                X.flip(0),
                torch.arange(X.shape[0]) % 3,
            )
        }
        if hasattr(torch.nn, "LinearCrossEntropyOptions")  # PyTorch 2.13
        else {}
    ),
    "take by a number": (lambda x, i: (x.take(i), torch.take(x, i[None] - 7)), X, COUNTS[3]),
    "index_reduce of a number": (
        lambda x, i: tuple(x.index_reduce(0, i, x * 2, reduce) for reduce in ("prod", "mean", "amax", "amin")),
        X[0, 0],
        torch.tensor([0]),
    ),
    "lstsq": (least_squares(), X.T, X.T[:, :2].flip(0)),
    "lstsq, more columns than rows": (least_squares(), X, X[:, :2]),
    "lstsq of a batch": (least_squares(driver="gelsd"), torch.stack([X.T, X.T.flip(0)]), torch.stack([X.T, X.T])),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_agree_with_pytorch(name):
    function, *inputs = FUNCTIONS[name]
    torch.testing.assert_close(run(function, *inputs), function(*inputs), atol=1e-4, rtol=1e-4, equal_nan=True)


def test_rank_and_residuals_of_dependent_columns():
    """PyTorch leaves out the residuals, which here have a shape that values do not decide."""
    a = torch.cat([X.T[:, :2], X.T[:, :1] * 2], 1)
    solution, residuals, rank, _ = run(least_squares(driver="gelss"), a, X.T)
    torch.testing.assert_close(solution, torch.linalg.lstsq(a, X.T).solution, atol=1e-4, rtol=1e-4)
    assert rank == 2 and residuals.shape == (4,) and residuals.isnan().all()


def difference(outputs, targets):
    """The loss."""
    return outputs - targets


def test_a_small_variance_has_the_gradient_of_its_clamped_value():
    variance = torch.tensor([1e-9, 0.5, 2.0])

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.variance = torch.nn.Parameter(variance.clone())

        def forward(self, x):
            return functional.gaussian_nll_loss(x, x.flip(0), self.variance, eps=0.1)

    data = X[0, :3], torch.zeros(())
    with GraphCoreManager() as ipu:
        step = ipu.compile_training_step(Loss(), difference, "sgd", data, learning_rate=1.0)
        step(*data)
        changed = torch.as_tensor(step.weights()["variance"])
    model = Loss()
    model(data[0]).backward()
    torch.testing.assert_close(changed, variance - model.variance.grad)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: functional.ctc_loss(x.log_softmax(-1), LABELS, (9, 9, 9), (4, 1, 2), reduction="avg"),
        lambda x: functional.gaussian_nll_loss(x, x, x.abs() + 1, reduction="avg"),
    ],
)
def test_an_unknown_reduction_is_refused(loss):
    with pytest.raises(ValueError, match="avg is not a valid value for reduction"):
        run(loss, SPOKEN)


def test_ctc_loss_has_the_gradient_of_pytorchs():
    labels, times, lengths = LABELS, (9, 9, 8), (4, 3, 2)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = torch.nn.Parameter(SPOKEN.clone())

        def forward(self, labels):
            return functional.ctc_loss(self.scores.log_softmax(-1), labels, times, lengths)

    data = labels, torch.zeros(())
    with GraphCoreManager() as ipu:
        step = ipu.compile_training_step(Loss(), difference, "sgd", data, learning_rate=1.0)
        step(*data)
        changed = torch.as_tensor(step.weights()["scores"])
    model = Loss()
    model(labels).backward()
    torch.testing.assert_close(changed, SPOKEN - model.scores.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if x.sum() > 0 else x,
        lambda x: x[: int(x.sum().abs())],
        lambda x: x if torch.allclose(x, x + 1) else -x,
        lambda x: x if torch.equal(x, x.flip(0)) else -x,
    ],
)
def test_a_model_that_asks_for_values_is_refused_with_its_line(function):
    message = r"asks for the values of a tensor \(.*test_torch_export\.py:\d+, in"
    with pytest.raises(NotImplementedError, match=message) as error:
        run(function, X)
    assert "torch.where" in str(error.value)
