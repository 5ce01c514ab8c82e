"""The application `streamlit run` serves: the page, and the guards around it."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.routing import Route
from streamlit import config

from annotation_app import logs, rating, screens, session
from annotation_app.health import health
from annotation_app.wire import HideInternals, HidePath, SecurityHeaders, SendAtOnce

_PAGE = Path(__file__).resolve().with_name("page.py")
CORES_VARIABLE = "GUARD_EVAL_CORES"
"""The environment variable that, when it says `all`, leaves the server on all cores."""
_WARM = (rating, screens, session)
"""Imported before the first visitor, so that nobody waits for it and the frozen heap holds it."""


@asynccontextmanager
async def _lifespan(_app: st.App) -> AsyncIterator[None]:
    # Here all loggers have their handlers.
    logs.set_up()
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


def _calm(_error: Exception) -> bool:
    """Show a rater the same calm page for a defect, which Streamlit has logged by now."""
    screens.trouble()
    return True


app = st.App(
    _PAGE,
    lifespan=_lifespan,
    routes=[Route("/health", health)],
    middleware=[
        Middleware(SendAtOnce),
        Middleware(SecurityHeaders),
        Middleware(HideInternals),
        Middleware(HidePath, page=_PAGE),
    ],
    on_script_error=_calm,
)
