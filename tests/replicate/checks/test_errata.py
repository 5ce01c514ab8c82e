"""docs/errata.md and the checks: each entry has a check, each finding an entry, figures are the same."""

import functools
import re
from pathlib import Path

import pytest

from guard_eval.replicate.checks import Check, lines, names, run
from guard_eval.replicate.checks.registry import FAILS, HOLDS, OPEN, RECORDED

ROOT = Path(__file__).parents[3]
ERRATA = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"guard-eval replicate --check ([\w-]+)")
ENTRIES = re.findall(r"^### .+?\n(.+?)(?=^### |^## )", ERRATA, re.MULTILINE | re.DOTALL)


@functools.cache
def made(name: str) -> Check:
    return run([name])[0]


def section(heading: str) -> str:
    return re.search(rf"^## {heading}\n(.+?)(?=^## |\Z)", ERRATA, re.MULTILINE | re.DOTALL)[1]


def with_outcome(holds: bool | None) -> list[str]:
    return sorted(name for name, (_, recorded) in RECORDED.items() if recorded is holds)


def test_every_command_names_a_check():
    assert set(COMMAND.findall(ERRATA)) <= set(names())
    assert len(COMMAND.findall(ERRATA)) == len(names())


def test_every_entry_has_all_its_parts_and_one_command():
    assert len(ENTRIES) == len(with_outcome(FAILS))
    for entry in ENTRIES:
        assert re.findall(r"^- \*\*(\w+):\*\*", entry, re.MULTILINE) == ["Where", "Says", "So", "Matters"]
        assert len(COMMAND.findall(entry)) == 1


def test_what_does_not_hold_is_an_entry():
    assert sorted(name for entry in ENTRIES for name in COMMAND.findall(entry)) == with_outcome(FAILS)


def test_what_holds_and_what_is_open_is_said():
    assert sorted(COMMAND.findall(section("What holds"))) == with_outcome(HOLDS)
    assert sorted(COMMAND.findall(section("What cannot be decided .+?"))) == with_outcome(OPEN)


def told_of(part: str) -> dict[str, str]:
    """Return what is said of each check: an entry, or a row of a table."""
    return {
        COMMAND.search(each)[1]: each for each in re.split(r"\n(?=\|)", section(part)) if COMMAND.search(each)
    }


SAID = {
    **{COMMAND.search(entry)[1]: entry for entry in ENTRIES},
    **told_of("What holds"),
    **told_of("What cannot be decided .+?"),
}
BESIDE = {
    "judge-grim": ("judge-evidence",),  # what the n means for a p-value
    "bold-main": ("text-closest",),
    "method-arctanh": ("method-ranges",),
    "human-test-level": ("human-p-values", "human-clustered"),
}
"""Checks whose entry also quotes another's figures."""


@pytest.mark.parametrize("name", sorted(SAID))
def test_the_figures_of_an_entry_are_those_of_its_check(name):
    """Every decimal number of an entry is printed by its check."""
    checks = [made(each) for each in (name, *BESIDE.get(name, ()))]
    if checks[0].skipped:
        pytest.skip(checks[0].skipped)
    printed = set(_decimals(" ".join(line for check in checks for line in lines(check))))
    entry = COMMAND.sub("", re.sub(r"`[^`]*`|\([^)]*\.(?:md|svg)\)", "", SAID[name]))
    assert set(_decimals(entry)) - printed == set()


def _decimals(text: str) -> list[str]:
    return re.findall(r"\d+\.\d+(?:e-\d+)?", text.replace("-\n", "-"))


def test_every_check_finds_what_is_on_record():
    for name in names():
        check = made(name)
        if not check.skipped:
            assert check.name == name
            assert check.holds is RECORDED[name][1], check.found
            assert check.claim
            assert check.found
            assert check.source
            assert check.where
