"""What two databases are compared by: `guard-eval db STUDY checksum`."""

from __future__ import annotations

from guard_eval.cli.console import progress, say, say_table
from guard_eval.store import copying
from guard_eval.store.copying import Digest


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
    say_table(
        ("table", "rows", "SHA-256 begins"),
        [(each.table, str(each.rows), each.sha256[:16]) for each in digest.tables],
    )
    say(f"\n{digest.rows} rows, SHA-256 {digest.sha256}")
