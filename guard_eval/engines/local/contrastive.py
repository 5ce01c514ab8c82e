"""The loop of contrastive search and ACS."""

from __future__ import annotations

from typing import Any

import torch

from guard_eval.decoding.contrastive import K_MIN, K_RANGE, AdaptiveProposer, FixedProposer, Proposer, choose
from guard_eval.engines.local.batch import Batch, Generated, Rows
from guard_eval.engines.local.session import open_session
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch

Contrastive = ContrastiveSearch | AdaptiveContrastiveSearch


@torch.inference_mode()
def decode_contrastive(model: Any, batch: Batch, strategy: Contrastive) -> Generated:  # noqa: ANN401
    """Continue a batch, all of a row's candidates in one pass."""
    most = strategy.k if isinstance(strategy, ContrastiveSearch) else K_MIN + K_RANGE
    session = open_session(model, batch.prompts, batch.limit, candidates=most)
    propose, rows = _proposer(strategy, batch), Rows(batch)
    logits = session.prefill()
    for step in range(batch.limit):
        rows.check(logits, step)
        # A row that has failed stays for a moment; of NaN it would propose no candidate at all.
        proposal = propose(logits.masked_fill(~logits.amax(-1, keepdim=True).isfinite(), 0), step)
        penalty = session.fork(proposal.ids, proposal.allowed)
        # A hidden state may be no number where the logits before it are.
        rows.fail((~penalty.isfinite() & proposal.allowed).any(-1), step)
        index = choose(proposal, penalty)
        tokens = proposal.ids.gather(1, index[:, None])[:, 0]
        rows.write(tokens, step)
        if step + 1 == batch.limit:
            break
        logits = session.commit(index)
        going = rows.leave(step)
        if going is not None:
            if not len(going):
                break
            session.keep(going)
            propose.keep(going)
            logits = logits[going]
    written, failed_at = rows.finished()
    return Generated(tokens=written, failed_at=failed_at)


def _proposer(strategy: Contrastive, batch: Batch) -> Proposer:
    if isinstance(strategy, ContrastiveSearch):
        return FixedProposer(strategy)
    return AdaptiveProposer(strategy, len(batch.prompts), batch.limit, batch.keys.device)
