"""A server of both dialects on 127.0.0.1, and a judge that is asked there."""

import functools
import ssl

import pytest
from fake_openai import FakeOpenAI

from guard_eval.study.judge_settings import Judge
from judge.retry import Retry
from judge.run import run_judge

_trust = functools.cache(ssl.create_default_context)


@pytest.fixture(autouse=True)
def _certificates_are_read_once(monkeypatch):
    monkeypatch.setattr(ssl, "create_default_context", _trust)


@pytest.fixture
def provider():
    made = FakeOpenAI()
    yield made
    made.close()


@pytest.fixture
def judge(provider):
    return Judge(
        model="gpt-4o-2024-11-20",
        base_url=provider.url,
        api_key_env="JUDGE_KEY",
        criteria=["fluency", "coherence"],
        concurrency=4,
        usd_per_million_input_tokens=2.0,
        usd_per_million_output_tokens=8.0,
        batch_factor=0.5,
    )


@pytest.fixture
def run(store, judge, environ):
    """Judge the study online; settings may be changed by name."""

    def go(**more):
        settings = {name: more.pop(name) for name in list(more) if name in Judge.model_fields}
        more.setdefault("environ", environ)
        retry = Retry(base=0.01, longest=0.02, timeout=5)
        return run_judge(store, judge.model_copy(update=settings), seed=11, retry=retry, **more)

    return go
