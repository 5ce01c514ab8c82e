"""`/health`: whether this server can serve raters, for whatever watches it."""

from __future__ import annotations

import logging

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse

from annotation_app import session

PATIENCE = 5.0
"""Seconds the database has for its answer."""

_LOG = logging.getLogger("annotation_app")
_NEVER_STORED = {"Cache-Control": "no-store"}


async def health(_request: Request) -> JSONResponse:
    """Answer 200 when the study's database answers, 503 when it does not; why stands in the log."""
    try:
        with anyio.fail_after(PATIENCE):
            await to_thread.run_sync(_ask, abandon_on_cancel=True)
    except session.TROUBLES as error:
        # TimeoutError is an OSError
        reason = str(error) or f"the database did not answer within {PATIENCE:.0f} s"
        _LOG.error("health: %s", reason)
        return JSONResponse({"status": "unavailable"}, status_code=503, headers=_NEVER_STORED)
    return JSONResponse({"status": "ok"}, headers=_NEVER_STORED)


def _ask() -> None:
    session.open_desk().store.study_hash()
