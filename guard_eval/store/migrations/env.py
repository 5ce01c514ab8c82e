"""What Alembic runs to migrate, in the transaction that `guard_eval.store.upgrade` opened."""

from alembic import context

from guard_eval.store.schema import VERSION_TABLE, metadata


def migrate() -> None:
    """Run the migrations asked for."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        # true of SQLite too, where the store begins transactions itself
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


# Alembic gives `context` its attributes while it migrates; whatever else imports this file, such as pytest
# when it looks for doctests, must not migrate
if hasattr(context, "config"):
    migrate()
