"""Runs in batches."""

import pytest

from guard_eval.study.judge_settings import Judge
from judge.batch import Patience, run_batches
from judge.retry import Retry


@pytest.fixture
def run(store, judge, environ):
    """Judge the study in batches; settings may be changed by name."""

    def go(**more):
        settings = {name: more.pop(name) for name in list(more) if name in Judge.model_fields}
        return run_batches(
            store,
            judge.model_copy(update=settings),
            seed=11,
            retry=Retry(base=0.01, longest=0.02, timeout=5),
            patience=Patience(first=0.01, longest=0.02, second_look=0.01),
            environ=environ,
            **more,
        )

    return go
