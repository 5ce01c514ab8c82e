"""Terminals, folders and signals that are not as usual: a command works, or says what is wrong."""

import json
import signal
import sys

import pytest
from command_line import make_command, run_process

from guard_eval.cli import frame
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow


def shell(line, folder, **more):
    """Run a line of bash in which GUARD is the command line."""
    return run_process(["bash", "-c", line.replace("GUARD", " ".join(make_command()))], folder, **more)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_commands_work_with_closed_streams(paired, tmp_path, closed):
    assert shell(f"GUARD raters add small Ann --json {closed}", tmp_path).code == 0
    ran = shell("GUARD raters list small --json", tmp_path)
    assert [rater["name"] for rater in json.loads(ran.out)["raters"]] == ["Ann"]
    refused = shell(f"GUARD raters revoke small Eve {closed}", tmp_path)
    assert (refused.code, "Traceback" in refused.err + refused.out) == (2, False)


def test_database_never_uses_descriptors_0_to_2(paired, tmp_path):
    """A warning that is printed to descriptor 2 must not reach the file that took its number."""
    code = (
        "import os, sys; from guard_eval.cli.start import open_closed_standard_streams;"
        "open_closed_standard_streams();"
        "print(os.open('small/study.db', os.O_RDONLY))"
    )
    ran = shell(f'{sys.executable} -c "{code}" <&- 2>&-', tmp_path)
    assert int(ran.out) > 2


@pytest.mark.parametrize("columns", ["0", "1", "7", "-5", "wide"])
def test_tables_are_readable_at_any_terminal_width(paired, typed, columns):
    typed("raters", "add", "small", "Ann")
    for arguments in (["raters", "list", "small"], ["--help"], ["status", "small"]):
        ran = typed(*arguments, COLUMNS=columns)
        assert (ran.code, ran.err) == (0, ""), ran


def test_figures_need_no_backend_of_a_notebook(tmp_path):
    line = "GUARD power --output plan.svg"
    ran = shell(line, tmp_path, MPLBACKEND="module://matplotlib_inline.no_backend")
    assert (ran.code, (tmp_path / "plan.svg").exists()) == (0, True), ran.err


def test_a_deleted_current_folder_is_named(paired, tmp_path):
    ran = shell(f"mkdir gone; cd gone; rmdir ../gone; GUARD raters list {paired}", tmp_path)
    assert (ran.code, ran.err) == (
        2,
        "error: the current folder was deleted; go to another folder with cd\n",
    )


def test_a_terminal_without_unicode_shows_every_name(paired, typed):
    assert typed("raters", "add", "small", "Zoë", LC_ALL="C").code == 0
    for name in ("status", "raters list"):
        ran = typed(*name.split(), "small", LC_ALL="C", PYTHONIOENCODING="ascii")
        assert (ran.code, ran.err) == (0, ""), ran


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 129), (signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_ctrl_c_during_loading_is_not_reported_as_a_model_error(monkeypatch, capsys, tmp_path, number, code):
    """Libraries that load a model in threads turn the stop into an error of theirs."""

    def load(*_arguments, **_options):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as stop:
            raise StudyError("cannot load the model") from stop

    monkeypatch.setattr("guard_eval.texts.new.read_prompts", load)
    monkeypatch.chdir(tmp_path)
    assert frame.run(["new", "s"]) == code
    assert capsys.readouterr().err == f"{frame.STOPPED}\n"
    assert frame.run(["new", "s", "--common"]) == 2  # a later error is one
    assert "--common needs --texts" in capsys.readouterr().err


def test_second_ctrl_c_at_the_end_prints_no_traceback(monkeypatch, capsys):
    """The second Ctrl-C comes while the first is handled, and a third when the process ends."""

    def stop_again(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(frame, "_call_command", stop_again)
    monkeypatch.setattr(frame.Printer, "print_error", stop_again)
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            frame.main()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.value.code, capsys.readouterr().err) == (130, "")


def test_next_command_uses_python_m_without_script(paired, typed):
    """`python -m guard_eval` proposes itself where a shell does not find `guard-eval`."""
    ran = typed("status", "small", PATH="/usr/bin:/bin")
    assert f"Next: {sys.executable} -m guard_eval " in ran.out
