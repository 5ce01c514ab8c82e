"""What is special in how a judge is asked, and its examples: none of the study's own, no favoured side."""

from __future__ import annotations

import unicodedata

from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list
from guard_eval.rubric import CRITERIA
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.study.judge_settings import Judge


def check_examples(store: Store, judge: Judge) -> None:
    """Check that no example is a pair of the study, or has one of its texts: its verdict would be given away.

    Raises:
        StudyError: One is or has.
    """
    if not judge.judged_examples:
        return
    pairs = store_pairs.read(store)
    names = {name for pair in pairs for name in (pair.id, pair.continuation_a, pair.continuation_b)}
    texts = {_normalize_space(text): pair.id for pair in pairs for text in (pair.text_a, pair.text_b)}
    texts.pop("", None)
    for number, example in enumerate(judge.judged_examples, start=1):
        where = f"example {number} of the judge {judge.rater_name!r}"
        if example.id in names:
            raise StudyError(
                f"{where} is called {example.id!r}, and so is a pair of the study; take one from elsewhere"
            )
        for side, text in (("a", example.a), ("b", example.b)):
            if (pair_id := texts.get(_normalize_space(text))) is not None:
                raise StudyError(
                    f"{where}: its text {side} is one of the study's own, of the pair {pair_id}, whose "
                    "verdict it would give away; take one from elsewhere"
                )


def _normalize_space(text: str) -> str:
    """Return a text without what makes no difference to a reader: white space, and Unicode's form."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def describe_special(judge: Judge) -> str | None:
    """Describe in one line how this judge's prompt differs from the paper's; None if it does not."""
    parts = [] if judge.prompt is None else [f"the instructions in {judge.prompt.file}"]
    custom = [each.name for each in judge.rubric if CRITERIA.get(each.name) != each]
    if custom:
        parts.append(f"criteria of the study's own ({', '.join(custom)})")
    if judge.examples is not None:
        parts.append(f"{len(judge.judged_examples)} example(s) from {judge.examples.file}")
    if judge.rationale:
        parts.append("a rationale before the verdict")
    return and_list(parts) if parts else None


def find_one_sided(judge: Judge) -> list[str]:
    """Return what speaks against the examples: criteria on which they all prefer the same side."""
    sides = {
        name: {example.verdict[name] for example in judge.judged_examples} - {"tie"}
        for name in judge.criteria
    }
    return [
        f"wherever an example prefers a text on {name}, it is {preferred.pop()}: a judge may learn the side; "
        "swap the texts of some examples"
        for name, preferred in sides.items()
        if len(preferred) == 1
    ]
