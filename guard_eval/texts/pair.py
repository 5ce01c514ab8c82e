"""Draw prompts and make blinded pairs of their continuations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Pair, Prompt
from guard_eval.results import Result
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.study import Study
from guard_eval.texts.current import find_current
from guard_eval.texts.gold import read_gold
from guard_eval.texts.pairing import check_complete, draw_prompts, make_pairs
from guard_eval.texts.prompts import read_prompts

BEST_TEXTS = "guard_eval.metrics.command:best_texts"
"""The function that chooses among several runs. It is loaded when needed, for it may need a model."""


@dataclass(frozen=True, kw_only=True)
class Paired(Result):
    """The pairs of a study.

    Attributes:
        pairs: All of them.
        count: Their number.
        new: How many were not in the database before.
        for_people: How many people rate.
        gold: The number of gold pairs.
    """

    pairs: tuple[Pair, ...] = field(metadata={"json": False})
    count: int
    new: int
    for_people: int
    gold: int


def pair(study: Study, /, *, redraw: bool = False) -> Paired:
    """Draw prompts and make blinded pairs.

    They are stored in the study's database. Running it again changes nothing. A larger sample contains the
    smaller one. Gold pairs are taken from the file that annotation.gold names.

    Args:
        study: The study's folder.
        redraw: Replace the pairs as long as there are no verdicts. Raters and their invites stay.

    Raises:
        StudyError: A compared strategy lacks a text, the settings no longer give pairs that exist, or there
            are verdicts and pairs are to be replaced.
    """
    settings = study.settings
    if redraw:
        with Store.open(study.database) as store:
            if why := store_pairs.why_fixed(store):
                raise StudyError(f"the pairs cannot be drawn again: {why}")
    prompts = read_prompts(study.prompts_path, limit=settings.prompts.limit)
    drawn = draw_prompts(prompts, per_dataset=settings.pairs.per_dataset, seed=settings.seed)
    continuations = _compared_texts(study, drawn)  # before there is a database
    file = settings.annotation.gold
    gold = [] if file is None else read_gold(file, criteria=settings.annotation.criteria)
    with Store.open(study.database, create=True) as store:
        existing = store_pairs.read(store)
        try:
            pairs = make_pairs(
                drawn,
                continuations,
                settings.pairs.compare,
                seed=settings.seed,
                human_pairs=settings.pairs.human_pairs,
                existing=() if redraw else existing,
            )
            new = store_pairs.add(store, pairs, study.plan, replace_all=redraw)
        except StudyError as error:
            if redraw or store_pairs.why_fixed(store) is not None:
                raise
            raise StudyError(
                f"{error}.\nNone of these pairs has a verdict yet, so they can be drawn again, while raters "
                f"and invites stay: {study.command('pair', '--redraw')}"
            ) from error
        store_pairs.add_gold(store, gold)
        gold_pairs = len(store_pairs.read_gold(store))
    replaced = [f"{len(existing)} earlier pairs were replaced"] if redraw and existing else []
    warnings = []
    if gold_pairs and settings.annotation.gold_every is None:
        warnings = ["gold pairs are not shown yet: set annotation.gold_every = 10, or so, in study.toml"]
    if settings.annotation.gold_every is not None and not gold_pairs:
        warnings = [
            "annotation.gold_every is set, but there are no gold pairs: name their file as annotation.gold"
        ]
    result = Paired(
        pairs=tuple(pairs),
        count=len(pairs),
        new=new,
        for_people=sum(pair.for_people for pair in pairs),
        gold=gold_pairs,
        warnings=tuple(warnings),
        next=(study.command("annotate", "--invite", "NAME"), study.command("judge", "--dry-run")),
    )
    return replace(result, lines=(*replaced, *_summarize(study, drawn, result)))


def _compared_texts(study: Study, drawn: Sequence[Prompt]) -> dict[str, list[Continuation]]:
    """Return each compared strategy's texts of the drawn prompts.

    Raises:
        StudyError: A text is missing.
    """
    pairs, compared = study.settings.pairs, {}
    methods = sorted({method for couple in pairs.compare for method in couple})
    for method, texts in find_current(study, methods, drawn).items():
        last = study.settings.runs_of(method)
        numbers = range(1, last + 1) if pairs.best_of_runs else [1]
        runs = {number: texts.of_run(number) for number in numbers}
        names = {
            f"{method} (run {number})" if number > 1 else method: runs[number].values() for number in runs
        }
        try:
            check_complete(drawn, names)
        except StudyError as error:
            raise StudyError(f"{error}; run: {study.command('generate')}") from None
        chosen = runs[numbers[0]]
        if pairs.best_of_runs:
            prompts = {prompt.id: prompt for prompt in drawn}
            chosen = resolve_name(BEST_TEXTS)(study, pairs.best_of_runs, runs, prompts)
        compared[method] = list(chosen.values())
    return compared


def _summarize(study: Study, drawn: Sequence[Prompt], result: Paired) -> list[str]:
    """Return what was drawn and how many pairs there are, in words."""
    pairs, people = study.settings.pairs, study.settings.annotation.raters_per_pair
    lines = [
        f"{dataset}: {_plural(number, 'prompt')} drawn"
        + (" (all there are)" if number < pairs.per_dataset else "")
        for dataset, number in sorted(Counter(prompt.dataset for prompt in drawn).items())
    ]
    if pairs.best_of_runs is not None:
        lines.append(f"compared: each strategy's text with the highest {pairs.best_of_runs} on a prompt")
    which = (
        "each"
        if result.for_people == result.count
        else f"each of {result.for_people} drawn at random, and a judge all"
    )
    see = "1 person sees" if people == 1 else f"{people} people see"
    more = f"; {_plural(result.gold, 'gold pair')}" if result.gold else ""
    lines.append(f"{_plural(result.count, 'pair')}, {result.new} of them new; {see} {which}{more}")
    return lines


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
