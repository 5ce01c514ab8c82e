"""Run a strategy without a model: one step on given logits, or a text step by step."""

import torch

from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.processor import choose_tokens, collect_adapted_values, make_first_state
from guard_eval.generation.strategies import apply_step, parse


def context(keys, step=0, *, tokens=None, written=None, state=None):
    """Return the context of a step. Arguments that are left out are empty."""
    nothing = torch.zeros(len(keys), 0, dtype=torch.long)
    return Context(
        keys,
        step,
        nothing if tokens is None else tokens,
        nothing if written is None else written,
        nothing.double() if state is None else state,
    )


def as_strategy(strategy):
    """Return a strategy. A test may give a strategy or its name."""
    return parse(strategy) if isinstance(strategy, str) else strategy


def logits_after(strategy, logits, *, keys=None, step=0, **facts):
    """Return the logits after a strategy's step, `[B, V]`."""
    keys = torch.zeros(len(logits), dtype=torch.long) if keys is None else keys
    return apply_step(as_strategy(strategy), logits, context(keys, step, **facts))


def tokens_kept(logits, row=0):
    """Return the tokens of a row that are not masked."""
    return set((logits[row] > -torch.inf).nonzero()[:, 0].tolist())


class Follower:
    """Write a batch of texts with a strategy: call with the logits `[B, V]` of each step."""

    def __init__(self, strategy, keys, *, prompts=None):
        self.strategy, self.keys = as_strategy(strategy), keys
        self.tokens = torch.zeros(len(keys), 0, dtype=torch.long) if prompts is None else prompts
        self.written = self.tokens[:, :0]
        self.state = torch.tensor([make_first_state(self.strategy)] * len(keys), dtype=torch.float64)
        self.steps = []

    def __call__(self, logits, written=None):
        """Return the chosen tokens, `[B]`. With `written`, the texts continue with these tokens instead."""
        before = self.state.clone()
        facts = context(
            self.keys,
            self.written.shape[1],
            tokens=self.tokens,
            written=self.written,
            state=self.state,
        )
        chosen = choose_tokens(self.strategy, logits.float(), facts)
        self.steps.append(
            {n: v.clone() for n, v in collect_adapted_values(self.strategy, before, self.state).items()}
        )
        following = (chosen if written is None else written)[:, None]
        self.tokens, self.written = (torch.cat([t, following], 1) for t in (self.tokens, self.written))
        return chosen

    @property
    def trace(self):
        """Return the traced values of the strategy by name, each `[B, steps]`."""
        return {name: torch.stack([step[name] for step in self.steps], 1) for name in self.steps[0]}
