"""The claims of the paper, one test each, and the table of them that `make replicate` prints.

A test of a claim uses the fixture `claim`. Its docstring quotes the claim, with the place in the paper. It
asserts the finding, also if the claim does not hold. `docs/errata.md` has an entry for each claim.
"""

import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be decided"
SECTIONS = {"What holds": HOLDS, "What cannot be decided from what is published": OPEN}
"""Sections of docs/errata.md; all others are of claims that do not hold."""


class Claim:
    """Records the finding about a claim. It must be the finding in docs/errata.md.

    Attributes:
        row: The claim's name; later also the outcome, the claim, the finding, and details.
    """

    def __init__(self, name, words, entries):
        self.row, self._words, self._entries = [name], words, entries

    def holds(self, *facts):
        """Record that the claim holds."""
        self._record(HOLDS, *facts)

    def fails(self, *facts, quoted=""):
        """Record that the claim does not hold; `quoted` has figures of other claims that its entry names."""
        self._record(FAILS, *facts, quoted=quoted)

    def is_open(self, *facts):
        """Record that the published data cannot decide."""
        self._record(OPEN, *facts)

    def _record(self, outcome, *texts, quoted=""):
        self.row += [outcome, self._words, *texts]
        assert [recorded for recorded, _ in self._entries] == [outcome], (
            "docs/errata.md has one entry, of this outcome"
        )
        unfounded = find_decimals(self._entries[0][1]) - find_decimals(" ".join([*self.row, quoted]))
        assert not unfounded, "docs/errata.md has decimal numbers that the test does not find"


def find_decimals(text):
    """Return the decimal numbers of a text, except those in code and links."""
    text = re.sub(r"`[^`]*`|\([^)]*\.(?:md|svg)\)", "", text)
    return set(re.findall(r"\d+\.\d+(?:e-\d+)?", text))


@pytest.fixture(scope="session")
def errata():
    """Return the outcome and the text of each entry and of each row of a table in docs/errata.md."""
    outcome, result = FAILS, []
    text = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    for block in re.split(r"^(?=## |### |\|)", text, flags=re.MULTILINE):
        if block.startswith("## "):
            outcome = SECTIONS.get(block.splitlines()[0][3:], FAILS)
        result.append((outcome, block))
    return result


@pytest.fixture
def claim(request, errata):
    """Return the recorder of this test's claim."""
    test = f"`{request.path.relative_to(ROOT).as_posix()}::{request.node.name}`"
    words = " ".join(request.function.__doc__.split())
    recorder = Claim(name_claim(request.node), words, [entry for entry in errata if test in entry[1]])
    request.node.user_properties.append(("claim", recorder.row))
    return recorder


def name_claim(test):
    """Return the name of a test's claim in the printed table."""
    return test.name.removeprefix("test_").replace("_", "-")


def pytest_addoption(parser):
    parser.addoption("--claims", action="store_true", help="print the paper's claims and what was found")


def pytest_collection_modifyitems(items):
    for item in items:  # so that -k finds the names in the table
        if item.path.parent == Path(__file__).parent:
            item.extra_keyword_matches.add(name_claim(item))


def pytest_terminal_summary(terminalreporter, config):
    """Print each claim with its outcome and finding, and the number of claims by outcome."""
    if not config.getoption("--claims", default=False):
        return
    outcomes = Counter()
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        if report.when != "call" or "claim" not in dict(report.user_properties):
            continue
        name, *row = dict(report.user_properties)["claim"]
        outcome, words, *findings = row or ["failed", ""]
        outcomes["NOT what docs/errata.md records" if report.failed else outcome] += 1
        terminalreporter.write_line(
            f"{name}: {outcome}{' (NOT what docs/errata.md records)' * report.failed}"
        )
        for head, text in (("paper", words), *(("found", finding) for finding in findings)):
            first, indent = f"  {head:<6}", " " * 8
            for line in textwrap.wrap(text, 100, initial_indent=first, subsequent_indent=indent):
                terminalreporter.write_line(line)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    terminalreporter.write_line(f"{outcomes.total()} claims: {counts}")
