"""docs/errata.md and the claims: each claim has one entry and each entry all its parts, and quotes the paper.

`claim` itself holds that an entry stands under its outcome and has no figure that its test does not find.
"""

import ast
import re
from pathlib import Path

NAMED = re.compile(r"`tests/paper/(test_\w+\.py::test_\w+)`")
CLAIMS = {
    f"{file.name}::{node.name}": node
    for file in sorted(Path(__file__).parent.glob("test_*.py"))
    for node in ast.parse(file.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and "claim" in [argument.arg for argument in node.args.args]
}


def test_every_claim_has_exactly_one_entry(errata):
    assert sorted(NAMED.findall("".join(text for _, text in errata))) == sorted(CLAIMS)


def test_every_entry_has_all_its_parts(errata):
    entries = [text for _, text in errata if text.startswith("### ")]
    assert len(entries) > 20
    for entry in entries:
        parts = re.findall(r"^- \*\*(\w+):\*\*", entry, re.MULTILINE)
        assert parts == ["Where", "Says", "So", "Matters", "Test"], entry


def bare(text):
    """Return letters and digits alone, Greek by name, without TeX's commands."""
    for letter, name in {"α": "alpha", "λ": "lambda", "∈": "in"}.items():
        text = text.replace(letter, name)
    text = re.sub(r"\\colorbox\{Best\}|\\(?:mathcal|textit|textbf|text|S)\b", "", text)
    return re.sub(r"[^a-z0-9]", "", text.lower())


def test_quotations_stand_in_the_paper(tex):
    claims = " ".join(" ".join(map(ast.get_docstring, CLAIMS.values())).split())
    parts = [fragment for quotation in re.findall("“(.+?)”", claims) for fragment in quotation.split("…")]
    assert len(parts) > 15
    assert [fragment for fragment in parts if bare(fragment) not in bare(tex)] == []
