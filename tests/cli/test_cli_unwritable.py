"""Each command that only reads a study works where the study cannot be written."""

import os
import subprocess

import pytest

from analysis.demo import simulate_verdicts
from guard_eval.study.folder import Study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a folder read-only"),
]


@pytest.fixture
def mounted(paired, tmp_path):
    """Mount a study with ratings read-only."""
    simulate_verdicts(Study.open(paired))
    folder = tmp_path / "mounted"
    folder.mkdir()
    mount = ["mount", "-o", "bind,ro", str(paired), str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a folder")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_read_only_studies_can_be_read_by_every_command(run, mounted, tmp_path):
    assert "6 of 6 ratings" in run("status", "mounted").out
    for command, written in (
        (["report", "mounted", "--output", "out"], "out/index.html"),
        (["export", "mounted", "--output", "v.csv"], "v.csv"),
        (["backup", "mounted", "copy.db"], "copy.db"),
        (["describe", "mounted", "--output", "plan.md"], "plan.md"),
        (["raters", "list", "mounted"], ""),
    ):
        ran = run(*command)
        assert ran.code == 0, ran
        assert (tmp_path / written).exists()


def test_an_unwritable_file_is_named_in_the_error(run, mounted):
    assert (
        "cannot write mounted/report/files.txt: Read-only file system" in run("report", "mounted").refused()
    )
    assert "cannot write mounted/verdicts.csv: Read-only" in run("export", "mounted").refused()
    assert "make the file and its folder writable" in run("raters", "add", "mounted", "ada").refused()
