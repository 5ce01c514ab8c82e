"""The study's database: pairs, hand-out, verdicts, the judge's journal; the only place that un-blinds.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     with Store.open(f"sqlite:///{Path(folder) / 'study.db'}", create=True) as store:
...         ann, token = store.invite("Ann")
...         store.sign_in(token) == ann, store.sign_in("a guess")
(True, None)
"""

from guard_eval.store.judging.values import (
    Answer,
    Attempt,
    BatchRequest,
    Exchange,
    Failure,
    JudgeBatch,
    JudgeProgress,
    JudgeRun,
    Judgment,
    NotReserved,
    PlannedRequest,
    Reservation,
    Settlement,
    Showing,
    Style,
    Unjudged,
    Usage,
)
from guard_eval.store.notes import Note
from guard_eval.store.raters import RaterProgress
from guard_eval.store.skips import Skip
from guard_eval.store.store import Store
from guard_eval.store.unblind import CheckRow, HistoryRow, TidyRow
from guard_eval.store.verdicts import Saved

__all__ = [
    "Answer",
    "Attempt",
    "BatchRequest",
    "CheckRow",
    "Exchange",
    "Failure",
    "HistoryRow",
    "JudgeBatch",
    "JudgeProgress",
    "JudgeRun",
    "Judgment",
    "NotReserved",
    "Note",
    "PlannedRequest",
    "RaterProgress",
    "Reservation",
    "Saved",
    "Settlement",
    "Showing",
    "Skip",
    "Store",
    "Style",
    "TidyRow",
    "Unjudged",
    "Usage",
]
