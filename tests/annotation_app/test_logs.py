"""Logs contain no invite and no text, but name the place of a defect."""

import io
import logging
from pathlib import Path

import pytest
from streamlit import config, error_util

from annotation_app import logs
from annotation_app.server import OPTIONS

TEXT = "what a rater wrote"


@pytest.fixture
def streamlit_log():
    """A logger of Streamlit, and the text that it writes."""
    logger, written = logging.getLogger("streamlit.test_logs"), io.StringIO()
    logger.addHandler(logging.StreamHandler(written))
    logger.propagate = False
    create = logging.getLogRecordFactory()
    logs.set_up_logging()
    yield logger, written
    logging.setLogRecordFactory(create)
    logger.handlers.clear()


def test_logs_hide_messages_of_exceptions_and_queries_of_urls(streamlit_log):
    logger, written = streamlit_log
    logger.error("%s %s", "WebSocket", "/_stcore/stream?invite=m66UrAJFSbK_Ko5H&x=1")
    try:
        {}[TEXT]
    except KeyError:
        logger.exception("Uncaught app execution")
    first, second, *trace, last = written.getvalue().splitlines()
    assert (first, second) == ("WebSocket /_stcore/stream?…", "Uncaught app execution")
    assert "test_logs.py" in trace[0]
    assert last == "builtins.KeyError (message left out)"
    assert TEXT not in written.getvalue()


def test_logs_keep_the_names_of_system_errors(streamlit_log):
    logger, written = streamlit_log
    try:
        Path(f"/{TEXT}").read_bytes()
    except OSError:
        logger.exception("Uncaught app execution")
    assert written.getvalue().splitlines()[-1].endswith("ENOENT: No such file or directory")
    assert TEXT not in written.getvalue()


def test_streamlit_prints_no_exception_message(streamlit_log, capfd, caplog):
    config.set_option("logger.enableRich", OPTIONS["logger.enableRich"])
    error_util.handle_uncaught_app_exception(ValueError(TEXT))
    assert TEXT not in "".join(capfd.readouterr())
    assert "ValueError (message left out)" in caplog.text
