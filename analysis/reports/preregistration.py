"""Compare the written plan of a study with its present state."""

from __future__ import annotations

import re
from collections.abc import Sequence

from guard_eval.files.opening import read_text
from guard_eval.records import Pair
from guard_eval.reporting.escaping import escape_markdown
from guard_eval.reporting.writing import resolve_write_target
from guard_eval.study import Study
from guard_eval.study.declared import hash_declared_part

PLAN = "plan.md"
"""The page in the study's folder that is written before the first verdict."""

HASH = re.compile(r"^\* SHA-256 of the (.+): ([0-9a-f]{64})$", re.MULTILINE)
_VERDICTS = re.compile(r"^\* Verdicts when this page was written: (\d+)$", re.MULTILINE)


def compare_with_written_plan(study: Study, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Compare the study with its written plan, and return sentences. Without a plan, return none."""
    path = study.folder / PLAN
    if not path.exists():
        return ()
    resolve_write_target(path)
    text = read_text(path)
    planned = dict(HASH.findall(text))
    verdicts = _VERDICTS.search(text)
    if not planned or verdicts is None:
        return (f"{PLAN} holds no hash of settings, so it cannot be compared with the study.",)
    if verdicts[1] != "0":
        return (f"{PLAN} was written when {verdicts[1]} verdicts existed, so it is no preregistration.",)
    current = hash_plan_parts(study, pairs)
    parts = []
    for name, before in planned.items():
        now = current.get(name, "")
        same = before == now
        parts.append(
            f"the {name} {'are unchanged' if same else f'DIFFER ({before:.16} there, {now:.16} now)'}"
        )
    return (f"Preregistration: compared with {PLAN}, {'; '.join(parts)}.",)


def hash_plan_parts(study: Study, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the hash of each part of the settings and the hash of the pairs, by their names on the page.

    The hash of the pairs is made from the sorted ids of the pairs. An id is a hash of the methods and both
    texts.
    """
    declared = study.declared.items()
    hashes = {f"settings of {escape_markdown(name)}": hash_declared_part(text) for name, text in declared}
    if pairs:
        hashes["pairs"] = hash_declared_part("\n".join(sorted(pair.id for pair in pairs)))
    return hashes
