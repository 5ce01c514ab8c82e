"""Linear layers in oneDNN's layout, which are faster than torch's for a few rows in float32.

Decoding multiplies the weights with a row for each text, and contrastive search with one for each candidate.
MKL, which torch uses, rearranges the weights at every call; packed weights are rearranged once.
With AVX-512 this takes about half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from guard_eval.generation.engines import Model

_EXPECTED_ROWS = 8
"""The number of rows that oneDNN chooses the layout for; any number may come."""
_SMALL = 1 << 18
"""Layers of fewer weights stay as they are: oneDNN takes longer to begin than torch to multiply."""


class PackedLinear(nn.Module):
    """A linear layer `[..., K]` → `[..., N]` with packed weights.

    Attributes:
        is_read: Whether the model has asked for the weights themselves.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else bias.detach()
        self.is_read = False
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _EXPECTED_ROWS)  # noqa: SLF001

    @property
    def weight(self) -> Tensor:
        """The weights in torch's layout, `[N, K]`, which are made anew at each reading."""
        self.is_read = True
        weight: Tensor = self._packed.to_dense()
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")  # noqa: SLF001
        return product

    def unpack(self) -> nn.Linear:
        """Return the layer as torch has it."""
        layer = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        layer.weight = nn.Parameter(self._packed.to_dense(), requires_grad=False)
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias, requires_grad=False)
        return layer


@cache
def can_pack() -> bool:
    """Return whether oneDNN multiplies with packed weights on this CPU; a small product is tried."""
    try:
        product = PackedLinear(torch.eye(2, 3), None)(torch.ones(4, 3))
    except (AttributeError, NotImplementedError, RuntimeError):  # torch without oneDNN, or another processor
        return False
    return bool(torch.equal(product, torch.ones(4, 2)))


def pack(model: Model) -> None:
    """Pack the linear layers of a model in place, if it is on a CPU in float32 and oneDNN can.

    A few tokens are tried: layers whose weights the model reads by itself stay as they are, and so do all of
    them if the model fails or gives other logits.
    """
    if model.device.type != "cpu" or model.dtype != torch.float32 or not can_pack():
        return
    before = _try_tokens(model)
    if before is None:
        return
    for parent, name, layer in _children(model, nn.Linear):
        if layer.weight.dtype == torch.float32 and layer.weight.numel() >= _SMALL:
            setattr(parent, name, PackedLinear(layer.weight, layer.bias))
    after = _try_tokens(model)
    is_equal = after is not None and torch.allclose(after, before, rtol=1e-3, atol=1e-3 * float(before.std()))
    for parent, name, layer in _children(model, PackedLinear):
        if layer.is_read or not is_equal:
            setattr(parent, name, layer.unpack())


def _children(model: Model, kind: type[nn.Module]) -> Iterator[tuple[nn.Module, str, Any]]:
    """Yield the layers of exactly one class, each after its parent and its name there; they can be replaced.

    No layer is held longer than that, so that the memory of its weights is free when it is replaced.
    """
    parents = [module for module in model.modules() if next(module.children(), None) is not None]
    for parent in parents:
        for name in [name for name, layer in parent.named_children() if type(layer) is kind]:
            yield parent, name, getattr(parent, name)


@torch.inference_mode()
def _try_tokens(model: Model) -> Tensor | None:
    """Return the logits of a few tokens, or None if the model fails."""
    try:
        ids = torch.arange(1, 9)[None] % model.config.get_text_config().vocab_size
        logits: Tensor = model(input_ids=ids).logits
    except Exception:  # noqa: BLE001 (another library's model may raise anything)
        return None
    return logits
