"""Compare GUARD's time with greedy decoding's in vLLM: the same prompts, in turns in one process.

Needs vLLM (docs/scale.md). The times are of whole runs, which include vLLM's scheduler, the model and the
choice of tokens. Both write the same number of tokens. The models have random weights and the shapes of the
decoding benchmark.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from typing import Any

import torch
from common import compare, heading, line, parser
from decoding import SHAPES, build, random_prompts

from guard_eval.generation.engines.vllm.request import make_extra_args
from guard_eval.generation.strategies import parse

STRATEGIES = ["guard", "guard(formulation=released)", "top_p(p=0.95)"]


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, and return the exit code."""
    command = parser(__doc__)
    option = command.add_argument
    option("--shape", choices=("small", "7b"), default="small", help="the random model's size")
    option("--vocabulary", type=int, help="its tokens; default: the shape's first")
    option("--dtype", choices=("float32", "bfloat16"), default="float32", help="its arithmetic")
    option("--batches", type=int, nargs="+", default=[1, 8, 32], help="how many texts at a time")
    option("--new-tokens", type=int, default=96, help="of each text; none ends earlier")
    option("--strategies", nargs="+", default=STRATEGIES, help="over greedy, each")
    option("--rounds", type=int, default=7, help="runs of each")
    options = command.parse_args(arguments)
    if options.quick:
        options.batches, options.new_tokens, options.rounds = [2], 8, 1
    for name, value in (
        ("VLLM_ENABLE_V1_MULTIPROCESSING", "0"),
        ("VLLM_LOGGING_LEVEL", "ERROR"),
        ("VLLM_NO_USAGE_STATS", "1"),
        ("VLLM_CPU_KVCACHE_SPACE", "2"),
    ):
        os.environ.setdefault(name, value)
    from vllm import LLM, __version__

    with tempfile.TemporaryDirectory() as folder:
        shape = SHAPES[options.shape]
        if options.vocabulary:
            shape = replace(shape, vocabulary=options.vocabulary)
        dtype = getattr(torch, options.dtype)
        build(shape, device=torch.device("cpu"), dtype=dtype).save_pretrained(folder)
        llm = LLM(
            folder,
            skip_tokenizer_init=True,
            dtype=options.dtype,
            max_model_len=options.new_tokens + 32,
            max_num_seqs=max(options.batches),
            enforce_eager=torch.cuda.device_count() == 0,
            disable_log_stats=True,
            enable_prefix_caching=False,
        )
    runner = "V2" if llm.llm_engine.vllm_config.use_v2_model_runner else "V1"
    machine = torch.cuda.get_device_name() if torch.cuda.device_count() else f"{os.cpu_count()} cores"
    print(f"vllm {__version__}, runner {runner}, torch {torch.__version__}, {machine}")
    print(
        f"{options.shape}, {shape.vocabulary:,} tokens, {options.dtype}; 16 tokens + {options.new_tokens} new"
    )
    print(heading("at a time", "B", "greedy, ms/step", "B, ms/step", "B/greedy", "rounds"))
    for batch in options.batches:
        for name in options.strategies:
            print(row(llm, options, batch, name), flush=True)
    llm.llm_engine.engine_core.shutdown()
    return 0


def row(llm: Any, options: argparse.Namespace, batch: int, name: str) -> str:
    """Return a row of the table: the time of `name` divided by greedy's, with `batch` texts at once."""
    prompts = [{"prompt_token_ids": ids} for ids in random_prompts(30_000, batch=batch, tokens=16)]

    def run(ours: list[dict[str, Any] | None]) -> None:
        from vllm import SamplingParams

        same = {"max_tokens": options.new_tokens, "ignore_eos": True, "detokenize": False}
        parameters = [SamplingParams(temperature=0, extra_args=extra, **same) for extra in ours]
        llm.generate(prompts, parameters, use_tqdm=False)

    asks = [make_extra_args(parse(name), seed=1, prompt_id=str(n)) for n in range(batch)]
    turns = compare(lambda: run([None] * batch), lambda: run(list(asks)), rounds=options.rounds, seconds=600)
    greedy, ours_ms = (1000 * seconds / options.new_tokens for seconds in turns.medians)
    return line([batch, name, f"{greedy:.2f}", f"{ours_ms:.2f}", turns.format_ratio(), len(turns.ratios)])


if __name__ == "__main__":
    sys.exit(main())
