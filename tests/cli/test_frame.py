"""The frame of the command line: the table of commands, `--set`, `--json`, errors, lazy loading."""

import inspect
import io
import json
import sys
from dataclasses import dataclass

import pytest
from command_line import run_code, run_process

from guard_eval import progress
from guard_eval.cli.commands import COMMANDS, GROUPS, load_command
from guard_eval.cli.frame import run as main_with
from guard_eval.cli.printer import Printer
from guard_eval.reporting.tables import Table
from guard_eval.results import Result
from guard_eval.study import Study
from guard_eval.texts.new import new


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_the_first_line_of_the_docstring(name):
    function = load_command(name)
    assert inspect.getdoc(function).split("\n\n")[0].replace("\n", " ") == COMMANDS[name].help
    assert "Args:" in inspect.getdoc(function)


@dataclass(frozen=True, kw_only=True)
class Measured(Result):
    texts: int
    score: float


def test_a_result_is_printed_for_a_person_or_as_json(capsys):
    table = Table(columns=("method", "share"), rows=(("top\u202ek", 0.5), ("acs", None)), caption="Shares")
    result = Measured(
        lines=("two methods\x1b[31m",),
        tables=(table,),
        warnings=("few",),
        next=("guard-eval x",),
        texts=3,
        score=float("nan"),
    )
    printer = Printer()
    printer.show_result(result)
    out, err = capsys.readouterr()
    assert err == "warning: few\n"
    assert "two methods\\x1b[31m" in out
    assert "top\\u202ek" in out
    assert out.endswith("\nNext: guard-eval x\n")
    printer.quiet = True
    printer.show_result(result)
    assert "Next" not in capsys.readouterr().out
    printer.as_json = True
    printer.print_result(result)
    assert json.loads(capsys.readouterr().out) == {
        "texts": 3,
        "score": None,
        "warnings": ["few"],
        "next": ["guard-eval x"],
    }


def test_json_is_printed_for_plain_results_and_errors(capsys, run):
    printer = Printer()
    printer.as_json = True
    printer.print_result(Result(lines=("done",)))
    assert json.loads(capsys.readouterr().out)["lines"] == ["done"]
    with progress.use_reporter(printer):  # a step leaves standard output to the result
        progress.show_result(Result(lines=("step one",)))
    assert capsys.readouterr() == ("", "step one\n")
    assert json.loads(run("raters", "--json").out)["error"].startswith("no command was given")


def test_progress_goes_to_standard_error(capsys):
    with progress.show_task("texts", total=2) as advance:
        advance(1, note="half")
    progress.show_notice("loading")
    progress.warn("careful")
    assert progress.confirm("Send?") is False
    assert capsys.readouterr() == ("", "")
    with progress.use_reporter(Printer()), progress.show_task("guard", total=2, unit="texts") as advance:
        advance(2)
        progress.show_notice("model loaded")
    out, err = capsys.readouterr()
    assert out == ""
    assert "model loaded" in err


def test_only_yes_confirms_a_question(monkeypatch, capsys):
    for answer, yes in {"y\n": True, "YES\n": True, "\n": False, "": False, "n\n": False}.items():
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        assert Printer().confirm("Send?") is yes
        assert capsys.readouterr().err.startswith("Send? [y/N] ")


def test_set_changes_a_setting_for_one_run(tmp_path):
    new(tmp_path / "s")
    strategies = 'generation.strategies=["greedy", "guard", "acs"]'
    study = Study.open(tmp_path / "s", ["seed=9", "model.name=gpt2", strategies, "judge[1].model = m"])
    assert (study.settings.seed, study.settings.model.name) == (9, "gpt2")
    assert study.settings.generation.strategies == ["greedy", "guard", "acs(q=1)"]
    assert study.settings.judge[0].model == "m"
    assert study.hash != Study.open(tmp_path / "s").hash
    assert study.format_command("measure", "--x", "a b").endswith(
        "--x 'a b' --set seed=9 --set model.name=gpt2 --set "
        '\'generation.strategies=["greedy", "guard", "acs"]\' --set \'judge[1].model = m\''
    )


@pytest.mark.slow
def test_help_loads_no_command_module(tmp_path):
    heavy = {"torch", "streamlit", "matplotlib", "pandas", "scipy", "sqlalchemy", "openai", "numpy"}
    code = (
        "import sys; from guard_eval.cli.frame import run; run(['--help']); run(['new', 'x']);"
        f"print(sorted({heavy} & sys.modules.keys()))"
    )
    printed = run_code(code, folder=tmp_path).out
    places = [printed.index(f"│ {name.split()[0]} ") for name in COMMANDS if not name.startswith("raters")]
    assert places == sorted(places)  # in the order of work
    assert "│ raters " in printed
    headings = [line.split()[1] for line in printed.splitlines() if line.startswith("╭")]
    assert headings == ["Commands", *GROUPS, "Options"]
    assert printed.endswith("[]\n")


def test_help_hides_internal_options(run):
    for name in COMMANDS:
        text = run(*name.split(), "--help").out
        assert run(*name.split(), "-h").out == text
        assert "--quiet" in text, name
        assert "STUDY." not in text, name
        assert "--overrides" not in text, name
        assert len(text.splitlines()) < 90, name


def test_public_names_are_listed_and_importable():
    import analysis
    import guard_eval

    assert {"read", "report", "shares"} <= set(dir(analysis))
    names = {}
    exec("from guard_eval import *", names)
    assert {"load_model", "generate", "measure", "Guard", "TopP", "StudyError"} <= names.keys()
    assert set(dir(guard_eval)) - {"__version__"} <= names.keys()
    assert len(repr(names["load_model"]("bundled"))) < 300


@pytest.mark.slow
def test_closed_output_prints_no_traceback(tmp_path):
    script = (
        "import sys; sys.stdin.readline(); from guard_eval.cli.frame import run; sys.exit(run(['new', 'a']))"
    )
    line = f'{sys.executable} -c "{script}" < <(sleep 1; echo) | true; echo ${{PIPESTATUS[0]}}'
    ran = run_process(["bash", "-c", line], tmp_path)
    assert (ran.out, ran.err) == ("1\n", "")


def test_with_json_nothing_else_is_on_standard_output(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(
        "guard_eval.texts.new.read_prompts", lambda *_, **__: sys.stdout.write("from a library\n") and []
    )
    monkeypatch.chdir(tmp_path)
    assert main_with(["new", "s", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["prompts"] == 0
    assert "from a library" in err
    assert main_with(["new", "--set", "--json"]) == 2
    assert "error" in json.loads(capsys.readouterr().out)


def test_help_of_a_command_shows_the_docstring_and_defaults(run):
    text = run("check", "--help").out
    assert "No study is needed." in text
    assert text.count("[default:") == 3  # of eleven options: ties, icc and alpha
    assert "[default: 0.41]" in text


@pytest.mark.parametrize("value", ["43.75", "3.0", "0x1F", "1e3", "1_000", "٣", "''"])
def test_a_whole_number_is_never_rounded(capsys, value):
    assert main_with(["check", "--wins", value, "--losses", "21", "--raters", "4"]) == 2
    assert f"--wins: {value!r} is not a whole number" in capsys.readouterr().err.replace("\n", " ")
