"""What every command refuses: one clear message, exit code 2, no traceback, and nothing changed."""

import pytest

pytestmark = pytest.mark.slow

REFUSED = [
    ("", ["nonsense"], 'Unknown command "nonsense"'),
    ("", ["generate", "nowhere"], "there is no folder 'nowhere'; make a study with: guard-eval new nowhere"),
    ("", ["measure", "nowhere"], "there is no folder 'nowhere'"),
    ("", ["pair", "nowhere"], "there is no folder 'nowhere'"),
    ("", ["annotate", "nowhere"], "there is no folder 'nowhere'"),
    ("", ["judge", "nowhere"], "there is no folder 'nowhere'"),
    ("", ["report", "nowhere"], "there is no folder 'nowhere'"),
    ("", ["raters", "list", "nowhere"], "there is no folder 'nowhere'"),
    ("", ["try", "nowhere/model", "Once"], "nowhere/model"),
    ("", ["power", "--share", "2"], "share"),
    ("", ["replicate", "nonsense", "out"], "nonsense"),
    ("", ["report", "nowhere.csv"], "nowhere.csv"),
    ("empty", ["generate", "empty"], "is not a study: it has no study.toml"),
    ("empty", ["measure", "empty"], "is not a study: it has no study.toml"),
    ("empty", ["export", "empty"], "is not a study: it has no study.toml"),
    ("empty", ["backup", "empty", "copy.db"], "is not a study: it has no study.toml"),
    ("empty", ["describe", "empty"], "is not a study: it has no study.toml"),
    ("empty", ["publish", "empty", "out"], "is not a study: it has no study.toml"),
    ("empty", ["raters", "add", "empty", "Ada"], "is not a study: it has no study.toml"),
    ("study", ["pair", "small/study.toml"], "name their folder: small"),
    ("study", ["pair", "small/prompts.jsonl"], "is a file; name the folder of a study"),
    ("study", ["new", "small"], "is a study already"),
    ("study", ["measure", "small"], "run: guard-eval generate small"),
    ("study", ["pair", "small"], "run: guard-eval generate small"),
    ("study", ["raters", "list", "small"], "run: guard-eval pair small"),
    ("study", ["judge", "small"], "run: guard-eval pair small"),
    ("study", ["report", "small"], "run: guard-eval pair small"),
    ("study", ["export", "small"], "run: guard-eval pair small"),
    ("study", ["backup", "small", "copy.db"], "run: guard-eval pair small"),
    ("study", ["generate", "small", "--engine", "tpu"], 'for --engine. Choose from: "local", "ray", "vllm"'),
    ("study", ["generate", "small", "--strategy", "beam"], "beam"),
    ("study", ["generate", "small", "--shard", "3/2"], "3/2"),
    ("study", ["generate", "small", "--set", "seed=x"], "seed: 'x'"),
    ("study", ["generate", "small", "--sharp"], "Unknown option: --sharp"),
    ("study", ["generate", "small", "--code", "none.py"], "none.py"),
    ("paired", ["raters", "add", "small"], "add needs at least one name: guard-eval raters add small NAME"),
    ("paired", ["raters", "exclude", "small", "Ada"], "--reason"),
    ("paired", ["raters", "revoke", "small", "Ada"], "there is no rater named 'Ada'"),
    (
        "paired",
        ["raters", "erase", "small", "Ada", "--yes"],
        "no person is called 'Ada'",
    ),
    ("paired", ["export", "small", "--output", "v.xlsx"], "written as .csv or .jsonl"),
    ("paired", ["export", "small", "--table", "all"], "for --table. Choose from"),
    ("paired", ["backup", "small", "small/study.toml"], "a backup overwrites nothing"),
    ("paired", ["annotate", "small", "--port", "70000"], "port 70000 does not exist"),
    ("paired", ["judge", "small", "--only", "other"], "has no judge 'other'"),
    ("paired", ["judge", "small", "--budget", "0"], "must be an amount above 0"),
    ("paired", ["judge", "small"], "add --yes"),
    ("paired", ["report", "small"], "has no verdicts yet"),
    ("paired", ["measure", "small", "--metrics", "bleu"], "bleu"),
    ("paired", ["demo", "small"], "is a study with other settings"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: " ".join(refused[1]))
def test_a_refusal_names_the_thing_and_the_remedy(run, tmp_path, request, refused):
    def times():
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {path: path.stat().st_mtime_ns for path in files if not path.name.endswith(("-wal", "-shm"))}

    state, arguments, says = refused
    if state == "empty":
        (tmp_path / "empty").mkdir()
    elif state:
        request.getfixturevalue(state)
    before = times()
    assert says in run(*arguments, OPENAI_API_KEY="x").refused()
    assert times() == before
