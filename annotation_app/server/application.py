"""The application `streamlit run` serves: the page, and the guards around it."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import streamlit as st
from anyio import to_thread
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from streamlit import config
from streamlit.runtime import runtime_util

from annotation_app.pages import endings, practice, questions, rating, screens, session, sign_in
from annotation_app.server import logs
from annotation_app.server.launch import PROXIES_VARIABLE
from annotation_app.server.middleware import (
    AddressFilter,
    CompressFiles,
    HidePath,
    SecurityHeaders,
    SendAtOnce,
)
from annotation_app.server.visitors import BrowserCookie, BytesOnly

_PAGE = Path(__file__).resolve().parents[1] / "pages" / "main.py"
CORES_VARIABLE = "GUARD_EVAL_CORES"
"""The environment variable that, when it says `all`, leaves the server on all cores."""
OUTGOING = 20_000_000
"""Bytes in which a page must fit that is sent to a rater: a pair's texts, mostly."""
_WARM = (endings, practice, questions, rating, screens, session, sign_in)
"""Imported before the first visitor, so that no rater waits for it and the frozen heap holds it."""


@asynccontextmanager
async def _lifespan(_app: st.App) -> AsyncIterator[None]:
    # Here all loggers have their handlers.
    logs.set_up()
    # Streamlit has one limit for both directions, which uvicorn has taken for what comes in.
    runtime_util._max_message_size_bytes = OUTGOING  # noqa: SLF001
    # What is loaded by now lives as long as the process: later collections need not walk through it.
    gc.freeze()
    if os.environ.get(CORES_VARIABLE) != "all":
        stay_on_one_core(int(config.get_option("server.port")))
    yield


def stay_on_one_core(port: int) -> None:
    """Keep this process's threads on one core: only one at a time runs Python.

    The interpreter's lock goes from thread to thread some thirty times a rating; to another core, that is a
    wake-up and cold caches, a third of the time. Replicas on one machine listen on different ports, and so
    take different cores.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[port % len(cores)]})


def _show_error_page(_error: Exception) -> bool:
    """Show a rater the same calm page for a defect, which Streamlit has logged by now."""
    screens.unavailable()
    return True


PATIENCE = 5.0
"""Seconds the database has for its answer."""

_LOG = logging.getLogger("annotation_app")
_NEVER_STORED = {"Cache-Control": "no-store"}


async def health(_request: Request) -> JSONResponse:
    """Answer 200 when the study's database answers, 503 when it does not; the log says why."""
    try:
        with anyio.fail_after(PATIENCE):
            await to_thread.run_sync(_query_database, abandon_on_cancel=True)
    except session.STUDY_ERRORS as error:
        # TimeoutError is an OSError
        reason = str(error) or f"the database did not answer within {PATIENCE:.0f} s"
        _LOG.error("health: %s", reason)
        return JSONResponse({"status": "unavailable"}, status_code=503, headers=_NEVER_STORED)
    return JSONResponse({"status": "ok"}, headers=_NEVER_STORED)


def _query_database() -> None:
    session.open_state().store.study_hash()


app = st.App(
    _PAGE,
    lifespan=_lifespan,
    routes=[Route("/health", health)],
    middleware=[
        Middleware(SendAtOnce),
        Middleware(SecurityHeaders),
        Middleware(BrowserCookie),
        Middleware(BytesOnly),
        Middleware(AddressFilter, proxies=os.environ.get(PROXIES_VARIABLE, "")),
        Middleware(CompressFiles),
        Middleware(HidePath, page=_PAGE),
    ],
    on_script_error=_show_error_page,
)
