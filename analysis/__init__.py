"""Analyse a table of verdicts and write a report. `read` makes such a table from files or data frames.

from analysis import agreement, check_claim, figures, judges, position, ranking, read, report, shares

Each function is loaded when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["agreement", "check_claim", "figures", "judges", "position", "ranking", "read", "report", "shares"]

if TYPE_CHECKING:
    from analysis.claim import check_claim
    from analysis.reports.notebook import agreement, figures, judges, position, ranking, read, report, shares
else:

    def __getattr__(name: str) -> object:
        """Return a function of this package. Its module is loaded only now."""
        if name not in __all__:
            raise AttributeError(f"{__name__} has no function {name!r}")
        module = "analysis.claim" if name == "check_claim" else "analysis.reports.notebook"
        return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """Return the names of all functions, whether loaded or not."""
    return __all__
