"""The tables of the judge: what was asked and set aside for it, what came back, and what could not be judged.

`answer` and `sent` are append-only. A row of `request` is written before the request is sent and settled
once; its key and attempt are those of the answer it brought. `sent` has the request itself, written with it;
it is a table of its own so that sums over `request` need not read it. Money is counted in billionths of a US
dollar, so that a sum is exact.
"""

from __future__ import annotations

from typing import get_args

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
)

from guard_eval.store.judging.values import Style
from guard_eval.store.schema import ExactText, Moment, metadata, refuse_changes

batch = Table(
    "batch",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("run_id", Integer, ForeignKey("run.id"), doc="who looks after it"),
    Column("provider_id", ExactText, doc="the provider's name for it, stored before it is polled"),
    Column("input_file", ExactText),
    Column("output_file", ExactText),
    Column("error_file", ExactText),
    Column("status", ExactText, nullable=False, doc="new, the provider's word, or done"),
    Column("made_at", Moment, nullable=False),
)

request = Table(
    "request",
    metadata,
    Column(
        "key",
        ExactText,
        primary_key=True,
        doc="SHA-256 of what identifies the request: judge.request.RequestBuilder.key",
    ),
    Column("attempt", Integer, primary_key=True, autoincrement=False, doc="0, 1, … for one key"),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("presentation_id", Integer, ForeignKey("presentation.id"), index=True),
    Column("run_id", Integer, ForeignKey("run.id"), doc="which run sends it"),
    Column("batch_id", Integer, ForeignKey("batch.id"), index=True),
    Column("style", String(16), nullable=False, doc="the interface that was spoken, batch or replay"),
    Column("shape", ExactText, doc="dialect, output mode, the limit's name, and what was left out"),
    Column("state", String(16), nullable=False),
    Column("reserved", BigInteger, doc="the most it can cost, in billionths of a US dollar"),
    Column("booked", BigInteger, doc="what counts: the reserve, then the cost, or 0 if not billed"),
    Column("sent_at", Moment, nullable=False),
    Column("settled_at", Moment),
    CheckConstraint("attempt >= 0", name="attempt"),
    CheckConstraint("state IN ('open', 'answered', 'released', 'lost')", name="state"),
    CheckConstraint(f"style IN {get_args(Style)}", name="style"),
)

Index("ix_request_booked", request.c.booked)

sent_form = Table(
    "sent_form",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("shape", ExactText),
    Column("body", LargeBinary, nullable=False, doc="how a judge's requests in one shape begin"),
)

refuse_changes(sent_form)

sent = Table(
    "sent",
    metadata,
    Column("key", ExactText, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("form_id", Integer, ForeignKey("sent_form.id"), nullable=False),
    Column(
        "body",
        LargeBinary,
        nullable=False,
        doc="as it is sent, by zlib with the form as dictionary",
    ),
    ForeignKeyConstraint(["key", "attempt"], ["request.key", "request.attempt"]),
)

refuse_changes(sent)

answer = Table(
    "answer",
    metadata,
    Column(
        "key",
        ExactText,
        primary_key=True,
        doc="SHA-256 of what identifies the request: judge.request.RequestBuilder.key",
    ),
    Column("attempt", Integer, primary_key=True, autoincrement=False, doc="0, 1, … for one key"),
    Column("presentation_id", Integer, ForeignKey("presentation.id"), index=True),
    Column("status", Integer, nullable=False, doc="HTTP status"),
    Column("body", LargeBinary, nullable=False, doc="the response as it came"),
    Column("request_id", ExactText),
    Column("model", ExactText, doc="the snapshot the server says it used"),
    Column("fingerprint", ExactText, doc="the server's name for its configuration"),
    Column("input_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("written_tokens", Integer),
    Column("output_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("usd", Float(53)),
    Column("backend", String(16), nullable=False, doc="the interface that was spoken, batch or replay"),
    Column("shape", ExactText, doc="dialect, output mode, the limit's name, and what was left out"),
    Column("seconds", Float(53), nullable=False),
    Column("at", Moment, nullable=False),
    CheckConstraint("attempt >= 0", name="attempt"),
)

refuse_changes(answer)

failure = Table(
    "failure",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("presentation_id", Integer, ForeignKey("presentation.id"), nullable=False, index=True),
    Column("kind", ExactText, nullable=False),
    Column("detail", ExactText, nullable=False),
    Column("at", Moment, nullable=False),
)
