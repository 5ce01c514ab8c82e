"""Errors a user can mend: each message names the thing, the value and the remedy.

The command line prints the message and leaves with code 2; everything else is a defect and shows its
traceback.
"""


class StudyError(ValueError):
    """Something the user gave cannot be used; the message says what, and what to do."""


class MissingExtraError(StudyError):
    """An optional part of the toolkit is not installed."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(
            f"this command needs the package {package!r}, which is not installed; "
            f"run: pip install 'guard-eval[{extra}]'"
        )
