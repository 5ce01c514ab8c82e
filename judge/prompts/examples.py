"""Describe changes of a judge's prompt, and check that its examples are not from the study."""

from __future__ import annotations

import unicodedata

from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list
from guard_eval.rubric import CRITERIA
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.study.judge_settings import Judge


def check_examples(store: Store, judge: Judge) -> None:
    """Check that no example contains a pair or a text of the study: it would reveal a verdict.

    Raises:
        StudyError: An example contains a pair or a text of the study.
    """
    pairs = store_pairs.read(store) if judge.judged_examples else []
    owners = {name: pair.id for pair in pairs for name in (pair.id, pair.continuation_a, pair.continuation_b)}
    owners |= {_normalize_space(text): pair.id for pair in pairs for text in (pair.text_a, pair.text_b)}
    owners.pop("", None)
    for number, example in enumerate(judge.judged_examples, start=1):
        for value in (example.id, _normalize_space(example.a), _normalize_space(example.b)):
            if value in owners:
                raise StudyError(
                    f"example {number} of the judge {judge.rater_name!r} has the name or a text of the "
                    f"study's pair {owners[value]}, whose verdict it would give away; take one from elsewhere"
                )


def _normalize_space(text: str) -> str:
    """Return a text with normalized white space and Unicode form."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def describe_special(judge: Judge) -> str | None:
    """Describe in one line how this judge's prompt differs from the paper's; None if it does not."""
    parts = [] if judge.prompt is None else [f"the instructions in {judge.prompt.file}"]
    custom = [criterion.name for criterion in judge.rubric if CRITERIA.get(criterion.name) != criterion]
    if custom:
        parts.append(f"criteria of the study's own ({', '.join(custom)})")
    if judge.examples is not None:
        parts.append(f"{len(judge.judged_examples)} example(s) from {judge.examples.file}")
    if judge.rationale:
        parts.append("a rationale before the verdict")
    return and_list(parts) if parts else None
