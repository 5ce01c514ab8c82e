"""Several texts a prompt at the command line: what exists stays, the rest is made, and one is compared."""

import pytest
from factories import edit_settings, text_file
from read_files import read_json_lines

pytestmark = pytest.mark.slow


def lines(study, name="top_k(k=50)"):
    return read_json_lines(text_file(study, name))


def texts(study, name="top_k(k=50)"):
    return {(row["prompt_id"], row.get("run", 1)): row["text"] for row in lines(study, name)}


@pytest.fixture
def three(paired):
    """A study that was made with one run, and then asked for three of each strategy."""
    edit_settings(paired, "max_new_tokens", "runs = 3\nmax_new_tokens")
    return paired


def test_more_runs_add_texts_and_fewer_runs_delete_none(run, three):
    before = {path.name: path.read_bytes() for path in (three / "continuations").glob("*/*.jsonl")}
    dry = run("generate", "small", "--dry-run").out
    assert "top_k(k=50): 6 of 18 continuations exist" in dry
    assert "greedy: 6 of 6 continuations exist" in dry
    assert "the strategy draws nothing" in dry
    assert "would make 12" in dry
    assert run("generate", "small").code == 0
    after = {path.name: path.read_bytes() for path in (three / "continuations").glob("*/*.jsonl")}
    assert after.keys() == before.keys()
    for name, content in before.items():
        assert after[name].startswith(content)
        assert (after[name] == content) == (name != "top_k(k=50).jsonl")
    first_texts = texts(three)
    assert sorted(first_texts) == [(p, r) for p in sorted({p for p, _ in first_texts}) for r in (1, 2, 3)]
    prompts = {prompt for prompt, _ in first_texts}
    assert all(len({first_texts[prompt, r] for r in (1, 2, 3)}) == 3 for prompt in prompts)
    edit_settings(three, "runs = 3", "runs = 1")
    assert "top_k(k=50): 6 of 6 continuations exist" in run("generate", "small").out
    assert "texts: 24, strategies: 4" in run("measure", "small", "--dry-run").out
    edit_settings(three, "runs = 1", "runs = 3")
    assert "would make 0" in run("generate", "small", "--dry-run").out
    assert texts(three) == first_texts
