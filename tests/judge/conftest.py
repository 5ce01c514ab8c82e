"""A server that misbehaves as a test decides, a judge that is asked there, and a study to judge."""

import functools
import ssl
from datetime import timedelta

import fake_openai
import pytest
from fake_openai import KEY, FakeOpenAI

from guard_eval.cli.judge import command
from guard_eval.records import BlindPair, Pair
from guard_eval.store import Store
from guard_eval.study.judge_settings import Judge
from judge.failures import Retry
from judge.run import Patience, run_judge

_trust = functools.cache(ssl.create_default_context)


@pytest.fixture(autouse=True)
def _certificates_are_read_once(monkeypatch):
    monkeypatch.setattr(ssl, "create_default_context", _trust)


@pytest.fixture
def server():
    made = FakeOpenAI()
    yield made
    made.close()


@pytest.fixture
def fake():
    """Give tests the answers that the server can be made to send."""
    return fake_openai


@pytest.fixture
def key(server, monkeypatch):
    """Have a key and the server's address in the environment, as a user has."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return KEY


@pytest.fixture
def printed(capsys):
    """Run the command, and return what it printed."""

    def run(folder, **options):
        command(folder, **options)
        return capsys.readouterr().out

    return run


@pytest.fixture
def environ():
    """Hold the key that `judge` names."""
    return {"JUDGE_KEY": KEY}


@pytest.fixture
def judge(server):
    return Judge(
        model="gpt-4o-2024-11-20",
        base_url=server.url,
        api_key_env="JUDGE_KEY",
        criteria=["fluency", "coherence"],
        concurrency=4,
        usd_per_million_input_tokens=2.0,
        usd_per_million_output_tokens=8.0,
        batch_factor=0.5,
    )


@pytest.fixture
def run(store, judge, environ, lease):
    """Judge the study; settings of the judge and options of the run may be changed by name."""

    def go(**more):
        settings = {name: more.pop(name) for name in list(more) if name in Judge.model_fields}
        options = {
            "lease": lease,
            "environ": environ,
            "retry": Retry(base=0.01, longest=0.02, timeout=5),
            "patience": Patience(first=0.01, longest=0.02, second_look=0.01),
            **more,
        }
        return run_judge(store, judge.model_copy(update=settings), seed=11, **options)

    return go


def make_pair(number, *, text_a=None, text_b=None):
    text_a = f"first text number {number}" if text_a is None else text_a
    text_b = f"second text number {number}" if text_b is None else text_b
    first, second = f"ca{number}", f"cb{number}"
    return Pair(
        id=Pair.make_id("guard", "top_k(k=50)", first, second),
        dataset="wikitext",
        prompt_id=f"p{number}",
        prompt=f"prompt number {number}",
        method_a="guard",
        method_b="top_k(k=50)",
        continuation_a=first,
        continuation_b=second,
        text_a=text_a,
        text_b=text_b,
        position=number,
    )


@pytest.fixture
def pair():
    return make_pair


@pytest.fixture
def pairs(store, pair):
    """Add so many pairs to the study."""
    return lambda count, **more: store.add_pairs([pair(number, **more) for number in range(count)])


@pytest.fixture
def blind():
    def make(text_a="one text", text_b="another text", prompt="a prompt", presentation=1):
        return BlindPair(presentation=presentation, prompt=prompt, text_a=text_a, text_b=text_b)

    return make


@pytest.fixture
def database(new_database, tmp_path):
    return new_database(tmp_path)


@pytest.fixture
def store(database):
    with Store.open(database) as opened:
        yield opened


@pytest.fixture
def lease():
    return timedelta(minutes=30)
