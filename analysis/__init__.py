"""Analyse a table of verdicts and write a report. `read` makes such a table from files or data frames.

from analysis import agreement, check_claim, figures, judges, position, ranking, read, report, shares

Each function is loaded when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["agreement", "check_claim", "figures", "judges", "position", "ranking", "read", "report", "shares"]

if TYPE_CHECKING:
    from analysis.claim import check_claim
    from analysis.reports.notebook import agreement, figures, judges, position, ranking, report, shares
    from analysis.verdicts.sources import read
else:
    _MODULES = dict.fromkeys(__all__, "analysis.reports.notebook") | {
        "check_claim": "analysis.claim",
        "read": "analysis.verdicts.sources",
    }

    def __getattr__(name: str) -> object:
        """Return a function of this package. Its module is loaded only now."""
        if name not in _MODULES:
            raise AttributeError(f"{__name__} has no function {name!r}")
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the names of all functions, whether loaded or not."""
    return sorted(__all__)
