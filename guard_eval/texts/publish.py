"""Publish a study: its verdicts without its raters' identities, the pairs, a dataset card and the report."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

import tomli_w
from pydantic import TypeAdapter, ValidationError

from guard_eval.errors import StudyError
from guard_eval.records import SIMULATED, DeclaredPart, Pair
from guard_eval.reporting.escaping import csv_text, one_line
from guard_eval.reporting.rendering import render
from guard_eval.results import Result
from guard_eval.rubric import criteria
from guard_eval.store import Store, TidyRow, notes, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.store import settings as store_settings
from guard_eval.study import Study
from guard_eval.study.declared import compare_declared
from guard_eval.study.settings import License

# fmt: off
VERDICT_COLUMNS = [
    "pair_id", "dataset", "prompt_id", "method_a", "method_b", "rater", "criterion", "verdict", "rater_kind",
    "presentation", "shown_first", "position", "length_a", "length_b",
]
PAIR_COLUMNS = [
    "pair_id", "dataset", "prompt_id", "prompt", "method_a", "method_b", "text_a", "text_b",
    "continuation_a", "continuation_b",
]
COMMENT_COLUMNS = ["presentation", "pair_id", "rater", "text"]
# fmt: on
"""What the columns mean is in the template of README.md."""

_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-(?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)|-----BEGIN [A-Z ]*PRIVATE KEY|://[^\s/:@\"']*:[^\s/@\"']+@"
    r"|[?&](?:invite|cc|PROLIFIC_PID|SESSION_ID|STUDY_ID)=[\w%-]+"
)
"""API keys, passwords in addresses and personal links."""
_CONTACT = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}|(?<![\w.,+-])(?:\+|00)[1-9](?:[ ()./-]{0,2}\d){6,13}"
)
"""E-mail addresses and international phone numbers."""
_SECRET_VARIABLES = {"PGPASSWORD", "HF_TOKEN", "OPENAI_API_KEY"}


@dataclass(frozen=True, kw_only=True)
class Published(Result):
    """A published study.

    Attributes:
        folder: The data set's folder.
        files: Its files. After a dry run none of them exists.
        verdicts: The number of verdicts in it.
        withheld_comments: The number of comments that are left out because they could identify a person.
    """

    folder: Path
    files: tuple[str, ...]
    verdicts: int
    withheld_comments: int = 0


def publish(
    study: Study,
    folder: Path,
    /,
    *,
    license: str | None = None,  # noqa: A002 (the option's name)
    include: Sequence[Literal["comments"]] = (),
    allow: Sequence[str] = (),
    dry_run: bool = False,
) -> Published:
    """Make a data set of the study, without its raters' identities.

    People become numbers, and times and durations are left out. The settings and comments are searched for
    the names of raters, keys and contact data.

    Args:
        study: The study's folder.
        folder: The folder to make; it must not exist or be empty.
        license: The verdicts' licence as an SPDX identifier such as CC-BY-4.0, in place of study.toml's.
        include: What is published only on request: comments.
        allow: A rater's name that is harmless where it stands, such as one that is also an ordinary word.
        dry_run: Check everything and list the files, but write nothing.

    Raises:
        StudyError: There are no verdicts, the folder is not empty, or a setting would identify a person.
    """
    folder = Path(folder)
    _check_empty(folder)
    license = _checked_license(license or study.settings.publication.license)  # noqa: A001
    with Store.open(study.database, declared=study.declared) as store:
        rows = unblind.tidy(store)
        if not rows:
            raise StudyError(
                f"{study.folder} has no verdicts yet, so there is nothing to publish; collect some with: "
                f"{study.command('annotate')}"
            )
        data = _data_set(study, store, rows, with_comments="comments" in include, allow=allow)
        files = _files(
            study,
            data,
            parts=compare_declared(
                study.declared, {part: store_settings.declared(store, part) for part in study.declared}
            ),
        )
    _check_secrets(study, files)
    names = (*sorted([*files, "README.md"]), "report/")
    if not dry_run:
        _write(folder, files, study, data, license)
    said = [f"{folder}: {len(data.verdicts)} verdicts on {len(data.pairs)} pairs"]
    said += [f"  {name}" for name in names]
    said.append(
        "Nothing was written." if dry_run else f"Read {folder / 'README.md'}, then upload the folder."
    )
    warnings = []
    if data.withheld:
        warnings.append(
            f"{data.withheld} comments are left out: they hold a rater's name, a contact or a key"
        )
    options = ["--license", license] if license else []
    options += [word for kind in include for word in ("--include", kind)]
    options += [word for name in allow for word in ("--allow", name)]
    return Published(
        folder=folder,
        files=names,
        verdicts=len(data.verdicts),
        withheld_comments=data.withheld,
        lines=tuple(said),
        warnings=tuple(warnings),
        next=(study.command("publish", folder, *options),) if dry_run else (),
    )


def _check_empty(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise StudyError(f"{folder} exists and is not an empty folder; name a folder that does not exist yet")


def _checked_license(name: str | None) -> str | None:
    try:
        return TypeAdapter(License | None).validate_python(name)
    except ValidationError:
        raise StudyError(f"--license {name!r} is no SPDX identifier; write one such as CC-BY-4.0") from None


@dataclass(frozen=True, kw_only=True)
class _DataSet:
    verdicts: Sequence[dict[str, Any]]
    pairs: Sequence[Pair]
    comments: Sequence[dict[str, Any]] | None
    withheld: int
    raters: Counter[str]
    excluded: int


def _data_set(
    study: Study, store: Store, rows: Sequence[TidyRow], *, with_comments: bool, allow: Sequence[str]
) -> _DataSet:
    """Return what is published of the verdicts, after a check that the settings name nobody."""
    people = _personal_names(study, store, allow)
    _check_settings(study, people)
    names = _pseudonyms(rows, {rater.name.casefold() for rater in store_raters.read(store)})
    pairs = {pair.id: pair for pair in store_pairs.read(store)}

    def position(row: TidyRow) -> tuple[Any, ...]:
        """Return where a row stands: an order that tells nothing of when it was given, or by whom."""
        pair = pairs[row.pair_id]
        return pair.position, row.pair_id, names[row.rater], row.shown_first, row.slot, row.presentation

    numbers: dict[int, int] = {}
    verdicts = []
    for row in sorted(rows, key=lambda row: (*position(row), row.criterion)):
        changed = {
            "rater": names[row.rater],
            "presentation": numbers.setdefault(row.presentation, len(numbers) + 1),
        }
        verdicts.append({name: changed.get(name, getattr(row, name)) for name in VERDICT_COLUMNS})
    judged = {row.pair_id for row in rows}
    comments, withheld = None, 0
    if with_comments:
        shown = {row["presentation"]: row for row in verdicts}
        texts = {
            note.presentation: note.detail
            for note in notes.read(store, kind="comment")
            if note.detail.strip()
        }
        known = {numbers[number]: text for number, text in texts.items() if number in numbers}
        harmless = {number: text for number, text in known.items() if not _identifies(text, people)}
        withheld = len(known) - len(harmless)
        comments = [
            {name: shown[number].get(name, text) for name in COMMENT_COLUMNS}
            for number, text in sorted(harmless.items())
        ]
    return _DataSet(
        verdicts=verdicts,
        pairs=[pair for pair in pairs.values() if pair.id in judged],
        comments=comments,
        withheld=withheld,
        raters=Counter(kind for kind, _ in {(row.rater_kind, row.rater) for row in rows}),
        excluded=sum(
            rater.state == "excluded" and rater.kind == "person" for rater in store_raters.read(store)
        ),
    )


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


_STRATEGIES = ("generation.strategies", "pairs.compare", "metrics")
"""Settings that hold names of methods, which nobody typed for a person."""


def _personal_names(study: Study, store: Store, allow: Sequence[str]) -> set[str]:
    """Return what identifies a person: names and ids of raters, and names of those who decided on them."""
    people = store_raters.read(store)
    names = {rater.name for rater in people if rater.kind == "person"}
    names |= {rater.external_id for rater in people if rater.external_id}
    for kind in ("exclude", "include", "erase"):
        names |= {str(json.loads(note.detail).get("by", "")) for note in notes.read(store, kind=kind)}
    # A letter or a small number identifies nobody, and is everywhere. P-3 is a number of ours.
    harmless = {name for name in names if len(name) < 2 or re.fullmatch(r"\d{1,4}|P-\d+", name)}
    return names - harmless - {*study.settings.publication.authors, *allow}


def _named_in(text: str, names: set[str], flags: re.RegexFlag = re.NOFLAG) -> list[str]:
    """Return the names that are whole words of a text."""
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags)]


def _check_settings(study: Study, names: set[str]) -> None:
    """Check that no published setting names a person or holds a key.

    Raises:
        StudyError: Some do; all of them are named.
    """
    problems = [
        f"{key} holds {_shortened(name)}"
        for key, text in _texts_of(_public_settings(study))
        if not key.startswith(_STRATEGIES)
        for name in _named_in(text, names) or _KEY.findall(text)
    ]
    if problems:
        raise StudyError(
            f"{study.folder / 'study.toml'} would be published with a rater's name or a key, so nothing was; "
            "change these settings, or let a harmless word through with --allow WORD:\n  "
            + "\n  ".join(dict.fromkeys(problems))
        )


def _identifies(comment: str, names: set[str]) -> bool:
    """Return whether a comment holds a name in any case, a contact or a key."""
    patterns = _KEY.search(comment) or _CONTACT.search(comment)
    return bool(patterns or _named_in(comment, names, re.IGNORECASE))


def _shortened(text: str) -> str:
    return f"{text[:4]}…" if _KEY.search(text) else repr(text)


def _texts_of(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in the tables of a TOML file, names of keys among them, with its place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            path = f"{key}.{name}" if key else str(name)
            yield path, str(name)
            yield from _texts_of(inner, path)
    elif isinstance(value, list):
        for number, inner in enumerate(value, start=1):
            yield from _texts_of(inner, f"{key}[{number}]")
    elif isinstance(value, str):
        yield key, value


def _public_settings(study: Study) -> dict[str, Any]:
    """Return the settings without those that show where the study runs: servers, folders, codes, keys."""
    settings = study.settings.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    settings = {name: _file_names(table) for name, table in settings.items() if name != "database"}
    recruitment = settings.get("annotation", {}).get("recruitment", {})
    for name in ("codes", "completion_url", "prolific_study"):
        recruitment.pop(name, None)
    for judge in settings.get("judge", ()):
        for name in ("base_url", "api_key_env"):
            judge.pop(name, None)
    for table, names in (
        ("model", ("name", "amateur")),
        ("metrics", ("coherence_model", "mauve_model", "bertscore_model")),
    ):
        for name in names:
            path = settings.get(table, {}).get(name)
            if path and study.locate_model(path).startswith("/") and path != "bundled":
                settings[table][name] = Path(path).name  # the folders above it may name a person
    return settings


def _file_names(value: Any) -> Any:  # noqa: ANN401 (a value of TOML)
    """Return settings with the name of each file in place of its name and text."""
    if isinstance(value, dict):
        if value.keys() == {"file", "text"}:
            return value["file"]
        return {name: _file_names(inner) for name, inner in value.items()}
    return [_file_names(inner) for inner in value] if isinstance(value, list) else value


def _files(study: Study, data: _DataSet, *, parts: Sequence[DeclaredPart]) -> dict[str, bytes]:
    """Return the files of a data set but for README.md, which quotes the report."""
    rows = [list(VERDICT_COLUMNS), *(list(row.values()) for row in data.verdicts)]
    pairs = [
        {name: pair.id if name == "pair_id" else getattr(pair, name) for name in PAIR_COLUMNS}
        for pair in data.pairs
    ]
    head = "".join(
        f"# SHA-256 of the settings of {one_line(part.name)}: {part.hash}"
        + (
            f", at the first verdict {part.first_hash}\n"
            if part.first_hash not in {None, part.hash}
            else "\n"
        )
        for part in parts
    )
    files = {
        "verdicts.csv": csv_text(rows),
        "pairs.jsonl": _json_lines(pairs),
        "study.toml": f"{head}{tomli_w.dumps(_public_settings(study))}",
        "report.toml": tomli_w.dumps(_declaration(study, data)),
    }
    if data.comments is not None:
        files["comments.jsonl"] = _json_lines(data.comments)
    return {name: text.encode("utf-8", "replace") for name, text in files.items()}


def _json_lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _declaration(study: Study, data: _DataSet) -> dict[str, Any]:
    """Return a report.toml by which a report on verdicts.csv has the study's title, family and error rate."""
    settings, analysis = study.settings, study.settings.analysis
    judged = {(row["method_a"], row["method_b"], row["criterion"]) for row in data.verdicts}
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
        "panel": settings.panel.rule if settings.panel and settings.panel.members is None else None,
        "composite": settings.composite,
    }
    return {name: value for name, value in values.items() if value is not None}


