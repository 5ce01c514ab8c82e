"""Fixtures: a server whose answers a test decides, a judge at this server, and a study to judge."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import factories
import pytest
from command_line import run_here
from fake_openai import KEY, FakeOpenAI

from guard_eval.records import BlindPair
from guard_eval.servers.price import find_price
from guard_eval.servers.server import find_server_url, make_server
from guard_eval.store import Store, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store.judging.requests import Question
from guard_eval.study import Study
from guard_eval.study.judge_settings import Judge
from judge.batches import BatchRun
from judge.questions import read_unjudged_questions
from judge.run import OnlineRun


@pytest.fixture
def server():
    fake = FakeOpenAI()
    yield fake
    fake.close()


@pytest.fixture
def environ():
    """Return an environment with the judge's key."""
    return {"JUDGE_KEY": KEY}


@pytest.fixture
def judge(server):
    return Judge(
        model="gpt-4o-2024-11-20",
        base_url=server.url,
        api_key_env="JUDGE_KEY",
        criteria=["fluency", "coherence"],
        concurrency=4,
        max_output_tokens=512,
        usd_per_million_tokens=[2.0, 8.0],
    )


PACE = 0.02


def judge_study(store, judge, environ, *, questions=None, batch=False, **more):
    """Ask a judge all questions that it has not answered yet."""
    options = {
        "server": make_server(judge, environ),
        "price": find_price(judge, find_server_url(judge, environ)),
        "pace": PACE,
        **more,
    }
    questions = read_unjudged_questions(store, judge, seed=11) if questions is None else questions
    online = OnlineRun(store, judge, seed=11, **options)
    return (BatchRun(online) if batch else online).judge_questions([questions])


@pytest.fixture
def run(store, judge, environ):
    """Return a function that runs a judge. Its arguments are settings of the judge and of the run."""

    def run_judge(opened=store, **more):
        settings = {name: more.pop(name) for name in list(more) if name in Judge.model_fields}
        return judge_study(opened, judge.model_copy(update=settings), environ, **more)

    return run_judge


PROGRAM = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from conftest import Judge, Store, judge_study
with Store.open(sys.argv[2]) as store:
    judge_study(store, Judge(**json.loads(sys.argv[3])), json.loads(sys.argv[4]), **json.loads(sys.argv[5]))
"""


@pytest.fixture
def spawn():
    """Return a function that starts Python in a new process. The processes are killed after the test."""
    started = []

    def start_python(*arguments, **more):
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        started.append(subprocess.Popen([sys.executable, *arguments], **pipes, text=True, **more))
        return started[-1]

    yield start_python
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def child(judge, database, environ, spawn):
    """Return a function that runs the judge in a new process, which a test can kill."""

    def start_run(*, batch=False, **settings):
        fields = {name: getattr(judge, name) for name in judge.model_fields_set} | settings
        paths = [str(Path(__file__).parent), *sys.path]
        return spawn(
            "-c", PROGRAM, json.dumps(paths), database, *map(json.dumps, (fields, environ, {"batch": batch}))
        )

    return start_run


@pytest.fixture
def guard_eval(monkeypatch, capsys, tmp_path, server):
    """Return a function that runs a command. The environment has the server's address and its key."""
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url, "XDG_CONFIG_HOME": str(tmp_path)}
    return lambda *arguments: run_here(monkeypatch, capsys, tmp_path, *arguments, **environ)


@pytest.fixture
def judge_command(guard_eval):
    """Return a function that runs `guard-eval judge` on the study of the fixture `study`."""
    return functools.partial(guard_eval, "judge", "s")


@pytest.fixture
def study(tmp_path):
    """Return a function that writes study.toml with further lines, and adds pairs to the study."""
    folder = tmp_path / "s"

    def make(lines, pairs=()):
        folder.mkdir(exist_ok=True)
        (folder / "study.toml").write_text(factories.STUDY_HEAD + lines)
        with Store.open(f"sqlite:///{folder / 'study.db'}", create=True) as store:
            store_pairs.add_pairs(store, list(pairs))
        return folder

    return make


@pytest.fixture
def judged():
    """Return a function that reads the verdicts of a study's folder."""

    def read_verdicts(folder):
        with Store.open(Study.open(folder).database) as store:
            return unblind.read_tidy_rows(store)

    return read_verdicts


@pytest.fixture
def pair():
    def make(number, **texts):
        texts = {"text_a": f"first text number {number}", "text_b": f"second text number {number}"} | texts
        ids = (f"ca{number}", f"cb{number}")
        return factories.make_pair(number, ids=ids, prompt=f"prompt number {number}", **texts)

    return make


@pytest.fixture
def pairs(store, pair):
    """Return a function that adds a number of pairs to the study."""
    return lambda count, **more: store_pairs.add_pairs(
        store, [pair(number, **more) for number in range(count)]
    )


@pytest.fixture
def blind():
    def make(text_a="one text", text_b="another text", prompt="a prompt"):
        return BlindPair(presentation=0, prompt=prompt, text_a=text_a, text_b=text_b)

    return make


@pytest.fixture
def question(blind):
    """Return a function that makes a question from texts."""

    def make(*, number=0, check=None, **texts):
        return Question(pair_id="p", number=number, check=check, blind=blind(**texts))

    return make


@pytest.fixture
def database(new_database, tmp_path):
    return new_database(tmp_path)


@pytest.fixture
def store(database):
    with Store.open(database) as opened:
        yield opened
