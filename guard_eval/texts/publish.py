"""Publish a study: its verdicts without its raters' identities, the pairs, a dataset card and the report."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import tomli_w

from guard_eval.errors import StudyError
from guard_eval.records import SIMULATED, Pair
from guard_eval.reporting.escaping import csv_text, one_line
from guard_eval.reporting.rendering import render
from guard_eval.results import Result
from guard_eval.rubric import criteria
from guard_eval.store import RaterProgress, Store, TidyRow, notes, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.study import Study
from guard_eval.texts.describe import hash_plan

# fmt: off
VERDICT_COLUMNS = [
    "pair_id", "dataset", "prompt_id", "method_a", "method_b", "rater", "criterion", "verdict", "rater_kind",
    "presentation", "shown_first", "position", "length_a", "length_b",
]
PAIR_COLUMNS = [
    "dataset", "prompt_id", "prompt", "method_a", "method_b", "text_a", "text_b", "continuation_a",
    "continuation_b",
]
# fmt: on
"""What the columns mean is in the template of README.md."""

_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-(?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)|-----BEGIN [A-Z ]*PRIVATE KEY|://[^\s/:@\"']*:[^\s/@\"']+@"
    r"|[?&](?:invite|cc|PROLIFIC_PID|SESSION_ID|STUDY_ID)=[\w%-]+"
)
"""API keys, passwords in addresses and personal links."""
_SECRET_VARIABLES = ("PGPASSWORD", "HF_TOKEN", "OPENAI_API_KEY")


@dataclass(frozen=True, kw_only=True)
class Published(Result):
    """A published study.

    Attributes:
        folder: The data set's folder.
        files: Its files. After a dry run none of them exists.
        verdicts: The number of verdicts in it.
    """

    folder: Path
    files: tuple[str, ...]
    verdicts: int


def publish(
    study: Study,
    folder: Path,
    /,
    *,
    license: str | None = None,  # noqa: A002 (the option's name)
    allow: Sequence[str] = (),
    dry_run: bool = False,
) -> Published:
    """Make a data set of the study, without its raters' identities.

    People become numbers, and times, durations and comments are left out. What was typed for the study is
    searched for the names of raters and for keys.

    Args:
        study: The study's folder.
        folder: The folder to make; it must not exist or be empty.
        license: The verdicts' licence as an SPDX identifier such as CC-BY-4.0, in place of study.toml's.
        allow: A rater's name that is harmless where it stands, such as one that is also an ordinary word.
        dry_run: Check everything and list the files, but write nothing.

    Raises:
        StudyError: There are no verdicts, the folder is not empty, or a setting would identify a person.
    """
    folder = Path(folder)
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise StudyError(f"{folder} exists and is not an empty folder; name a folder that does not exist yet")
    options = ["--license", license] if license else []
    options += [word for name in allow for word in ("--allow", name)]
    following = (study.command("publish", folder, *options),) if dry_run else ()
    if license:  # checked like the setting that it takes the place of
        study = Study.open(study.folder, [*study.overrides, f"license={json.dumps(license)}"])
    with Store.open(study.database, declared=study.declared) as store:
        rows = unblind.tidy(store)
        if not rows:
            raise StudyError(
                f"{study.folder} has no verdicts yet, so there is nothing to publish; collect some with: "
                f"{study.command('annotate')}"
            )
        people, pairs = store_raters.read(store), {pair.id: pair for pair in store_pairs.read(store)}
        names = _personal_names(store, people) - {*study.settings.authors, *allow}
        _check_settings(study, names)
        pseudonyms = _pseudonyms(rows, {rater.name.casefold() for rater in people})
    verdicts = _verdicts(rows, pairs, pseudonyms)
    published = [pairs[pair_id] for pair_id in dict.fromkeys(row["pair_id"] for row in verdicts)]
    files = _files(study, verdicts, published)
    _check_secrets(study, {**_typed_texts(study), **files})
    listed = (*sorted([*files, "README.md"]), "report/")
    if not dry_run:
        card = {
            "settings": study.settings,
            "hashes": hash_plan(study, list(pairs.values())),
            "rows": {"verdicts.csv": len(verdicts), "pairs.jsonl": len(published)},
            "raters": Counter(kind for kind, _ in {(row.rater_kind, row.rater) for row in rows}),
            "excluded": sum(rater.state == "excluded" and rater.kind == "person" for rater in people),
            "criteria": criteria(list({row["criterion"]: None for row in verdicts}), study.settings.rubric),
        }
        _write(folder, files, card)
    return Published(
        folder=folder,
        files=listed,
        verdicts=len(verdicts),
        lines=(
            f"{folder}: {len(verdicts)} verdicts on {len(published)} pairs",
            *(f"  {name}" for name in listed),
            "Nothing was written." if dry_run else f"Read {folder / 'README.md'}, then upload the folder.",
        ),
        next=following,
    )


def _verdicts(
    rows: Sequence[TidyRow], pairs: dict[str, Pair], pseudonyms: dict[str, str]
) -> list[dict[str, Any]]:
    """Return the published verdicts, in an order that tells neither when they were given nor by whom."""

    def position(row: TidyRow) -> tuple[Any, ...]:
        pair = pairs[row.pair_id]
        return (
            *(pair.position, row.pair_id, pseudonyms[row.rater], row.shown_first, row.slot),
            *(row.presentation, row.criterion),
        )

    numbers: dict[int, int] = {}
    verdicts = []
    for row in sorted(rows, key=position):
        number = numbers.setdefault(row.presentation, len(numbers) + 1)
        changed = {"rater": pseudonyms[row.rater], "presentation": number}
        verdicts.append({name: changed.get(name, getattr(row, name)) for name in VERDICT_COLUMNS})
    return verdicts


def _pseudonyms(rows: Sequence[TidyRow], known: set[str]) -> dict[str, str]:
    """Return what each rater is called: people by a number, all others by their names.

    The numbers follow the order of the verdicts themselves, never that of names, ids or arrival: a list of
    those reveals nothing beyond the verdicts. A hash of a name would not do, since a list of names can be
    hashed and compared.
    """
    answers: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for row in rows:
        if row.rater_kind == "person":
            answers[row.rater].append((row.pair_id, row.criterion, row.verdict, row.shown_first))
    prefix = "rater-"
    while any(name.startswith(prefix) for name in known):  # rater-3 would look like the person of that name
        prefix = f"x{prefix}"
    width = len(str(len(answers)))
    numbered = enumerate(sorted(answers, key=lambda name: sorted(answers[name])), start=1)
    people = {name: f"{prefix}{number:0{width}}" for number, name in numbered}
    return {row.rater: people.get(row.rater, row.rater) for row in rows}


def _personal_names(store: Store, people: Sequence[RaterProgress]) -> set[str]:
    """Return what identifies a person: names and ids of raters, and names of those who decided on them."""
    names = {rater.name for rater in people if rater.kind == "person"}
    names |= {rater.external_id for rater in people if rater.external_id}
    for kind in ("exclude", "include", "erase"):
        names |= {str(json.loads(note.detail).get("by", "")) for note in notes.read(store, kind=kind)}
    # A letter or a small number identifies nobody, and is everywhere. P-3 is a number of ours.
    return {name for name in names if len(name) > 1 and not re.fullmatch(r"\d{1,4}|P-\d+", name)}


def _check_settings(study: Study, names: Iterable[str]) -> None:
    """Check that nothing typed for the study that is published names a person or holds a key.

    Raises:
        StudyError: Something does; all of it is named.
    """
    problems = []
    for key, text in _typed_texts(study).items():
        words = [repr(name) for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
        words += [f"{secret[:4]}…" for secret in _KEY.findall(text)]
        problems += [f"{key} holds {word}" for word in words]
    if problems:
        raise StudyError(
            f"{study.folder / 'study.toml'} would be published with a rater's name or a key, so nothing was; "
            "change these settings, or let a harmless word through with --allow WORD:\n  "
            + "\n  ".join(problems)
        )


def _typed_texts(study: Study) -> dict[str, str]:
    """Return what was typed for the study and is published, by its place in study.toml."""
    settings = study.settings
    model = settings.model.name.split("/")[-1]
    texts = {"name": settings.name, "question": settings.question, "model.name": model}
    for name, own in settings.criteria.items():
        words = {"": name, ".title": own.title, ".definition": own.definition}
        texts |= {f"criteria.{name}{part}": text for part, text in words.items()}
    for key, values in (
        ("judge", [judge.rater_name for judge in settings.judge]),
        ("authors", settings.authors),
    ):
        texts |= {f"{key}[{number}]": value for number, value in enumerate(values, start=1)}
    return texts


def _files(study: Study, verdicts: Sequence[dict[str, Any]], pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the files of a data set but for README.md, which quotes the report."""
    rows = ({"pair_id": pair.id} | {name: getattr(pair, name) for name in PAIR_COLUMNS} for pair in pairs)
    return {
        "verdicts.csv": csv_text([VERDICT_COLUMNS, *(list(row.values()) for row in verdicts)]),
        "pairs.jsonl": _json_lines(rows),
        "report.toml": tomli_w.dumps(_declaration(study, verdicts)),
    }


