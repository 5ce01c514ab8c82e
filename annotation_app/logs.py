"""Log without secrets: the time, place and kind of an event, but never an invite or a text.

This app's own messages contain no secrets. In the records of other libraries, each address loses its query,
because a query contains an invite, and each exception loses its message, because a message may quote a rater.
To help find the defect, the exception keeps its type, the lines of code, and the system's name of the error,
such as `EMFILE: Too many open files`.
"""

import errno
import logging
import os
import re
import time
import traceback

OURS = "annotation_app"

PAUSE_SECONDS = 60.0
"""The shortest time between two records of the same warning, if strangers can cause the warning."""

_last_warnings: dict[str, float] = {}


def warn_once_a_minute(message: str, *values: object) -> None:
    """Log a warning that visitors can cause, at most once a minute for each text, even with other values."""
    now = time.monotonic()
    if now - _last_warnings.get(message, -PAUSE_SECONDS) >= PAUSE_SECONDS:
        _last_warnings[message] = now
        logging.getLogger(OURS).warning(message, *values)


def hide_private_data(record: logging.LogRecord) -> logging.LogRecord:
    """Remove the queries of addresses from a log record's message, and the text of its exception."""
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
        record = create(name, *args, **more)
        return record if name == OURS else hide_private_data(record)

    logging.setLogRecordFactory(create_record)
