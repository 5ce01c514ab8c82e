"""What every command refuses: one clear message, exit code 2, no traceback, and nothing changed."""

import pytest

pytestmark = pytest.mark.slow

REFUSED = [
    ("", ["nonsense"], 'Unknown command "nonsense"'),
    ("", ["new"], "FOLDER"),
    ("", ["new", ""], "is empty"),
    ("", ["new", "a", "b"], "Unused Tokens: ['b']"),
    ("", ["new", "a", "--modl", "1"], "Did you mean --model?"),
    ("", ["new", "a", "--set", "seed=1"], "reads no settings"),
    ("", ["new", "a", "--code", "none.py"], "none.py"),
    ("", ["new", "a", "--prompts", "\x1b[31m"], "\\x1b[31m"),
    ("", ["new", "a", "--texts", "none.jsonl"], "none.jsonl"),
    ("", ["new", "a", "--texts"], "--texts"),
    ("", ["try", "bundled", "Once", "--strategy", "contrastive_decoding"], "needs a second, smaller model"),
    ("", ["try", "bundled", "Once", "--max-new-tokens", "1000000"], "tokens"),
    ("texts", ["measure", "texts.jsonl", "--metrics", "divrsity"], "has 1 problem:\n  metrics.compute[1]"),
    ("texts", ["measure", "texts.jsonl", "--metrics", "length", "--baseline", "two"], "choose one of: texts"),
    ("texts", ["measure", "texts.jsonl", "--set", "metrics.compote=1"], "metrics.compote"),
    ("texts", ["measure", "texts.jsonl", "--prompts", "none.jsonl"], "none.jsonl"),
    (
        "",
        ["generate", "nowhere"],
        "there is no study.toml in 'nowhere'; name a study's folder, or make one with: guard-eval new",
    ),
    ("", ["try", "~nobody/m", "Once"], "the model '~nobody/m': there is no"),
    ("", ["power", "--share", "2"], "--share 2 is not possible"),
    ("", ["replicate", "nonsense", "out"], "nonsense"),
    ("", ["report", "nowhere.csv"], "nowhere.csv"),
    ("", ["report", "n" * 256], "File name too long; fix that"),
    ("empty", ["backup", "empty", "copy.db"], "there is no study.toml in 'empty'"),
    ("study", ["measure", "small"], "run: guard-eval generate small"),
    ("study", ["pair", "small"], "run: guard-eval generate small"),
    ("study", ["raters", "list", "small"], "guard-eval pair"),
    ("study", ["judge", "small"], "guard-eval pair"),
    ("study", ["report", "small"], "guard-eval pair"),
    ("study", ["generate", "small", "--engine", "tpu"], 'for --engine. Choose from: "local", "vllm"'),
    (
        "study",
        ["generate", "small", "--strategy", "beam"],
        "choose from: greedy, top_k(k=50), acs(q=1), guard",
    ),
    ("study", ["new", "small/study.toml/other"], "cannot write"),
    ("study", ["demo", "."], "has other files, and the demo would add"),
    ("study", ["generate", "small", "--shard", "3/2"], "3/2"),
    ("study", ["generate", "small", "--sharp"], "Unknown option: --sharp"),
    ("study", ["generate", "small", "--code", "none.py"], "none.py"),
    ("paired", ["raters", "exclude", "small", "Ada"], "--reason"),
    ("paired", ["export", "small", "--output", "v.xlsx"], "give the file the ending .csv"),
    ("paired", ["export", "small", "--table", "everything"], "for --table. Choose from"),
    ("paired", ["measure", "small", "--metrics", "bleu"], "bleu"),
    ("paired", ["measure", "small", "--output", "x"], "--output are only for files"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: " ".join(refused[1]))
def test_every_refusal_names_the_remedy(run, tmp_path, request, refused):
    def times():
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {path: path.stat().st_mtime_ns for path in files if not path.name.endswith(("-wal", "-shm"))}

    state, arguments, says = refused
    if state == "empty":
        (tmp_path / "empty").mkdir()
    elif state == "texts":
        (tmp_path / "texts.jsonl").write_text('{"text": "a b a b a"}')
    elif state:
        request.getfixturevalue(state)
    before = times()
    assert says in run(*arguments, OPENAI_API_KEY="x").refused()
    assert times() == before
