"""Draw prompts by seed, make blind, counterbalanced pairs of their continuations, and read gold pairs.

In a gold pair the better text is known. These pairs show whether a rater reads the texts.
The draw depends only on the seed and on each prompt's id. A larger sample therefore contains the smaller one,
every comparison has the same prompts, and new prompts in the file do not change the order of the others.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from guard_eval.errors import StudyError
from guard_eval.records import (
    MESSAGE_BYTES,
    Generation,
    Gold,
    Pair,
    Prompt,
    clean_for_raters,
    make_content_id,
)
from guard_eval.study.criteria_settings import StudyFile
from guard_eval.study.settings import Pairs
from guard_eval.texts.rows import Record, read_json_lines


def draw_prompts(
    prompts: Iterable[Prompt], *, per_dataset: int, seed: int, purpose: str = "draw"
) -> list[Prompt]:
    """Draw `per_dataset` prompts of each dataset, or all if there are fewer. Sort by dataset and draw order.

    Draws for different purposes are independent.
    """
    drawn = sorted(prompts, key=lambda prompt: (prompt.dataset, make_content_id(seed, purpose, prompt.id)))
    groups = groupby(drawn, key=lambda prompt: prompt.dataset)
    return [prompt for _, group in groups for prompt in list(group)[:per_dataset]]


def drop_repeated_prompts(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Return prompts without those that repeat the words of an earlier prompt in the dataset."""
    first: dict[tuple[str, str], Prompt] = {}
    for prompt in prompts:
        first.setdefault((prompt.dataset, clean_for_raters(prompt.text)), prompt)
    return list(first.values())


def make_pairs(
    prompts: Sequence[Prompt],
    texts: Mapping[str, Mapping[str, Generation]],
    plan: Pairs,
    *,
    seed: int,
    existing: Sequence[Pair] = (),
) -> list[Pair]:
    """Make a pair for each drawn prompt and each compared couple of systems.

    Even and odd positions alternate within each comparison and dataset. The parity decides which text a judge
    sees first in the first order, so each system is first equally often (or once more). Existing pairs keep
    their positions. If a text has changed, the pair gets the new text, and the store refuses the pair.

    Args:
        prompts: The result of `draw_prompts`.
        texts: The texts: a system's name → a prompt's id → the text.
        plan: The table [pairs] of study.toml. The first system of each couple is `method_a`.
        seed: The study's seed.
        existing: The pairs that are already in the study.

    Raises:
        StudyError: These settings do not give all pairs in `existing`, or texts are too long for a page.
    """
    rated = choose_prompts_for_people(prompts, plan.human_pairs)
    positions = {pair.id: pair.position for pair in existing}
    ordered = sorted(
        prompts, key=lambda prompt: (prompt.dataset, make_content_id(seed, "position", prompt.id))
    )
    pairs = []
    for method_a, method_b in plan.compare:
        for prompt in ordered:
            drawn = int(make_content_id(seed, "round", prompt.dataset, prompt.id), 16)
            a = texts[method_a][prompt.id]
            b = texts[method_b][prompt.id]
            identifier = Pair.make_id(method_a, method_b, a.id, b.id)
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
                position=positions.setdefault(identifier, len(positions)),
                for_people=prompt.id in rated,
                round=0 if plan.design == "fixed" else 1 + drawn % plan.rounds,
            )
            size = len(json.dumps((pair.prompt, pair.text_a, pair.text_b)))
            if pair.for_people and size > 0.95 * MESSAGE_BYTES:
                where = f"prompt {pair.prompt_id!r} ({pair.dataset})"
                raise StudyError(
                    f"the texts of {where} are too long for a rater's page (19 MB); shorten them"
                )
            pairs.append(pair)
    _check_existing_pairs(existing, pairs, prompts, plan.compare)
    return pairs


def choose_prompts_for_people(prompts: Sequence[Prompt], number: int | None) -> set[str]:
    """Return the ids of the prompts whose pairs people rate: `number` of the drawn prompts, or all.

    The first prompts of each dataset in draw order are chosen: a random sample. Their number is proportional
    to the size of the dataset.
    """
    number = min(number or len(prompts), len(prompts))
    before = 0
    chosen: set[str] = set()
    for _, group in groupby(prompts, key=lambda prompt: prompt.dataset):
        ids = [prompt.id for prompt in group]
        before += len(ids)
        # round the running total, not each dataset's part, so that the parts add up to `number`
        due = (2 * before * number + len(prompts)) // (2 * len(prompts))
        chosen.update(ids[: due - len(chosen)])
    return chosen


