"""Log without secrets: the time, place and kind of an event, but never an invite or a text.

Messages of our own are written so. Of what others log, an address loses its query, which holds an invite, and
an exception its message, which may quote what a rater wrote. Its type and the lines of code remain, to find
the defect by; so does the system's own name of an error, such as `EMFILE: Too many open files`.
"""

import errno
import logging
import os
import re
import time
import traceback

OURS = "annotation_app"

PAUSE_SECONDS = 60.0
"""How often a warning that strangers can cause is logged at most."""

_last_warnings: dict[str, float] = {}


def warn_once_a_minute(message: str, *values: object) -> None:
    """Log a warning that visitors can cause: each message at most once a minute, with any values."""
    now = time.monotonic()
    if now - _last_warnings.get(message, -PAUSE_SECONDS) >= PAUSE_SECONDS:
        _last_warnings[message] = now
        logging.getLogger(OURS).warning(message, *values)


def hide_private(record: logging.LogRecord) -> logging.LogRecord:
    """Remove queries from a record's message, and messages from its exception."""
    record.msg = re.sub(r"\?[^\s\"']*", "?…", record.getMessage())
    record.args = ()
    if record.exc_info and record.exc_info[1]:
        kind, error, trace = record.exc_info
        name = f"{kind.__module__}.{kind.__qualname__} (message left out)"
        number = (error.errno or 0) if isinstance(error, OSError) else 0
        if number in errno.errorcode:
            name += f", {errno.errorcode[number]}: {os.strerror(number)}"
        record.exc_text = "".join(traceback.format_tb(trace)) + name
        record.exc_info = None
    return record


def set_up_logging() -> None:
    """Set up logging with times, and hide private data in records of other libraries."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    create = logging.getLogRecordFactory()

    def create_record(name: str, *args: object, **more: object) -> logging.LogRecord:
        return create(name, *args, **more) if name == OURS else hide_private(create(name, *args, **more))

    logging.setLogRecordFactory(create_record)
