"""Results of commands: lines and tables for people, and data for `--json`."""

from guard_eval.records import record
from guard_eval.reporting.tables import Table


@record
class Result:
    """The result of a command. A subclass adds its data as fields; `--json` prints these.

    A field with `metadata={"json": False}` is left out of the JSON.

    Attributes:
        lines: Sentences for a person, printed first.
        tables: Printed after the lines.
        warnings: Printed to standard error, each behind the word "warning".
        next: Commands that could follow, the best one first; `Study.format_command` writes them.
        exit_code: 0, or 3 if the command did its work and something remains to be done.
    """

    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    exit_code: int = 0
