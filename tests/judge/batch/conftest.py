"""A judge that is asked in batches."""

import pytest
from sqlalchemy import select

from guard_eval.store.judging.schema import batch


@pytest.fixture
def judge(judge):
    return judge.model_copy(update={"style": "batch"})


@pytest.fixture
def batches(store):
    """Read the batches of the study."""

    def read():
        with store._database.read() as connection:
            return connection.execute(select(batch).order_by(batch.c.id)).all()

    return read
