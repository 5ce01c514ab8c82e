"""The first schema: all tables, their indexes, and the triggers of those that are append-only."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = ("pair", "gold", "assignment", "verdict", "note", "answer")
"""The tables whose rows the database itself refuses to change or remove."""

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make what `guard_eval.store.schema` and `guard_eval.store.judging.schema` say."""
    _make_study()
    _make_judging_runs()
    _make_presentation()
    _make_collected()
    _make_judging()
    for table in APPEND_ONLY:
        _refuse_changes(table)


def _make_study() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "rater",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("token_hash", sa.String(64), unique=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("revoked_at", _MOMENT),
        sa.Column("excluded_at", _MOMENT),
        sa.Column("source", sa.Text),
        sa.Column("external_id", sa.Text),
        sa.CheckConstraint("kind IN ('person', 'model', 'simulated')", name="kind"),
    )
    op.create_index("uq_rater_source", "rater", ["source", "external_id"], unique=True)
    op.create_table(
        "visit",
        sa.Column("token_hash", sa.String(64), primary_key=True),
        sa.Column("rater_id", sa.Integer, sa.ForeignKey("rater.id"), nullable=False, index=True),
        sa.Column("created_at", _MOMENT, nullable=False),
    )
    op.create_table(
        "pair",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("prompt_id", sa.Text, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("method_a", sa.Text, nullable=False),
        sa.Column("method_b", sa.Text, nullable=False),
        sa.Column("continuation_a", sa.Text, nullable=False),
        sa.Column("continuation_b", sa.Text, nullable=False),
        sa.Column("text_a", sa.Text, nullable=False),
        sa.Column("text_b", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("for_people", sa.Boolean, nullable=False, server_default=sa.true()),
    )
    op.create_table(
        "gold",
        sa.Column("pair_id", sa.Text, sa.ForeignKey("pair.id"), primary_key=True),
        sa.Column("criterion", sa.Text, primary_key=True),
        sa.Column("expected", sa.String(1), nullable=False),
        sa.CheckConstraint("expected IN ('a', 'b')", name="expected"),
    )
    op.create_table(
        "assignment",
        sa.Column("pair_id", sa.Text, sa.ForeignKey("pair.id"), primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("rater_id", sa.Integer, sa.ForeignKey("rater.id"), nullable=False),
        sa.Column("first", sa.String(1), nullable=False),
        sa.UniqueConstraint("rater_id", "pair_id"),
        sa.CheckConstraint("first IN ('a', 'b')", name="first"),
    )
    op.create_table(
        "occupancy",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("pair_id", sa.Text, sa.ForeignKey("pair.id"), primary_key=True),
        sa.Column("ring", sa.Integer, nullable=False),
        sa.Column("held", sa.Integer, nullable=False),
        sa.Column("vacant", sa.Boolean, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("method_a", sa.Text, nullable=False),
        sa.Column("method_b", sa.Text, nullable=False),
        sa.CheckConstraint("held >= 0", name="held"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_occupancy_vacant", "occupancy", ["pool", "vacant", "ring"])


def _make_judging_runs() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("rater_id", sa.Integer, sa.ForeignKey("rater.id"), nullable=False, index=True),
        sa.Column("host", sa.String(64), nullable=False),
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("leased_until", _MOMENT, nullable=False),
        sa.Column("ended_at", _MOMENT),
    )
    op.create_table(
        "batch",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("rater_id", sa.Integer, sa.ForeignKey("rater.id"), nullable=False, index=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id")),
        sa.Column("provider_id", sa.Text),
        sa.Column("input_file", sa.Text),
        sa.Column("output_file", sa.Text),
        sa.Column("error_file", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("made_at", _MOMENT, nullable=False),
    )


def _make_presentation() -> None:
    op.create_table(
        "presentation",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("pair_id", sa.Text, sa.ForeignKey("pair.id"), nullable=False),
        sa.Column("rater_id", sa.Integer, sa.ForeignKey("rater.id"), nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("first", sa.String(1), nullable=False),
        sa.Column("handed_out", _MOMENT, nullable=False),
        sa.Column("leased_until", _MOMENT, nullable=False),
        sa.Column("rated_at", _MOMENT),
        sa.Column("superseded", sa.Boolean, nullable=False),
        sa.Column("withdrawn", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("role", sa.String(8), nullable=False, server_default="study"),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id")),
        sa.CheckConstraint("first IN ('a', 'b')", name="first"),
        sa.CheckConstraint("slot >= 0 AND attempt >= 0", name="counted"),
        sa.CheckConstraint("role IN ('study', 'gold', 'repeat')", name="role"),
        sa.UniqueConstraint("pair_id", "pool", "slot", "attempt"),
    )
    # written as the statements that use them: SQLite compares the conditions word by word
    not_replaced = sa.column("superseded", sa.Boolean) == sa.false()
    holds = sa.and_(not_replaced, sa.column("withdrawn", sa.Boolean) == sa.false())
    once = sa.text("pool IN ('people', 'simulated')")
    waiting = sa.and_(holds, sa.column("rated_at").is_(None))
    _make_index("uq_presentation_holder", ["pool", "pair_id", "slot"], holds, unique=True)
    _make_index("uq_presentation_once", ["rater_id", "pair_id"], once, unique=True)
    _make_index("ix_presentation_lease", ["pool", "leased_until"], waiting)
    op.create_index("ix_presentation_rater", "presentation", ["rater_id", "rated_at"])


def _make_index(
    name: str, columns: list[str], where: sa.ColumnElement[bool] | sa.TextClause, *, unique: bool = False
) -> None:
    """Make an index of those presentations for which `where` is true."""
    op.create_index(name, "presentation", columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _make_collected() -> None:
    op.create_table(
        "verdict",
        sa.Column("presentation_id", sa.Integer, sa.ForeignKey("presentation.id"), primary_key=True),
        sa.Column("criterion", sa.Text, primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("choice", sa.String(3), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("seconds", sa.Float(53)),
        sa.Column("active_seconds", sa.Float(53)),
        sa.CheckConstraint("choice IN ('A', 'tie', 'B')", name="choice"),
        sa.CheckConstraint("revision >= 0", name="revision"),
    )
    op.create_table(
        "note",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("rater_id", sa.Integer, sa.ForeignKey("rater.id"), nullable=False, index=True),
        sa.Column("presentation_id", sa.Integer, sa.ForeignKey("presentation.id"), index=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
    )


def _make_judging() -> None:
    op.create_table(
        "request",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("rater_id", sa.Integer, sa.ForeignKey("rater.id"), nullable=False, index=True),
        sa.Column("presentation_id", sa.Integer, sa.ForeignKey("presentation.id"), index=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id")),
        sa.Column("batch_id", sa.Integer, sa.ForeignKey("batch.id"), index=True),
        sa.Column("style", sa.String(16), nullable=False),
        sa.Column("shape", sa.Text),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reserved", sa.BigInteger),
        sa.Column("booked", sa.BigInteger),
        sa.Column("sent_at", _MOMENT, nullable=False),
        sa.Column("settled_at", _MOMENT),
        sa.CheckConstraint("style IN ('chat', 'responses', 'batch', 'replay')", name="style"),
        sa.CheckConstraint("attempt >= 0", name="attempt"),
        sa.CheckConstraint("state IN ('open', 'answered', 'released', 'lost')", name="state"),
    )
    op.create_index("ix_request_booked", "request", ["booked"])
    op.create_table(
        "answer",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("presentation_id", sa.Integer, sa.ForeignKey("presentation.id"), index=True),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("fingerprint", sa.Text),
        sa.Column("input_tokens", sa.Integer),
        sa.Column("cached_tokens", sa.Integer),
        sa.Column("output_tokens", sa.Integer),
        sa.Column("reasoning_tokens", sa.Integer),
        sa.Column("usd", sa.Float(53)),
        sa.Column("backend", sa.String(16), nullable=False),
        sa.Column("shape", sa.Text),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.CheckConstraint("attempt >= 0", name="attempt"),
    )
    op.create_table(
        "failure",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "presentation_id", sa.Integer, sa.ForeignKey("presentation.id"), nullable=False, index=True
        ),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
    )


def _refuse_changes(table: str) -> None:
    """Let rows be added to `table` and nothing else."""
    if op.get_bind().dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_append_only()"
    )
