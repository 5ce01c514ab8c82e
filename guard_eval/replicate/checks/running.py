"""Run checks by name, and tell whether each found what is on record."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

from guard_eval.errors import StudyError
from guard_eval.replicate.checks.records import Check, NotHereError
from guard_eval.replicate.checks.registry import RECORDED

_EXTRAS = {"torch": "generate", "transformers": "generate"}


def names() -> tuple[str, ...]:
    """Return the names of all checks, in the order in which they run."""
    return tuple(RECORDED)


def each(wanted: Sequence[str] = ()) -> Iterator[Check]:
    """Make the checks named, or all, and yield each as it is done.

    Raises:
        StudyError: There is no check of a name given; raised before any is made.
    """
    unknown = [name for name in wanted if name not in RECORDED]
    if unknown:
        raise StudyError(f"there is no check {unknown[0]!r}; choose from: {', '.join(RECORDED)}")
    for name in wanted or RECORDED:
        yield _made(name)


def run(wanted: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks named, or all; errors as in `each`."""
    return tuple(each(wanted))


def as_recorded(check: Check) -> bool:
    """Say whether a check found what is on record; one that was skipped found nothing else."""
    return bool(check.skipped) or check.holds is RECORDED[check.name][1]


def _made(name: str) -> Check:
    module, _, function = RECORDED[name][0].partition(".")
    try:
        made = getattr(importlib.import_module(f"{__package__}.{module}"), function)()
    except NotHereError as error:
        return _skipped(name, str(error))
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        if extra is None:
            raise
        return _skipped(name, f"{error.name} is not installed: pip install 'guard-eval[{extra}]'")
    assert isinstance(made, Check)
    return made


def _skipped(name: str, why: str) -> Check:
    return Check(name=name, subject="", where="", claim="", found="", holds=None, source="", skipped=why)
