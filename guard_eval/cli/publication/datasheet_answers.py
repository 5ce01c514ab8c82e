"""What a study knows of the datasheet's questions: from study.toml, its database and its raters' pages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from annotation_app.wording import of_study
from guard_eval.cli.overview.overview import CriterionLine, Overview
from guard_eval.cli.overview.progress import progress
from guard_eval.reporting.words import percent, plural
from guard_eval.study.folder import Study

Answers = dict[tuple[str, str], "Filled"]
"""By question's number and criterion; the criterion is empty but in section 4."""

_OF_THE_FORM = {("fluency", "4.1.1"): 2, ("coherence", "4.1.2"): 3, ("factuality", "4.1.3"): 3}
"""Properties that HEDS' own notes give to a criterion of this name."""


_SIMULATED = "N/A: the raters are SIMULATED by a program."


@dataclass(frozen=True, slots=True)
class Filled:
    """An answer: its words, and of a choice the options' numbers."""

    text: str
    options: tuple[int, ...] = ()


def open_study(study: Study) -> Overview | None:
    """Return what was collected; None before there is a database.

    Raises:
        StudyError: The database cannot be read.
    """
    if study.settings.database is None and not (study.folder / "study.db").exists():
        return None
    return progress(study)


def known_answers(study: Study, overview: Overview | None) -> Answers:
    """Return what the study knows; what it does not know is missing."""
    simulated = overview is not None and overview.rater_kind == "simulated"
    design = _design(study)
    if simulated:
        design = {number: Filled(_SIMULATED, answer.options) for number, answer in design.items()}
    found = _systems(study) | _sample(study, overview) | design
    found |= _evaluators(study, overview, simulated=simulated) | _quality(study, overview)
    answers: Answers = {(number, ""): answer for number, answer in found.items()}
    for criterion in study.settings.annotation.criteria:
        of_one = _criterion(study, criterion, overview, simulated=simulated)
        answers |= {(number, criterion): answer for number, answer in of_one.items()}
    return answers


def _systems(study: Study) -> dict[str, Filled]:
    settings = study.settings
    couples = "; ".join(f"{a} against {b}" for a, b in settings.pairs.compare)
    length = f"up to {settings.generation.max_new_tokens} tokens, by {settings.model.name}"
    titles = ", ".join(settings.annotation.criteria)
    authors = settings.publication.authors
    contact = {"1.3.2.1": Filled(authors[0])} if len(authors) == 1 else {}  # of several, anyone may be it
    return contact | {
        "1.1.2": Filled(
            f"{settings.name}: {settings.question} Continuations by {settings.model.name} (revision "
            f"{settings.model.revision}) are compared in pairs: {couples}. Criteria: {titles}."
        ),
        "2.1": Filled(
            f"The beginning of a text, at most {settings.generation.max_prompt_tokens} tokens.", (9,)
        ),
        "2.2": Filled(f"Text: multiple sentences. A continuation of the input, {length}.", (6,)),
        "2.3": Filled("Open-ended text generation: the input is continued.", (20,)),
    }


def _sample(study: Study, overview: Overview | None) -> dict[str, Filled]:
    pairs = study.settings.pairs
    drawn = (
        f"Prompts are drawn by a script in a pseudo-random order (seed {study.settings.seed}), up to "
        f"{pairs.per_dataset} of each dataset; all comparisons use the same prompts."
    )
    if pairs.human_pairs is not None:
        drawn += f" Of these people rate a random part, {pairs.human_pairs} pairs of each comparison."
    stratified = overview is None or len({pair.dataset for pair in overview.pairs}) > 1
    found = {"3.1.2": Filled(drawn, (2 if stratified else 1,))}
    if overview is not None and overview.pairs:
        prompts: dict[str, set[tuple[str, str]]] = {}
        for pair in overview.pairs:
            for method in (pair.method_a, pair.method_b):
                prompts.setdefault(method, set()).add((pair.dataset, pair.prompt_id))
        counts = {method: len(found) for method, found in sorted(prompts.items())}
        each = "; ".join(f"{method}: {count}" for method, count in counts.items())
        sizes = Counter(counts.values())
        text = str(next(iter(sizes))) if len(sizes) == 1 else each
        found["3.1.1"] = Filled(
            f"{text} ({plural(len(counts), 'system')}, {plural(len(overview.pairs), 'pair')} for people)"
        )
    return found


