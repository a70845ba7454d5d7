"""Operations of ours that stand for those of PyTorch which it decomposes, or removes, whatever the table says.

This file imports PyTorch.
"""

from __future__ import annotations

import torch


@torch.library.custom_op("jax_ipu::stop_gradient", mutates_args=())
def _stop_gradient(x: torch.Tensor) -> torch.Tensor:
    """Returns its argument and passes no gradient."""
    return x.clone()


@torch.library.custom_op("jax_ipu::multi_margin_loss", mutates_args=())
def _multi_margin_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    p: float = 1,
    margin: float = 1,
    weight: torch.Tensor | None = None,
    reduction: int = 1,
) -> torch.Tensor:
    return torch.ops.aten.multi_margin_loss.default(x, target, p, margin, weight, reduction)


_stop_gradient.register_fake(torch.empty_like)
_multi_margin_loss.register_fake(torch.ops.aten.multi_margin_loss.default)

STOP_GRADIENT = torch.ops.jax_ipu.stop_gradient.default
MULTI_MARGIN_LOSS = torch.ops.jax_ipu.multi_margin_loss.default
# An operation of PyTorch -> ours.
RENAMED = {
    torch.ops.aten.detach.default: STOP_GRADIENT,
    torch.ops.aten.detach_.default: STOP_GRADIENT,
    torch.ops.aten.multi_margin_loss.default: MULTI_MARGIN_LOSS,
}
