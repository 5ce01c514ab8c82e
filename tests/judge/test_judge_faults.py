"""What misled or blocked a study with judges, through the command line."""

import json
import random

import pytest
from command_line import run_here
from factories import STUDY_HEAD
from fake_openai import KEY

from guard_eval.store import Store, unblind
from guard_eval.store import pairs as store_pairs

HEAD = STUDY_HEAD + '[annotation]\ncriteria = ["coherence"]\n'


@pytest.fixture
def guard_eval(monkeypatch, capsys, tmp_path, server):
    """Run a command with the key and the server in the environment."""
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
    return lambda *arguments: run_here(monkeypatch, capsys, tmp_path, *arguments, **environ)


@pytest.fixture
def study(tmp_path, pair):
    """Make a study of so many pairs with these [[judge]] tables."""

    def make(tables, pairs):
        folder = tmp_path / "s"
        folder.mkdir(exist_ok=True)
        (folder / "study.toml").write_text(HEAD + tables)
        with Store.open(f"sqlite:///{folder / 'study.db'}", create=True) as store:
            store_pairs.add(store, pairs)
        return folder

    return make


def table(name, **more):
    lines = [
        f"{key} = {json.dumps(value)}" for key, value in {"model": "gpt-4o", "name": name, **more}.items()
    ]
    return "\n".join(["[[judge]]", *lines, ""])


def agreement(folder):
    """Return on which share of the questions the two judges agree."""
    with Store.open(f"sqlite:///{folder / 'study.db'}") as store:
        rows = unblind.tidy(store)
    sides = {(row.rater, row.pair_id, row.slot): row.verdict for row in rows}
    same = [sides["one", *key] == side for (rater, *key), side in sides.items() if rater == "two"]
    return sum(same) / len(same)


def test_two_judges_of_the_same_settings_are_two_raters(guard_eval, study, server, pair, fake):
    """With a server that answers at random their agreement is that of chance, one third (it was 1.00)."""
    drawn = random.Random(5)
    server.act = lambda ask: fake.verdict(ask, drawn.choice(["A", "B", "tie"]))
    folder = study(table("one") + table("two", timeout=500.0), [pair(number) for number in range(30)])
    ran = guard_eval("judge", "s", "--yes")
    assert ran.code == 0, ran
    assert server.count("chat") == 2 * 2 * 30
    assert 0.15 < agreement(folder) < 0.5


def too_long(ask, fake):
    if "unjudgeable" in ask.words:
        return fake.failure(400, "maximum context length exceeded", code="context_length_exceeded")
    return fake.verdict(ask)


def test_pairs_that_cannot_be_judged_never_keep_others_from_it(guard_eval, study, server, pair, fake):
    concurrency = 4
    server.act = lambda ask: too_long(ask, fake)
    bad = [pair(number, text_a=f"unjudgeable {number}") for number in range(14)]
    good = [pair(number) for number in range(14, 24)]
    judge = table("one", orders="one", concurrency=concurrency)
    folder = study(judge, [*bad, *good])
    ran = guard_eval("judge", "s", "--yes")
    assert ran.code == 3, ran
    assert "14 × too_long" in ran.out
    study(judge, [pair(number) for number in range(24, 40)])  # more come while the others cannot be judged
    server.asks.clear()
    ran = guard_eval("judge", "s", "--yes")
    assert ran.code == 3, ran
    asked = ["unjudgeable" in ask.words for ask in server.asks]
    assert sum(not bad for bad in asked) == 16
    assert asked.index(True) >= 16 - concurrency  # those that failed before come last
    with Store.open(f"sqlite:///{folder / 'study.db'}") as store:
        assert len(unblind.tidy(store)) == 26


def test_ten_failures_of_the_server_in_a_row_end_a_run(guard_eval, study, server, pair, fake):
    server.act = lambda _: fake.failure(400, "cannot do that", code="content_filter")
    study(table("one", orders="one", concurrency=1), [pair(number) for number in range(15)])
    assert guard_eval("judge", "s", "--yes").code == 3
    server.act = lambda _: fake.Out({"choices": "none"}, paid=True)
    ran = guard_eval("judge", "s", "--yes")
    assert ran.code == 2
    assert "10 times in a row" in ran.err
    server.act = fake.verdict
    ran = guard_eval("judge", "s", "--yes")  # stored failures keep nobody else from being asked
    assert ran.code == 3, ran
    assert "one: 5 judged" in ran.out


def test_a_judge_is_asked_on_the_studys_criteria_unless_it_names_its_own(guard_eval, study, pair):
    study(table("one") + table("two", criteria=["fluency", "factuality"]), [pair(0)])
    ran = guard_eval("judge", "s", "--dry-run")
    assert ran.code == 0, ran
    assert "criteria: coherence\n" in ran.out
    assert "criteria: fluency, factuality\n" in ran.out
