"""What is logged holds no invite and no text, and still says where a defect is."""

import io
import logging
from pathlib import Path

import pytest
from streamlit import config, error_util

from annotation_app import logs
from annotation_app.server import OPTIONS

TEXT = "what a rater wrote"


@pytest.fixture
def others():
    """A logger of Streamlit's, as it sets them up, and what it writes."""
    logger, written = logging.getLogger("streamlit.test_logs"), io.StringIO()
    logger.addHandler(logging.StreamHandler(written))
    logger.propagate = False
    create = logging.getLogRecordFactory()
    logs.set_up_logging()
    yield logger, written
    logging.setLogRecordFactory(create)
    logger.handlers.clear()


def test_logs_hide_messages_of_exceptions_and_queries_of_urls(others):
    logger, written = others
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


def test_logs_keep_the_names_of_system_errors(others):
    logger, written = others
    try:
        Path(f"/{TEXT}").read_bytes()
    except OSError:
        logger.exception("Uncaught app execution")
    assert written.getvalue().splitlines()[-1].endswith("ENOENT: No such file or directory")
    assert TEXT not in written.getvalue()


def test_streamlit_prints_no_exception_past_the_filter(others, capfd, caplog):
    config.set_option("logger.enableRich", OPTIONS["logger.enableRich"])
    error_util.handle_uncaught_app_exception(ValueError(TEXT))
    assert TEXT not in "".join(capfd.readouterr())
    assert "ValueError (message left out)" in caplog.text
