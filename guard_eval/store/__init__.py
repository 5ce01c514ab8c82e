"""The study's database: pairs, raters, blinded verdicts, and requests to LLM judges.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from guard_eval.store import Store, raters
>>> with TemporaryDirectory() as folder:
...     with Store.open(f"sqlite:///{Path(folder) / 'study.db'}", create=True) as store:
...         ann, token = raters.invite_rater(store, "Ann")
...         raters.find_rater_by_token(store, token) == ann, raters.find_rater_by_token(store, "a guess")
(True, None)
"""

from guard_eval.store.database import Store
from guard_eval.store.notes import Note
from guard_eval.store.raters import Enrolment, RaterProgress
from guard_eval.store.unblind import TidyRow

__all__ = [
    "Enrolment",
    "Note",
    "RaterProgress",
    "Store",
    "TidyRow",
]