def _evaluators(study: Study, overview: Overview | None, *, simulated: bool) -> dict[str, Filled]:
    asked = study.settings.annotation
    pages, come = asked.pages, asked.recruitment
    if simulated:
        return {number: Filled(_SIMULATED) for number in ("3.2.3", "3.2.4", "3.2.5")} | {"3.2.1": Filled("0")}
    ways = ["through Prolific"] * come.prolific + [
        "by signing in with an account (OpenID Connect)"
    ] * come.oidc
    steps = ["written instructions with the criteria's definitions"]
    steps += ["practice pairs with feedback on each answer"] * pages.practice
    steps += ["a comprehension check, which may be repeated once"] * pages.check
    found = {"3.2.4": Filled(f"Before the first pair: {'; '.join(steps)}.")}
    if ways:
        found["3.2.3"] = Filled(f"Evaluators come {' and '.join(ways)}; others by a personal invite.")
    else:
        found["3.2.3"] = Filled("By a personal invite link, which the authors send to each evaluator.")
    if come.prolific:
        found["3.3.7"] = Filled("On their own device, in a browser.", (1,))
    if not pages.background:
        found["3.2.5"] = Filled("Nothing else was asked of them.")
    if overview is not None and overview.counted:
        rated = sum(line.rated > 0 and line.state != "excluded" for line in overview.raters)
        found["3.2.1"] = Filled(str(rated))
    return found


def quota(study: Study) -> str:
    """Return how many pairs a rater rates at most, in words."""
    number = study.settings.annotation.pairs_per_rater
    return "as many pairs as there are" if number is None else plural(number, "pair")


def _design(study: Study) -> dict[str, Filled]:
    asked = study.settings.annotation
    return {
        "3.3.2": Filled("A web application in a browser (guard-eval), which saves each rated pair."),
        "3.3.4.1": Filled(
            f"`guard-eval annotate`, run on the study's folder, shows the form (settings {study.hash[:16]})."
        ),
        "3.3.4.2": Filled(
            "The prompt; two continuations side by side under the letters A and B, as plain text, without "
            "the systems' names; a question with three answers and the definition for each criterion; the "
            "instructions. Which continuation is A differs between evaluators and is counterbalanced."
        ),
        "3.3.5": Filled(
            "The application sets no date and no time limit; work can be interrupted. A pair left open for "
            f"{asked.lease_minutes:g} minutes may go to another one. An evaluator rates at "
            f"most {quota(study)}.",
            (5,),
        ),
        "3.3.6": Filled("On each pair a comment can be written and a problem reported.", (4,)),
        "3.3.8": Filled(
            "Device, browser, screen and time of day are not controlled by the application. Which pairs an "
            "evaluator sees, their order and their sides are drawn for each."
        ),
    }


def _quality(study: Study, overview: Overview | None) -> dict[str, Filled]:
    asked = study.settings.annotation
    details, kinds = [], []
    if asked.gold_every is not None:
        kinds.append(2)
        done = "" if overview is None else _checked(overview, "gold")
        details.append(f"One gold pair, whose better text is known, among {asked.gold_every} others{done}.")
    if asked.repeats:
        kinds.append(2)
        done = "" if overview is None else _checked(overview, "repeats")
        details.append(f"{plural(asked.repeats, 'pair')} shown again with sides swapped{done}.")
    if asked.pages.check:
        kinds += [2, 4]
        details.append("Who fails the comprehension check twice rates nothing.")
    excluded = 0 if overview is None else sum(line.state == "excluded" for line in overview.raters)
    if excluded:
        kinds += [3, 4]
        details.append(f"{plural(excluded, 'rater')} excluded by a recorded decision with its reason.")
    if not kinds:
        return {"3.3.3.1": Filled("None is declared in study.toml.", (7,)), "3.3.3.2": Filled("N/A")}
    return {
        "3.3.3.1": Filled("", tuple(sorted(set(kinds)))),
        "3.3.3.2": Filled(" ".join(details)),
    }


