"""A study moved to another database, and what two are compared by: `guard-eval db STUDY copy|checksum`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from guard_eval.cli.console import progress, record, say, say_next, say_table
from guard_eval.database_url import holds_password
from guard_eval.errors import StudyError
from guard_eval.reporting.writing import write_whole
from guard_eval.store import copying
from guard_eval.store.connection import Database, parse_url
from guard_eval.store.copying import Digest
from guard_eval.study.folder import Study

_FIRST_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_NAMED = re.compile(r"^[ \t]*database[ \t]*=.*\n?", re.MULTILINE)
_SEED = re.compile(r"^[ \t]*seed[ \t]*=.*\n", re.MULTILINE)


def copy(study: Study, to: str, *, switch: bool, dry_run: bool) -> None:
    """Copy a study's rows to another database, and say or do what makes it the study's own.

    Args:
        study: The study.
        to: A database's URL, or a file's path.
        switch: Name the copy in study.toml, if no other process has the database open.
        dry_run: Only say what would be done.

    Raises:
        StudyError: As `guard_eval.store.copying.copy`; `to` is none; or study.toml cannot be edited.
    """
    target = target_of(to)
    # the study's own file is named by no line
    named = None if target == f"sqlite:///{(study.folder / 'study.db').resolve()}" else target
    path = study.folder / "study.toml"
    wanted = rename(path, named) if switch else None
    rows = copying.check(study.database, target)
    source_name, target_name = Database(study.database).name, Database(target).name
    say(f"{rows} rows of {source_name} go to {target_name}")
    if dry_run:
        say("dry run: nothing was copied")
        return
    with progress("rows") as bar:
        copying_task, checking = (bar.add_task(step, total=rows, note="") for step in ("copying", "checking"))
        copied = copying.copy(
            study.database,
            target,
            alone=switch,
            then=lambda: None if wanted is None else _write(path, wanted, _line(named)),
            on_copied=lambda table, done: bar.update(copying_task, advance=done, note=table),
            on_checked=lambda table, done: bar.update(checking, advance=done, note=table),
        )
    say_digest(copied)
    say(f"{target_name} holds what {source_name} held at {copied.at:%Y-%m-%d %H:%M:%S} UTC,")
    say("by this digest of both.\n")
    if switch:
        say(f"{path} names it from now on; {source_name} stays as it was.")
        say("Other servers of this study have a study.toml of their own: change them too.")
        say_next(f"guard-eval progress {study.folder}")
        return
    say(f"{path} is as it was, and so is the study. To move it: stop guard-eval annotate and judge, see that")
    say("nothing was saved since (checksum gives the same digest), and in study.toml, above the tables,")
    say(f"{_line(named)}")
    say_next(f"guard-eval db {study.folder} checksum")


def checksum(database: str) -> None:
    """Print how many rows each table has, and their digest.

    Raises:
        StudyError: There is no such database, or it is not of this package's version.
    """
    with progress("rows") as bar:
        task = bar.add_task("reading", total=None, note="")
        found = copying.checksum(database, lambda table, rows: bar.update(task, advance=rows, note=table))
        bar.update(task, total=found.rows, note="")
    say_digest(found)


def say_digest(digest: Digest) -> None:
    """Print a digest, table by table; what two databases are compared by is the last line."""
    record("digest", digest)
    say_table(
        ("table", "rows", "SHA-256 begins"),
        [(each.table, str(each.rows), each.sha256[:16]) for each in digest.tables],
    )
    say(f"\n{digest.rows} rows, SHA-256 {digest.sha256}")


def target_of(text: str) -> str:
    """Return the URL of a database that is given as a URL or a file's path.

    Raises:
        StudyError: It is none, or holds a password, which is not repeated.
    """
    if "://" not in text:
        if ("@" in text and ":" in text) or "password=" in text.lower():
            raise StudyError(
                "the target cannot be read; write postgresql+psycopg://user@host/database, or a file's path"
            )
        return f"sqlite:///{Path(text).expanduser().resolve()}"
    url = parse_url(text)
    if holds_password(text):
        raise StudyError(
            "a password does not belong in a command, where others can read it; "
            "leave it out and set PGPASSWORD in the environment"
        )
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(str(url.database)).resolve()}"
    return f"{url.drivername}://{text.partition('://')[2]}"


def rename(path: Path, database: str | None) -> bytes:
    """Return study.toml with `database` as its database; None leaves it out.

    Raises:
        StudyError: The file is written in a way that cannot be edited surely.
    """
    text = path.read_bytes().decode()
    first = _FIRST_TABLE.search(text)
    end = first.start() if first else len(text)
    top, tables = text[:end], text[end:]
    newline = "\r\n" if "\r\n" in text else "\n"
    line = "" if database is None else f"database = {_toml(database)}{newline}"
    named, seed = _NAMED.search(top), _SEED.search(top)
    begin, end = named.span() if named else (seed.end(), seed.end()) if seed else (0, 0)
    edited = top[:begin] + line + top[end:] + tables
    settings = tomllib.loads(text)
    settings.pop("database", None)
    if database is not None:
        settings["database"] = database
    try:
        if tomllib.loads(edited) == settings:
            return edited.encode()
    except tomllib.TOMLDecodeError:
        pass
    raise StudyError(
        f"{path} is written in a way that --switch cannot edit; copy without it, then change it yourself"
    )


def _write(path: Path, data: bytes, line: str) -> None:
    file = path.resolve()
    try:
        mode = file.stat().st_mode
        write_whole(file, data)
        file.chmod(mode)
    except (StudyError, OSError) as error:
        raise StudyError(
            f"the copy is whole, but {path} could not be changed ({error}). In it, above the tables, {line}"
        ) from None


def _line(database: str | None) -> str:
    if database is None:
        return "remove the line:  database = …"
    return f"write the line:  database = {_toml(database)}"


def _toml(text: str) -> str:
    # JSON's strings are TOML's, but for characters beyond 16 bits, which JSON would split
    return json.dumps(text, ensure_ascii=False)
