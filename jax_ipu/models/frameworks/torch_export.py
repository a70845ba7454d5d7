"""torch.export of a module, with what it can not do by itself: functions that ask for the values of tensors.

This file imports PyTorch.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode

_PYTORCH = str(Path(torch.__file__).parent)


def export(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the exported program.

    Raises NotImplementedError: the model branches on values of tensors, or has shapes that depend on them.
    """
    with values_refused(), _Replaced():
        return torch.export.export(model, args, kwargs)


@contextlib.contextmanager
def values_refused() -> Iterator[None]:
    """Raises NotImplementedError where PyTorch asks for values of tensors."""
    try:
        yield
    except (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException) as error:
        operation = getattr(error, "func", None)
        what = f"PyTorch's operation {operation} " if operation else "the model "
        raise NotImplementedError(f"{what}{asks_for_values(_place(error))}") from error


def asks_for_values(place: str = "") -> str:
    """The message about an operation that does, without its name."""
    return (
        f"asks for the values of a tensor{place}, to branch on them or as a size, and a program for the IPU is "
        "compiled before there are values: choose between results by torch.where, and give sizes that are the same for "
        "all values"
    )


@contextlib.contextmanager
def repaired() -> Iterator[None]:
    """While a module is exported, its LSTMs have states of the right shape, and the values of masks are not asked for.

    PyTorch decomposes an LSTM so that the states have a dimension too many, and gives the operation's results that
    shape, too. Its transformers ask whether a mask is the causal one, to take a faster way on a GPU; without an answer
    they compute the same.
    """
    layers: Any = torch._decomp.decompositions
    transformers: Any = torch.nn.modules.transformer
    one_layer, is_causal_mask = layers.one_layer_lstm, transformers._detect_is_causal_mask

    def one_layer_lstm(x: Any, state: Any, *settings: Any, **options: Any) -> Any:
        outputs, last = one_layer(x, state, *settings, **options)
        return outputs, tuple(new.reshape(old.shape) for new, old in zip(last, state, strict=True))

    def is_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        return bool(is_causal)

    layers.one_layer_lstm, transformers._detect_is_causal_mask = one_layer_lstm, is_causal
    try:
        yield
    finally:
        layers.one_layer_lstm, transformers._detect_is_causal_mask = one_layer, is_causal_mask


def _place(error: BaseException) -> str:
    """Where the user's code made the call."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename not in (__file__, "<string>") and not frame.filename.startswith(_PYTORCH):
            return f" ({frame.filename}:{frame.lineno}, in {frame.name})"
    return ""


class _Replaced(TorchFunctionMode):
    """Calls of the table's functions go to those that ask for no value."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _REPLACED.get(func, func)(*args, **(kwargs or {}))


def _covariance(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """torch.cov, which looks whether the factor is positive: the covariances of rows, or of all numbers."""
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        centered = rows - rows.sum(1, keepdim=True) / rows.shape[1]
        return (centered @ centered.mH / max(rows.shape[1] - correction, 0)).squeeze()
    total = weights.sum()
    centered = rows - (rows * weights).sum(1, keepdim=True) / total
    lost = correction if aweights is None else correction * (weights * aweights).sum() / total
    return (centered @ (centered * weights).mH / (total - lost).clamp(min=0)).squeeze()


def _correlation(x: Any) -> Any:
    """torch.corrcoef."""
    covariance = _covariance(x)
    if covariance.ndim == 0:
        return covariance / covariance
    deviation = covariance.diagonal().real.sqrt() if covariance.is_complex() else covariance.diagonal().sqrt()
    found = covariance / deviation[:, None] / deviation
    return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1)) if found.is_complex() else found.clip(-1, 1)


def _gaussian_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """F.gaussian_nll_loss, which refuses variances below zero; here they count as `eps`."""
    var = torch.as_tensor(var, dtype=input.dtype)
    if var.ndim and var.shape == input.shape[:-1] and var.shape != input.shape:
        var = var[..., None]
    var = var + (var.clamp(min=eps) - var).detach()  # the limit has no part in the gradient
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


