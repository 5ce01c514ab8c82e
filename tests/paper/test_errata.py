"""docs/errata.md has one complete entry for each claim, with exact quotations of the paper.

The fixture `claim` checks that an entry has the right outcome, and only figures that its test finds.
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


def test_every_claim_has_one_errata_entry(errata):
    assert sorted(NAMED.findall("".join(text for _, text in errata))) == sorted(CLAIMS)


def test_every_errata_entry_has_all_parts(errata):
    entries = [text for _, text in errata if text.startswith("### ")]
    assert len(entries) > 20
    for entry in entries:
        parts = re.findall(r"^- \*\*(\w+):\*\*", entry, re.MULTILINE)
        assert parts == ["Where", "Says", "So", "Matters", "Test"], entry


def keep_letters(text):
    """Return only letters and digits, with names of Greek letters, and without TeX's commands."""
    for letter, name in {"α": "alpha", "λ": "lambda", "∈": "in"}.items():
        text = text.replace(letter, name)
    text = re.sub(r"\\colorbox\{Best\}|\\(?:mathcal|textit|textbf|text|S)\b", "", text)
    return re.sub(r"[^a-z0-9]", "", text.lower())


def test_quotations_are_in_the_paper(tex):
    claims = " ".join(" ".join(map(ast.get_docstring, CLAIMS.values())).split())
    parts = [fragment for quotation in re.findall("“(.+?)”", claims) for fragment in quotation.split("…")]
    assert len(parts) > 15
    assert [fragment for fragment in parts if keep_letters(fragment) not in keep_letters(tex)] == []
