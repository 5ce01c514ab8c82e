"""How much of a text depends on the batch it was made in: alone, and among sixteen padded on the left.

In float32 on a CPU nothing does. On a GPU the kernels of matrix products and attention sum in an order that
depends on the batch's size; a score can then round to another number, and from the first other token on a
text goes its own way.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from results import Cell, Results
from transformers import AutoModelForCausalLM, AutoTokenizer

import guard_eval
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import decode
from guard_eval.engines.packed import pack
from guard_eval.strategies import ContrastiveSearch, Greedy, Guard, Strategy, TopP

_DEMO = Path(guard_eval.__file__).parent / "demo"
BUNDLED = _DEMO / "model"

STRATEGIES: tuple[Strategy, ...] = (
    Greedy(),
    Guard(),
    Guard(formulation="released"),
    TopP(),
    ContrastiveSearch(),
)

_COLUMNS = {
    "dtype": "dtype",
    "strategy": "strategy",
    "texts": "texts",
    "tokens": "tokens",
    "batch": "batch",
    "other_texts": "other texts",
    "other_tokens": "tokens from the first other one on",
    "seconds": "seconds",
}


def measure(results: Results, model: Path, *, device: torch.device, quick: bool) -> None:
    """Compare texts made one at a time with the same texts made in batches."""
    batch, limit = (2, 4) if quick else (16, 96)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    tokenizer = AutoTokenizer.from_pretrained(model)
    prompts = varied_prompts(tokenizer, 2 * batch if quick else batch)
    title = f"What changes from batch 1 to batch {batch}: {model.name}, prompts of different lengths"
    for dtype in (torch.float32, torch.bfloat16):
        loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
        loaded = loaded.to(device).eval()
        pack(loaded)
        for strategy in STRATEGIES:
            start = time.perf_counter()
            row = differences(
                texts(loaded, prompts, strategy, batch=1, limit=limit),
                texts(loaded, prompts, strategy, batch=batch, limit=limit),
            )
            row |= {"dtype": str(dtype).removeprefix("torch."), "strategy": str(strategy), "batch": batch}
            row["seconds"] = time.perf_counter() - start
            results.add("invariance", title, _COLUMNS, row)


def varied_prompts(tokenizer: Any, count: int) -> list[list[int]]:  # noqa: ANN401
    """Return `count` prompts of the demo, cut to different lengths so that batches need padding."""
    lines = (_DEMO / "prompts.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    ids = [tokenizer(json.loads(line)["prompt"])["input_ids"] for line in lines]
    return [row[: 6 + 7 * place % 29] for place, row in enumerate(ids)]


def texts(
    model: Any,  # noqa: ANN401
    prompts: list[list[int]],
    strategy: Strategy,
    *,
    batch: int,
    limit: int,
) -> list[list[int]]:
    """Return the new tokens of each prompt, made `batch` at a time; a prompt keeps its key in any batch."""
    found = model.generation_config.eos_token_id
    ends = torch.tensor(
        found if isinstance(found, list) else [found] if found is not None else [], dtype=torch.long
    )
    made: list[list[int]] = []
    for start in range(0, len(prompts), batch):
        rows = prompts[start : start + batch]
        keys = torch.arange(start, start + len(rows), device=model.device)
        given = Batch(prompts=rows, keys=keys, ends=ends.to(model.device), limit=limit)
        made += decode(model, given, strategy).tokens
    return made


def differences(alone: list[list[int]], together: list[list[int]]) -> dict[str, Cell]:
    """Return how many texts differ, and the share of the tokens made alone from a first other one on.

    >>> differences([[1, 2, 3, 4], [5, 6]], [[1, 2, 9, 4], [5, 6]])
    {'texts': 2, 'tokens': 6, 'other_texts': 0.5, 'other_tokens': 0.3333333333333333}
    """
    tokens = sum(map(len, alone))
    other = 0
    for a, b in zip(alone, together, strict=True):
        same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        other += len(a) - same
    return {
        "texts": len(alone),
        "tokens": tokens,
        "other_texts": sum(a != b for a, b in zip(alone, together, strict=True)) / len(alone),
        "other_tokens": other / tokens,
    }
