"""How fast the decoding is: every strategy and every way of running it, measured in pairs in one process.

Prints a table as it goes, at the end the same as Markdown, and with `--json` writes all figures to a file.
README.md beside this file says what is compared and how the ratios are made.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import invariance
import speed
import startup
import torch
from random_models import SHAPES
from results import Results, about

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    option = command.add_argument
    option("--device", default="cpu", help="cpu, cuda or cuda:0")
    option("--dtype", choices=DTYPES, default="float32", help="the random model's arithmetic")
    option("--shape", choices=SHAPES, default="small", help="the random model's size; 7b is Qwen2.5-7B's")
    option("--vocabularies", type=int, nargs="+", help="sizes; default: the shape's")
    option("--batches", type=int, nargs="+", default=[1, 8, 32], help="how many texts at a time")
    option("--prompt-tokens", type=int, default=32, help="of each text")
    option("--new-tokens", type=int, default=48, help="of each text; none ends earlier")
    option("--sections", nargs="*", choices=speed.SECTIONS, default=list(speed.SECTIONS), help="which tables")
    option("--rounds", type=int, default=5, help="runs of each way in a row of a table")
    option("--seconds", type=float, default=10, help="start no further round of a row after this long")
    option("--within", type=float, default=math.inf, help="skip rows that would start after so many seconds")
    option("--threads", type=int, help="of PyTorch on the CPU; default: PyTorch's own choice")
    option("--no-compile", action="store_true", help="leave out what needs torch.compile")
    option("--invariance", action="store_true", help="count what changes from batch 1 to a padded batch")
    option("--model", type=Path, default=invariance.BUNDLED, help="a model's folder, for --invariance")
    option("--startup", action="store_true", help="time the command line up to its first token")
    option(
        "--quick", action="store_true", help="a smoke run: a tiny model, few tokens; its times mean nothing"
    )
    option("--json", type=Path, help="write the figures here, anew after each row")
    option("--markdown", type=Path, help="write the tables here too")
    return command


def read(arguments: list[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used is named, and the process left with code 2."""
    command = parser()
    options = command.parse_args(arguments)
    if options.quick:
        options.shape, options.batches, options.vocabularies = "tiny", [1, 2], None
        options.prompt_tokens, options.new_tokens, options.rounds, options.no_compile = 6, 5, 2, True
    if min(*options.batches, options.prompt_tokens, options.new_tokens, options.rounds) < 1:
        command.error("batches, tokens and rounds must be at least 1")
    try:
        options.device = torch.device(options.device)
    except RuntimeError:
        command.error(f"--device {options.device} is no device; write cpu, cuda or cuda:0")
    if options.device.type == "cuda" and not torch.cuda.is_available():
        command.error("--device cuda, but PyTorch finds no GPU here; write cpu")
    if options.invariance and not options.model.is_dir():
        command.error(f"--model {options.model} is no folder; name one that holds a transformers model")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = read(arguments)
    device = options.device
    if options.threads:
        torch.set_num_threads(options.threads)
    results = Results(about(device, options), options.json)
    print(results.heading(), flush=True)
    deadline = time.perf_counter() + options.within
    if options.startup:
        startup.measure(results, rounds=1 if options.quick else 3)
    if options.invariance:
        invariance.measure(results, options.model, device=device, quick=options.quick)
    if options.sections:
        speed.measure(results, options, device=device, dtype=DTYPES[options.dtype], deadline=deadline)
    markdown = results.markdown()
    print("\n" + markdown, flush=True)
    if options.markdown:
        options.markdown.write_text(markdown, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
