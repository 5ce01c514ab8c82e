"""Which continuations are compared: prompts drawn by seed, pairs blinded and counterbalanced.

The draw depends on the seed and each prompt's id alone, so a larger sample contains the smaller one, every
comparison sees the same prompts, and adding prompts to the file moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Pair, Prompt, content_id


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
        there = {c.prompt_id for c in continuations.get(method, ())}
        missing = [prompt.id for prompt in prompts if prompt.id not in there]
        if missing:
            raise StudyError(
                f"{method} has no continuation for {len(missing)} of {len(prompts)} drawn prompts "
                f"(the first is {missing[0]!r}); run: guard-eval generate"
            )


def make_pairs(
    prompts: Sequence[Prompt],
    continuations: Mapping[str, Sequence[Continuation]],
    compare: Sequence[Sequence[str]],
    *,
    seed: int,
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
        existing: Pairs that are in the study already.

    Raises:
        StudyError: A continuation is missing, or `existing` has pairs that these settings do not give.
    """
    check_complete(prompts, continuations, compare)
    known = {pair.id: pair for pair in existing}
    made: list[Pair] = []
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
            )
            position += before is None
            made.append(pair)
    _complain_of_strays(made, known)
    return made


def _complain_of_strays(made: Sequence[Pair], known: Mapping[str, Pair]) -> None:
    strays = known.keys() - {pair.id for pair in made}
    if strays:
        raise StudyError(
            f"the database holds {len(strays)} of {len(known)} pairs that these settings no longer give (the "
            "model, the prompts, the seed or a strategy changed); restore the settings, or start a new study"
        )
