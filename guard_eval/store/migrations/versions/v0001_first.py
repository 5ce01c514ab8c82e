"""The first schema: all tables, their indexes, and the triggers of those that are append-only."""

from alembic import op

from guard_eval.store.judging.schema import answer

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables that the code has now: no version has been published whose tables could differ.

    Write them out here before a published table is changed.
    """
    answer.metadata.create_all(op.get_bind())