def _check_secrets(study: Study, files: dict[str, bytes]) -> None:
    """Refuse to publish the value of a variable that holds a key of the study, wherever it stands."""
    variables = _SECRET_VARIABLES | {judge.api_key_env or "" for judge in study.settings.judge}
    for variable in sorted(variables - {""}):
        value = os.environ.get(variable, "")
        for name, data in files.items():
            if len(value) > 7 and value.encode() in data:
                raise StudyError(
                    f"{name} would hold the value of {variable}, so nothing was published; remove it"
                )


def _write(folder: Path, files: dict[str, bytes], study: Study, data: _DataSet, license: str | None) -> None:  # noqa: A002
    """Write everything into a folder beside the data set's, which gets its name when it is complete."""
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        for name, content in files.items():
            (staging / name).write_bytes(content)
        resolve_name("analysis.reports.command:report")(staging / "verdicts.csv", output=staging / "report")
        (staging / "README.md").write_text(_card(study, data, license, staging), encoding="utf-8")
        staging.chmod(0o755)
        staging.replace(folder)
    except OSError as error:
        raise StudyError(
            f"cannot write {error.filename or folder}: {error.strerror}; fix that, or name another folder"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _card(study: Study, data: _DataSet, license: str | None, folder: Path) -> str:  # noqa: A002
    """Return README.md: the Hub's dataset card."""
    rows = {"verdicts.csv": len(data.verdicts), "pairs.jsonl": len(data.pairs)}
    if data.comments is not None:
        rows["comments.jsonl"] = len(data.comments)
    report = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))
    pictures = sorted(path.relative_to(folder).as_posix() for path in folder.glob("report/figures/*.png"))
    asked = list(dict.fromkeys(row["criterion"] for row in data.verdicts))
    return render(
        Path(__file__).parent / "templates" / "dataset_card.md.j2",
        study=study,
        settings=study.settings,
        license=license,
        rows=rows,
        answer=report["answer"],
        picture=next((path for path in pictures if "share" in path), pictures[0] if pictures else None),
        raters=data.raters,
        simulated=bool(data.raters.keys() & SIMULATED),
        excluded=data.excluded,
        criteria=criteria(asked, study.settings.rubric),
        quote=lambda text: json.dumps(one_line(text), ensure_ascii=False),
    )
