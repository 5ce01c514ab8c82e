"""Linear layers in oneDNN's layout, which are faster than torch's for a few rows in float32.

Decoding multiplies the weights with a row for each text, and contrastive search with one for each candidate.
MKL, which torch uses, rearranges the weights at every call; packed weights are rearranged once.
With AVX-512 this takes about half the time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

_EXPECTED_ROWS = 8
"""The number of rows that oneDNN chooses the layout for; any number may come."""
_SMALL = 1 << 18
"""Layers of fewer weights stay as they are: oneDNN takes longer to begin than torch to multiply."""


class PackedLinear(nn.Module):
    """A linear layer `[..., K]` → `[..., N]` with packed weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else bias.detach()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _EXPECTED_ROWS)  # noqa: SLF001

    def forward(self, x: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")  # noqa: SLF001
        return product


@cache
def can_pack() -> bool:
    """Return whether oneDNN multiplies with packed weights on this CPU; a small product is tried."""
    try:
        product = PackedLinear(torch.eye(2, 3), None)(torch.ones(4, 3))
    except (AttributeError, NotImplementedError, RuntimeError):  # torch without oneDNN, or another processor
        return False
    return bool(torch.equal(product, torch.ones(4, 2)))


def pack(model: Any) -> None:  # noqa: ANN401 (transformers' classes are untyped)
    """Pack the linear layers of a model in place, if it is on a CPU in float32 and oneDNN can."""
    if model.device.type != "cpu" or model.dtype != torch.float32 or not can_pack():
        return
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            is_float = type(layer) is nn.Linear and layer.weight.dtype == torch.float32
            if is_float and layer.weight.numel() >= _SMALL:
                setattr(parent, name, PackedLinear(layer.weight, layer.bias))
