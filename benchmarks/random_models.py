"""Language models with random weights: what a step costs does not depend on what a model has learned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

ENTROPY = 2.5
"""Aimed at for the next token, in nats (of 32 thousand tokens come 4 with a standard deviation of 1), as in
real text: GUARD's and ACS's k_t then move, which a flat distribution would not let them."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large a model is.

    Attributes:
        family: The transformers configuration it is made from.
        vocabularies: Which vocabularies are measured unless others are asked for.
    """

    family: type[LlamaConfig | Qwen2Config]
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabularies: tuple[int, ...]


SHAPES = {
    "tiny": Shape(
        family=LlamaConfig, layers=2, hidden=64, intermediate=128, heads=4, kv_heads=4, vocabularies=(500,)
    ),
    "small": Shape(
        family=LlamaConfig,
        layers=8,
        hidden=512,
        intermediate=1536,
        heads=8,
        kv_heads=8,
        vocabularies=(32_000, 152_064),
    ),
    # 3 million parameters, as story models have
    "3m": Shape(
        family=LlamaConfig, layers=6, hidden=192, intermediate=512, heads=6, kv_heads=2, vocabularies=(4096,)
    ),
    # Qwen2.5-7B
    "7b": Shape(
        family=Qwen2Config,
        layers=28,
        hidden=3584,
        intermediate=18_944,
        heads=28,
        kv_heads=4,
        vocabularies=(152_064,),
    ),
}


def build(shape: Shape, vocabulary: int, *, device: torch.device, dtype: torch.dtype, seed: int = 1) -> Any:  # noqa: ANN401
    """Return a model for causal language modelling whose weights are drawn on its device.

    It has no end-of-text token: every continuation is as long as it is asked to be. The head is scaled for
    the entropy `ENTROPY`: normal logits with standard deviation σ over V tokens have ln V − σ²/2, while V is
    large.
    """
    config = shape.family(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(seed)
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    sigma = math.sqrt(2 * max(0.5, math.log(vocabulary) - ENTROPY))
    with torch.no_grad():
        # The last layer norm leaves states of length √D.
        model.get_output_embeddings().weight.normal_(std=sigma / math.sqrt(shape.hidden))
        # With transformers' own 0.02 greedy decoding soon goes round in circles of ten tokens.
        model.get_input_embeddings().weight.normal_()
    return model.to(device).eval()


def random_prompts(vocabulary: int, *, batch: int, tokens: int, seed: int = 1) -> list[list[int]]:
    """Return `batch` prompts of `tokens` random token ids each; the first ones do not depend on `batch`."""
    return [
        torch.randint(
            vocabulary, (tokens,), generator=torch.Generator().manual_seed(1000 * seed + row)
        ).tolist()
        for row in range(batch)
    ]
