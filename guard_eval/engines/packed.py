"""Linear layers on a CPU in float32, laid out for oneDNN: faster, and each row by itself.

torch computes such products with MKL, whose sums run in another order for one row than for four, so that a
text would depend on how many others are made beside it. oneDNN's packed product gives a row the same bits
among any others (two rows at least: a lone one is doubled), and at decoding's few rows takes about half the
time, because the weights need not be rearranged at every call. Measured in `docs/adr/0008`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

_ROWS_EXPECTED = 8
"""oneDNN chooses the layout for about so many rows; any number may come."""


class PackedLinear(nn.Module):
    """A linear layer `[..., K]` → `[..., N]` whose weights live in oneDNN's layout alone."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else bias.detach()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _ROWS_EXPECTED)  # noqa: SLF001

    def forward(self, x: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        if x.numel() == self.in_features:
            return self._product(x.reshape(1, -1).expand(2, -1))[:1].view(*x.shape[:-1], -1)
        return self._product(x)

    def _product(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")  # noqa: SLF001
        return product


def pack(model: Any) -> None:  # noqa: ANN401 (transformers' classes are untyped)
    """Pack the linear layers of a model in place, if it is float32 on a CPU and oneDNN is available."""
    if model.device.type != "cpu" or model.dtype != torch.float32 or not _available():
        return
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear and layer.weight.dtype == torch.float32:
                setattr(parent, name, PackedLinear(layer.weight, layer.bias))
            elif type(layer) is Conv1D:
                setattr(parent, name, PackedLinear(layer.weight.t(), layer.bias))


def _available() -> bool:
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(available) and hasattr(torch.ops.mkldnn, "_linear_pointwise")
