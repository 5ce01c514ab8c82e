"""What `guard-eval publish` does: all is made beside the folder, searched, and only then moved there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from analysis.reports.build import Report, scored, write_report
from analysis.reports.context import Context
from analysis.verdicts.tidy import validate
from guard_eval.cli.exchange.row_files import json_lines
from guard_eval.cli.publication.card import Card
from guard_eval.cli.publication.croissant import PublishedTable, croissant
from guard_eval.cli.publication.dataset import (
    PAIR_COLUMNS,
    VERDICT_COLUMNS,
    WORD_COLUMNS,
    Published,
    Words,
    public_settings,
    published_rows,
)
from guard_eval.cli.publication.leaks import LeakFinder, refusal
from guard_eval.cli.reporting.study import study_context
from guard_eval.cli.reporting.table_settings import NAME
from guard_eval.cli.reporting.verdict_tables import rows_of, table_of
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import csv_text, one_line
from guard_eval.rubric import COMPOSITE, criteria
from guard_eval.store import Store
from guard_eval.study.folder import Study
from guard_eval.study.settings import License
from guard_eval.texts.shards import take_lock

SUMS = "SHA256SUMS"
"""Names every file of the folder with its checksum, as sha256sum reads it; by it the folder is recognised."""


def publish(
    study: Study,
    folder: Path,
    *,
    license: str | None = None,  # noqa: A002 (the option's name)
    include: Iterable[Words] = (),
    allow: Iterable[str] = (),
    dry_run: bool = False,
) -> dict[str, int]:
    """Make a data set of a study, without its raters' identities; the same study gives the same bytes.

    Args:
        study: It must have verdicts.
        folder: Made where missing; one that this made before, unchanged since, is replaced.
        license: An SPDX identifier, in place of study.toml's.
        include: Words that are left out unless they are named: comments, rationales.
        allow: Words that would be refused and are harmless.
        dry_run: Make and search everything, and leave nothing.

    Returns:
        The size of each file in bytes, by name.

    Raises:
        StudyError: There are no verdicts; something would be given away; or the folder holds something else.
    """
    license = license or study.settings.publication.license  # noqa: A001
    try:
        TypeAdapter(License | None).validate_python(license)
    except ValidationError:
        raise StudyError(
            f"--license {license!r} is no SPDX identifier; write one such as CC-BY-4.0"
        ) from None
    include = frozenset(include)
    _check_replaceable(folder)
    with Store.open(study.database, study_hash=study.hash) as store, _beside(folder) as made:
        _write(study, store, made, license=license, include=include)
        files = {name: (made / name).read_bytes() for name in _names(made)}
        finder = LeakFinder(study, store, allow=allow, comments="comments" in include)
        if leaks := finder.search(files):
            raise StudyError(refusal(leaks, study))
        sums = "".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
        (made / SUMS).write_text(sums, encoding="utf-8")
        if not dry_run:
            _move(made, folder)
    return {**{name: len(data) for name, data in files.items()}, SUMS: len(sums)}


def _write(
    study: Study,
    store: Store,
    made: Path,
    *,
    license: str | None,  # noqa: A002
    include: frozenset[Words],
) -> None:
    """Write all files but the checksums."""
    rows = rows_of(study, store)
    published = published_rows(store, rows, include, seed=study.settings.seed)
    settings = public_settings(study)
    context = study_context(study, store, rows)
    context = replace(context, settings=settings, command="guard-eval report verdicts.csv")
    table = table_of(published.verdicts)[list(VERDICT_COLUMNS)]
    report = write_report(scored(validate(table), context), made / "report", context)
    verdicts = [{name: getattr(row, name) for name in VERDICT_COLUMNS} for row in published.verdicts]
    files = {
        "verdicts.csv": csv_text([list(VERDICT_COLUMNS), *(list(row.values()) for row in verdicts)]).encode(),
        "verdicts.jsonl": json_lines(verdicts),
        "pairs.jsonl": json_lines(
            {name: pair.id if name == "pair_id" else getattr(pair, name) for name in PAIR_COLUMNS}
            for pair in published.pairs
        ),
        **{f"{kind}.jsonl": json_lines(found) for kind, found in published.words.items()},
    }
    card = _card(study, store, published, context, report, license, made)
    files["croissant.json"] = croissant(card.tables, files, card.about())
    files |= {name: text.encode("utf-8", "replace") for name, text in card.files().items()}
    files |= {"study.toml": settings.encode(), NAME: _declaration(context, published).encode()}
    for name, data in files.items():
        (made / name).write_bytes(data)


def _card(
    study: Study,
    store: Store,
    published: Published,
    context: Context,
    report: Report,
    license: str | None,  # noqa: A002
    made: Path,
) -> Card:
    pictures = [path for path in report.paths if path.suffix == ".png"]
    shares = [path for path in pictures if re.match("shares|ranking|comparisons", path.name)] or pictures
    found: list[tuple[str, str, Mapping[str, str], Sized]] = [
        ("verdicts", "Every verdict that counts, one a row.", VERDICT_COLUMNS, published.verdicts),
        ("pairs", "The pairs that were judged, with their texts.", PAIR_COLUMNS, published.pairs),
        *((kind, _MEANINGS[kind], WORD_COLUMNS, rows) for kind, rows in published.words.items()),
    ]
    tables = [
        PublishedTable(file=f"{name}.jsonl", meaning=meaning, columns=columns, rows=len(rows))
        for name, meaning, columns, rows in found
    ]
    asked = list(dict.fromkeys(row.criterion for row in published.verdicts))
    return Card(
        study=study,
        license=license,
        tables=tables,
        rows=published.verdicts,
        criteria=criteria(asked, study.settings.rubric),
        answer=report.summary,
        picture=shares[0].relative_to(made).as_posix() if shares else None,
        changed=None if context.stored_hash in {None, study.hash} else context.stored_hash,
        excluded=sum(rater.excluded and rater.kind == "person" for rater in store.raters()),
    )


_MEANINGS: Mapping[Words, str] = {
    "comments": "What raters wrote beside a pair, one comment a row.",
    "rationales": "The rationale that a judge gave before its verdicts, one showing a row.",
}


def _declaration(context: Context, published: Published) -> str:
    """Return a report.toml by which a report on verdicts.csv has the study's title, family and error rate."""
    results = {(row.method_a, row.method_b, row.criterion) for row in published.verdicts}
    planned = [cell for cell in context.planned or () if cell[2] != COMPOSITE]
    values: dict[str, object] = {
        "title": one_line(context.name),
        "question": one_line(context.question),
        "texts": context.texts,
        "alpha": context.alpha,
        "correction": context.correction,
        "margin": context.margin,
        "family": [f"{a} against {b}: {c}" for a, b, c in planned if (a, b, c) in results] or None,
        "seed": context.seed,
        "raters": context.raters,
        "panel": context.panel.rule if context.panel and context.panel.members is None else None,
    }
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
        if value is not None
    ]
    if context.composite is not None:
        weights = (f"{json.dumps(key)} = {weight}" for key, weight in context.composite.weights.items())
        lines += ["", "[composite]", *weights]
    return "\n".join([*lines, ""])


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _check_replaceable(folder: Path) -> None:
    """Check that nothing is at `folder`, or what this made there, unchanged since.

    Raises:
        StudyError: It holds something else, which would be lost.
    """
    if not folder.is_symlink() and not folder.exists():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise StudyError(f"{folder} is no folder; name another one")
    here = _names(folder)
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        if not any(folder.iterdir()):
            return
        raise StudyError(f"{folder} is not empty, and publish did not make it; name another folder") from None
    listed = {name: found for found, _, name in (line.partition("  ") for line in lines)}
    if not {"verdicts.jsonl", "croissant.json", "study.toml"} <= listed.keys():
        raise StudyError(f"{folder} has checksums, but publish did not make it; name another folder")
    for name in here:
        if name != SUMS and listed.get(name) != sha256((folder / name).read_bytes()).hexdigest():
            what = "was changed" if name in listed else "was added"
            raise StudyError(
                f"{folder / name} {what} since {folder} was published; move it away, or name another folder"
            )


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside `folder`, which is removed at the end; so is what a killed process left.

    Raises:
        StudyError: It cannot be written, or another process makes the same folder.
    """
    around = folder.absolute().parent / f".{folder.name}.partial"
    try:
        around.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (around / "lock").open("a+") as lock:
            if around.is_symlink() or not take_lock(lock):
                raise StudyError(
                    f"another guard-eval publish writes to {around}; wait for it, or name another folder"
                )
            if not folder.exists() and (around / "before").exists():  # killed between the two moves
                (around / "before").rename(folder)
            for name in ("new", "before"):
                shutil.rmtree(around / name, ignore_errors=True)
            (around / "new").mkdir()
            try:
                yield around / "new"
            finally:
                shutil.rmtree(around, ignore_errors=True)
    except OSError as error:
        raise StudyError(
            f"cannot write {error.filename or folder}: {error.strerror}; fix that, or name another folder"
        ) from error


def _move(made: Path, folder: Path) -> None:
    """Put what was made in the folder's place; what was there stays until then."""
    before = made.with_name("before")
    _check_replaceable(folder)  # once more: another process may have written there meanwhile
    try:
        if folder.exists():
            folder.rename(before)
        made.rename(folder)
    except OSError as error:  # a mounted or the working folder cannot be replaced
        if before.exists():
            before.rename(folder)
        raise StudyError(
            f"cannot replace {folder}: {error.strerror}; name a folder that does not exist yet"
        ) from error
