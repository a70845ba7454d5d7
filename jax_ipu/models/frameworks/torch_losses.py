"""PyTorch's losses whose expressions in other operations have other values or gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

# The logarithm of no probability at all, of which sums and gradients are finite.
_NEVER = -1e30


def multilabel_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    """F.multilabel_margin_loss; labels [.., classes] end at the first below 0.

    PyTorch's own expression also takes the labels after it.
    """
    x, target = jnp.atleast_1d(x, target)
    listed = jnp.cumsum(target < 0, -1) == 0
    chosen = jnp.take_along_axis(x, jnp.where(listed, target, 0), -1)
    is_label = (target[..., None] == jnp.arange(x.shape[-1])) & listed[..., None]
    pairs = listed[..., None] & ~is_label.any(-2, keepdims=True)
    margins = 1 - chosen[..., None] + x[..., None, :]
    losses = jnp.sum(jnp.where(pairs & (margins > 0), margins, 0), (-2, -1)) / x.shape[-1]
    return _reduced(losses, reduction)


def multi_margin_loss(
    x: Any, target: Any, p: float = 1, margin: float = 1, weight: Any = None, reduction: int = 1
) -> Any:
    """F.multi_margin_loss; a margin of exactly zero has no gradient, and a label without dimensions gives one loss."""
    x = jnp.atleast_1d(x)
    rows, labels = x.reshape(-1, x.shape[-1]), target.reshape(-1, 1)
    margins = margin - jnp.take_along_axis(rows, labels, 1) + rows
    counted = (labels != jnp.arange(rows.shape[1])) & (margins > 0)
    losses = jnp.sum(jnp.where(counted, margins if p == 1 else margins * margins, 0), 1) / rows.shape[1]
    if weight is not None:
        losses = losses * weight[labels[:, 0]]
    return _reduced(losses.reshape(target.shape), reduction)


def binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    """F.binary_cross_entropy, whose gradient is finite for probabilities of 0 and 1."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    losses = _cross_entropy(x.astype(wide), target.astype(wide))
    if weight is not None:
        losses = losses * weight.astype(wide)
    return _reduced(losses, reduction).astype(x.dtype)


@jax.custom_jvp
def _cross_entropy(x: Any, target: Any) -> Any:
    return (target - 1) * jnp.maximum(jnp.log1p(-x), -100) - target * jnp.maximum(jnp.log(x), -100)


@_cross_entropy.defjvp
def _(primals: Any, tangents: Any) -> Any:
    x, target = primals
    slope = (x - target) / jnp.maximum((1 - x) * x, 1e-12)
    return _cross_entropy(x, target), slope * tangents[0] + (jnp.log1p(-x) - jnp.log(x)) * tangents[1]


def ctc_losses(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> Any:
    """The losses of rows of F.ctc_loss, [rows]: sums over alignments that end at each label (Graves et al., 2006).

    Shapes: log_probs [time, rows, classes], targets [rows, labels], lengths [rows].
    """
    # What stands behind a row's labels may be no class.
    targets = jnp.clip(targets.astype(jnp.int32), 0, log_probs.shape[-1] - 1)
    rows, labels = targets.shape
    # A blank before, between and after the labels.
    states = jnp.full((rows, 2 * labels + 1), blank, jnp.int32).at[:, 1::2].set(targets)
    # A blank between two different labels may be left out.
    skips = (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])
    scores = jnp.take_along_axis(log_probs, states[None], -1)
    scores = jnp.maximum(scores.astype(jnp.promote_types(scores.dtype, jnp.float32)), _NEVER)

    def step(ends: Any, now: Any) -> tuple[Any, None]:
        time, score = now
        before = jnp.pad(ends, ((0, 0), (2, 0)), constant_values=_NEVER)
        skipped = jnp.where(jnp.pad(skips, ((0, 0), (2, 0)))[:, : ends.shape[1]], before[:, :-2], _NEVER)
        reached = jnp.logaddexp(jnp.logaddexp(ends, before[:, 1:-1]), skipped) + score
        return jnp.where((time < input_lengths)[:, None], reached, ends), None

    # Before the first time only the first blank is reached, without a score.
    start = jnp.full(states.shape, _NEVER, scores.dtype).at[:, 0].set(0)
    ends, _ = lax.scan(step, start, (jnp.arange(log_probs.shape[0]), scores))
    last = 2 * target_lengths.astype(jnp.int32)[:, None]
    blank_last = jnp.take_along_axis(ends, last, 1)[:, 0]
    label_last = jnp.where(last[:, 0] > 0, jnp.take_along_axis(ends, jnp.maximum(last - 1, 0), 1)[:, 0], _NEVER)
    losses = -jnp.logaddexp(blank_last, label_last)
    losses = losses + _as_after_softmax(log_probs.astype(losses.dtype), input_lengths)
    return jnp.where(losses >= -_NEVER / 2, jnp.inf, losses).astype(log_probs.dtype)


@jax.custom_jvp
def _as_after_softmax(log_probs: Any, input_lengths: Any) -> Any:
    """Zeros [rows], whose gradient is the probabilities: PyTorch's gradient of F.ctc_loss has them in it, as if it were
    that of what a log_softmax is taken of. A log_softmax takes them away again."""
    return jnp.zeros(log_probs.shape[1], log_probs.dtype)


@_as_after_softmax.defjvp
def _(primals: Any, tangents: Any) -> Any:
    log_probs, input_lengths = primals
    changes = jnp.sum(jnp.exp(log_probs) * tangents[0], -1)
    is_read = jnp.arange(log_probs.shape[0])[:, None] < input_lengths
    return _as_after_softmax(log_probs, input_lengths), jnp.sum(jnp.where(is_read, changes, 0), 0)


def _reduced(losses: Any, reduction: int) -> Any:
    return losses if reduction == 0 else (jnp.mean if reduction == 1 else jnp.sum)(losses)
