"""Links in a stranger's study: no command writes outside its folder through one."""

import shutil

import pytest

COMMANDS = {
    "study.db": ("pair", "raters add Ann"),
    "study.db-wal": ("pair", "raters add Ann"),
    "continuations": ("generate",),
    "continuations/RUN": ("generate",),
    "continuations/RUN/recipe.json": ("generate",),
    "metrics": ("measure --metrics diversity",),
    "metrics/scores.csv": ("measure --metrics diversity",),
    "metrics/figures": ("measure --metrics diversity",),
    "metrics/scores.sqlite": ("measure --metrics diversity",),
    "report": ("report",),
    "report/csv": ("report",),
    "report/index.html": ("report",),
    "report/files.txt": ("report",),
}
"""What the program writes in a study, and the commands that write it."""


def listed(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def run_folder(paired):
    (folder,) = (path for path in (paired / "continuations").iterdir() if path.is_dir())
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("points_to", ["nothing", "a file", "a folder"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_follows_a_link_out_of_the_study(run, run_folder, tmp_path, name, points_to):
    link = run_folder.parents[1] / name.replace("RUN", run_folder.name)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    (outside / "folder").mkdir()
    (outside / "folder" / "mine.txt").write_text("mine")
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / {"nothing": "new", "a file": "mine.txt", "a folder": "folder"}[points_to])
    for command in COMMANDS[name]:
        ran = run(*typed(command))
        assert ran.code in {0, 2}
        assert "Traceback" not in ran.err
    assert listed(outside) == {"mine.txt": b"mine"}
    assert listed(outside / "folder") == {"mine.txt": b"mine"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "RUN", "RUN/guard.jsonl", "RUN/recipe.json"])
def test_no_text_is_read_through_a_link(run, run_folder, tmp_path, name):
    """A stranger's study could show raters, judges and readers the texts of the user's other studies."""
    link = run_folder.parent / name.replace("RUN", run_folder.name)
    link.rename(tmp_path / "outside")
    link.symlink_to(tmp_path / "outside")
    for command in ("measure --metrics length", "pair"):
        assert "leads out of the folder" in run(*typed(command)).refused()


def typed(command):
    """Return the words of a command on the study."""
    words = command.split()
    verbs = 2 if words[0] == "raters" else 1
    return [*words[:verbs], "small", *words[verbs:]]


def test_status_names_a_link_to_a_missing_file(run, paired, tmp_path):
    (paired / "metrics").mkdir()
    (paired / "metrics" / "metrics.html").touch()
    (text,) = (paired / "continuations").glob("*/guard.jsonl")
    text.unlink()
    text.symlink_to(tmp_path / "missing")
    assert "leads out of the folder" in run("status", paired).out
