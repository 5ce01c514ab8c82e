"""Which continuations are compared: prompts drawn by seed, pairs blinded and counterbalanced.

The draw depends on the seed and each prompt's id alone, so a larger sample contains the smaller one, every
comparison sees the same prompts, and adding prompts to the file moves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, groupby

from guard_eval.errors import StudyError
from guard_eval.records import MESSAGE_BYTES, Continuation, Pair, Prompt, content_id


def draw_prompts(prompts: Iterable[Prompt], *, per_dataset: int, seed: int) -> list[Prompt]:
    """Return `per_dataset` prompts of each dataset (or all it has), sorted by dataset, then by the draw."""
    drawn = sorted(prompts, key=lambda each: (each.dataset, content_id(seed, "draw", each.id)))
    groups = groupby(drawn, key=lambda prompt: prompt.dataset)
    return [prompt for _, group in groups for prompt in list(group)[:per_dataset]]


def check_complete(prompts: Sequence[Prompt], texts: Mapping[str, Iterable[Continuation]]) -> None:
    """Raise a `StudyError` if one of the sets of texts, by name, lacks that of a drawn prompt."""
    for name, each in texts.items():
        continued = {text.prompt_id for text in each}
        missing = [prompt.id for prompt in prompts if prompt.id not in continued]
        if missing:
            raise StudyError(
                f"{name} has no continuation for {len(missing)} of {len(prompts)} drawn prompts "
                f"(the first is {missing[0]!r})"
            )


def make_pairs(
    prompts: Sequence[Prompt],
    continuations: Mapping[str, Iterable[Continuation]],
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
    texts = {method: list(continuations.get(method, ())) for couple in compare for method in couple}
    check_complete(prompts, texts)
    by_prompt = {method: {text.prompt_id: text for text in each} for method, each in texts.items()}
    known = {pair.id: pair for pair in existing}
    ordered = sorted(prompts, key=lambda each: (each.dataset, content_id(seed, "position", each.id)))
    positions, pairs = count(len(known)), []
    for method_a, method_b in compare:
        for prompt in ordered:
            a, b = by_prompt[method_a][prompt.id], by_prompt[method_b][prompt.id]
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
                position=next(positions) if before is None else before.position,
                for_people=prompt.id in rated,
            )
            _check_size(pair)
            if before is not None and before.for_people != pair.for_people:
                recorded = sum(pair.for_people for pair in existing)
                raise StudyError(
                    f"pairs.human_pairs = {human_pairs or 'all'} gives people other pairs than those drawn "
                    f"before ({recorded} of {len(existing)} in the study); restore it, or start a new study"
                )
            pairs.append(pair)
    _check_kept(pairs, existing, prompts, compare)
    return pairs


def _check_size(pair: Pair) -> None:
    """Refuse texts that the app could not send to a rater's browser in one message."""
    texts = (pair.prompt, pair.text_a, pair.text_b)
    most = 0.95 * MESSAGE_BYTES
    if not pair.for_people or 12 * sum(map(len, texts)) < most:  # JSON has 12 bytes a character at most
        return
    if (size := len(json.dumps(texts))) > most:
        raise StudyError(
            f"the texts of prompt {pair.prompt_id!r} ({pair.dataset}) are too long for a rater's page: "
            f"{size / 1e6:.0f} MB, and at most {most / 1e6:.0f} MB can be sent; shorten them"
        )


def prompts_for_people(prompts: Sequence[Prompt], number: int | None) -> set[str]:
    """Return the ids of so many of the drawn prompts, whose pairs people rate; all of them for None.

    They are the first of each dataset in the draw's order, a random sample, and as many as its size asks for.
    """
    number, before = min(len(prompts), len(prompts) if number is None else number), 0
    chosen: set[str] = set()
    for _, group in groupby(prompts, key=lambda prompt: prompt.dataset):
        ids = [prompt.id for prompt in group]
        before += len(ids)
        # rounding what is due so far, not each dataset's part, makes the parts add up
        due = (2 * before * number + len(prompts)) // (2 * len(prompts))
        chosen.update(ids[: due - len(chosen)])
    return chosen


def _check_kept(
    pairs: Sequence[Pair], existing: Sequence[Pair], drawn: Sequence[Prompt], compare: Sequence[Sequence[str]]
) -> None:
    """Refuse settings that no longer give pairs that exist; say which ones, and how a study is extended."""
    kept = {pair.id for pair in pairs}
    couples, ids = {tuple(couple) for couple in compare}, {prompt.id for prompt in drawn}
    unknown = [pair for pair in existing if pair.id not in kept]
    causes = dict.fromkeys(
        f"pairs.compare does not name {pair.method_a} with {pair.method_b}, in this order"
        if (pair.method_a, pair.method_b) not in couples
        else f"prompts.file, pairs.per_dataset or seed give other prompts of {pair.dataset}"
        if pair.prompt_id not in ids
        else f"the texts of {pair.method_a} or {pair.method_b} were made again with other settings, or other "
        "runs are compared"
        for pair in unknown
    )
    if unknown:
        raise StudyError(
            f"the database holds {len(unknown)} of {len(existing)} pairs that these settings no longer give: "
            f"{'; '.join(causes)}. Take that back; a study is extended by adding to pairs.compare or raising "
            "pairs.per_dataset, and another needs a study of its own"
        )