@torch.library.custom_op("jax_ipu::ctc_losses", mutates_args=())
def ctc_losses(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """The losses of rows, [rows]; log_probs [time, rows, classes], targets [rows, labels], lengths [rows]."""
    return torch.nn.functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, "none")


@ctc_losses.register_fake
def _(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    return log_probs.new_empty(log_probs.shape[1])


CTC_LOSSES = torch.ops.jax_ipu.ctc_losses.default


def _ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """F.ctc_loss, which looks how long rows are; a loss that is infinite has no gradient."""
    is_row = log_probs.ndim == 2
    if is_row:
        log_probs = log_probs[:, None]
    input_lengths = torch.as_tensor(input_lengths).reshape(-1)
    target_lengths = torch.as_tensor(target_lengths).reshape(-1)
    if is_row:
        targets = targets.reshape(1, -1)
    elif targets.ndim == 1:
        # The rows' labels one after another; no row has more than there are.
        begins = target_lengths.cumsum(0) - target_lengths
        places = begins[:, None] + torch.arange(targets.shape[0])
        targets = targets[places.clamp(max=max(targets.shape[0] - 1, 0))]
    losses = CTC_LOSSES(log_probs, targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        losses = torch.where(losses.isinf(), 0, losses)
    if reduction == "mean":
        losses = losses / target_lengths.clamp(min=1)
    found = _reduced(losses, reduction)
    return found[0] if is_row and found.ndim else found


def _reduced(losses: Any, reduction: str) -> Any:
    """As PyTorch's losses; raises ValueError for another word."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def _narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    """torch.narrow, which takes the value of a start that is a tensor."""
    if isinstance(start, Tensor):
        return x.index_select(dim, start + torch.arange(length))
    return torch.narrow(x, dim, start, length)


def _least_squares(a: Any, b: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """torch.linalg.lstsq by the pseudo-inverse; matrices without full rank have residuals that are not numbers."""
    rows, columns = a.shape[-2:]
    is_vector = a.ndim - 1 == b.ndim and b.shape == a.shape[:-1]
    right = b[..., None] if is_vector else b
    if rcond is None:
        rcond = torch.finfo(a.dtype).eps * max(rows, columns)
    solution = torch.linalg.pinv(a, rtol=rcond) @ right
    values = torch.linalg.svdvals(a)
    rank = (values > rcond * values[..., :1]).sum(-1)
    residuals = a.new_zeros(0, dtype=values.dtype)
    if rows > columns and driver not in (None, "gelsy"):
        squares = (a @ solution - right).abs().square().sum(-2)
        residuals = torch.where((rank == columns)[..., None], squares, math.nan)
    if driver not in ("gelsd", "gelss"):
        values = values.new_zeros(0)
    return torch.return_types.linalg_lstsq((solution[..., 0] if is_vector else solution, residuals, rank, values))


def _combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """torch.combinations, which selects rows of a grid by a mask."""
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = torch.tensor(list(chosen(range(x.shape[0]), r)), dtype=torch.int64).reshape(-1, r)
    return x[rows] if r else x.new_empty(0)


def _take(x: Any, index: Any) -> Any:
    """torch.take, which asks for the value of an index that is a scalar."""
    return x.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def _linear_cross_entropy(*args: Any, options: Any = None, **kwargs: Any) -> Any:
    """F.linear_cross_entropy without its chunks: the compiler cuts what is large by itself."""
    return torch.nn.functional.linear_cross_entropy(*args, **kwargs)


_REPLACED: dict[Any, Callable[..., Any]] = {
    torch.cov: _covariance,
    torch.Tensor.cov: _covariance,
    torch.combinations: _combinations,
    torch.corrcoef: _correlation,
    torch.Tensor.corrcoef: _correlation,
    torch.nn.functional.gaussian_nll_loss: _gaussian_loss,
    torch.linalg.lstsq: _least_squares,
    torch.ctc_loss: _ctc_loss,
    torch.nn.functional.ctc_loss: _ctc_loss,
    # PyTorch 2.13 has it.
    getattr(torch.nn.functional, "linear_cross_entropy", None): _linear_cross_entropy,
    torch.take: _take,
    torch.Tensor.take: _take,
    torch.narrow: _narrow,
    torch.Tensor.narrow: _narrow,
}
