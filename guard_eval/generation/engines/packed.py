"""Linear layers with weights in oneDNN's layout, which are faster for a few rows in float32.

A step of decoding multiplies the weights by one row per text, and contrastive search by one row per
candidate. Torch uses MKL, which rearranges the weights at every call. Packed weights are rearranged only
once, so a step with AVX-512 takes about half the time.
"""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor, nn

from guard_eval.generation.engines import Model

_EXPECTED_ROWS = 8
"""The number of input rows for which oneDNN optimises the layout. Inputs may have more or fewer rows."""
_SMALL = 1 << 18
"""The smallest number of weights of a packed layer. For smaller layers, torch is faster than oneDNN."""


class PackedLinear(nn.Module):
    """A linear layer `[..., K]` → `[..., N]` with packed weights.

    Attributes:
        is_read: Whether the model has read `weight` directly.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else bias.detach()
        self.is_read = False
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _EXPECTED_ROWS)  # noqa: SLF001

    @property
    def weight(self) -> Tensor:
        """The weights in torch's layout, `[N, K]`. Each access computes them again."""
        self.is_read = True
        weight: Tensor = self._packed.to_dense()
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")  # noqa: SLF001
        return product

    def unpack(self) -> nn.Linear:
        """Return an ordinary torch layer with the same weights."""
        layer = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        layer.weight = nn.Parameter(self._packed.to_dense(), requires_grad=False)
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias, requires_grad=False)
        return layer


@cache
def can_pack_weights() -> bool:
    """Try whether oneDNN can multiply by packed weights on this CPU."""
    try:
        product = PackedLinear(torch.eye(2, 3), None)(torch.ones(4, 3))
    except (AttributeError, NotImplementedError, RuntimeError):  # no oneDNN, or an unsupported processor
        return False
    return bool(torch.equal(product, torch.ones(4, 2)))


def pack_linear_layers(model: Model) -> None:
    """Pack a model's linear layers in place, if the model is on a CPU in float32 and oneDNN can pack.

    The model runs on a few tokens before and after. Layers are unpacked again if the model reads their
    weights directly. All layers are unpacked if the model fails or the logits differ.
    """
    is_on_cpu_in_float32 = model.device.type == "cpu" and model.dtype == torch.float32
    if not is_on_cpu_in_float32 or not can_pack_weights():
        return
    before = _compute_test_logits(model)
    if before is None:
        return
    for parent, name, layer in _find_layers_of_class(model, nn.Linear):
        if layer.weight.dtype == torch.float32 and layer.weight.numel() >= _SMALL:
            setattr(parent, name, PackedLinear(layer.weight, layer.bias))
    after = _compute_test_logits(model)
    is_equal = after is not None and torch.allclose(after, before, rtol=1e-3, atol=1e-3 * float(before.std()))
    for parent, name, layer in _find_layers_of_class(model, PackedLinear):
        if layer.is_read or not is_equal:
            setattr(parent, name, layer.unpack())


def _find_layers_of_class(
    model: Model, layer_class: type[nn.Module]
) -> Iterator[tuple[nn.Module, str, Model]]:
    """Yield the parent module, the name in the parent and the layer, for each layer of exactly this class.

    The caller can replace a layer. No reference is kept, so the memory of a replaced layer is freed.
    """
    parents = [module for module in model.modules() if next(module.children(), None) is not None]
    for parent in parents:
        for name in [name for name, layer in parent.named_children() if type(layer) is layer_class]:
            yield parent, name, getattr(parent, name)


@torch.inference_mode()
def _compute_test_logits(model: Model) -> Tensor | None:
    """Return the logits of a few tokens, or None if the model fails or its logits are not finite."""
    try:
        ids = torch.arange(1, 9)[None] % model.config.get_text_config().vocab_size
        logits: Tensor = model(input_ids=ids).logits
    except Exception:  # noqa: BLE001 (a model may raise any exception)
        return None
    return logits if bool(logits.isfinite().all()) else None
