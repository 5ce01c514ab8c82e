"""How full each pair is, so that a free slot of a large study is found at once; filled when first needed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the index of leases; the rows are counted from what is there by `occupancy`."""
    op.create_table(
        "occupancy",
        sa.Column("pool", sa.Text, nullable=False, comment="people or simulated"),
        sa.Column("pair_id", sa.Text, nullable=False),
        sa.Column(
            "ring",
            sa.Integer,
            nullable=False,
            comment="where hand-out comes past it: a hash of the pair's id",
        ),
        sa.Column("held", sa.Integer, nullable=False, comment="slots with a holder, or kept for somebody"),
        sa.Column("vacant", sa.Boolean, nullable=False, comment="fewer are held than there are to be"),
        sa.Column("position", sa.Integer, nullable=False, comment="this and the rest are the pair's own"),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("method_a", sa.Text, nullable=False),
        sa.Column("method_b", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("pool", "pair_id", name="pk_occupancy"),
        sa.ForeignKeyConstraint(["pair_id"], ["pair.id"], name="fk_occupancy_pair_id"),
        sa.CheckConstraint("held >= 0", name=op.f("ck_occupancy_held")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_occupancy_vacant", "occupancy", ["pool", "vacant", "ring"])
    waiting = sa.and_(
        sa.column("superseded", sa.Boolean) == sa.false(),
        sa.column("withdrawn", sa.Boolean) == sa.false(),
        sa.column("rated_at").is_(None),
    )
    op.create_index(
        "ix_presentation_lease",
        "presentation",
        ["pool", "leased_until"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
