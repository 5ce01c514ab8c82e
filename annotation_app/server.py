"""The application `streamlit run` serves: the page, and the guards around it."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.routing import Route

from annotation_app import logs, rating, screens, session
from annotation_app.health import health
from annotation_app.wire import HideInternals, HidePath, SecurityHeaders

_PAGE = Path(__file__).resolve().with_name("page.py")
_WARM = (rating, screens, session)
"""Imported before the first visitor, so that nobody waits for it and the frozen heap holds it."""


@asynccontextmanager
async def _lifespan(_app: st.App) -> AsyncIterator[None]:
    # Here all loggers have their handlers.
    logs.set_up()
    # What is loaded by now lives as long as the process: later collections need not walk through it.
    gc.freeze()
    yield


def _calm(_error: Exception) -> bool:
    """Show a rater the same calm page for a defect, which Streamlit has logged by now."""
    screens.trouble()
    return True


app = st.App(
    _PAGE,
    lifespan=_lifespan,
    routes=[Route("/health", health)],
    middleware=[Middleware(SecurityHeaders), Middleware(HideInternals), Middleware(HidePath, page=_PAGE)],
    on_script_error=_calm,
)
