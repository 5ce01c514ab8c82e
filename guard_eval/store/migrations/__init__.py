"""The history of the schema, as Alembic scripts; `guard_eval.store.upgrade` runs them."""
