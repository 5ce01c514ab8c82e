"""The checks' claims against the paper's TeX: quotations word for word, equations and lists in order."""

import re
from pathlib import Path

import pytest

from guard_eval.replicate.checks import run
from guard_eval.replicate.checks.method import COMMENTS, NUMBERED
from guard_eval.replicate.checks.prose import LISTED, NAMED
from guard_eval.replicate.checks.registry import RECORDED

SLOW = {"diversity-human", "human-test-level", "method-formulations"}
"""Without quotations, and slow."""
PAPER = Path(__file__).parents[3].parent / "shared" / "paper"


@pytest.fixture(scope="module")
def tex() -> str:
    if not PAPER.is_dir():
        pytest.skip(f"{PAPER} is not here: the paper's source does not lie in the repository")
    return "".join(path.read_text(encoding="utf-8") for path in PAPER.glob("*.txt"))


def bare(text: str) -> str:
    """Return letters and digits alone, Greek by name, without TeX's commands."""
    for letter, name in {"α": "alpha", "λ": "lambda", "∈": "in"}.items():
        text = text.replace(letter, name)
    text = re.sub(r"\\colorbox\{Best\}|\\(?:mathcal|textit|textbf|text|S)\b", "", text)
    return re.sub(r"[^a-z0-9]", "", text.lower())


def test_quotations_are_the_papers(tex):
    paper = bare(tex)
    quoted = {
        part: check.name
        for check in run([name for name in RECORDED if name not in SLOW])
        for quotation in re.findall("“(.+?)”", check.claim)
        for part in quotation.split("…")
    }
    assert len(quoted) > 15
    missing = {part: name for part, name in quoted.items() if bare(part) not in paper}
    assert missing == {}


def test_the_equations_order(tex):
    body = tex[: tex.index("\\appendix")]
    displays = re.findall(r"\\begin\{(?:equation|align)\}(.+?)\\end\{(?:equation|align)\}", body, re.DOTALL)
    labels = [re.search(r"\\label\{(.+?)\}", display) for display in displays]
    assert tuple(label[1] if label else "" for label in labels) == NUMBERED


def test_the_algorithms_comments(tex):
    algorithm = tex[tex.index("\\caption{GUARD Algorithm}") :]
    algorithm = algorithm[: algorithm.index("\\end{algorithmic}")]
    found = re.findall(r"//\s*(Eq\. \d+|Appendix \\ref\{app:B\})", algorithm)
    said = [words for words, _ in COMMENTS.values()]
    # δ_global has a comment in either branch, with the same number.
    assert sorted(found) == sorted([*said, "Eq. 9"]) or sorted(
        text.replace("Appendix \\ref{app:B}", "Appendix B") for text in found
    ) == sorted([*said, "Eq. 9"])


def test_the_metrics_and_models_listed(tex):
    metrics = re.search(r"following five commonly used metrics .+?: (.+?)\. Formulas", tex)[1]
    assert tuple(re.sub(r" \\cite\{.+?\}", "", metrics).split(", ")) == NAMED
    models = re.search(r"We employ six LLMs: (.+?)\.\n", tex)[1]
    listed = re.sub(r" \\cite\{.+?\}", "", models).replace("Deepseek-llm-7B-base", "Deepseek-7B")
    assert tuple(listed.split(", ")) == LISTED
