"""The examples of docs/formats.md are read as the page says."""

import re
import shlex
from pathlib import Path

import pandas as pd
from command_line import run_here

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
BLOCK = re.compile(
    r"(?:<!-- file: (?P<name>\S+) -->\n)?```(?P<kind>csv|toml|console)\n(?P<text>.*?)```", re.DOTALL
)


def test_commands_on_formats_page_run(monkeypatch, capsys, tmp_path):
    outputs = []
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["kind"] != "console":
            (tmp_path / block["name"]).write_text(block["text"], encoding="utf-8")
            continue
        for line in block["text"].splitlines():
            ran = run_here(monkeypatch, capsys, tmp_path, *shlex.split(line)[1:])
            assert ran.code == 0, line
            outputs.append(ran.out)
        (tmp_path / "report.toml").unlink(missing_ok=True)
    assert len(outputs) == 4
    assert re.search(r"^pair +case_id ", outputs[0], re.MULTILINE)
    assert "Does the share depend on genre?" in outputs[1]
    verdicts = {
        name: pd.read_csv(tmp_path / name / "csv" / "verdicts.csv")["verdict"].tolist() for name in REPORTS
    }
    assert verdicts == REPORTS


REPORTS = {
    "votes-report": ["gpt", "tie", "olmo", "gpt"],
    "ratings-report": ["gpt", "tie", "olmo"],
    "survey-report": ["gpt", "olmo", "tie", "olmo"],
}
"""The verdicts in the order of pairs and raters."""
