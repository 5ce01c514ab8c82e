"""Stored scores are kept if the process is killed, and an error names a file that cannot be used."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import run_code
from refusals import expect_refusal

from guard_eval.errors import StudyError
from guard_eval.metrics.scoring_models import TABLE, MetricTools, ScoreCache
from guard_eval.study.settings import MetricSettings


def test_cache_returns_stored_values(tmp_path):
    path = tmp_path / "deep" / "scores.sqlite"
    with closing(ScoreCache(path)) as cache:
        cache.save_values({"a": 1, "b": [0.1, None], "c": np.array([0.5, -2], dtype=np.float32)})
        cache.save_values({"a": 2} | {str(number): "x" for number in range(3000)})
        values = cache.read_values(["a", "b", "c", "d", "a"])
        assert values["c"].tolist() == [0.5, -2]
        assert (values["a"], values["b"], len(values)) == (2, [0.1, None], 3)
    with closing(ScoreCache(path)) as cache:
        assert len(cache.read_values(map(str, range(4000)))) == 3000  # more keys than a query takes


def test_cache_keeps_values_of_a_killed_process(tmp_path):
    path = tmp_path / "scores.sqlite"
    program = (
        "import os, pathlib, sys; from guard_eval.metrics.scoring_models import ScoreCache;"
        "ScoreCache(pathlib.Path(sys.argv[1])).save_values({'a': 1}); os.kill(os.getpid(), 9)"
    )
    assert run_code(program, path).code == -9
    with closing(ScoreCache(path)) as cache:
        assert cache.read_values(["a"]) == {"a": 1}


@pytest.mark.parametrize(
    ("stop", "reported", "says"),
    [
        (KeyboardInterrupt, KeyboardInterrupt, None),
        (IndexError("no"), StudyError, "'m' .*IndexError: no.*name"),
    ],
)
def test_stopped_scoring_continues(tmp_path, stop, reported, says):
    items, seen, path = [(str(number),) for number in range(600)], [], tmp_path / "scores.sqlite"

    def score(limit):
        def compute(_model, _tokenizer, batch):
            if len(seen) >= limit:
                raise stop
            seen.extend(batch)
            return [int(text) for (text,) in batch]

        model = SimpleNamespace(
            name="m", identity="m", loaded_model=SimpleNamespace(model=None, tokenizer=None)
        )
        with closing(ScoreCache(path)) as cache:
            tools = MetricTools(settings=MetricSettings(), models=None, cache=cache)
            return tools.read_or_compute_values(["numbers"], model, items, compute)

    with pytest.raises(reported, match=says):
        score(1)
    assert 0 < len(seen) < 600
    result = score(600)
    assert result == {item: int(item[0]) for item in items}
    assert sorted(seen) == sorted(items)  # each once


def test_error_names_an_unusable_score_file(tmp_path):
    (tmp_path / "scores.sqlite").write_bytes(b"no database at all, but long enough to look like one" * 100)
    with expect_refusal(r"scores\.sqlite.*remove the file"):
        ScoreCache(tmp_path / "scores.sqlite")
    (tmp_path / "file").write_text("")
    with expect_refusal(r"the file of stored scores .* cannot be used"):
        ScoreCache(tmp_path / "file" / "scores.sqlite")


@pytest.mark.parametrize(
    "change",
    [
        "CREATE VIEW scores AS SELECT 'a' AS key, '1' AS value",
        f"{TABLE}; CREATE TRIGGER t AFTER INSERT ON scores BEGIN DELETE FROM scores; END",
        f"{TABLE}; INSERT INTO scores VALUES ('a', 1)",
    ],
)
def test_score_file_of_a_stranger_is_refused(tmp_path, change):
    path = tmp_path / "scores.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(change)
    with expect_refusal("cannot be used"), closing(ScoreCache(path)) as cache:
        cache.read_values(["a"])
