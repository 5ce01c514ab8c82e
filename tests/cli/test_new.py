"""`guard-eval new`: which strategies its study.toml names."""

from guard_eval.cli.new import command as new
from guard_eval.strategies import SOURCES, STRATEGIES, signature
from guard_eval.study import Study


def test_all_strategies_with_their_sources(tmp_path):
    new(tmp_path / "all", strategies="all")
    study = Study.open(tmp_path / "all")
    named = study.settings.generation.strategies
    # contrastive decoding needs a second model, and stands there as a comment
    assert named == [signature(kind()) for name, kind in STRATEGIES.items() if name != "contrastive_decoding"]
    text = (tmp_path / "all" / "study.toml").read_text(encoding="utf-8")
    assert SOURCES.keys() == STRATEGIES.keys()
    for name, source in SOURCES.items():
        [line] = [
            line
            for line in text.splitlines()
            if line.strip("# ").startswith(f'"{signature(STRATEGIES[name]())}",')
        ]
        assert line.endswith(f"# {source}")


def test_the_papers_strategies_without_it(tmp_path):
    new(tmp_path / "some")
    named = Study.open(tmp_path / "some").settings.generation.strategies
    assert named == [
        "greedy",
        "top_k(k=50)",
        "top_p(p=0.95)",
        "contrastive(k=10, alpha=0.6)",
        "acs(q=1)",
        "guard",
    ]
