"""Runs that claim pairs, requests with the money set aside for them, batches; more of every answer."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from guard_eval.store.migrations.triggers import append_only

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_KEY = "SHA-256 of the canonical request and the sample's index"
_STYLES = "chat, responses, batch or replay"


def upgrade() -> None:
    """Add the judge's tables; answers that are there become answered requests of unknown cost."""
    _make_run()
    _make_batch()
    _make_request()
    _extend_answer()
    op.execute(
        "INSERT INTO request (key, attempt, rater_id, presentation_id, style, state, sent_at, settled_at) "
        "SELECT answer.key, answer.attempt, presentation.rater_id, presentation.id, 'chat', 'answered', "
        "answer.at, answer.at FROM answer JOIN presentation ON presentation.id = answer.presentation_id"
    )


def _moment() -> sa.DateTime:
    return sa.DateTime(timezone=True)


def _make_run() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("rater_id", sa.Integer, nullable=False),
        sa.Column(
            "host", sa.String(64), nullable=False, comment="a hash that stands for the machine since it started"
        ),
        sa.Column(
            "process", sa.String(64), nullable=False, comment="the process's number there, and when it began"
        ),
        sa.Column("started_at", _moment(), nullable=False),
        sa.Column("leased_until", _moment(), nullable=False, comment="then, unless renewed, its claims are free"),
        sa.Column("ended_at", _moment()),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.ForeignKeyConstraint(["rater_id"], ["rater.id"], name="fk_run_rater_id"),
    )
    op.create_index("ix_run_rater_id", "run", ["rater_id"])
    # SQLite adds a reference only together with its column, which Alembic cannot write
    op.execute(
        "ALTER TABLE presentation ADD COLUMN run_id INTEGER CONSTRAINT fk_presentation_run_id REFERENCES run (id)"
    )
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("presentation", "run_id", comment="of a model's: which run has claimed it")


def _make_batch() -> None:
    op.create_table(
        "batch",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("rater_id", sa.Integer, nullable=False),
        sa.Column("run_id", sa.Integer, comment="who looks after it"),
        sa.Column("provider_id", sa.Text, comment="the provider's name for it, stored before it is polled"),
        sa.Column("input_file", sa.Text),
        sa.Column("output_file", sa.Text),
        sa.Column("error_file", sa.Text),
        sa.Column("status", sa.Text, nullable=False, comment="new, the provider's word, or done"),
        sa.Column("made_at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_batch"),
        sa.ForeignKeyConstraint(["rater_id"], ["rater.id"], name="fk_batch_rater_id"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_batch_run_id"),
    )
    op.create_index("ix_batch_rater_id", "batch", ["rater_id"])


def _make_request() -> None:
    op.create_table(
        "request",
        sa.Column("key", sa.Text, nullable=False, comment=_KEY),
        sa.Column("attempt", sa.Integer, nullable=False, comment="0, 1, … for one key"),
        sa.Column("rater_id", sa.Integer, nullable=False),
        sa.Column("presentation_id", sa.Integer),
        sa.Column("run_id", sa.Integer, comment="which run sends it"),
        sa.Column("batch_id", sa.Integer),
        sa.Column("style", sa.String(16), nullable=False, comment=_STYLES),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reserved", sa.BigInteger, comment="the most it can cost, in billionths of a US dollar"),
        sa.Column(
            "booked", sa.BigInteger, comment="what counts: the reserve, then the cost, or 0 if not billed"
        ),
        sa.Column("sent_at", _moment(), nullable=False),
        sa.Column("settled_at", _moment()),
        sa.PrimaryKeyConstraint("key", "attempt", name="pk_request"),
        sa.ForeignKeyConstraint(["rater_id"], ["rater.id"], name="fk_request_rater_id"),
        sa.ForeignKeyConstraint(["presentation_id"], ["presentation.id"], name="fk_request_presentation_id"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_request_run_id"),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"], name="fk_request_batch_id"),
        sa.CheckConstraint("attempt >= 0", name=op.f("ck_request_attempt")),
        sa.CheckConstraint(
            "state IN ('open', 'answered', 'released', 'lost')", name=op.f("ck_request_state")
        ),
        sa.CheckConstraint(
            "style IN ('chat', 'responses', 'batch', 'replay')", name=op.f("ck_request_style")
        ),
    )
    for column in ("rater_id", "presentation_id", "batch_id", "booked"):
        op.create_index(f"ix_request_{column}", "request", [column])


def _extend_answer() -> None:
    """Give `answer` more columns, and let it be of nothing in the study."""
    old = "key, attempt, presentation_id, status, body, request_id, model, input_tokens, output_tokens, seconds, at"
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("answer", "presentation_id", nullable=True)
        for column in _new_columns():
            op.add_column("answer", column)
        op.alter_column("answer", "backend", server_default=None)
        return
    # SQLite cannot loosen a column, so the table is made anew; dropping the old one fires no trigger
    fingerprint, cached, reasoning, usd, backend = _new_columns()
    backend.server_default = None
    op.create_table(
        "answer_new",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("presentation_id", sa.Integer),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("model", sa.Text),
        fingerprint,
        sa.Column("input_tokens", sa.Integer),
        cached,
        sa.Column("output_tokens", sa.Integer),
        reasoning,
        usd,
        backend,
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("key", "attempt", name="pk_answer"),
        sa.ForeignKeyConstraint(["presentation_id"], ["presentation.id"], name="fk_answer_presentation_id"),
        sa.CheckConstraint("attempt >= 0", name=op.f("ck_answer_attempt")),
    )
    op.execute(f"INSERT INTO answer_new ({old}, backend) SELECT {old}, 'chat' FROM answer")
    op.drop_table("answer")
    op.rename_table("answer_new", "answer")
    op.create_index("ix_answer_presentation_id", "answer", ["presentation_id"])
    append_only("answer")


def _new_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("fingerprint", sa.Text, comment="the server's name for its configuration"),
        sa.Column("cached_tokens", sa.Integer),
        sa.Column("reasoning_tokens", sa.Integer),
        sa.Column("usd", sa.Float(53)),
        sa.Column("backend", sa.String(16), nullable=False, server_default="chat", comment=_STYLES),
    ]
