"""Measure the speed of decoding: each strategy and transformers' greedy `generate`, in turns in one process.

Prints a Markdown table with two columns for each batch size. The first column divides by `generate` with the
model as transformers loads it: the user's gain. The second column divides by `generate` with packed layers:
the strategy's cost. README.md in this folder explains the ratios.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from common import parser, table
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from guard_eval.generation.engines.batch import Batch
from guard_eval.generation.engines.decode import decode_batch
from guard_eval.generation.engines.packed import pack_linear_layers
from guard_eval.generation.strategies import parse

STRATEGIES = ("greedy", "guard", "top_p(p=0.95)", "contrastive(k=10, alpha=0.6)", "acs(q=1)")
ENTROPY = 2.5
"""The intended entropy of the next token in nats, as in real text, so that GUARD's and ACS's k_t change."""


@dataclass(frozen=True)
class Shape:
    """The size of a model with random weights."""

    family: type[LlamaConfig | Qwen2Config]
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int


SHAPES = {
    "tiny": Shape(LlamaConfig, 2, 64, 128, 4, 4, 500),
    "small": Shape(LlamaConfig, 8, 512, 1536, 8, 8, 32_000),
    "3m": Shape(LlamaConfig, 6, 192, 512, 6, 2, 4096),
    "7b": Shape(Qwen2Config, 28, 3584, 18_944, 28, 4, 152_064),  # Qwen2.5-7B
}


def build(shape: Shape, *, device: torch.device, dtype: torch.dtype, seed: int = 1) -> Any:
    """Return a model for causal language modelling with random weights, drawn on the model's device.

    The model has no end-of-text token, so every continuation has the full length. The head is scaled to give
    the intended entropy: for a large V, normal logits with standard deviation σ over V tokens have the
    entropy ln V − σ²/2.
    """
    config = shape.family(
        vocab_size=shape.vocabulary,
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
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    sigma = math.sqrt(2 * max(0.5, math.log(shape.vocabulary) - ENTROPY))
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_(std=sigma / math.sqrt(shape.hidden))
        # With the standard deviation 0.02 of transformers, greedy decoding soon repeats ten tokens forever.
        model.get_input_embeddings().weight.normal_()
    return model.to(device).eval()


def random_prompts(vocabulary: int, *, batch: int, tokens: int, seed: int = 1) -> list[list[int]]:
    """Return `batch` prompts of `tokens` random token ids. A larger batch begins with the same prompts."""
    rows = (torch.Generator().manual_seed(1000 * seed + row) for row in range(batch))
    return [torch.randint(vocabulary, (tokens,), generator=row).tolist() for row in rows]


def greedy_generate(model: Any, prompts: Sequence[Sequence[int]], limit: int) -> None:
    """Continue prompts of equal length with transformers' own `generate`."""
    ids = torch.tensor(prompts, device=model.device)
    model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=limit,
        pad_token_id=0,
    )


def ratios(first: Callable[[], None], second: Callable[[], None], rounds: int) -> list[float]:
    """Divide, for each round, the time of `second` by the mean of the runs of `first` before and after."""
    first(), second()  # these runs allocate memory and fill caches, so they are not counted
    before, result = _seconds(first), []
    for _ in range(rounds):
        between = _seconds(second)
        after = _seconds(first)
        result.append(2 * between / (before + after))
        before = after
    return result


def _seconds(run: Callable[[], None]) -> float:
    """Return processor time on a CPU, where other programs may run, or clock time with a GPU."""
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = clock()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - began


def measure(model: Any, options: argparse.Namespace) -> str:
    """Return a table of each strategy's time divided by greedy `generate`'s time, by batch and layers."""
    rows = []
    packed = copy.deepcopy(model)
    pack_linear_layers(packed)  # as `load_model` does
    for name in options.strategies:
        cells = [f"`{name}`"]
        for size in options.batches:
            vocabulary = model.config.get_text_config().vocab_size
            prompts = random_prompts(vocabulary, batch=size, tokens=options.prompt_tokens)
            keys = torch.arange(size, device=model.device)
            batch = Batch(prompts=prompts, keys=keys, ends=(), limit=options.new_tokens)

            def ours(batch: Batch = batch, name: str = name) -> None:
                decode_batch(packed, batch, parse(name), static_cache=options.static)

            for layers in (model, packed):
                plain = partial(greedy_generate, layers, prompts, options.new_tokens)
                result = ratios(plain, ours, options.rounds)
                cells.append(f"{statistics.median(result):.2f} ({min(result):.2f}–{max(result):.2f})")
            print(name, size, *cells[-2:], flush=True)
        rows.append(cells)
    columns = [f"batch {size}{layers}" for size in options.batches for layers in ("", ", same layers")]
    return table(["over greedy `generate`", *columns], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    about = parser(__doc__)
    about.add_argument("--shape", choices=SHAPES, default="small", help="random weights of this size")
    about.add_argument("--model", type=Path, help="a folder with a model, in place of random weights")
    about.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    about.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="float32")
    about.add_argument("--strategies", nargs="+", default=STRATEGIES)
    about.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    about.add_argument("--prompt-tokens", type=int, default=32)
    about.add_argument("--new-tokens", type=int, default=32)
    about.add_argument("--rounds", type=int, default=5)
    about.add_argument("--threads", type=int, default=1)
    about.add_argument("--static", action="store_true", help="a cache of fixed shapes")
    options = about.parse_args(arguments)
    if options.quick:
        options.shape, options.new_tokens, options.rounds, options.batches = "tiny", 4, 1, [1, 2]
    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype)
    if options.model:
        model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype).to(options.device).eval()
        model.generation_config.eos_token_id = None  # every text has all its tokens
    else:
        model = build(SHAPES[options.shape], device=options.device, dtype=dtype)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{options.model or options.shape}, {options.dtype}, {options.threads} threads; {versions}")
    print(f"\n{measure(model, options)}")


if __name__ == "__main__":
    main()
