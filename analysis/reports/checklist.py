"""Write the page that answers reviewers' questions about the people who rated."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from analysis.evidence import Evidence
from analysis.monitor.ratings import RaterState, read_ratings
from analysis.sections.raters.agreement import make_section
from analysis.sections.results.shares import count_pairs_and_ratings
from guard_eval.records import JsonObject
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table
from guard_eval.store import RaterProgress, Store, notes, raters
from guard_eval.store.notes import Note
from guard_eval.study import Study
from guard_eval.study.wording import load_wording, translate_criteria

FILE_NAME = "checklist.md"
PAGE_MARK = ": the people who rated"
"""The end of the title of each checklist."""
FEWEST = 5
"""The smallest number of people whose answers are shown, to protect their privacy."""
PEOPLE = ("person", "simulated")


def collect_rater_facts(study: Study, store: Store | None) -> JsonObject:
    """Return the facts about the people who rated and about the texts that they read."""
    words = load_wording(study)
    people: list[RaterProgress] = []
    written: list[Note] = []
    states: Sequence[RaterState] = ()
    if store is not None:
        everybody = raters.read_rater_progress(store)
        people = [person for person in everybody if person.kind in PEOPLE]
        written = notes.read_notes(store)
        states = read_ratings(store, everybody, slots=study.hand_out_plan.slots).raters
    steps = {
        step: {note.rater: json.loads(note.detail) for note in written if note.kind == step}
        for step in ("consent", "background", "check", "practice")
    }
    backgrounds = [steps["background"].get(person.name, {}) for person in people if person.rated]
    tables = [
        tabulate_background_answers(
            question.ask, [answers.get(question.name, "") for answers in backgrounds], question.answers
        )
        for question in words.background.questions
        if question.answers
    ]
    sources = [person.source or "an invitation by name" for person in people if person.kind == "person"]
    hours = sorted(state.seconds / 3600 for state in states if state.seconds)
    gold = sum(state.gold for state in states)
    repeats = sum(state.repeats for state in states)
    return {
        "settings": study.settings,
        "words": words,
        "criteria": translate_criteria(words, study.settings.annotation.criteria),
        "people": people,
        "sources": Counter(sources),
        "consents": Counter(step["agreed"] for step in steps["consent"].values()),
        "checks": Counter(step["passed"] for step in steps["check"].values()),
        "practised": len(steps["practice"]),
        "background": tables,
        "hours": hours,
        "middle": median(hours) if hours else 0.0,
        "gold": (gold - sum(state.gold_failed for state in states), gold),
        "repeats": (repeats - sum(state.repeats_changed for state in states), repeats),
    }


def write_reviewer_checklist(rater_facts: JsonObject, evidence: Evidence | None) -> str:
    """Write the checklist for reviewers as a page in Markdown.

    Args:
        rater_facts: The facts from `collect_rater_facts`.
        evidence: The verdicts; None if there are none yet.
    """
    agreed = evidence and make_section(evidence)
    rows = (
        []
        if evidence is None
        else [row for row in evidence.rows(count_pairs_and_ratings) if row.rater_kind in PEOPLE]
    )
    return render(
        __file__,
        FILE_NAME,
        **rater_facts,
        coverage=rows,
        agreement=agreed.tables if agreed else (),
        exclusions=evidence.context.exclusions if evidence else (),
        changes=evidence.context.exploratory_reasons if evidence else (),
        shown_first=_count_times_shown_first(evidence) if evidence else {},
    )


def _count_times_shown_first(evidence: Evidence) -> Mapping[str, int]:
    """Count how often people saw each method's text first."""
    frame = evidence.frame
    if "shown_first" not in frame:
        return {}
    by_people = frame[frame["rater_kind"].isin(PEOPLE)]
    showings = by_people.drop_duplicates(["rater", "pair_id", "presentation"])
    counts = showings["shown_first"].value_counts()
    return {str(name): int(count) for name, count in counts.items() if count}


def tabulate_background_answers(
    question: str, answers: Sequence[str], words: Mapping[str, str]
) -> Table | None:
    """Count the people who gave each answer. Return None if no number can be shown.

    If any answer was given by fewer than `FEWEST` people, all answers except the most frequent one are
    counted together. Then nobody can find a small number by subtraction, even if this rule is known.
    """
    counts = Counter(dict.fromkeys((*words, ""), 0))
    counts.update(answers)
    rows = [(words.get(answer, "no answer"), count) for answer, count in counts.items() if count]
    if any(count < FEWEST for _, count in rows):
        most_frequent, number = max(rows, key=lambda row: row[1])
        others = len(answers) - number
        # If the other answers are as frequent as possible, their counts could be computed.
        if others >= FEWEST - 1 + (len(counts) - 2) * (number - 1):
            return None
        rows = [(most_frequent, number), (f"any other than: {most_frequent}", others)]
    is_shown = len(rows) > 1 and all(count >= FEWEST for _, count in rows)
    if not is_shown:
        return None
    return Table(columns=("Answer", "People"), rows=tuple(rows), caption=question)
