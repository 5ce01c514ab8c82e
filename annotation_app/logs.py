"""What the server writes into its log: when, where and what, and never an invite or a text.

Messages of our own are written so. Of what others log, an address loses its query, which holds an invite, and
an exception its message, which may quote what a rater wrote. Its type and the lines of code remain, to find
the defect by.
"""

from __future__ import annotations

import logging
import re
import traceback

OURS = "annotation_app"


def hide_private(record: logging.LogRecord) -> logging.LogRecord:
    """Take queries out of a record's message, and messages out of its exception."""
    record.msg, record.args = re.sub(r"\?[^\s\"']*", "?…", record.getMessage()), ()
    if record.exc_info and record.exc_info[1]:
        kind, _, trace = record.exc_info
        name = f"{kind.__module__}.{kind.__qualname__} (message left out)"
        record.exc_text, record.exc_info = "".join(traceback.format_tb(trace)) + name, None
    return record


def set_up() -> None:
    """Let this process log times, and nothing private of what others log."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    create = logging.getLogRecordFactory()

    def create_record(name: str, *args: object, **more: object) -> logging.LogRecord:
        return create(name, *args, **more) if name == OURS else hide_private(create(name, *args, **more))

    logging.setLogRecordFactory(create_record)
