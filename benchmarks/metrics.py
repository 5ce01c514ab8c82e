"""How fast metrics are: diversity over the published code's way, coherence in batches over one by one.

From the repository's root:

    python benchmarks/metrics.py --generations FILE.jsonl --model FOLDER   # real texts, a real model
    python benchmarks/metrics.py --device cuda --shape opt-2.7b            # random weights and words
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from common import heading, in_turns, line, parser, timed
from transformers import AutoTokenizer, OPTConfig, OPTForCausalLM

from guard_eval.engines.loading import load
from guard_eval.metrics.coherence import log_likelihoods
from guard_eval.metrics.ngrams import diversity
from guard_eval.study.folder import BUNDLED, locate_model
from guard_eval.texts.generation_files import read_generations

SHAPES = {
    "opt-2.7b": {"hidden_size": 2560, "ffn_dim": 10240, "num_hidden_layers": 32, "num_attention_heads": 32}
}
TEXTS_FOR_DIVERSITY = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    """Time both and print a Markdown table."""
    command = parser(__doc__)
    option = command.add_argument
    option("--generations", type=Path, help="texts with prompts; default: random words")
    option("--model", default=BUNDLED, help="scoring model: a folder or a Hub id")
    option("--shape", choices=SHAPES, help="a scoring model of this shape with random weights instead")
    option("--device", default="cpu")
    option("--texts", type=int, default=200, help="texts scored for coherence")
    option("--threads", type=int, default=2)
    option("--rounds", type=int, default=7)
    option("--within", type=float, default=240, help="seconds for each comparison")
    options = command.parse_args(arguments)
    if options.quick:
        options.texts, options.rounds = 8, 1
    prompts, texts = read(options)
    result = load_scorer(options)
    torch.set_num_threads(options.threads)
    many = [texts[index % len(texts)] for index in range(TEXTS_FOR_DIVERSITY)]
    prompts, few = prompts[: options.texts], texts[: options.texts]
    comparisons = (
        ("diversity", many, lambda: repetition_as_published(many), lambda: counted_at_once(many)),
        (
            "coherence",
            few,
            lambda: one_by_one(result, prompts, few),
            lambda: in_batches(result, prompts, few),
        ),
    )
    device = torch.cuda.get_device_name() if options.device != "cpu" else f"CPU, {options.threads} threads"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {device}, {result.name}\n")
    print(
        heading("metric", "texts", "A, s", "ours, s", "A / ours", "least", "greatest", "greatest difference")
    )

    def wait() -> None:
        if options.device != "cpu":
            torch.cuda.synchronize()

    for name, scored, base, ours in comparisons:
        off = difference(base(), ours())  # also warms both up
        runs = (timed(run, wait) for run in (base, ours))
        turns = in_turns(*runs, rounds=options.rounds, seconds=options.within)
        gains = [1 / ratio for ratio in turns.ratios]
        cells = [*turns.medians, statistics.median(gains), min(gains), max(gains)]
        print(line([name, len(scored), *(f"{cell:.3f}" for cell in cells), f"{off:.1e}"]), flush=True)
    return 0


def difference(one: Sequence[float], other: Sequence[float]) -> float:
    """Return by how much two ways of counting differ at most."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def read(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return prompts and texts: of a file, or of random words."""
    if options.generations:
        rows = [row for row in read_generations(options.generations) if row.text.strip() and row.prompt]
        return [row.prompt or "" for row in rows], [row.text for row in rows]
    rng = np.random.default_rng(1)
    lines = (Path(locate_model(BUNDLED, Path())).parent / "prompts.jsonl").read_text(encoding="utf-8")
    words = [word for line in lines.splitlines() for word in json.loads(line)["prompt"].split()]
    lengths = rng.integers(60, 220, size=1000)
    return (
        [" ".join(rng.choice(words, size=32)) for _ in lengths],
        [" ".join(rng.choice(words, size=length)) for length in lengths],
    )


def load_scorer(options: argparse.Namespace) -> Any:
    """Return a scoring model: a real one, or one with random weights."""
    location = locate_model(options.model, Path())
    if not options.shape:
        return load(location, device=options.device, name=options.model)
    config = OPTConfig(
        vocab_size=50272, word_embed_proj_dim=2560, max_position_embeddings=2048, **SHAPES[options.shape]
    )
    torch.manual_seed(1)
    with torch.device(options.device):
        model = OPTForCausalLM(config).to(torch.bfloat16).eval()
    tokenizer = AutoTokenizer.from_pretrained(location)
    return SimpleNamespace(
        model=model, tokenizer=tokenizer, name=f"{options.shape}, random weights, bfloat16"
    )


def repetition_as_published(texts: Sequence[str]) -> list[float]:
    """Return diversity and rep-2 to rep-4 as the published program counts: gram by gram."""
    rates = []
    for n in (2, 3, 4):
        different = total = 0
        for text in texts:
            words, seen = text.strip().split(), set()
            start, end = 0, n
            while end < len(words):
                seen.add(" ".join(words[start:end]))
                total += 1
                start, end = start + 1, end + 1
            different += len(seen)
        rates.append(round(100 * (1 - different / total), 2))
    product = 1.0
    for rate in rates:
        product *= 1 - rate / 100
    return [round(100 * product, 2), *rates]


def counted_at_once(texts: Sequence[str]) -> list[float]:
    """Return diversity and rep-2 to rep-4 as the package counts them."""
    result = diversity(texts)
    return [float(result.diversity or 0), *(float(result.rep[n] or 0) for n in (2, 3, 4))]


@torch.inference_mode()
def one_by_one(scorer: Any, prompts: Sequence[str], texts: Sequence[str]) -> list[float]:
    """Return each text's coherence from a forward pass of its own, as the published program takes it."""
    device = next(scorer.model.parameters()).device
    limit, means = scorer.model.config.max_position_embeddings, []
    start = [] if scorer.tokenizer.bos_token_id is None else [scorer.tokenizer.bos_token_id]
    for prompt, text in zip(prompts, texts, strict=True):
        after = scorer.tokenizer(text, add_special_tokens=False)["input_ids"][: limit - 1]
        before = scorer.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        room = limit - len(after) - len(start)
        before = [*start, *(before[-room:] if room else [])]
        ids = torch.tensor([before + after], device=device)
        logs = scorer.model(ids).logits[0].float().log_softmax(-1)[len(before) - 1 : -1]
        means.append(logs.gather(1, ids[0, len(before) :, None]).mean().item())
    return means


def in_batches(scorer: Any, prompts: Sequence[str], texts: Sequence[str]) -> list[float]:
    """Return each text's coherence as the package takes it."""
    result = {}
    for batch in log_likelihoods(scorer.model, scorer.tokenizer, prompts, texts):
        result |= batch
    return [one.mean for _, one in sorted(result.items()) if one is not None]


if __name__ == "__main__":
    sys.exit(main())
