"""Small random models of the architectures that people decode with, peaked enough to have opinions."""

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    GemmaConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    OPTConfig,
    PreTrainedConfig,
    Qwen2Config,
)

VOCABULARY = 320
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": None}
_LLAMA = {
    **COMMON,
    "hidden_size": 48,
    "intermediate_size": 72,  # no multiple of a vector's width
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.35,
}

CONFIGS: dict[str, tuple[type[PreTrainedConfig], dict[str, Any]]] = {
    "llama": (LlamaConfig, _LLAMA),
    "qwen2": (Qwen2Config, _LLAMA),
    "qwen2-window": (
        Qwen2Config,
        {**_LLAMA, "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    ),
    "mistral": (MistralConfig, {**_LLAMA, "sliding_window": 9}),
    "gemma": (GemmaConfig, {**_LLAMA, "initializer_range": 0.2, "head_dim": 12}),
    "gpt2": (
        GPT2Config,
        {**COMMON, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 128, "initializer_range": 0.25},
    ),
    "opt": (
        OPTConfig,
        {
            **COMMON,
            "hidden_size": 48,
            "ffn_dim": 72,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "max_position_embeddings": 128,
            "word_embed_proj_dim": 48,
            "init_std": 0.25,
        },
    ),
}


def tiny(kind: str, seed: int = 3, **changes: Any) -> Any:
    """Return a model of a kind, the same at every call; `changes` are to its configuration."""
    torch.manual_seed(seed)
    config, settings = CONFIGS[kind]
    return AutoModelForCausalLM.from_config(config(**{**settings, **changes}), dtype=torch.float32).eval()
