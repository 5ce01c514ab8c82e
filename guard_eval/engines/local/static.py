"""Decoding in fixed shapes: a cache laid out beforehand, and a step that a GPU runs again as one CUDA graph.

Run eagerly, a step of a large model waits for Python to launch its kernels. Here nothing in a step depends
on a number that the host knows: places, masks and the step's own number are tensors, so that one recorded
step serves all that follow. Rows that have ended stay, idle, until all have; the host asks every
`Rows.STRIDE` steps.

A CPU runs the same code without a graph, where it is asked for; `rows.py` is as fast there, and gives each
row the same bits in any batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from guard_eval.decoding.choosers import Chooser, LogitStrategy, chooser
from guard_eval.decoding.contrastive import Proposer, choose, degeneration_penalty, unit
from guard_eval.engines.local.attention import attending, runs_like_the_model
from guard_eval.engines.local.batch import Batch, Generated, Rows, prompt_tokens
from guard_eval.engines.local.batching import ran_out
from guard_eval.strategies import AdaptiveContrastiveSearch, Chain, ContrastiveSearch, OwnStrategy

_NAME = "guard_eval_static"
Fixed = LogitStrategy | ContrastiveSearch | AdaptiveContrastiveSearch
"""Strategies that keep one text a row, and so one shape."""
_WORTH_RECORDING = 8
"""Steps left below which none is recorded."""


@dataclass
class _Pass:
    """One forward pass: where its tokens `[B, n]` go, and what they see.

    Attributes:
        layers: Keys and values of each layer, `[B, capacity, heads, D]` each.
        capacity: Tokens that a row's cache holds.
        places: Where each token goes, `[B, n]`.
        lengths: How many tokens each row has already, `[B]`; None while the prompts are read.
        siblings: They are candidates for the same place, and do not see each other.
    """

    layers: dict[int, tuple[Tensor, Tensor]]
    capacity: int
    places: Tensor
    lengths: Tensor | None
    siblings: bool
    _masks: dict[int | None, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = torch.arange(len(self.places), device=self.places.device)[:, None]
        self._flat = (rows * self.capacity + self.places).flatten()

    def store(self, number: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values `[B, heads, n, D]` where they belong, and return the layer's."""
        if number not in self.layers:
            rows, heads, _, width = key.shape
            # Zeros: what is masked counts nothing, unless it is no number.
            keys, values = key.new_zeros(2, rows, self.capacity, heads, width).unbind(0)
            self.layers[number] = keys, values
        for kept, new in zip(self.layers[number], (key, value), strict=True):
            kept.flatten(0, 1).index_copy_(0, self._flat, new.transpose(1, 2).flatten(0, 1))
        return self.layers[number]

    def mask(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """Return what is added to the scores of each token, `[B, 1, 1, n, capacity]`: 0 or −inf."""
        if window not in self._masks:
            seen = self._seen(window)[:, None, None]
            self._masks[window] = torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, -torch.inf)
        return self._masks[window]

    def _seen(self, window: int | None) -> Tensor:
        places = torch.arange(self.capacity, device=self.places.device)
        own = self.places[:, :, None]
        if self.siblings:
            assert self.lengths is not None
            length = self.lengths[:, None, None]
            seen = places < length
            return (seen & (places > length - window) if window else seen) | (places == own)
        seen = places <= own
        return seen & (places > own - window) if window else seen


_current: ContextVar[_Pass] = ContextVar("_current")


