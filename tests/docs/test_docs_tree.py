"""Links in the site's tree lead where their targets went."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_tree import decisions, indexed, lay_out, turned


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in {
        "docs/a.md": "# A\n",
        "docs/adr/0001-x.md": "# 1. Why x\n\nBecause.\n",
        "docs/adr/0002-y.md": "# 2. Why y\n",
        "docs/images/p.png": "not text",
        "docs/reference/index.md": "# R\n",
        "benchmarks/RESULTS.md": "[A](../docs/a.md)\n",
        "benchmarks/README.md": "[a script](run.py)\n",
        "benchmarks/run.py": "",
        "README.md": "[A](docs/a.md)\n",
        "CHANGELOG.md": "",
        "CONTRIBUTING.md": "[README](README.md)\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("docs/a.md", "[r](../benchmarks/RESULTS.md#cpu)", "[r](benchmarks/results.md#cpu)"),
        ("docs/adr/0001-x.md", "[r](../../benchmarks/RESULTS.md)", "[r](../benchmarks/results.md)"),
        (
            "benchmarks/RESULTS.md",
            "[r](README.md), [x](../docs/adr/0001-x.md)",
            "[r](how.md), [x](../adr/0001-x.md)",
        ),
        ("README.md", "[a](docs/a.md) [all](docs/adr)", "[a](a.md) [all](decisions.md)"),
        ("docs/a.md", "![p](images/p.png){ .phone }", "![p](images/p.png){ .phone }"),
        # A file that is no page: its words.
        ("docs/a.md", "see [the script](../benchmarks/run.py).", "see the script."),
        # Nothing there, or elsewhere: as it was.
        ("docs/a.md", "[x](gone.md)", "[x](gone.md)"),
        ("docs/a.md", "[x](#cpu) [y](https://example.org/a.md)", "[x](#cpu) [y](https://example.org/a.md)"),
        # Code is no link.
        ("docs/a.md", "`[r](../benchmarks/RESULTS.md)`", "`[r](../benchmarks/RESULTS.md)`"),
        (
            "docs/a.md",
            "```md\n[r](../benchmarks/RESULTS.md)\n```\n[r](../benchmarks/RESULTS.md)\n",
            "```md\n[r](../benchmarks/RESULTS.md)\n```\n[r](benchmarks/results.md)\n",
        ),
    ],
)
def test_links_are_turned(repository: Path, source: str, text: str, expected: str):
    assert turned(text, source, repository) == expected


def test_the_tree(repository: Path, tmp_path: Path):
    tree = tmp_path / "build" / "docs"
    (tree / "old.md").parent.mkdir(parents=True)
    (tree / "old.md").write_text("of a page that is gone", encoding="utf-8")
    assert lay_out(tree, repository) == [
        *("a.md", "adr/0001-x.md", "adr/0002-y.md", "benchmarks/how.md", "benchmarks/results.md"),
        *("changelog.md", "contributing.md", "decisions.md", "readme.md"),
        *("reference/cli.md", "reference/index.md"),
    ]
    assert (tree / "images" / "p.png").read_text(encoding="utf-8") == "not text"
    assert (tree / "benchmarks" / "how.md").read_text(encoding="utf-8") == "a script\n"
    assert (tree / "contributing.md").read_text(encoding="utf-8") == "[README](readme.md)\n"


def test_decisions_are_listed_by_their_headings(repository: Path):
    assert decisions(repository / "docs" / "adr").splitlines()[-2:] == [
        "- [1: Why x](adr/0001-x.md)",
        "- [2: Why y](adr/0002-y.md)",
    ]


def test_the_papers_index_has_short_names(repository: Path):
    (repository / "docs" / "reference" / "a.md").write_text("# A\n\n::: analysis.one\n", encoding="utf-8")
    row = "| `eq:q` | `analysis.one.f` | `judge.two.g` | `tests/a/test_b.py::test_c` |"
    assert indexed(row, repository) == (
        '| `eq:q` | [`f`][analysis.one.f] | <code title="judge.two">g</code> | '
        '<code title="tests/a/test_b.py">test_<wbr>c</code> |'
    )
