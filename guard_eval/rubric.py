"""The criteria and the instructions, worded once, read by the app and by the judge.

Wording: the paper's Appendix F (`app:F`), the prompt of its LLM judge. The human evaluation form is a figure
(`fig:human_evaluation_form`) whose text the paper's source does not contain; people therefore see the same
definitions.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from guard_eval.errors import StudyError


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One quality on which two continuations are compared."""

    name: str
    title: str
    definition: str


CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        Criterion(
            name="fluency",
            title="Fluency",
            definition=(
                "Measures how natural, smooth, and grammatically correct the text reads. Evaluates "
                "whether the language flows naturally without awkward phrasing, grammatical errors, "
                "or unnatural constructions."
            ),
        ),
        Criterion(
            name="coherence",
            title="Coherence",
            definition=(
                "Assesses logical connection between ideas and overall text organization. Evaluates "
                "whether the text maintains consistent themes, follows logical progression, and "
                "avoids contradictions or non-sequiturs."
            ),
        ),
        Criterion(
            name="factuality",
            title="Factuality",
            definition=(
                "Measures accuracy and truthfulness of factual claims. Evaluates whether information "
                "presented is correct and free from errors, fabrications, or misrepresentations."
            ),
        ),
        Criterion(
            name="informativeness",
            title="Informativeness",
            definition=(
                "Assesses the substantive content and value of the information provided. Evaluates "
                "whether the text delivers meaningful, relevant content rather than being vague, "
                "repetitive, or content-poor."
            ),
        ),
        Criterion(
            name="interestingness",
            title="Interestingness",
            definition=(
                "Measures how engaging, compelling, or captivating the text is. Evaluates whether the "
                "content holds attention through creativity, unique insights, or engaging stylistic "
                "elements."
            ),
        ),
        Criterion(
            name="story_development",
            title="Story Development",
            definition=(
                "Assesses how effectively the narrative unfolds and progresses (where applicable). "
                "Evaluates character development, plot progression, pacing, and overall narrative "
                "structure in story-based texts."
            ),
        ),
    )
}
"""The six criteria of Appendix F by name, in its order."""

HUMAN_CRITERIA: tuple[str, ...] = ("coherence", "fluency")
"""What the paper's human evaluation asked (`tab:humaneval_resultglacs`)."""

CHOICE_LABELS: dict[str, str] = {
    "A": "Method A is better",
    "tie": "Both methods are similar",
    "B": "Method B is better",
}
"""The three judgments of Appendix F."""


def criteria(names: tuple[str, ...]) -> tuple[Criterion, ...]:
    """Return the named criteria in the order given.

    Raises:
        StudyError: A name is unknown; the message offers the nearest one.
    """
    return tuple(_criterion(name) for name in names)


def _criterion(name: str) -> Criterion:
    if name in CRITERIA:
        return CRITERIA[name]
    near = difflib.get_close_matches(name, CRITERIA, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose from: {', '.join(CRITERIA)}"
    raise StudyError(f"unknown criterion {name!r}: {hint}")
