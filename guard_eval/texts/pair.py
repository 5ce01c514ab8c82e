"""Draw prompts and make blinded pairs of their continuations."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import product

from guard_eval.errors import StudyError, format_count
from guard_eval.records import Generation, Pair, Prompt, clean_for_raters, record
from guard_eval.results import Result
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.store import settings as store_settings
from guard_eval.study import Study
from guard_eval.study.folder import record_own_strategies
from guard_eval.study.settings import Settings
from guard_eval.texts.columns import read_split_columns
from guard_eval.texts.generation_files import ECHO
from guard_eval.texts.pairing import draw_prompts, drop_repeated_prompts, make_pairs, parse_gold_pairs
from guard_eval.texts.systems import find_first_texts_of_systems
from guard_eval.texts.systems.cues import describe_revealing_cues, describe_unfinished_texts
from guard_eval.texts.systems.matching import SystemTexts
from guard_eval.texts.tuning import read_compared_prompts

_MOST_RATINGS = 10**7


@record
class PairingResult(Result):
    """The pairs of a study.

    Attributes:
        pairs: All pairs.
        count: The number of pairs.
        new: The number of pairs that were not in the database before.
        for_people: The number of pairs that people rate.
        gold: The number of gold pairs.
    """

    pairs: tuple[Pair, ...] = field(metadata={"json": False})
    count: int
    new: int
    for_people: int
    gold: int


def pair(study: Study, /, *, redraw: bool = False) -> PairingResult:
    """Draw prompts and make blinded pairs.

    The pairs are stored in the study's database. A second run changes nothing, and a larger sample contains
    the smaller one. Gold pairs, whose answers are known, are read from the file that annotation.gold names.

    Args:
        study: The study's folder.
        redraw: Replace the pairs. This is possible until the first verdict. Raters and their links stay.

    Raises:
        StudyError: A compared system lacks a text, the settings no longer give pairs that exist, or there
            are verdicts and pairs are to be replaced.
    """
    settings = study.settings
    prompts = read_compared_prompts(study)
    distinct = drop_repeated_prompts(prompts)
    drawn = draw_prompts(distinct, per_dataset=settings.pairs.per_dataset, seed=settings.seed)
    _check_number_of_ratings(settings, len(drawn))
    names = sorted({name for couple in settings.pairs.compare for name in couple})
    texts = find_first_texts_of_systems(study, names, drawn)  # an error here leaves no new database
    if settings.analysis.by:  # an unknown column is refused before anybody rates
        planned_pairs = make_pairs(drawn, texts, settings.pairs, seed=settings.seed)
        read_split_columns(study, settings.analysis.by, planned_pairs)
    gold = parse_gold_pairs(settings.annotation.gold, criteria=settings.annotation.criteria)
    with Store.open_study(study, create=True) as store:
        existing = store_pairs.read_pairs(store)
        try:
            pairs = make_pairs(
                drawn, texts, settings.pairs, seed=settings.seed, existing=() if redraw else existing
            )
            new = store_pairs.add_pairs(store, pairs, study.hand_out_plan, replace_all=redraw)
        except StudyError as error:
            if redraw or store_pairs.explain_why_pairs_cannot_change(store) is not None:
                raise
            raise StudyError(
                f"{error}.\nNone of these pairs has a verdict yet, so they can be drawn again, while raters "
                f"and invites stay: {study.format_command('pair', '--redraw')}"
            ) from error
        record_own_strategies(study.folder, [str(system.strategy) for system in settings.systems.values()])
        is_late = new > 0 and store_settings.read_setting(store, store_settings.PAIRS_ADDED_LATE) is not None
        store_pairs.add_gold_pairs(store, gold)
        gold_pairs = len(store_pairs.read_gold_pairs(store))
    counts = Counter(prompt.dataset for prompt in drawn)
    people = sum(pair.for_people for pair in pairs)
    raters = settings.annotation.raters_per_pair
    planned = f"People will rate {people} of them, {raters} {'person' if raters == 1 else 'people'} each"
    planned += "; judges can rate all" * bool(settings.judge)
    lines = (
        f"prompts drawn: {', '.join(f'{count} of {name}' for name, count in sorted(counts.items()))}",
        f"{format_count(len(pairs), 'pair')}, {new} new. {planned}. Gold pairs: {gold_pairs}.",
    )
    warnings = list(_list_warnings_about_texts(settings, texts))
    if is_late and not settings.analysis.sequential:
        warnings.append(
            "a comparison with verdicts has got more pairs, so the report calls the results exploratory"
        )
    if repeated := len(prompts) - len(distinct):
        warnings.append(f"prompts that repeat an earlier prompt get no pairs: {repeated}")
    gold_every = settings.annotation.gold_every
    if (gold_every is None) == (gold_pairs > 0):
        have = f"gold pairs: {gold_pairs}, annotation.gold_every: {gold_every}"
        warnings += [f"{have}; set annotation.gold and annotation.gold_every in study.toml, or neither"]
    judge = (study.format_command("judge", "--dry-run"),) if settings.judge else ()
    return PairingResult(
        pairs=tuple(pairs),
        count=len(pairs),
        new=new,
        for_people=people,
        gold=gold_pairs,
        lines=lines,
        warnings=tuple(warnings),
        next=(study.format_command("annotate", "--invite", "NAME"), *judge),
    )


def draw_planned_prompts(study: Study) -> list[Prompt]:
    """Return the prompts of the planned pairs; none if the prompts or the chosen settings cannot be read."""
    settings = study.settings
    try:
        compared = drop_repeated_prompts(read_compared_prompts(study))
    except StudyError:
        return []
    return draw_prompts(compared, per_dataset=settings.pairs.per_dataset, seed=settings.seed)


def count_planned_and_missing_pairs(
    study: Study, prompts: Sequence[Prompt], pairs: Sequence[Pair]
) -> tuple[int, int]:
    """Return the numbers of planned pairs and of those not yet drawn.

    Args:
        study: The study.
        prompts: The result of `draw_planned_prompts`.
        pairs: The drawn pairs.
    """
    drawn = {(frozenset((pair.method_a, pair.method_b)), pair.prompt_id) for pair in pairs}
    couples = map(frozenset, study.settings.pairs.compare)
    planned = {(couple, prompt.id) for couple, prompt in product(couples, prompts)}
    return len(planned), len(planned - drawn)


def explain_unplanned_pairs(
    study: Study, prompts: Sequence[Prompt], pairs: Sequence[Pair], texts: Mapping[str, SystemTexts]
) -> str:
    """Say why drawn pairs are no longer planned, or return "" if they are, or if prompts or texts lack."""
    first = {
        name: {prompt_id: text for (prompt_id, run), text in by_run.items() if run == 1}
        for name, by_run in texts.items()
    }
    plan = study.settings.pairs
    existing = pairs if prompts else ()
    with suppress(KeyError):  # a text is missing
        try:
            make_pairs(prompts, first, plan, seed=study.settings.seed, existing=existing)
        except StudyError as error:
            return str(error)
    return ""


def _check_number_of_ratings(settings: Settings, prompts: int) -> None:
    """Check that the number of planned ratings is below the limit. Each rating is a row of the database."""
    pairs = len(settings.pairs.compare) * min(settings.pairs.human_pairs or prompts, prompts)
    ratings = pairs * settings.annotation.raters_per_pair
    if ratings > _MOST_RATINGS:
        raise StudyError(
            f"study.toml plans {ratings:,} ratings by people, and at most {_MOST_RATINGS:,} are possible; "
            "lower annotation.raters_per_pair, pairs.per_dataset or pairs.human_pairs"
        )


def _list_warnings_about_texts(
    settings: Settings, texts: Mapping[str, Mapping[str, Generation]]
) -> Iterator[str]:
    """Yield a warning for each feature of the texts that reveals a system or makes a pair useless."""
    for name, by_prompt in texts.items():
        if echoes := sum(ECHO in text.flaws for text in by_prompt.values()):
            yield (
                f"{echoes} of {len(by_prompt)} texts by {name} begin with their prompt, so raters read it "
                "twice and recognise the system; remove the prompt from these texts"
            )
        if empty := sum(not clean_for_raters(text.text) for text in by_prompt.values()):
            yield (
                f"{empty} of {len(by_prompt)} texts by {name} are empty; write these texts, or remove their "
                "prompts"
            )
    for a, b in settings.pairs.compare:
        equal = [
            key
            for key, text in texts[a].items()
            if clean_for_raters(text.text) == clean_for_raters(texts[b][key].text)
        ]
        if equal:
            yield (
                f"{a} and {b} have the same text for {len(equal)} of {len(texts[a])} prompts, such as "
                f"{equal[0]}: raters compare a text with itself"
            )
    words = {name: [text.text for text in by_prompt.values()] for name, by_prompt in texts.items()}
    own_names = {system.name for system in settings.system}
    yield from describe_revealing_cues(words, settings.pairs.compare, own_names=own_names)
    if endings := describe_unfinished_texts(words):
        yield f"{endings}: raters may judge where texts were cut off instead of how they are written"
