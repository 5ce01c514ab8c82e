"""Notes, gold pairs and repeats, exclusion, and raters who come by themselves."""

import sqlalchemy as sa
from alembic import op

from guard_eval.store.migrations.triggers import append_only

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

APPEND_ONLY = ("pair", "gold", "assignment", "note")


def upgrade() -> None:
    """Add the new tables and columns; what is there keeps its meaning, by the columns' defaults."""
    _extend_rater()
    _extend_presentation()
    _make_gold()
    _make_assignment()
    _make_note()
    for table in APPEND_ONLY:
        append_only(table)


def _moment() -> sa.DateTime:
    return sa.DateTime(timezone=True)


def _extend_rater() -> None:
    for column in (
        sa.Column("excluded_at", _moment(), comment="set while the rater's verdicts are left out"),
        sa.Column("source", sa.Text, comment="where somebody nobody invited came from, such as prolific"),
        sa.Column("external_id", sa.Text, comment="the source's own name for the rater, who is paid by it"),
    ):
        op.add_column("rater", column)
    op.create_index("uq_rater_source", "rater", ["source", "external_id"], unique=True)
    op.create_table(
        "visit",
        sa.Column("token_hash", sa.String(64), nullable=False, comment="SHA-256 of a token given to an enrolled rater"),
        sa.Column("rater_id", sa.Integer, nullable=False),
        sa.Column("created_at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_visit"),
        sa.ForeignKeyConstraint(["rater_id"], ["rater.id"], name="fk_visit_rater_id"),
    )
    op.create_index("ix_visit_rater_id", "visit", ["rater_id"])


def _extend_presentation() -> None:
    withdrawn = "the rater is excluded, and the slot free"
    op.add_column(
        "presentation",
        sa.Column("withdrawn", sa.Boolean, nullable=False, server_default=sa.false(), comment=withdrawn),
    )
    # SQLite adds a rule only together with its column, which Alembic cannot write
    op.execute(
        "ALTER TABLE presentation ADD COLUMN role VARCHAR(8) DEFAULT 'study' NOT NULL "
        "CONSTRAINT ck_presentation_role CHECK (role IN ('study', 'gold', 'repeat'))"
    )
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("presentation", "role", comment="study, gold or repeat")
        pool = "people, simulated, model: and the model's name, or checks: and the rater's id"
        op.alter_column("presentation", "pool", comment=pool)
    op.drop_index("uq_presentation_holder", "presentation")
    holds = sa.and_(
        sa.column("superseded", sa.Boolean) == sa.false(), sa.column("withdrawn", sa.Boolean) == sa.false()
    )
    op.create_index(
        "uq_presentation_holder",
        "presentation",
        ["pool", "pair_id", "slot"],
        unique=True,
        sqlite_where=holds,
        postgresql_where=holds,
    )


def _make_gold() -> None:
    op.create_table(
        "gold",
        sa.Column("pair_id", sa.Text, nullable=False, comment="a pair outside the study"),
        sa.Column("criterion", sa.Text, nullable=False),
        sa.Column("expected", sa.String(1), nullable=False, comment="which text is clearly better"),
        sa.PrimaryKeyConstraint("pair_id", "criterion", name="pk_gold"),
        sa.ForeignKeyConstraint(["pair_id"], ["pair.id"], name="fk_gold_pair_id"),
        sa.CheckConstraint("expected IN ('a', 'b')", name=op.f("ck_gold_expected")),
    )


def _make_assignment() -> None:
    op.create_table(
        "assignment",
        sa.Column("pair_id", sa.Text, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("rater_id", sa.Integer, nullable=False, comment="for whom the slot is kept"),
        sa.Column("first", sa.String(1), nullable=False, comment="which of the pair's texts is shown as A"),
        sa.PrimaryKeyConstraint("pair_id", "slot", name="pk_assignment"),
        sa.ForeignKeyConstraint(["pair_id"], ["pair.id"], name="fk_assignment_pair_id"),
        sa.ForeignKeyConstraint(["rater_id"], ["rater.id"], name="fk_assignment_rater_id"),
        sa.UniqueConstraint("rater_id", "pair_id", name="uq_assignment_rater_id_pair_id"),
        sa.CheckConstraint("first IN ('a', 'b')", name=op.f("ck_assignment_first")),
    )


def _make_note() -> None:
    op.create_table(
        "note",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("rater_id", sa.Integer, nullable=False),
        sa.Column("presentation_id", sa.Integer),
        sa.Column("kind", sa.String(16), nullable=False, comment="such as consent, comment or exclude"),
        sa.Column("detail", sa.Text, nullable=False, comment="text, or JSON, as the kind has it"),
        sa.Column("at", _moment(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_note"),
        sa.ForeignKeyConstraint(["rater_id"], ["rater.id"], name="fk_note_rater_id"),
        sa.ForeignKeyConstraint(["presentation_id"], ["presentation.id"], name="fk_note_presentation_id"),
    )
    op.create_index("ix_note_rater_id", "note", ["rater_id"])
    op.create_index("ix_note_presentation_id", "note", ["presentation_id"])
