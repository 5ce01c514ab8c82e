"""Another attention in anyone's model for a while, and whether the model still says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

Pass = TypeVar("Pass")
_KINDS = {"full_attention", "sliding_attention"}
"""Layers without a state of another kind, which a few tokens of a model with small weights may not show."""


@contextmanager
def attending(model: Any, name: str, current: ContextVar[Pass], now: Pass) -> Iterator[None]:  # noqa: ANN401
    """Let the model attend by the function registered as `name`, which finds `now` in `current`."""
    config = model.config.get_text_config()
    before = config._attn_implementation  # noqa: SLF001 (there is no public name)
    token = current.set(now)
    config._attn_implementation = name  # noqa: SLF001
    try:
        yield
    finally:
        config._attn_implementation = before  # noqa: SLF001
        current.reset(token)


@torch.inference_mode()
def runs_like_the_model(model: Any, open_session: Callable[..., Any]) -> bool:  # noqa: ANN401
    """Return whether a few tokens get the logits in a session that they get from the model as it is."""
    config = model.config.get_text_config()
    known = getattr(config, "_attn_implementation", "") in {"sdpa", "eager"}
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if not (known and getattr(model, "_supports_sdpa", False) and kinds <= _KINDS):
        return False
    ids = torch.arange(2, 8, device=model.device) % config.vocab_size
    try:
        expected: Tensor = model(input_ids=ids[None], use_cache=False).logits[0].float()
        session = open_session(model, [ids[:3].tolist(), ids[:2].tolist()], 3)
        found = [session.prefill(), session.step(ids[[3, 2]]), session.step(ids[[4, 3]])]
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False  # an architecture with a way of its own
    # Broken weights give NaN in both ways; the loop names the texts that meet them.
    share = 1e-3 if torch.finfo(model.dtype).eps < 1e-6 else 5e-2
    near = share * float(expected.abs().nan_to_num(0, 0, 0).max())
    return all(
        torch.allclose(logits, expected[place], rtol=share, atol=near, equal_nan=True)
        for logits, place in zip(found, [[2, 1], [3, 2], [4, 3]], strict=True)
    )