def _json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _declaration(study: Study, verdicts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a report.toml by which a report on verdicts.csv has the study's title, family and error rate."""
    settings, analysis = study.settings, study.settings.analysis
    judged = {(row["method_a"], row["method_b"], row["criterion"]) for row in verdicts}
    asked = [*settings.annotation.criteria, *(name for judge in settings.judge for name in judge.criteria)]
    family = [
        f"{a} against {b}: {criterion}"
        for a, b in settings.pairs.compare
        for criterion in dict.fromkeys(asked)
        if (a, b, criterion) in judged
    ]
    values = {
        "title": one_line(settings.name),
        "question": one_line(settings.question),
        "alpha": analysis.alpha,
        "correction": analysis.correction,
        "margin": analysis.equivalence_margin,
        "family": family or None,
        "seed": settings.seed,
        "raters": analysis.raters,
        "panel": settings.panel,
        "composite": settings.composite,
    }
    return {name: value for name, value in values.items() if value is not None}


def _check_secrets(study: Study, texts: dict[str, str]) -> None:
    """Refuse to publish the value of a variable that holds a key of the study, wherever it stands."""
    for variable in (*_SECRET_VARIABLES, *(judge.api_key_env or "" for judge in study.settings.judge)):
        value = os.environ.get(variable, "")
        for name, text in texts.items():
            if len(value) > 7 and value in text:
                raise StudyError(
                    f"{name} would hold the value of {variable}, so nothing was published; remove it"
                )


def _write(folder: Path, files: dict[str, str], card: dict[str, Any]) -> None:
    """Write everything into a folder beside the data set's, which gets its name when it is complete."""
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.absolute().parent) as parent:
            staging = Path(parent) / folder.name
            staging.mkdir()
            for name, text in files.items():
                (staging / name).write_text(text, encoding="utf-8", errors="replace", newline="")
            resolve_name("analysis.reports.command:report")(
                staging / "verdicts.csv", output=staging / "report"
            )
            pictures = sorted(path.name for path in staging.glob("report/figures/*.png"))
            readme = render(
                Path(__file__).parent / "templates" / "dataset_card.md.j2",
                answer=json.loads((staging / "report" / "report.json").read_text("utf-8"))["answer"],
                picture=next(
                    (name for name in pictures if "share" in name), pictures[0] if pictures else None
                ),
                simulated=bool(card["raters"].keys() & SIMULATED),
                quote=lambda text: json.dumps(one_line(text), ensure_ascii=False),
                **card,
            )
            (staging / "README.md").write_text(readme, encoding="utf-8")
            staging.replace(folder)
    except OSError as error:
        raise StudyError(
            f"cannot write {error.filename or folder}: {error.strerror}; fix that, or name another folder"
        ) from error