def _check_existing_pairs(
    existing: Sequence[Pair], pairs: Sequence[Pair], drawn: Sequence[Prompt], compare: Sequence[Sequence[str]]
) -> None:
    """Raise a `StudyError` that names the changed settings, if they no longer give all existing pairs."""
    if existing and pairs[0].round and len(pairs) > len(existing):
        raise StudyError(
            "systems or prompts were added, but the rounds of this study are drawn already; remove the new "
            "ones, or begin a new study"
        )
    pages = {pair.id: (pair.for_people, pair.round) for pair in pairs}
    couples = {tuple(couple) for couple in compare}
    prompts = {prompt.id for prompt in drawn}
    changed = [pair for pair in existing if pages.get(pair.id) != (pair.for_people, pair.round)]

    def explain_missing_pair(pair: Pair) -> str:
        if (pair.method_a, pair.method_b) not in couples:
            return f"pairs.compare does not name {pair.method_a} with {pair.method_b}, in this order"
        if pair.prompt_id not in prompts:
            return f"prompts.file, pairs.per_dataset, [tuning] or seed give other prompts of {pair.dataset}"
        if pair.id not in pages:
            return f"{pair.method_a} or {pair.method_b} wrote other texts, or other runs are compared"
        if pages[pair.id][1] != pair.round:
            return "pairs.design or pairs.rounds put prompts into other rounds"
        return "pairs.human_pairs gives people other pairs"

    if causes := dict.fromkeys(map(explain_missing_pair, changed)):
        raise StudyError(
            f"these settings no longer give {len(changed)} of {len(existing)} pairs in the database: "
            f"{'; '.join(causes)}. Undo the change. You can only add to pairs.compare or raise "
            "pairs.per_dataset; for other pairs, begin a new study"
        )


BETTER = "gold: better"
WORSE = "gold: worse"
"""The name of the method of the worse text in gold pairs. Raters never see names of methods."""


def parse_gold_pairs(file: StudyFile | None, *, criteria: Sequence[str]) -> list[Gold]:
    """Return the gold pairs of a file, in the file's order.

    A line is a JSON object with "prompt", "better" and "worse". It also has "criteria" if the answer is clear
    only on some criteria.

    Args:
        file: The file that `annotation.gold` names, if there is one.
        criteria: The criteria that people rate.

    Raises:
        StudyError: A line is wrong. The message names the line.
    """
    if file is None:
        return []
    name = f"annotation.gold: {file.file}"
    return [_read_gold_pair(record, criteria) for record in read_json_lines(name, file.text)]


def _read_gold_pair(record: Record, criteria: Sequence[str]) -> Gold:
    """Return the gold pair of a line. The first method's text is the better one."""
    row = record.row
    where = record.where
    prompt, better, worse = texts = [str(row.get(key) or "") for key in ("prompt", "better", "worse")]
    if len({"", *map(clean_for_raters, texts)}) <= len(texts):
        raise StudyError(
            f'{where} needs "prompt", "better" and "worse": three texts that raters can tell apart'
        )
    clear = row.get("criteria", list(criteria))
    if not isinstance(clear, list) or not clear or not all(name in criteria for name in clear):
        raise StudyError(
            f'{where}: "criteria" names {clear!r}; write some of the study\'s: {", ".join(criteria)}'
        )
    ids = make_content_id("gold", prompt, better), make_content_id("gold", prompt, worse)
    pair = Pair(
        id=Pair.make_id(BETTER, WORSE, *ids),
        dataset="gold",
        prompt_id=make_content_id("gold", prompt),
        prompt=prompt,
        method_a=BETTER,
        method_b=WORSE,
        continuation_a=ids[0],
        continuation_b=ids[1],
        text_a=better,
        text_b=worse,
        position=record.number - 1,
    )
    return Gold(pair=pair, expected=dict.fromkeys(clear, "a"))
