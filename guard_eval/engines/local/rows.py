"""Forward passes without padding: the tokens of all rows side by side, each row attending to itself alone.

Linear layers, norms and activations work token by token, so the rows share them at full speed; what would mix
shapes, attention, is computed for each row over its own length. With packed linear layers (`packed.py`) every
number that a row meets is then independent, to the bit, of how many rows there are, how long they are and in
which order they stand. Rows need no common length, and one that has ended leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from guard_eval.decoding.contrastive import degeneration_penalty, unit

_NAME = "guard_eval_rows"


class _Layer:
    """A layer's keys and values of all texts, `[2, texts, heads, capacity, D]`, and a view of each text's."""

    def __init__(self, texts: int, capacity: int, like: Tensor) -> None:
        self.states = like.new_empty(2, texts, like.shape[1], capacity, like.shape[3])
        self.keys, self.values = (half.unbind(0) for half in self.states[:, :, None])


@dataclass
class _Pass:
    """One forward pass: `counts[i]` tokens of the text in slot `slots[i]`, which holds `lengths[i]` already.

    They follow each other (`siblings` false), or are all candidates for the same place.
    """

    layers: dict[int, _Layer]
    texts: int
    capacity: int
    slots: list[int]
    lengths: list[int]
    counts: list[int]
    siblings: bool

    def __post_init__(self) -> None:
        counts = torch.tensor(self.counts)
        self._slot = torch.tensor(self.slots).repeat_interleave(counts)
        start = torch.tensor(self.lengths).repeat_interleave(counts)
        before = (counts.cumsum(0) - counts).repeat_interleave(counts)
        self._place = start + torch.arange(len(start)) - before
        self._masks: dict[tuple[int, int | None], list[Tensor | None]] = {}

    def store(self, number: int, key: Tensor, value: Tensor) -> _Layer:
        """Write keys and values `[1, heads, N, D]`, or longer, where they belong, and return their layer."""
        if number not in self.layers:
            self.layers[number] = _Layer(self.texts, self.capacity, key)
        layer = self.layers[number]
        both = torch.cat([key, value])[:, :, : len(self._slot)]
        layer.states[:, self._slot, :, self._place] = both.permute(2, 0, 1, 3)
        return layer

    def masks(self, shared: int, window: int | None) -> list[Tensor | None]:
        """Return for each text what its queries see; every one `shared` times, for as many heads."""
        if (shared, window) not in self._masks:
            self._masks[shared, window] = [
                self._mask(length, count, shared, window)
                for length, count in zip(self.lengths, self.counts, strict=True)
            ]
        return self._masks[shared, window]

    def _mask(self, length: int, count: int, shared: int, window: int | None) -> Tensor | None:
        if count == 1:
            return None  # a lone query sees everything there is
        places = torch.arange(length + count)
        own = torch.arange(length, length + count)[:, None]
        if self.siblings:
            return ((places < length) | (places == own))[:, self.first(length, window) :].repeat(shared, 1)
        seen = places <= own
        if window:
            seen &= places > own - window
        return seen.repeat(shared, 1)

    def first(self, length: int, window: int | None) -> int:
        """Return the first place that a text's queries see: the start, if they stand at several places."""
        alone = self.siblings or max(self.counts) == 1
        return max(0, length + 1 - window) if window and alone else 0


_current: ContextVar[_Pass] = ContextVar("_current")


def _attend(
    module: Any,  # noqa: ANN401 (an attention layer of any architecture)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 (of transformers; rows need none)
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_others: object,
) -> tuple[Tensor, None]:
    """Store keys and values, and attend text by text; transformers' attention interface.

    Queries are `[1, H, N, D]`, keys and values `[1, G, N, D]`, H a multiple of G; the result `[1, N, H, D]`.
    """
    now = _current.get()
    layer = now.store(module.layer_idx, key, value)
    _, heads, total, width = query.shape
    shared = heads // key.shape[1]
    # The heads that share keys stand as more queries of one head: nothing is copied.
    grouped = query.view(1, -1, shared, total, width)
    results = []
    pieces = grouped[:, :, :, : sum(now.counts)].split_with_sizes(now.counts, dim=3)
    masks = now.masks(shared, sliding_window)
    for slot, length, piece, mask in zip(now.slots, now.lengths, pieces, masks, strict=True):
        count = piece.shape[3]
        seen = slice(now.first(length, sliding_window), length + count)
        attended = scaled_dot_product_attention(
            piece.flatten(2, 3),
            layer.keys[slot][:, :, seen],
            layer.values[slot][:, :, seen],
            attn_mask=mask,
            scale=scaling,
        )
        results.append(attended.view(heads, count, width))
    results.append(query.new_zeros(heads, total - sum(now.counts), width))  # the filling sees nothing
    return torch.cat(results, dim=1).transpose(0, 1)[None], None


AttentionInterface.register(_NAME, _attend)


@contextmanager
def _row_by_row(model: Any, now: _Pass) -> Iterator[None]:  # noqa: ANN401
    """Let the model attend row by row meanwhile."""
    config = model.config.get_text_config()
    before = config._attn_implementation  # noqa: SLF001 (there is no public name)
    token = _current.set(now)
    config._attn_implementation = _NAME  # noqa: SLF001
    try:
        yield
    finally:
        config._attn_implementation = before  # noqa: SLF001
        _current.reset(token)


