"""PyTorch's losses whose expressions in other operations have other values or gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


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


def _reduced(losses: Any, reduction: int) -> Any:
    return losses if reduction == 0 else (jnp.mean if reduction == 1 else jnp.sum)(losses)
