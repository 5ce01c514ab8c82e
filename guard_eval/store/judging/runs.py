"""Processes that let a model rate: whose claims hold, and whose have ended.

A run is over when it says so, when its lease runs out, or when its process is known to have ended, which
can be known on the machine it ran on. So what was killed here can be continued at once, and what was killed
elsewhere after one lease.
"""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store.judging.schema import request
from guard_eval.store.judging.values import JudgeRun
from guard_eval.store.raters import standing
from guard_eval.store.schema import run

_LIVE = select(run.c.id, run.c.host, run.c.process).where(
    run.c.rater_id == bindparam("asked_rater"),
    run.c.ended_at.is_(None),
    run.c.leased_until > bindparam("asked_now"),
)


def begin(connection: Connection, rater: Rater, lease: timedelta, now: datetime) -> JudgeRun:
    """Note that a run begins; what ended runs had under way counts as lost from here on.

    Raises:
        StudyError: The rater is revoked, or the database does not know it.
    """
    if standing(connection, rater).revoked:
        raise StudyError(
            f"the rater {rater.name!r} is revoked; give the judge another name in study.toml to start "
            "from the beginning"
        )
    mark_lost(connection, rater, now)
    values = {
        "rater_id": rater.id,
        "host": _host(),
        "process": _process(os.getpid()),
        "started_at": now,
        "leased_until": now + lease,
    }
    number = connection.execute(insert(run).values(values).returning(run.c.id)).scalar_one()
    return JudgeRun(id=number, rater=rater, lease=lease)


def renew(connection: Connection, this: JudgeRun, now: datetime) -> None:
    """Let the claims of `this` run hold for one more lease from now."""
    connection.execute(update(run).where(run.c.id == this.id).values(leased_until=now + this.lease))


def end(connection: Connection, this: JudgeRun, now: datetime) -> None:
    """Give up what `this` run has claimed and not rated; what it sent without an answer counts as lost."""
    connection.execute(update(run).where(run.c.id == this.id, run.c.ended_at.is_(None)).values(ended_at=now))
    mark_lost(connection, this.rater, now)


def live(connection: Connection, rater: Rater, now: datetime) -> dict[int, bool]:
    """Return the rater's runs that may still be going, and of each whether that is known."""
    found = {}
    for row in connection.execute(_LIVE, {"asked_rater": rater.id, "asked_now": now}):
        here = row.host == _host()
        if not here or is_running(row.process):
            found[row.id] = here
    return found


def mark_lost(connection: Connection, rater: Rater, now: datetime) -> None:
    """Note as lost what ended runs of the rater had under way; its money stays set aside."""
    going = list(live(connection, rater, now))
    under_way = (
        request.c.rater_id == rater.id,
        request.c.state == "open",
        request.c.batch_id.is_(None),
        or_(request.c.run_id.is_(None), request.c.run_id.not_in(going)),
    )
    connection.execute(update(request).where(*under_way).values(state="lost", settled_at=now))


def is_running(process: str) -> bool:
    """Return whether a process of this machine, as `_process` names it, is still running.

    >>> is_running(_process(os.getpid()))
    True
    """
    number, _, began = process.partition(":")
    if os.name != "posix":
        return True  # not to be known; its lease tells
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _began(int(number))
    return now is None or now == began


def _process(number: int) -> str:
    return f"{number}:{_began(number) or ''}"


def _began(number: int) -> str | None:
    """Return when a process began, on Linux; an ended one that nobody has waited for began never."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    rest = fields.rpartition(")")[2].split()
    return "ended" if rest[0] in {"Z", "X"} else rest[19]


@cache
def _host() -> str:
    """Return what stands for this machine since it was started, and for what sees the same processes."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