class RowSession:
    """A `Session` for a float32 model on a CPU; see `supports`."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        prompts: Sequence[Sequence[int]],
        limit: int,
        *,
        candidates: int = 0,
        copies: int = 1,
    ) -> None:
        self._model = model
        self._prompts = prompts
        self._texts = len(prompts) * copies
        # The candidates of a fork exist for a moment.
        self._capacity = max(map(len, prompts)) + limit + candidates
        self._layers: dict[int, _Layer] = {}
        self._slots = list(range(len(prompts)))
        self._lengths = [0] * len(prompts)
        self._contrast = bool(candidates)
        self._contexts: list[Tensor] = []
        self._forked: list[Tensor] = []

    def prefill(self) -> Tensor:
        """See `Session`. Each prompt passes by itself."""
        last = []
        for slot, prompt in enumerate(self._prompts):
            hidden = self._hidden(torch.tensor(prompt), torch.arange(len(prompt)), [slot], [len(prompt)])
            self._lengths[slot] = len(prompt)
            last.append(hidden[-1])
            if self._contrast:
                context = hidden.new_empty(self._capacity, hidden.shape[1])
                context[: len(prompt)] = unit(hidden)
                self._contexts.append(context)
        return self._logits(torch.stack(last))

    def step(self, tokens: Tensor) -> Tensor:
        """See `Session`."""
        hidden = self._hidden(tokens, torch.tensor(self._lengths), self._slots, [1] * len(tokens))
        self._lengths = [length + 1 for length in self._lengths]
        return self._logits(hidden)

    def fork(self, ids: Tensor, allowed: Tensor) -> Tensor:
        """See `Session`. A row passes only the candidates it considers."""
        counts = allowed.sum(-1)
        positions = torch.tensor(self._lengths).repeat_interleave(counts)
        hidden = self._hidden(ids[allowed], positions, self._slots, counts.tolist(), siblings=True)
        self._forked = list(hidden.split_with_sizes(counts.tolist()))
        penalty = torch.zeros(ids.shape)
        present = torch.ones(1, 1, dtype=torch.bool)
        texts = zip(self._forked, self._slots, self._lengths, strict=True)
        for row, (states, slot, length) in enumerate(texts):
            so_far = self._contexts[slot][None, :length]
            penalty[row, : len(states)] = degeneration_penalty(unit(states)[None], so_far, present)[0]
        return penalty

    def commit(self, index: Tensor) -> Tensor:
        """See `Session`."""
        slots, lengths = torch.tensor(self._slots), torch.tensor(self._lengths)
        for layer in self._layers.values():
            layer.states[:, slots, :, lengths] = layer.states[:, slots, :, lengths + index]
        last = torch.stack(
            [states[chosen] for states, chosen in zip(self._forked, index.tolist(), strict=True)]
        )
        for slot, length, direction in zip(self._slots, self._lengths, unit(last), strict=True):
            self._contexts[slot][length] = direction
        self._lengths = [length + 1 for length in self._lengths]
        return self._logits(last)

    def keep(self, rows: Tensor) -> None:
        """See `Session`. A row that goes on twice is copied into the slot of one that does not."""
        chosen = rows.tolist()
        slots = [self._slots[row] for row in chosen]
        free = sorted(set(range(self._texts)) - set(slots))
        seen: set[int] = set()
        for place, slot in enumerate(slots):
            if slot in seen:
                slots[place] = free.pop()
                self._copy(slot, slots[place])
            seen.add(slot)
        self._slots, self._lengths = slots, [self._lengths[row] for row in chosen]

    def _copy(self, slot: int, to: int) -> None:
        for layer in self._layers.values():
            layer.states[:, to] = layer.states[:, slot]

    def _hidden(
        self, ids: Tensor, positions: Tensor, slots: list[int], counts: list[int], *, siblings: bool = False
    ) -> Tensor:
        """Return the last hidden states `[N, D]` of tokens `[N]` at their positions `[N]`.

        One more token, which nobody reads, stands at the end: vectorised loops finish odd lengths in another
        way, with other last bits, and so what they finish is never a row's.
        """
        lengths = self._lengths if slots is self._slots else [0]
        now = _Pass(self._layers, self._texts, self._capacity, slots, lengths, counts, siblings)
        ids, positions = (torch.nn.functional.pad(t, (0, 1))[None] for t in (ids, positions))
        with _row_by_row(self._model, now):
            output = self._model.base_model(input_ids=ids, position_ids=positions, use_cache=False)
        hidden: Tensor = output.last_hidden_state
        return hidden[0, :-1]

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self._model.get_output_embeddings()(hidden)
        return logits


_supported: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def supports(model: Any) -> bool:  # noqa: ANN401
    """Return whether a model can run in a `RowSession`: found out once, by trying."""
    if model not in _supported:
        _supported[model] = (
            model.device.type == "cpu"
            and model.dtype == torch.float32
            and getattr(model, "_supports_sdpa", False)
            and getattr(model.config.get_text_config(), "_attn_implementation", "") in {"sdpa", "eager"}
            and _agrees(model)
        )
    return _supported[model]


@torch.inference_mode()
def _agrees(model: Any) -> bool:  # noqa: ANN401
    """Return whether a few tokens get the logits here that they get from the model as it is."""
    ids = torch.arange(2, 8) % model.config.get_text_config().vocab_size
    try:
        expected = model(input_ids=ids[None], use_cache=False).logits[0]
        session = RowSession(model, [ids[:3].tolist(), ids[:2].tolist()], 3)
        found = [session.prefill(), session.step(ids[[3, 2]]), session.step(ids[[4, 3]])]
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False  # an architecture with a way of its own
    places = [[2, 1], [3, 2], [4, 3]]
    # Broken weights give NaN in both ways; the loop names the texts that meet them.
    near = 1e-3 * float(expected.abs().nan_to_num(0, 0, 0).max())
    return all(
        torch.allclose(logits, expected[place], rtol=1e-3, atol=near, equal_nan=True)
        for logits, place in zip(found, places, strict=True)
    )
