"""Describe a study on one page: its plan, the hashes that prove it, and what was collected.

Written before the first verdict, the page is a preregistration: `plan_changes` says what differs later.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.records import Pair
from guard_eval.reporting.escaping import escape_markdown
from guard_eval.reporting.rendering import render
from guard_eval.reporting.words import percent, plural
from guard_eval.reporting.writing import write_whole
from guard_eval.results import Result
from guard_eval.rubric import criteria
from guard_eval.store import RaterProgress, Store, TidyRow, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.study import Study
from guard_eval.study.declared import hash_declared

PLAN = "plan.md"
"""The page that is written before the first verdict, in the study's folder."""
DESCRIPTION = "description.md"
"""The page that is written later."""

_HASH = re.compile(r"^\* SHA-256 of the (.+): ([0-9a-f]{64})$", re.MULTILINE)
_VERDICTS = re.compile(r"^\* Verdicts when this page was written: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Description(Result):
    """The description of a study.

    Attributes:
        path: The page.
        hashes: The SHA-256 of the settings for people and each judge, and of pairs once they are drawn.
        verdicts: The number of verdicts when the page was written; 0 makes it a preregistration.
        text: The page in Markdown.
    """

    path: Path
    hashes: dict[str, str]
    verdicts: int
    text: str = field(metadata={"json": False})


def describe(study: Study, /, *, output: Path | None = None) -> Description:
    """Write the plan of the study and what was collected on one page.

    Written before the first verdict, the page is a preregistration for a registry such as OSF: its date and
    hashes show what was planned, and the report says whether settings or pairs changed later.

    Args:
        study: The study's folder.
        output: The file to write; by default plan.md in the study, or description.md once there are verdicts.

    Raises:
        StudyError: A plan with other settings or pairs exists and would be overwritten.
    """
    pairs, rows, raters = _collected(study)
    path = output or study.folder / (DESCRIPTION if rows else PLAN)
    hashes = hash_plan(study, pairs)
    line = f"{path}: the description"
    if path.name == PLAN and path.exists():
        text = _read(path)
        if dict(_HASH.findall(text)) != hashes:
            raise StudyError(
                f"{path} describes other settings or pairs, and a written plan is not replaced; move it, "
                "or name another file with --output"
            )
        line = f"{path} describes the study as it is; it stays as it was written"
    else:
        text = _page(study, pairs, rows, raters)
        write_whole(path, text.encode())
    return Description(
        path=path,
        hashes=hashes,
        verdicts=len(rows),
        text=text,
        lines=(line,),
        next=(study.command("status" if rows else "annotate"),),
    )


def plan_changes(study: Study, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return sentences that compare the study with its written plan; none if there is no plan.

    Raises:
        StudyError: The plan cannot be read.
    """
    path = study.folder / PLAN
    if not path.exists():
        return ()
    text = _read(path)
    planned, verdicts = dict(_HASH.findall(text)), _VERDICTS.search(text)
    if not planned or verdicts is None:
        return (f"{PLAN} holds no hash of settings, so it cannot be compared with the study.",)
    if verdicts[1] != "0":
        return (f"{PLAN} was written when {verdicts[1]} verdicts existed, so it is no preregistration.",)
    current = hash_plan(study, pairs)
    parts = [
        f"the {name} {_compare(planned.get(name), current.get(name))}"
        for name in dict.fromkeys((*planned, *current))
    ]
    return (f"Preregistration: compared with {PLAN}, {'; '.join(parts)}.",)


def _compare(planned: str | None, current: str | None) -> str:
    if planned is None:
        return "are not in it, so they were made later"
    return "are unchanged" if planned == current else f"DIFFER ({planned:.16} there, {current!s:.16} now)"


def hash_plan(study: Study, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the hash of each part of the settings and of the pairs, by its name as the page has it.

    That of the pairs is of their sorted ids, each of which is a hash of the methods and both texts.
    """
    hashes = {
        f"settings of {escape_markdown(part)}": hash_declared(text) for part, text in study.declared.items()
    }
    ids = "\n".join(sorted(pair.id for pair in pairs))
    return hashes | ({"pairs": hashlib.sha256(ids.encode()).hexdigest()} if pairs else {})


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"cannot read {path}: {error}; fix it, or move it away") from None


def _collected(study: Study) -> tuple[list[Pair], list[TidyRow], list[RaterProgress]]:
    """Return pairs, all verdicts with those that do not count, and raters; nothing before `pair`."""
    if study.settings.database is None and not (study.folder / "study.db").exists():
        return [], [], []
    with Store.open(study.database, declared=study.declared) as store:
        return (
            store_pairs.read(store),
            unblind.tidy(store, include_surplus=True, include_excluded=True),
            store_raters.read(store),
        )


def _page(
    study: Study, pairs: Sequence[Pair], rows: Sequence[TidyRow], raters: Sequence[RaterProgress]
) -> str:
    settings = study.settings
    rated = {row.rater for row in rows}
    return render(
        Path(__file__).parent / "templates" / "description.md.j2",
        settings=settings,
        date=datetime.now(UTC).date(),
        hashes=hash_plan(study, pairs),
        pairs=pairs,
        verdicts=len(rows),
        counted=sum(not (row.surplus or row.excluded) for row in rows),
        period=(min(row.at for row in rows)[:10], max(row.at for row in rows)[:10]) if rows else None,
        raters=Counter(rater.kind for rater in raters if rater.name in rated),
        excluded=sum(rater.state == "excluded" for rater in raters),
        criteria=criteria(settings.annotation.criteria, settings.rubric),
        results=len(settings.pairs.compare) * (len(settings.annotation.criteria) + bool(settings.composite)),
        percent=percent,
        plural=plural,
    )
