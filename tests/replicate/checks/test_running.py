"""Checks by name: unknown ones, ones whose data are missing, ones that find something else."""

import subprocess
import sys

import pytest

from guard_eval.errors import StudyError
from guard_eval.replicate.checks import Check, as_recorded, each, lines, outcome, run, summary
from guard_eval.replicate.checks import running as running_module


def made(**changes) -> Check:
    values = {
        "name": "human-swap",
        "subject": "s",
        "where": "tab:x",
        "claim": "c",
        "found": "f",
        "source": "d",
    }
    return Check(**{**values, "holds": False, **changes})


def test_an_unknown_name_is_said_before_any_check_is_made():
    with pytest.raises(StudyError, match="no check 'human-swop'; choose from: human-p-values, "):
        next(each(["human-swap", "human-swop"]))


def test_what_is_on_record_passes_and_anything_else_does_not():
    assert as_recorded(made())
    assert not as_recorded(made(holds=True))
    assert not as_recorded(made(holds=None))
    assert as_recorded(made(holds=None, skipped="no data"))


def test_a_changed_finding_is_told():
    assert next(lines(made(holds=True))) == "human-swap: holds  — NOT what docs/errata.md records"
    assert "Not as recorded in docs/errata.md: human-swap." in summary([made(holds=True)])
    assert summary([made()]).startswith("1 check: 0 hold, 1 do not hold, 0 cannot be decided.")


def test_lines_are_short_and_hold_everything():
    check = made(claim="a " * 90, detail=("more",))
    text = list(lines(check))
    assert all(len(line) <= 100 for line in text)
    assert [line.split()[0] for line in text if line[2:8].strip()] == [
        "human-swap:",
        "paper",
        "found",
        "from",
    ]
    assert any(line.split() == ["more"] for line in text)


def test_missing_texts_are_a_skip_with_a_reason(monkeypatch, tmp_path):
    from guard_eval.replicate.checks import sources

    monkeypatch.setattr(sources, "DATA", tmp_path)
    (check,) = run(["diversity-guard"])
    assert outcome(check) == "skipped"
    assert str(tmp_path) in check.skipped
    assert as_recorded(check)
    assert "1 skipped" in summary([check])


def test_a_missing_extra_says_what_to_install(monkeypatch):
    def nothing(name):
        raise ModuleNotFoundError(name="torch")

    monkeypatch.setattr(running_module.importlib, "import_module", nothing)
    (check,) = run(["method-formulations"])
    assert check.skipped == "torch is not installed: pip install 'guard-eval[generate]'"


def test_another_missing_module_is_no_skip(monkeypatch):
    def nothing(name):
        raise ModuleNotFoundError(name="numpy")

    monkeypatch.setattr(running_module.importlib, "import_module", nothing)
    with pytest.raises(ModuleNotFoundError):
        run(["human-swap"])


def test_the_names_cost_no_imports():
    heavy = "{'numpy', 'torch', 'scipy'}"
    code = f"import sys, guard_eval.replicate.checks as c; c.names(); print({heavy} & {{*sys.modules}})"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout == "set()\n"
