"""A report from result rows: sections, figures, templates and files.

Called, as `from analysis import report` gives it, it writes one: `report(table, "folder")`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableFolder(ModuleType):
    """The folder and the function have one name, and Python gives an import of it the folder."""

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 (those of `frames.report`)
        """Write a report: `analysis.report.frames.report`."""
        return import_module("analysis.report.frames").report(*args, **options)


sys.modules[__name__].__class__ = _CallableFolder
