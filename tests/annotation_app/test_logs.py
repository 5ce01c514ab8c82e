"""What is logged holds no invite and no text, and still says where a defect is."""

import io
import logging

import pytest
from streamlit import config, error_util

from annotation_app import logs
from annotation_app.server import OPTIONS

TOKEN = "m66UrAJFSbK_Ko5HuUPPAq9s0e6yYAbB1LObFORFjr4"
TEXT = "what a rater wrote"


@pytest.fixture
def others():
    """A logger of Streamlit's, as it sets them up, and what it writes."""
    logger, written = logging.getLogger("streamlit.test_logs"), io.StringIO()
    logger.addHandler(logging.StreamHandler(written))
    logger.propagate = False
    create = logging.getLogRecordFactory()
    logs.set_up()
    yield logger, written
    logging.setLogRecordFactory(create)
    logger.handlers.clear()


def test_an_exception_keeps_its_place_and_loses_its_message(others):
    logger, written = others
    try:
        {}[TEXT]
    except KeyError:
        logger.exception("Uncaught app execution")
    text = written.getvalue()
    assert TEXT not in text
    assert [part for part in ("Uncaught app execution", "test_logs.py", "KeyError") if part not in text] == []


def test_streamlit_prints_no_defect_past_the_filter(others, capfd, monkeypatch):
    logger, written = others
    monkeypatch.setattr(error_util, "_LOGGER", logger)
    before = config.get_option("logger.enableRich")
    config.set_option("logger.enableRich", OPTIONS["logger.enableRich"])
    try:
        error_util.handle_uncaught_app_exception(ValueError(TEXT))
    finally:
        config.set_option("logger.enableRich", before)
    assert TEXT not in "".join(capfd.readouterr()) + written.getvalue()
    assert "ValueError" in written.getvalue()


def test_an_address_loses_its_query(others):
    logger, written = others
    logger.error('%s - "WebSocket %s" [accepted]', "127.0.0.1:4", f"/_stcore/stream?invite={TOKEN}&x=1")
    assert written.getvalue() == '127.0.0.1:4 - "WebSocket /_stcore/stream?…" [accepted]\n'
