"""What the server writes into its log: when, where and what, and never an invite or a text.

Messages of our own are written so. What Streamlit and its server log by themselves passes through a filter:
an address loses its query, which holds an invite, and an exception its message, which may quote what a
rater wrote; its type and the lines of code are left to find the defect by.
"""

from __future__ import annotations

import logging
import re
import traceback

OURS = "annotation_app"
OTHERS = ("uvicorn", "uvicorn.error", "uvicorn.asgi", "uvicorn.access", "websockets")

_QUERY = re.compile(r"\?[^\s\"']*")


class PrivacyFilter(logging.Filter):
    """Take queries out of a record's message, and messages out of its exception."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True: every record is logged."""
        record.msg, record.args = _QUERY.sub("?…", record.getMessage()), ()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            record.exc_text, record.exc_info = _trace(error), None
        return True


def _trace(error: BaseException) -> str:
    lines = []
    while True:
        frames = "".join(traceback.format_tb(error.__traceback__))
        lines.append(f"{frames}{type(error).__module__}.{type(error).__qualname__} (message left out)")
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None:
            return "\ncaused:\n".join(reversed(lines))
        error = before


def set_up() -> None:
    """Give our messages a time and all others the filter; doing it again changes nothing."""
    ours = logging.getLogger(OURS)
    if not any(type(handler) is logging.StreamHandler for handler in ours.handlers):
        console = logging.StreamHandler()
        console.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        ours.addHandler(console)
        ours.propagate = False
    loggers = [
        logging.getLogger(name)
        for name in logging.root.manager.loggerDict
        if name in OTHERS or name.partition(".")[0] == "streamlit"
    ]
    for logger in loggers:
        # at the handlers: a logger's own filter does not see what its children pass on
        for handler in logger.handlers:
            if not any(isinstance(present, PrivacyFilter) for present in handler.filters):
                handler.addFilter(PrivacyFilter())
