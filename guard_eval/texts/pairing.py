"""Which continuations are compared: prompts drawn by seed, pairs blinded and counterbalanced.

The draw depends on the seed and each prompt's id alone, so a larger sample contains the smaller one, every
comparison sees the same prompts, and adding prompts to the file moves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from guard_eval.errors import StudyError
from guard_eval.records import MESSAGE_BYTES, Continuation, Pair, Prompt, content_id


def draw_prompts(prompts: Sequence[Prompt], *, per_dataset: int, seed: int) -> list[Prompt]:
    """Return `per_dataset` prompts of each dataset (or all it has), sorted by dataset, then by the draw."""
    datasets: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        datasets.setdefault(prompt.dataset, []).append(prompt)
    return [
        prompt
        for _, group in sorted(datasets.items())
        for prompt in sorted(group, key=lambda prompt: content_id(seed, "draw", prompt.id))[:per_dataset]
    ]


def check_complete(
    prompts: Sequence[Prompt],
    continuations: Mapping[str, Sequence[Continuation]],
    compare: Sequence[Sequence[str]],
) -> None:
    """Raise a `StudyError` if a compared strategy lacks the continuation of a drawn prompt."""
    for method in dict.fromkeys(method for couple in compare for method in couple):
        continued = {c.prompt_id for c in continuations.get(method, ())}
        missing = [prompt.id for prompt in prompts if prompt.id not in continued]
        if missing:
            raise StudyError(
                f"{method} has no continuation for {len(missing)} of {len(prompts)} drawn prompts "
                f"(the first is {missing[0]!r})"
            )


def make_pairs(
    prompts: Sequence[Prompt],
    continuations: Mapping[str, Sequence[Continuation]],
    compare: Sequence[Sequence[str]],
    *,
    seed: int,
    human_pairs: int | None = None,
    existing: Sequence[Pair] = (),
) -> list[Pair]:
    """Join the continuations of every compared couple of strategies on the drawn `prompts`.

    Positions alternate within each comparison and dataset, and the position's parity says which text a judge
    is shown first to begin with, so that sides are balanced there within one. Pairs that exist keep their
    positions; one whose text has changed since is made with the new one, for the store to refuse.

    Args:
        prompts: Those of `draw_prompts`.
        continuations: Of each strategy, by signature.
        compare: Couples of signatures; the first is `method_a`.
        seed: The study's seed.
        human_pairs: How many pairs of each comparison people rate (`for_people`); None for all.
        existing: Pairs that are in the study already.

    Raises:
        StudyError: A continuation is missing, or `existing` has pairs that these settings do not give.
    """
    rated = prompts_for_people(prompts, human_pairs)
    check_complete(prompts, continuations, compare)
    known = {pair.id: pair for pair in existing}
    pairs: list[Pair] = []
    position = len(known)
    for method_a, method_b in compare:
        of_a = {c.prompt_id: c for c in continuations.get(method_a, ())}
        of_b = {c.prompt_id: c for c in continuations.get(method_b, ())}
        couples = [(prompt, of_a[prompt.id], of_b[prompt.id]) for prompt in prompts]
        couples.sort(key=lambda couple: (couple[0].dataset, content_id(seed, "position", couple[0].id)))
        for prompt, a, b in couples:
            identifier = Pair.make_id(method_a, method_b, a.id, b.id)
            before = known.get(identifier)
            pair = Pair(
                id=identifier,
                dataset=prompt.dataset,
                prompt_id=prompt.id,
                prompt=prompt.text,
                method_a=method_a,
                method_b=method_b,
                continuation_a=a.id,
                continuation_b=b.id,
                text_a=a.text,
                text_b=b.text,
                position=position if before is None else before.position,
                for_people=prompt.id in rated,
            )
            _check_fits_page(pair)
            if before is not None and before.for_people != pair.for_people:
                raise StudyError(_another_part(existing, human_pairs))
            position += before is None
            pairs.append(pair)
    ids = {pair.id for pair in pairs}
    if unknown := [pair for pair in existing if pair.id not in ids]:
        raise StudyError(_why_unknown(unknown, existing, prompts, compare))
    return pairs


def _check_fits_page(pair: Pair) -> None:
    """Refuse texts that the app could not send to a rater's browser in one message."""
    texts = (pair.prompt, pair.text_a, pair.text_b)
    if (
        not pair.for_people or 12 * sum(map(len, texts)) < MESSAGE_BYTES
    ):  # JSON has 12 bytes a character at most
        return
    size = len(json.dumps(texts))
    if size > 0.95 * MESSAGE_BYTES:
        raise StudyError(
            f"the texts of prompt {pair.prompt_id!r} ({pair.dataset}) are too long for a rater's page: "
            f"{size / 1e6:.0f} MB, and at most {0.95 * MESSAGE_BYTES / 1e6:.0f} MB can be sent; shorten them"
        )


def prompts_for_people(prompts: Sequence[Prompt], count: int | None) -> set[str]:
    """Return the ids of `count` of the drawn prompts, whose pairs people rate; all of them for None.

    They are the first of each dataset in the draw's order, a random sample, and as many as its size asks for.
    """
    datasets: dict[str, list[str]] = {}
    for prompt in prompts:
        datasets.setdefault(prompt.dataset, []).append(prompt.id)
    chosen: set[str] = set()
    count, before = min(len(prompts), len(prompts) if count is None else count), 0
    for ids in datasets.values():
        before += len(ids)
        # rounding what is due so far, not each dataset's part, makes the parts add up
        due = (2 * before * count + len(prompts)) // (2 * len(prompts))
        chosen.update(ids[: due - len(chosen)])
    return chosen


def _another_part(existing: Sequence[Pair], human_pairs: int | None) -> str:
    recorded = sum(pair.for_people for pair in existing)
    return (
        f"pairs.human_pairs = {human_pairs or 'all'} gives people other pairs than those drawn before "
        f"({recorded} of {len(existing)} in the study); restore human_pairs, or start a new study"
    )


def _why_unknown(
    unknown: Sequence[Pair],
    existing: Sequence[Pair],
    drawn: Sequence[Prompt],
    compare: Sequence[Sequence[str]],
) -> str:
    """Return which settings no longer give pairs that exist, and how a study is extended."""
    couples = {tuple(couple) for couple in compare}
    ids = {prompt.id for prompt in drawn}
    causes = dict.fromkeys(
        f"pairs.compare does not name {pair.method_a} with {pair.method_b}, in this order"
        if (pair.method_a, pair.method_b) not in couples
        else f"prompts.file, pairs.per_dataset or seed give other prompts of {pair.dataset}"
        if pair.prompt_id not in ids
        else f"the texts of {pair.method_a} or {pair.method_b} were made again with other settings, or other "
        "runs are compared"
        for pair in unknown
    )
    return (
        f"the database holds {len(unknown)} of {len(existing)} pairs that these settings no longer give: "
        f"{'; '.join(causes)}. Take that back; a study is extended by adding to pairs.compare or raising "
        "pairs.per_dataset, and another needs a study of its own"
    )
