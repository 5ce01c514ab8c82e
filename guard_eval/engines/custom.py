"""Every strategy in anyone's `model.generate(..., custom_generate=…)`, from a folder in the Hub's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from guard_eval.decoding.noise import row_key
from guard_eval.engines.batch import Batch
from guard_eval.engines.decode import check, decode
from guard_eval.errors import StudyError
from guard_eval.strategies import ContrastiveDecoding, parse, signature

HUB_FOLDER = Path(__file__).parent / "hub"
"""What to give `custom_generate`."""

_OURS = ("generation_config", "max_new_tokens", "eos_token_id", "pad_token_id", "use_model_defaults")
_HARMLESS = (None, False, 1)
"""Values of transformers' other arguments that ask for nothing."""


def generate(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    inputs: Tensor | None = None,
    *,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    strategy: str = "guard",
    seed: int = 0,
    **given: Any,  # noqa: ANN401 (what transformers passes on)
) -> Tensor:
    """Return prompts and continuations, `[B, P + n]`, as `model.generate` does.

    Args:
        model: Any causal language model.
        inputs: The same as `input_ids`.
        input_ids: Prompts `[B, P]`, padded on the left.
        attention_mask: Where they are prompt, `[B, P]`; everywhere if left out.
        strategy: A signature, such as `acs(q=1)`.
        seed: Of the strategies that draw; a prompt's draws depend on it and on the prompt's tokens.
        given: `max_new_tokens`, `eos_token_id`, `pad_token_id` or a `generation_config` with them.

    Raises:
        StudyError: An argument that this way of generating does not know, a strategy that the model cannot
            run, or logits that are no distribution.
    """
    ids = input_ids if input_ids is not None else inputs
    if ids is None:
        raise StudyError("there is nothing to continue; pass input_ids")
    for name, value in given.items():
        if name not in _OURS and not any(value is harmless or value == harmless for harmless in _HARMLESS):
            raise StudyError(f"{name} = {value!r} has no effect on custom_generate; leave it out")
    chosen = parse(strategy)
    if isinstance(chosen, ContrastiveDecoding):
        raise StudyError(f"{strategy} needs a second model; run it with guard-eval generate")
    check(model, chosen)
    mask = torch.ones_like(ids) if attention_mask is None else attention_mask
    prompts = [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]
    ends = _ends(model, given)
    keys = [row_key(seed, " ".join(map(str, prompt)), signature(chosen)) for prompt in prompts]
    batch = Batch(
        prompts=prompts,
        keys=torch.tensor(keys, device=model.device),
        ends=torch.tensor(ends, dtype=torch.long, device=model.device),
        limit=_setting(model, given, "max_new_tokens") or 256,
    )
    made = decode(model, batch, chosen)
    for row, step in enumerate(made.failed_at):
        if step is not None:
            raise StudyError(
                f"prompt {row + 1} of the batch: no probabilities (NaN or infinite logits) at step {step + 1}"
            )
    pad = _setting(model, given, "pad_token_id")
    pad = (ends or [0])[0] if pad is None else pad
    longest = max(map(len, made.tokens))
    new = [tokens + [pad] * (longest - len(tokens)) for tokens in made.tokens]
    return torch.cat([ids, torch.tensor(new, device=ids.device)], dim=1)


def _setting(model: Any, given: dict[str, Any], name: str) -> Any:  # noqa: ANN401
    """Return an argument, or what a configuration given or the model's own says."""
    for source in (given.get(name), getattr(given.get("generation_config"), name, None)):
        if source is not None:
            return source
    return getattr(model.generation_config, name, None)


def _ends(model: Any, given: dict[str, Any]) -> list[int]:  # noqa: ANN401
    ends = _setting(model, given, "eos_token_id")
    return [] if ends is None else sorted(set(ends)) if isinstance(ends, list) else [int(ends)]
