"""PyTorch's losses whose expressions in other operations have other values."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp


def multilabel_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    """F.multilabel_margin_loss; labels [.., classes] end at the first below 0.

    PyTorch's own expression also takes the labels after it.
    """
    listed = jnp.cumsum(target < 0, -1) == 0
    chosen = jnp.take_along_axis(x, jnp.where(listed, target, 0), -1)
    is_label = (target[..., None] == jnp.arange(x.shape[-1])) & listed[..., None]
    pairs = listed[..., None] & ~is_label.any(-2, keepdims=True)
    margins = 1 - chosen[..., None] + x[..., None, :]
    losses = jnp.sum(jnp.where(pairs & (margins > 0), margins, 0), (-2, -1)) / x.shape[-1]
    return losses if reduction == 0 else (jnp.mean if reduction == 1 else jnp.sum)(losses)
