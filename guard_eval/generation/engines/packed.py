"""Linear layers with weights in oneDNN's layout, which are faster for a few rows in float32.

Decoding multiplies the weights by one row for each text, and contrastive search by one for each candidate.
Torch uses MKL, which rearranges the weights at every call. Packed weights are rearranged only once. With
AVX-512 this takes about half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor, nn

from guard_eval.generation.engines import Model

_EXPECTED_ROWS = 8
"""The number of rows for which oneDNN chooses the layout. Other numbers work, too."""
_SMALL = 1 << 18
"""Layers with fewer weights are not packed: oneDNN needs more time to start than torch to multiply."""


class PackedLinear(nn.Module):
    """A linear layer `[..., K]` → `[..., N]` with packed weights.

    Attributes:
        is_read: Whether the model has read the weights themselves.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else bias.detach()
        self.is_read = False
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _EXPECTED_ROWS)  # noqa: SLF001

    @property
    def weight(self) -> Tensor:
        """The weights in torch's layout, `[N, K]`. Each access makes them again."""
        self.is_read = True
        weight: Tensor = self._packed.to_dense()
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")  # noqa: SLF001
        return product

    def unpack(self) -> nn.Linear:
        """Return the layer with torch's weights."""
        layer = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        layer.weight = nn.Parameter(self._packed.to_dense(), requires_grad=False)
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias, requires_grad=False)
        return layer


@cache
def can_pack() -> bool:
    """Try a small product, and return whether oneDNN can multiply by packed weights on this CPU."""
    try:
        product = PackedLinear(torch.eye(2, 3), None)(torch.ones(4, 3))
    except (AttributeError, NotImplementedError, RuntimeError):  # torch without oneDNN, or another processor
        return False
    return bool(torch.equal(product, torch.ones(4, 2)))


def pack(model: Model) -> None:
    """Pack the linear layers of a model in place, if it is on a CPU in float32 and oneDNN supports it.

    A few tokens are tried. A layer is not packed if the model reads its weights directly. No layer is packed
    if the model fails or gives other logits.
    """
    is_on_cpu_in_float32 = model.device.type == "cpu" and model.dtype == torch.float32
    if not is_on_cpu_in_float32 or not can_pack():
        return
    before = _try_tokens(model)
    if before is None:
        return
    for parent, name, layer in _find_layers(model, nn.Linear):
        if layer.weight.dtype == torch.float32 and layer.weight.numel() >= _SMALL:
            setattr(parent, name, PackedLinear(layer.weight, layer.bias))
    after = _try_tokens(model)
    is_equal = after is not None and torch.allclose(after, before, rtol=1e-3, atol=1e-3 * float(before.std()))
    for parent, name, layer in _find_layers(model, PackedLinear):
        if layer.is_read or not is_equal:
            setattr(parent, name, layer.unpack())


def _find_layers(model: Model, kind: type[nn.Module]) -> Iterator[tuple[nn.Module, str, Model]]:
    """Yield each layer of exactly this class, with its parent and its name there, so that it can be replaced.

    No reference to a layer is kept, so that the memory of its weights is free when it is replaced.
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
