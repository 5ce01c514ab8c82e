"""Draw prompts and make blinded pairs of their continuations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Pair, Prompt
from guard_eval.results import Result
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.study import Study
from guard_eval.texts.current import current_runs
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
    continuations = _compared_texts(study, drawn)
    try:
        check_complete(drawn, continuations, settings.pairs.compare)  # before there is a database
    except StudyError as error:
        raise StudyError(f"{error}; run: {study.command('generate')}") from None
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
        gold_count = len(store_pairs.read_gold(store))
    for_people = sum(pair.for_people for pair in pairs)
    replaced = (f"{len(existing)} earlier pairs were replaced",) if redraw and existing else ()
    return Paired(
        pairs=tuple(pairs),
        count=len(pairs),
        new=new,
        for_people=for_people,
        gold=gold_count,
        lines=(
            *_draw_lines(study, drawn),
            *replaced,
            _pair_line(study, len(pairs), new, for_people, gold_count),
        ),
        warnings=tuple(_gold_warnings(study, gold_count)),
        next=(study.command("annotate", "--invite", "NAME"), study.command("judge", "--dry-run")),
    )


def _compared_texts(study: Study, drawn: Sequence[Prompt]) -> dict[str, list[Continuation]]:
    """Return each compared strategy's texts of the drawn prompts."""
    pairs = study.settings.pairs
    methods = sorted({method for couple in pairs.compare for method in couple})
    runs = current_runs(study, methods, drawn)
    if pairs.best_of_runs is None:
        return {method: list(by_run.get(pairs.run, by_run[1]).values()) for method, by_run in runs.items()}
    for method, by_run in runs.items():
        for run, texts in by_run.items():
            _check_run(study, method, run, texts, drawn)
    best_texts, prompts = resolve_name(BEST_TEXTS), {prompt.id: prompt for prompt in drawn}
    return {
        method: list(best_texts(study, pairs.best_of_runs, by_run, prompts).values())
        for method, by_run in runs.items()
    }


def _check_run(
    study: Study, method: str, run: int, texts: Mapping[str, Continuation], drawn: Sequence[Prompt]
) -> None:
    """Raise a `StudyError` if a run lacks a text, so that not all could be chosen from."""
    missing = [prompt.id for prompt in drawn if prompt.id not in texts]
    if missing:
        raise StudyError(
            f"pairs.best_of_runs: {method} has no text for {len(missing)} of {len(drawn)} drawn prompts in "
            f"run {run} (the first is {missing[0]!r}); run: {study.command('generate')}"
        )


def _draw_lines(study: Study, drawn: Sequence[Prompt]) -> list[str]:
    pairs = study.settings.pairs
    lines = [
        f"{dataset}: {count} prompt{'s' if count > 1 else ''} drawn"
        + (" (all there are)" if count < pairs.per_dataset else "")
        for dataset, count in sorted(Counter(prompt.dataset for prompt in drawn).items())
    ]
    if pairs.best_of_runs is not None:
        lines.append(f"compared: each strategy's text with the highest {pairs.best_of_runs} on a prompt")
    return lines


def _pair_line(study: Study, count: int, new: int, for_people: int, gold: int) -> str:
    which = "each" if for_people == count else f"each of {for_people} drawn at random, and a judge all"
    people = study.settings.annotation.raters_per_pair
    see = "1 person sees" if people == 1 else f"{people} people see"
    more = f"; {gold} gold pair{'s' if gold > 1 else ''}" if gold else ""
    return f"{count} pair{'s' if count != 1 else ''}, {new} of them new; {see} {which}{more}"


def _gold_warnings(study: Study, gold: int) -> list[str]:
    annotation = study.settings.annotation
    if gold and annotation.gold_every is None:
        return ["gold pairs are not shown yet: set annotation.gold_every = 10, or so, in study.toml"]
    if annotation.gold_every is not None and not gold:
        return [
            "annotation.gold_every is set, but there are no gold pairs: name their file as annotation.gold"
        ]
    return []
