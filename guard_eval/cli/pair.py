"""`guard-eval pair`: blinded pairs for people and judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, count_of, say, say_next
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Pair, Prompt
from guard_eval.store import Store
from guard_eval.study.folder import Study
from guard_eval.texts.current import current_runs
from guard_eval.texts.pairing import check_complete, draw_prompts, make_pairs
from guard_eval.texts.prompts import read_prompts


def command(
    folder: StudyFolder,
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw",
            help="Put new pairs in the place of those that exist, before there are verdicts; raters and "
            "their invites stay.",
        ),
    ] = False,
) -> None:
    """Draw prompts and make blinded pairs.

    They go into the study's database. Again changes nothing; a larger sample keeps the smaller one.
    """
    pair(Study.open(folder), redraw=redraw)
    say_next(
        f"guard-eval raters {folder} add NAME …, then guard-eval annotate {folder}",
        f"guard-eval judge {folder} --dry-run",
    )


def pair(study: Study, *, redraw: bool = False) -> list[Pair]:
    """Make the pairs that are missing and return all; running again changes nothing.

    Args:
        study: The study.
        redraw: Put new pairs in the place of those that exist.

    Raises:
        StudyError: A compared strategy lacks a text, the settings no longer give pairs that exist, or there
            are verdicts and pairs are to be drawn again.
    """
    settings = study.settings
    if redraw:
        with Store.open(study.database) as store:
            if why := store.fixed_pairs():
                raise StudyError(f"the pairs cannot be drawn again: {why}")
    prompts = read_prompts(study.prompts_path, limit=settings.prompts.limit)
    drawn = draw_prompts(prompts, per_dataset=settings.pairs.per_dataset, seed=settings.seed)
    for dataset, count in sorted(Counter(prompt.dataset for prompt in drawn).items()):
        short = " (all there are)" if count < settings.pairs.per_dataset else ""
        say(f"{dataset}: {count_of(count, 'prompt')} drawn{short}")
    methods = sorted({method for couple in settings.pairs.compare for method in couple})
    runs = current_runs(study, methods, drawn)
    if settings.pairs.best_of_runs is None:
        texts = {method: found.get(settings.pairs.run, found[1]) for method, found in runs.items()}
    else:
        texts = _best(study, settings.pairs.best_of_runs, runs, drawn)
    continuations = {method: list(found.values()) for method, found in texts.items()}
    check_complete(drawn, continuations, settings.pairs.compare)  # before there is a database
    with Store.open(study.database, create=True, study_hash=study.hash) as store:
        existing = store.pairs()
        try:
            pairs = make_pairs(
                drawn,
                continuations,
                settings.pairs.compare,
                seed=settings.seed,
                human_pairs=settings.pairs.human_pairs,
                existing=() if redraw else existing,
                available={prompt.id for prompt in prompts},
            )
            new = store.replace_pairs(pairs) if redraw else store.add_pairs(pairs)
        except StudyError as error:
            if redraw or store.fixed_pairs() is not None:
                raise
            raise StudyError(
                f"{error}.\nNone of these pairs has a verdict yet, so they can be drawn again, while raters "
                "and invites stay: guard-eval pair STUDY --redraw"
            ) from error
        if redraw and existing:
            say(
                f"removed the {count_of(len(existing), 'pair')} made before; if a roster was planned, assign "
                "it again"
            )
    for_people = sum(pair.for_people for pair in pairs)
    which = "each" if for_people == len(pairs) else f"each of {for_people} drawn at random, and a judge all"
    people = settings.annotation.raters_per_pair
    see = "1 person sees" if people == 1 else f"{people} people see"
    say(f"{count_of(len(pairs), 'pair')}, {new} of them new; {see} {which}")
    return pairs


def _best(
    study: Study,
    metric: str,
    runs: Mapping[str, Mapping[int, Mapping[str, Continuation]]],
    drawn: Sequence[Prompt],
) -> dict[str, dict[str, Continuation]]:
    """Return each strategy's best texts by a metric, of all its runs.

    Raises:
        StudyError: A text is missing, of whichever run, so that not all could be chosen from.
    """
    from guard_eval.cli.measuring.best import best_texts  # noqa: PLC0415 (it may need a model)

    for method, found in runs.items():
        for run, texts in found.items():
            missing = [prompt.id for prompt in drawn if prompt.id not in texts]
            if missing:
                raise StudyError(
                    f"pairs.best_of_runs: {method} has no text for {len(missing)} of {len(drawn)} drawn "
                    f"prompts in run {run} (the first is {missing[0]!r}); run: guard-eval generate STUDY"
                )
    say(f"compared: of each prompt's texts by a strategy the one with the highest {metric}")
    prompts = {prompt.id: prompt for prompt in drawn}
    return {method: best_texts(study, metric, found, prompts) for method, found in runs.items()}
