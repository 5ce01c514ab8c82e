"""The first schema."""

import sqlalchemy as sa
from alembic import op

from guard_eval.store.migrations.triggers import append_only

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = ("verdict", "answer")


def upgrade() -> None:
    """Make all tables, and the triggers that keep verdicts and answers as they came."""
    _make_study()
    _make_presentation()
    _make_collected()
    for table in APPEND_ONLY:
        append_only(table)


def _moment() -> sa.DateTime:
    return sa.DateTime(timezone=True)


def _make_study() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), nullable=False, comment="such as study_hash"),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "rater",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False, comment="a pseudonym, or a model's name"),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("token_hash", sa.String(64), comment="SHA-256 of the invitation; the token is stored nowhere"),
        sa.Column("created_at", _moment(), nullable=False),
        sa.Column("revoked_at", _moment(), comment="from then on the rater is let in no more"),
        sa.PrimaryKeyConstraint("id", name="pk_rater"),
        sa.UniqueConstraint("name", name="uq_rater_name"),
        sa.UniqueConstraint("token_hash", name="uq_rater_token_hash"),
        sa.CheckConstraint("kind IN ('person', 'model', 'simulated')", name=op.f("ck_rater_kind")),
    )
    op.create_table(
        "pair",
        sa.Column("id", sa.Text, nullable=False, comment="hash of methods and continuations"),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("prompt_id", sa.Text, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("method_a", sa.Text, nullable=False),
        sa.Column("method_b", sa.Text, nullable=False),
        sa.Column("continuation_a", sa.Text, nullable=False),
        sa.Column("continuation_b", sa.Text, nullable=False),
        sa.Column("text_a", sa.Text, nullable=False),
        sa.Column("text_b", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False, comment="its parity and the slot's decide the sides"),
        sa.PrimaryKeyConstraint("id", name="pk_pair"),
    )


def _make_presentation() -> None:
    op.create_table(
        "presentation",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("pair_id", sa.Text, nullable=False),
        sa.Column("rater_id", sa.Integer, nullable=False),
        sa.Column("pool", sa.Text, nullable=False, comment="people, simulated, or model: and the model's name"),
        sa.Column("slot", sa.Integer, nullable=False, comment="which of the pair's planned showings in its pool: 0, 1, …"),
        sa.Column("attempt", sa.Integer, nullable=False, comment="how often the slot had been handed out before"),
        sa.Column("first", sa.String(1), nullable=False, comment="which of the pair's texts is shown as A"),
        sa.Column("handed_out", _moment(), nullable=False),
        sa.Column("leased_until", _moment(), nullable=False, comment="then, if unrated, the slot may go to another"),
        sa.Column("rated_at", _moment(), comment="when the first verdict came"),
        sa.Column("superseded", sa.Boolean, nullable=False, comment="the slot went to another while this was unrated"),
        sa.PrimaryKeyConstraint("id", name="pk_presentation"),
        sa.ForeignKeyConstraint(["pair_id"], ["pair.id"], name="fk_presentation_pair_id"),
        sa.ForeignKeyConstraint(["rater_id"], ["rater.id"], name="fk_presentation_rater_id"),
        sa.UniqueConstraint("pair_id", "pool", "slot", "attempt", name="uq_presentation_pair_id_pool_slot_attempt"),
        sa.CheckConstraint("first IN ('a', 'b')", name=op.f("ck_presentation_first")),
        sa.CheckConstraint("slot >= 0 AND attempt >= 0", name=op.f("ck_presentation_counted")),
    )
    holds = sa.column("superseded", sa.Boolean) == sa.false()
    op.create_index(
        "uq_presentation_holder",
        "presentation",
        ["pool", "pair_id", "slot"],
        unique=True,
        sqlite_where=holds,
        postgresql_where=holds,
    )
    once = sa.text("pool IN ('people', 'simulated')")
    op.create_index(
        "uq_presentation_once",
        "presentation",
        ["rater_id", "pair_id"],
        unique=True,
        sqlite_where=once,
        postgresql_where=once,
    )
    op.create_index("ix_presentation_rater", "presentation", ["rater_id", "rated_at"])


def _make_collected() -> None:
    op.create_table(
        "verdict",
        sa.Column("presentation_id", sa.Integer, nullable=False),
        sa.Column("criterion", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False, comment="0, 1, …; the highest is current"),
        sa.Column("choice", sa.String(3), nullable=False, comment="by the letters on the screen, not by method"),
        sa.Column("at", _moment(), nullable=False),
        sa.Column("seconds", sa.Float(53)),
        sa.Column("active_seconds", sa.Float(53)),
        sa.PrimaryKeyConstraint("presentation_id", "criterion", "revision", name="pk_verdict"),
        sa.ForeignKeyConstraint(["presentation_id"], ["presentation.id"], name="fk_verdict_presentation_id"),
        sa.CheckConstraint("choice IN ('A', 'tie', 'B')", name=op.f("ck_verdict_choice")),
        sa.CheckConstraint("revision >= 0", name=op.f("ck_verdict_revision")),
    )
    op.create_table(
        "answer",
        sa.Column("key", sa.Text, nullable=False, comment="SHA-256 of the canonical request and the sample's index"),
        sa.Column("attempt", sa.Integer, nullable=False, comment="0, 1, … for one key"),
        sa.Column("presentation_id", sa.Integer, nullable=False),
        sa.Column("status", sa.Integer, nullable=False, comment="HTTP status"),
        sa.Column("body", sa.LargeBinary, nullable=False, comment="the response as it came"),
        sa.Column("request_id", sa.Text),
        sa.Column("model", sa.Text, comment="the snapshot the server says it used"),
        sa.Column("input_tokens", sa.Integer),
        sa.Column("output_tokens", sa.Integer),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("key", "attempt", name="pk_answer"),
        sa.ForeignKeyConstraint(["presentation_id"], ["presentation.id"], name="fk_answer_presentation_id"),
        sa.CheckConstraint("attempt >= 0", name=op.f("ck_answer_attempt")),
    )
    op.create_index("ix_answer_presentation_id", "answer", ["presentation_id"])
    op.create_table(
        "failure",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("presentation_id", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_failure"),
        sa.ForeignKeyConstraint(["presentation_id"], ["presentation.id"], name="fk_failure_presentation_id"),
    )
    op.create_index("ix_failure_presentation_id", "failure", ["presentation_id"])
