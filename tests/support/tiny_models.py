"""Small random models of common architectures, whose probabilities are peaked as in real models."""

from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
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
    "intermediate_size": 72,  # not a multiple of a vector's width
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


_ENCODERS = {
    **COMMON,
    "pad_token_id": 1,
    "is_decoder": True,
    "init_std": 0.3,
    "hidden_size": 48,
    "max_position_embeddings": 128,
}
_STATES = {**COMMON, "hidden_size": 48, "num_hidden_layers": 3, "initializer_range": 0.3}

FOREIGN: dict[str, tuple[str, dict[str, Any]]] = {
    "rwkv": ("rwkv", {**_STATES, "attention_hidden_size": 48, "intermediate_size": 96}),
    "xlnet": ("xlnet", {**_STATES, "d_model": 48, "n_layer": 3, "n_head": 4, "d_inner": 96}),
    "prophetnet": (
        "prophetnet",
        {
            **_ENCODERS,
            "is_decoder": False,
            "pad_token_id": 0,
            "decoder_ffn_dim": 96,
            "num_decoder_layers": 3,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 96,
            "num_encoder_layers": 3,
            "num_encoder_attention_heads": 4,
        },
    ),
    "trocr": (
        "trocr",
        {
            **_ENCODERS,
            "d_model": 48,
            "decoder_ffn_dim": 96,
            "decoder_layers": 3,
            "decoder_attention_heads": 4,
        },
    ),
    "roformer": (
        "roformer",
        {
            **_ENCODERS,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "intermediate_size": 96,
            "initializer_range": 0.3,
        },
    ),
    "mamba": ("mamba", {**_STATES, "state_size": 8}),
    "mamba2": (
        "mamba2",
        {**_STATES, "state_size": 8, "num_heads": 8, "head_dim": 12, "n_groups": 2, "chunk_size": 16},
    ),
    "falcon-mamba": ("falcon_mamba", {**_STATES, "state_size": 8}),
    "jamba": (
        "jamba",
        {
            **_LLAMA,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "lfm2": ("lfm2", {**_LLAMA, "pad_token_id": 0, "layer_types": ["conv", "full_attention", "conv"]}),
    "gpt-neo": (
        "gpt_neo",
        {
            **_STATES,
            "num_hidden_layers": 4,
            "num_heads": 4,
            "intermediate_size": 96,
            "attention_types": [[["global", "local"], 2]],
            "window_size": 9,
            "max_position_embeddings": 128,
        },
    ),
    "falcon-alibi": (
        "falcon",
        {**_STATES, "num_attention_heads": 4, "ffn_hidden_size": 96, "alibi": True, "parallel_attn": False},
    ),
    "llama4": (
        "llama4_text",
        {
            **_LLAMA,
            "head_dim": 12,
            "attention_chunk_size": 16,
            "num_local_experts": 2,
            "intermediate_size_mlp": 96,
        },
    ),
    "recurrent-gemma": (
        "recurrent_gemma",
        {
            **COMMON,
            "eos_token_id": 1,
            "pad_token_id": 0,
            "hidden_size": 48,
            "lru_width": 48,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "block_types": ["recurrent", "recurrent", "attention"],
            "attention_window_size": 9,
            "w_init_variance_scale": 1.0,
        },
    ),
    "minimax": (
        "minimax",
        {
            **_LLAMA,
            "head_dim": 12,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "block_size": 8,
            "sliding_window": 9,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
    "gemma3n": (
        "gemma3n_text",
        {
            **_LLAMA,
            "head_dim": 12,
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "vocab_size_per_layer_input": VOCABULARY,
            "hidden_size_per_layer_input": 16,
            "laurel_rank": 8,
            "intermediate_size": [72] * 4,
            "activation_sparsity_pattern": [0.0] * 4,
        },
    ),
    "cpm-ant": (
        "cpmant",
        {
            **_STATES,
            "num_attention_heads": 4,
            "dim_head": 12,
            "dim_ff": 96,
            "init_std": 0.3,
            "prompt_length": 4,
        },
    ),
    "longrope": (
        "llama",
        {
            **_LLAMA,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10_000.0,
                "factor": 4.0,
                "short_factor": [1.0] * 6,
                "long_factor": [4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
                "original_max_position_embeddings": 20,  # the rotation of all rows changes beyond this length
            },
        },
    ),
    "openai-gpt": ("openai-gpt", {**COMMON, "n_embd": 48, "n_layer": 1, "n_head": 4, "n_positions": 128}),
}
"""Models that ignore padding, have no cache, or see only a part of the text, by name in `CONFIG_MAPPING`."""


def tiny(kind, seed=3, **changes):
    """Return a model of a kind, the same at every call. `changes` change the model's configuration."""
    torch.manual_seed(seed)
    config, settings = CONFIGS[kind] if kind in CONFIGS else _find_foreign(kind)
    return AutoModelForCausalLM.from_config(config(**{**settings, **changes}), dtype=torch.float32).eval()


def _find_foreign(kind):
    name, settings = FOREIGN[kind]
    return CONFIG_MAPPING[name], settings