def _attend(
    module: Any,  # noqa: ANN401 (an attention layer of any architecture)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 (of transformers; the pass has its own)
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_others: object,
) -> tuple[Tensor, None]:
    """Store keys and values, and attend to the whole cache; transformers' attention interface.

    Queries are `[B, H, n, D]`, keys and values `[B, G, n, D]`, H a multiple of G; the result `[B, n, H, D]`.
    """
    now = _current.get()
    keys, values = (states.transpose(1, 2) for states in now.store(module.layer_idx, key, value))
    rows, heads, count, width = query.shape
    groups = key.shape[1]
    if now.lengths is None and not (sliding_window and sliding_window < count):
        # Prompts, without a mask of their own: what stands behind a shorter one sees it, and is never read.
        attended = scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=heads > groups
        )
        return attended.transpose(1, 2), None
    mask = now.mask(sliding_window, query.dtype).expand(-1, 1, heads // groups, -1, -1)
    attended = scaled_dot_product_attention(
        # The heads that share keys stand as more queries of one head: nothing is copied.
        query.reshape(rows, groups, -1, width),
        keys,
        values,
        attn_mask=mask.flatten(2, 3),
        scale=scaling,
    )
    return attended.reshape(rows, heads, count, width).transpose(1, 2), None


AttentionInterface.register(_NAME, _attend)


class StaticSession:
    """Texts under way, as `session.Session` describes them, in tensors whose shapes and places stay."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        prompts: Sequence[Sequence[int]],
        limit: int,
        *,
        candidates: int = 0,
    ) -> None:
        device = model.device
        self._model = model
        longest = max(map(len, prompts))
        # A multiple of what attention kernels read at once.
        self._capacity = -(-(longest + limit + candidates) // 16) * 16
        self._ids = torch.tensor(
            [[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=device
        )
        self._lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self._starts = torch.arange(len(prompts), device=device) * self._capacity
        self._candidates = torch.arange(candidates, device=device)
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._context = torch.empty(0)
        self._forked = torch.empty(0)

    def prefill(self) -> Tensor:
        """See `Session`."""
        places = torch.arange(self._ids.shape[1], device=self._ids.device).expand_as(self._ids)
        hidden = self._hidden(self._ids, places, places, None)
        if len(self._candidates):
            shape = (len(hidden), self._capacity, hidden.shape[-1])
            self._context = hidden.new_zeros(shape, dtype=torch.float32)
            self._context[:, : hidden.shape[1]] = unit(hidden)
        last = (self._lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[-1])
        return self._logits(hidden.gather(1, last)[:, 0])

    def step(self, tokens: Tensor) -> Tensor:
        """See `Session`."""
        places = self._lengths[:, None]
        hidden = self._hidden(tokens[:, None], places, places, self._lengths)
        self._lengths.add_(1)
        return self._logits(hidden[:, 0])

    def fork(self, ids: Tensor) -> Tensor:
        """Return the degeneration penalty of candidates, `[B, k]`; see `Session`."""
        here = self._lengths[:, None]
        self._forked = self._hidden(
            ids, here + self._candidates, here.expand_as(ids), self._lengths, siblings=True
        )
        present = torch.arange(self._capacity, device=ids.device) < here
        return degeneration_penalty(unit(self._forked), self._context, present)

    def commit(self, index: Tensor) -> Tensor:
        """See `Session`."""
        to = self._starts + self._lengths
        for states in (kept.flatten(0, 1) for layer in self._layers.values() for kept in layer):
            states.index_copy_(0, to, states.index_select(0, to + index))
        place = index[:, None, None].expand(-1, 1, self._forked.shape[-1])
        hidden = self._forked.gather(1, place)[:, 0]
        self._context.flatten(0, 1).index_copy_(0, to, unit(hidden))
        self._lengths.add_(1)
        return self._logits(hidden)

    def _hidden(
        self,
        ids: Tensor,
        places: Tensor,
        positions: Tensor,
        lengths: Tensor | None,
        *,
        siblings: bool = False,
    ) -> Tensor:
        """Return the last hidden states `[B, n, D]` of tokens `[B, n]` that go to their places."""
        now = _Pass(self._layers, self._capacity, places, lengths, siblings)
        with attending(self._model, _NAME, _current, now):
            output = self._model.base_model(input_ids=ids, position_ids=positions, use_cache=False)
        hidden: Tensor = output.last_hidden_state
        return hidden

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self._model.get_output_embeddings()(hidden).float()
        return logits


_supported: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def supports(model: Any, strategy: Fixed) -> bool:  # noqa: ANN401
    """Return whether a strategy runs in fixed shapes on a model: found out once for a model, by trying.

    Strategies of one's own do not: they may ask the host anything.
    """
    steps = strategy.steps if isinstance(strategy, Chain) else (strategy,)
    if any(isinstance(step, OwnStrategy) for step in steps):
        return False
    if model not in _supported:
        one_device = len(set((getattr(model, "hf_device_map", None) or {"": 0}).values())) == 1
        _supported[model] = one_device and runs_like_the_model(model, StaticSession)
        if not _supported[model]:
            warnings.warn(
                f"{type(model).__name__} does not run in fixed shapes; it runs step by step, which is slower",
                stacklevel=2,
            )
    return _supported[model]


@torch.inference_mode()
def decode_static(
    model: Any,  # noqa: ANN401
    batch: Batch,
    strategy: Fixed,
    *,
    trace: bool = False,
) -> Generated:
    """Continue a batch by a strategy that `supports` lets through; arguments as in `decode.decode`."""
    rows, device = Rows(batch), batch.keys.device
    values: Callable[[], dict[str, Tensor]] = dict
    pick: Callable[[Tensor, int | Tensor], Tensor]
    follow: Callable[[Tensor], Tensor]
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        propose = Proposer(strategy, len(batch.prompts), batch.limit, device)
        session = StaticSession(model, batch.prompts, batch.limit, candidates=propose.most)
        pick, follow, first = _contrastive(propose, session, rows), session.commit, propose.fixed_from
    else:
        prompts = prompt_tokens(batch)
        chooses = chooser(strategy, batch.keys, batch.limit, prompts=prompts, breakers=batch.breakers)
        session = StaticSession(model, batch.prompts, batch.limit)
        pick, follow, first = _by_logits(chooses, rows), session.step, chooses.fixed_from
        values = lambda: chooses.trace  # noqa: E731
    logits = session.prefill()
    number = torch.tensor(first, device=device)

    def advance(step: int | Tensor) -> None:
        logits.copy_(follow(pick(rows.check(logits, step), step)))

    def advance_by_number() -> None:
        advance(number)
        number.add_(1)

    again: Callable[[], None] | None = None
    for step in range(batch.limit - 1):
        if step < first or (again is None and batch.limit - step < _WORTH_RECORDING):
            advance(step)
        elif again is None:
            again = recorded(advance_by_number, device)
        else:
            again()
        if rows.ended(step):
            break
    else:
        pick(rows.check(logits, batch.limit - 1), batch.limit - 1)
    written, failed_at = rows.finished()
    made = {name: kept.tolist() for name, kept in (values() if trace else {}).items()}
    traces = [
        {name: kept[row][: len(tokens)] for name, kept in made.items()} for row, tokens in enumerate(written)
    ]
    return Generated(tokens=written, failed_at=failed_at, trace=traces if made else [])


def _by_logits(chooses: Chooser, rows: Rows) -> Callable[[Tensor, int | Tensor], Tensor]:
    def pick(logits: Tensor, step: int | Tensor) -> Tensor:
        tokens = chooses(logits, step, rows.history)
        rows.write(tokens, step)
        return tokens

    return pick


def _contrastive(
    propose: Proposer, session: StaticSession, rows: Rows
) -> Callable[[Tensor, int | Tensor], Tensor]:
    def pick(logits: Tensor, step: int | Tensor) -> Tensor:
        proposal = propose(logits, step)
        penalty = session.fork(proposal.ids)
        rows.fail((~penalty.isfinite() & proposal.allowed).any(-1), step)
        index = choose(proposal, penalty)
        rows.write(proposal.ids.gather(1, index[:, None])[:, 0], step)
        return index

    return pick


def recorded(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Run `step` once, and return what runs it again: on a GPU its kernels as one CUDA graph.

    The run before the recording, on another stream as PyTorch asks for, loads what cannot be loaded within.
    A step that cannot be recorded, such as of a quantised model that asks the host, goes on as it is.
    """
    if device.type != "cuda":
        step()
        return step
    aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        step()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(device), torch.cuda.graph(graph):
            step()  # recorded, not run
    except RuntimeError as error:
        if ran_out(error):
            raise
        reason = (str(error).splitlines() or [""])[0]
        warnings.warn(f"the step cannot be recorded as a CUDA graph ({reason}); it runs slower", stacklevel=2)
        return step
    return graph.replay
