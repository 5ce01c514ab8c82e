"""The ways of decoding that are compared, each a `Way` that makes its tokens anew whenever it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from kv_repetition import Contrastive, decode_by_repetition
from pairing_runs import Way
from published_way import PublishedProcessor, decode_without_cache
from transformers import LogitsProcessor, LogitsProcessorList

from guard_eval.decoding import GuardLogitsProcessor
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import decode
from guard_eval.strategies import Guard, Strategy


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """A model, and prompts of one length to continue.

    Attributes:
        plain: A transformers model as it is.
        own: The model that the package's engine runs: on a CPU in float32 a packed copy, else `plain` itself.
        prompts: Token ids.
        limit: New tokens for each prompt.
    """

    plain: Any
    own: Any
    prompts: list[list[int]]
    limit: int

    def generate(self, *, packed: bool = False) -> Way:
        """Return greedy `model.generate`: what everything is measured against."""
        model, name = (
            (self.own, "greedy, `generate`, packed") if packed else (self.plain, "greedy, `generate`")
        )
        return self._way(name, lambda: self._generate(model, None))

    def processor(self, strategy: Guard) -> Way:
        """Return GUARD as a logits processor in anyone's `model.generate`."""
        return self._way(
            f"{strategy}, processor in `generate`",
            lambda: self._generate(self.plain, GuardLogitsProcessor(strategy)),
        )

    def engine(self, strategy: Strategy, *, compiled: bool = False) -> Way:
        """Return a strategy in the package's own loop."""
        device = self.own.device
        batch = Batch(
            prompts=self.prompts,
            keys=torch.arange(len(self.prompts), device=device),
            ends=torch.empty(0, dtype=torch.long, device=device),
            limit=self.limit,
        )
        return self._way(
            f"{strategy}, own loop{', compiled' if compiled else ''}",
            lambda: decode(self.own, batch, strategy, compiled=compiled).tokens,
        )

    def repetition(self, strategy: Contrastive, *, packed: bool = False) -> Way:
        """Return contrastive search or ACS with a repeated cache."""
        model = self.own if packed else self.plain
        ids = self._ids(model)
        return self._way(
            f"{strategy}, repeated cache{', packed' if packed else ''}",
            lambda: decode_by_repetition(model, ids, strategy, self.limit),
        )

    def published_script(self) -> Way:
        """Return the published generation script's way: the first prompt alone, without a cache."""
        return Way(
            "published script: batch 1, no cache",
            lambda: [decode_without_cache(self.plain, self.prompts[0], self.limit)],
            self.limit,
        )

    def published_processor(self) -> Way:
        """Return the published logits processor's way: the first prompt alone, with `generate`'s cache."""
        alone = Workbench(plain=self.plain, own=self.own, prompts=self.prompts[:1], limit=self.limit)
        return Way(
            "published processor: batch 1",
            lambda: alone._generate(self.plain, PublishedProcessor()),
            self.limit,
        )

    def _way(self, name: str, run: Any) -> Way:  # noqa: ANN401
        return Way(name, run, len(self.prompts) * self.limit)

    def _ids(self, model: Any) -> torch.Tensor:  # noqa: ANN401
        return torch.tensor(self.prompts, device=model.device)

    def _generate(self, model: Any, processor: LogitsProcessor | None) -> list[list[int]]:  # noqa: ANN401
        ids = self._ids(model)
        made = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=self.limit,
            min_new_tokens=self.limit,
            logits_processor=LogitsProcessorList([] if processor is None else [processor]),
        )
        tokens: list[list[int]] = made[:, ids.shape[1] :].tolist()
        return tokens
