"""What the server writes into its log: when, where and what, and never an invite or a text.

Messages of our own are written so. What Streamlit and uvicorn log passes through a filter: an address loses
its query, which holds an invite, and an exception its message, which may quote what a rater wrote. Its type
and the lines of code remain, to find the defect by.
"""

from __future__ import annotations

import logging
import re
import traceback

OURS = "annotation_app"
OTHERS = ("uvicorn", "uvicorn.error", "uvicorn.asgi", "uvicorn.access", "websockets")


class PrivacyFilter(logging.Filter):
    """Take queries out of a record's message, and messages out of its exception."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True: every record is logged."""
        record.msg, record.args = re.sub(r"\?[^\s\"']*", "?…", record.getMessage()), ()
        if record.exc_info and record.exc_info[1]:
            record.exc_text, record.exc_info = "\ncaused:\n".join(_traces(record.exc_info[1])), None
        return True


def _traces(error: BaseException) -> list[str]:
    """Return an exception and what caused it, the first cause first, without their messages."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    name = f"{type(error).__module__}.{type(error).__qualname__} (message left out)"
    return [*(_traces(cause) if cause else []), "".join(traceback.format_tb(error.__traceback__)) + name]


def set_up() -> None:
    """Give our messages a time and all others the filter; doing it again changes nothing."""
    ours = logging.getLogger(OURS)
    if not any(type(handler) is logging.StreamHandler for handler in ours.handlers):
        console = logging.StreamHandler()
        console.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        ours.addHandler(console)
        ours.propagate = False
    for name in logging.root.manager.loggerDict:
        if name in OTHERS or name.partition(".")[0] == "streamlit":
            # at the handlers: a logger's own filter does not see what its children pass on
            for handler in logging.getLogger(name).handlers:
                if not any(isinstance(present, PrivacyFilter) for present in handler.filters):
                    handler.addFilter(PrivacyFilter())