def _checked(overview: Overview, check: str) -> str:
    given = sum(line.gold if check == "gold" else line.repeats for line in overview.raters)
    failed = sum(line.gold_failed if check == "gold" else line.repeats_changed for line in overview.raters)
    return (
        f" ({failed} of {plural(given, 'answer')} {'wrong' if check == 'gold' else 'changed'})"
        if given
        else ""
    )


def _criterion(study: Study, name: str, overview: Overview | None, *, simulated: bool) -> dict[str, Filled]:
    words = of_study(study)
    asked, panel = words.criteria[name], words.panel
    analysis = study.settings.analysis
    values = [panel.a_better, panel.similar, panel.b_better]
    found = {
        "4.2.1": Filled("", (2,)),
        "4.2.2": Filled("", (2,)),
        "4.2.3": Filled("", (1,)),
        "4.3.1.1": Filled(asked.title),
        "4.3.2": Filled(asked.definition),
        "4.3.3": Filled("3"),
        "4.3.4": Filled(", ".join(values)),
        "4.3.5": Filled("Three buttons, of which one is chosen; a tie is allowed.", (1,)),
        "4.3.6": Filled("N/A"),
        "4.3.7": Filled(f"{asked.title}: {' / '.join(values)}"),
        "4.3.8": Filled("", (3,)),
        "4.3.9": Filled(
            "Tie-split win share: a pair's score is its evaluators' mean of 1 for a win, 1/2 for a tie and "
            "0 for a loss; the result is the mean over pairs, each of which weighs the same."
        ),
        "4.3.10": Filled(
            f"Win share with a {percent(1 - analysis.alpha, 0)} confidence interval and a two-sided test of "
            f"one "
            f"half over prompts; correction for several results: {analysis.correction}"
            f"{', valid at any look (sequential)' if analysis.sequential else ''}; for "
            f"{'these evaluators' if analysis.raters == 'these' else 'the population of evaluators'}."
        ),
    }
    if name not in study.settings.criteria:
        found |= {
            number: Filled("", (option,)) for (of, number), option in _OF_THE_FORM.items() if of == name
        }
    if overview is not None:
        found |= _agreement(overview, name, simulated=simulated)
    if study.settings.annotation.repeats == 0:
        found |= {number: Filled("IntraAA not assessed") for number in ("4.3.12.1", "4.3.12.2")}
    return found


def _agreement(overview: Overview, name: str, *, simulated: bool) -> dict[str, Filled]:
    lines = [line for line in overview.criteria if line.criterion == name]
    who = "SIMULATED raters: " if simulated else ""
    found = {}
    if lines:
        found["4.3.11.1"] = Filled(
            "Fleiss' kappa and Gwet's AC1 over three categories: first better, tie, second better."
        )
        found["4.3.11.2"] = Filled(who + "; ".join(map(_scores, lines)))
    given = sum(line.repeats for line in overview.raters)
    if given:
        same = given - sum(line.repeats_changed for line in overview.raters)
        found["4.3.12.1"] = Filled(
            "Share of the same answers to pairs that were shown again, all criteria together."
        )
        found["4.3.12.2"] = Filled(f"{who}{same} of {given}")
    return found


def _scores(line: CriterionLine) -> str:
    kappa, ac1 = (
        "undefined" if one.value is None else f"{one.value:.2f}" for one in (line.agreement, line.ac1)
    )
    return (
        f"{line.method_a} against {line.method_b}: kappa {kappa}, AC1 {ac1} ("
        f"{plural(line.verdicts, 'verdict')}, "
        f"{percent(line.ties, 0)} ties)"
    )
