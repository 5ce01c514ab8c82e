"""What the decoding benchmark compares: random models, and every way of continuing their prompts.

Besides the package's own loops there is one that exists for the comparison alone: contrastive search with a
repeated cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    LogitsProcessor,
    LogitsProcessorList,
    Qwen2Config,
)

from guard_eval.decoding import GuardLogitsProcessor
from guard_eval.decoding.contrastive import (
    Proposal,
    Proposer,
    choose,
    degeneration_penalty,
    unit,
)
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import decode
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch, Guard, Strategy

ENTROPY = 2.5
"""Aimed at for the next token, in nats (of 32 thousand tokens come 4 with a standard deviation of 1), as in
real text: GUARD's and ACS's k_t then move, which a flat distribution would not let them."""


@dataclass(frozen=True)
class Shape:
    """How large a model is, and which vocabularies are measured unless others are named."""

    family: type[LlamaConfig | Qwen2Config]
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabularies: tuple[int, ...]


SHAPES = {
    "tiny": Shape(LlamaConfig, 2, 64, 128, 4, 4, (500,)),
    "small": Shape(LlamaConfig, 8, 512, 1536, 8, 8, (32_000, 152_064)),
    # 3 million parameters, as story models have
    "3m": Shape(LlamaConfig, 6, 192, 512, 6, 2, (4096,)),
    # Qwen2.5-7B
    "7b": Shape(Qwen2Config, 28, 3584, 18_944, 28, 4, (152_064,)),
}


def build(shape: Shape, vocabulary: int, *, device: torch.device, dtype: torch.dtype, seed: int = 1) -> Any:
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
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    sigma = math.sqrt(2 * max(0.5, math.log(vocabulary) - ENTROPY))
    with torch.no_grad():
        # The last layer norm leaves states of length √D.
        model.get_output_embeddings().weight.normal_(std=sigma / math.sqrt(shape.hidden))
        # With transformers' own 0.02 greedy decoding soon goes round in circles of ten tokens.
        model.get_input_embeddings().weight.normal_()
    return model.to(device).eval()


def random_prompts(vocabulary: int, *, batch: int, tokens: int, seed: int = 1) -> list[list[int]]:
    """Return `batch` prompts of `tokens` random token ids each; the first ones do not depend on `batch`."""
    rows = (torch.Generator().manual_seed(1000 * seed + row) for row in range(batch))
    return [torch.randint(vocabulary, (tokens,), generator=row).tolist() for row in rows]


@dataclass(frozen=True)
class Way:
    """A way of making continuations.

    Attributes:
        name: Its name in the tables.
        run: Makes them once; returns the new tokens of each prompt.
        tokens: How many new tokens that is in all.
    """

    name: str
    run: Callable[[], list[list[int]]]
    tokens: int


_SHAPES = {None: "", True: ", fixed shapes", False: ", step by step"}


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

    def generate(self, *, packed: bool = False, static: bool = False) -> Way:
        """Return greedy `model.generate`: what everything is measured against; or with its static cache."""
        model, more = (self.own, ", packed") if packed else (self.plain, "")
        given = {"cache_implementation": "static"} if static else {}
        more += ", static cache" if static else ""
        return self._way(f"greedy, `generate`{more}", lambda: self._generate(model, self.prompts, **given))

    def processor(self, strategy: Guard) -> Way:
        """Return GUARD as a logits processor in anyone's `model.generate`."""
        return self._way(
            f"{strategy}, processor in `generate`",
            lambda: self._generate(self.plain, self.prompts, GuardLogitsProcessor(strategy)),
        )

    def engine(self, strategy: Strategy, *, compiled: bool = False, static: bool | None = None) -> Way:
        """Return a strategy in the package's own loop; in fixed shapes or not, or as the device has it."""
        device = self.own.device
        batch = Batch(
            prompts=self.prompts,
            keys=torch.arange(len(self.prompts), device=device),
            ends=torch.empty(0, dtype=torch.long, device=device),
            limit=self.limit,
        )
        return self._way(
            f"{strategy}, own loop{', compiled' if compiled else ''}{_SHAPES[static]}",
            lambda: decode(self.own, batch, strategy, compiled=compiled, static=static).tokens,
        )

    def repetition(self, strategy: Contrastive, *, packed: bool = False) -> Way:
        """Return contrastive search or ACS with a repeated cache."""
        model = self.own if packed else self.plain
        ids = torch.tensor(self.prompts, device=model.device)
        return self._way(
            f"{strategy}, repeated cache{', packed' if packed else ''}",
            lambda: decode_by_repetition(model, ids, strategy, self.limit),
        )

    def _way(self, name: str, run: Callable[[], list[list[int]]]) -> Way:
        return Way(name, run, len(self.prompts) * self.limit)

    def _generate(
        self, model: Any, prompts: list[list[int]], *processors: LogitsProcessor, **given: Any
    ) -> Any:
        ids = torch.tensor(prompts, device=model.device)
        made = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=self.limit,
            min_new_tokens=self.limit,
            logits_processor=LogitsProcessorList(processors),
            **given,
        )
        return made[:, ids.shape[1] :].tolist()


# Contrastive search and ACS with a repeated cache.

Contrastive = ContrastiveSearch | AdaptiveContrastiveSearch


@torch.inference_mode()
def decode_by_repetition(model: Any, prompts: Tensor, strategy: Contrastive, limit: int) -> Any:
    """Return `limit` new tokens for each of `prompts` `[B, P]`, which are all equally long.

    The cache of B texts is repeated for each of their k candidates, B·k rows of one token pass through the
    model, and of the k caches the chosen one is kept. Scores and choices are the package's own, so that a
    difference in time is one of the cache and the attention alone. As in the package's tree only the chosen
    candidate passes the head.
    """
    rows, length = prompts.shape
    head, cache = model.get_output_embeddings(), DynamicCache(config=model.config)
    propose = Proposer(strategy, rows, limit, prompts.device)
    hidden = model.base_model(input_ids=prompts, past_key_values=cache, use_cache=True).last_hidden_state
    context = hidden.new_zeros(rows, length + limit, hidden.shape[-1], dtype=torch.float32)
    context[:, :length] = unit(hidden)
    present = torch.ones(rows, length + limit, dtype=torch.bool, device=prompts.device)
    here = torch.arange(rows, device=prompts.device)
    logits = head(hidden[:, -1]).float()
    written = torch.zeros(rows, limit, dtype=torch.long, device=prompts.device)
    for step in range(limit):
        n = length + step
        proposal = propose(logits, step)
        # Of the row with the most candidates; ACS's number is read from the device.
        k = (
            proposal.ids.shape[1]
            if isinstance(strategy, ContrastiveSearch)
            else int(proposal.allowed.sum(-1).amax())
        )
        cache.batch_repeat_interleave(k)
        ids = proposal.ids[:, :k].reshape(-1, 1)
        passed = model.base_model(input_ids=ids, past_key_values=cache, use_cache=True)
        hidden = passed.last_hidden_state.view(rows, k, -1)
        proposal = Proposal(
            proposal.ids[:, :k], proposal.probabilities[:, :k], proposal.allowed[:, :k], proposal.alpha
        )
        index = choose(proposal, degeneration_penalty(unit(hidden), context[:, :n], present[:, :n]))
        cache.batch_select_indices(here * k + index)
        written[:, step] = proposal.ids[here, index]
        context[:, n] = unit(hidden[here, index])
        logits = head(hidden[here, index]).float()
    return written.tolist()
