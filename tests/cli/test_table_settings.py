"""What is declared of a bare table: on the command line and in report.toml, and what the report then says."""

import csv
import json
import re

import pytest

from guard_eval.cli import report
from guard_eval.cli.commands import report as write
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"
VERDICTS = {"adequacy": ["nmt"] * 9 + ["smt"], "fluency": ["nmt", "smt", "tie", "tie", "nmt", "smt"]}


@pytest.fixture
def table(tmp_path):
    """Translations of two systems: one clear result, by 9 pairs to 1, and one of none."""
    rows = [
        f"{place},news,nmt,smt,Ana,{criterion},{verdict}"
        for criterion, verdicts in VERDICTS.items()
        for place, verdict in enumerate(verdicts)
    ]
    path = tmp_path / "mt.csv"
    path.write_text("\n".join((HEADER, *rows)) + "\n")
    return path


def declare(table, text):
    path = table.with_name("report.toml")
    path.write_text(text)
    return path


def shares(folder):
    with (folder / "csv" / "win_shares.csv").open() as file:
        return {row["criterion"]: row for row in csv.DictReader(file)}


def test_a_table_says_as_much_as_a_study(table, tmp_path):
    declare(
        table,
        'title = "MT of news"\nquestion = "Which system translates better?"\ntexts = "translations"\n'
        'alpha = 0.01\nfamily = ["adequacy"]\nseed = 11\n',
    )
    folder = tmp_path / "out"
    found = write(table, folder, alpha=0.02)
    page, text = (folder / "index.html").read_text(), (folder / "report.md").read_text()
    assert "pairs of translations" in found.summary
    assert '<h1 dir="auto">MT of news</h1>' in page
    assert "Which system translates better?" in page
    assert "* Declared on the command line: alpha = 0.02." in text
    assert "* Declared in report.toml: title = MT of news, question" in text
    assert "family = adequacy, seed = 11." in text
    assert "before the verdicts were collected is its author's word" in text
    assert "guard-eval report mt.csv --alpha 0.02" in text
    assert json.loads((folder / "report.json").read_text())["seed"] == 11
    assert "Exploratory" not in text
    rows = shares(folder)
    # Signs of ten pairs, 9 to 1: p = 2 (1 + 10) / 2^10. A family of one is not corrected.
    assert float(rows["adequacy"]["p_adjusted"]) == pytest.approx(22 / 1024)
    assert (rows["adequacy"]["family"], rows["fluency"]["family"]) == ("1", "0")
    assert rows["adequacy"]["level"] == "0.98"


def test_without_a_declaration_all_results_are_the_family(table, tmp_path):
    write(table, tmp_path / "out")
    rows = shares(tmp_path / "out")
    assert float(rows["adequacy"]["p_adjusted"]) == pytest.approx(2 * 22 / 1024)
    assert "Exploratory" in (tmp_path / "out" / "report.md").read_text()


def test_nothing_is_spoken_of_that_the_table_has_not(table, tmp_path):
    write(table, tmp_path / "out")
    for name in ("report.md", "report.tex", "report.json", "csv/win_shares.csv", "csv/sensitivity.csv"):
        text = (tmp_path / "out" / name).read_text().replace("prompt_id", "")
        assert re.findall(r"(?i)continuation|the paper|strateg|prompt", text.replace(r"prompt\_id", "")) == []


@pytest.mark.parametrize(
    ("family", "planned"),
    [
        (["smt against nmt: fluency"], [("fluency", "smt", "nmt")]),
        (["nmt against smt"], [("adequacy", "nmt", "smt"), ("fluency", "nmt", "smt")]),
        (["fluency", "smt against nmt"], [("fluency", "nmt", "smt"), ("adequacy", "nmt", "smt")]),
    ],
)
def test_what_a_family_names(table, tmp_path, family, planned):
    write(table, tmp_path / "out", family=tuple(family))
    rows = shares(tmp_path / "out")
    assert sorted(planned) == sorted(
        (name, row["method_a"], row["method_b"]) for name, row in rows.items() if row["family"] != "0"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('alpha = "0.05"\n', r"report\.toml has 1 problem:\s+alpha"),
        ("alpha = 1\nsed = 3\n", r"report\.toml has 2 problems"),
        ('unit = "pages"\n', "unit"),
        ('title = "a\\nb"\n', "line breaks; write one line"),
        ("alpha = \n", r"report\.toml is not valid TOML.*fix that line"),
        ('family = ["style"]\n', "the family names 'style'.*adequacy and fluency.*nmt and smt"),
        ('family = ["nmt against gpt: fluency"]\n', "which the table does not compare"),
        ('unit = "prompt"\n', "add a column prompt_id .*or declare unit = pair"),
    ],
)
def test_a_declaration_that_is_wrong(table, tmp_path, text, message):
    declare(table, text)
    with pytest.raises(StudyError, match=message):
        write(table, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_named_file_goes_before_the_one_beside_the_table(table, tmp_path):
    declare(table, "alpha = 0.01\n")
    other = tmp_path / "mine.toml"
    other.write_text("alpha = 0.2\n")
    write(table, tmp_path / "out", settings=other)
    assert shares(tmp_path / "out")["fluency"]["level"] == "0.8"
    assert "guard-eval report mt.csv --settings mine.toml" in (tmp_path / "out" / "report.md").read_text()
    with pytest.raises(StudyError, match=r"cannot read .*none\.toml"):
        write(table, tmp_path / "out", settings=tmp_path / "none.toml")


def test_the_unit_can_be_the_pair_though_prompts_are_named(table, tmp_path):
    rows = [f"{line},{int(line.split(',')[0]) // 2}" for line in table.read_text().splitlines()[1:]]
    table.write_text("\n".join((f"{HEADER},prompt_id", *rows)) + "\n")
    write(table, tmp_path / "out")
    assert shares(tmp_path / "out")["adequacy"]["unit"] == "prompt"
    write(table, tmp_path / "out", unit="pair")
    assert (shares(tmp_path / "out")["adequacy"]["unit"], shares(tmp_path / "out")["adequacy"]["units"]) == (
        "pair",
        "10",
    )
    assert "although several pairs share a prompt" in (tmp_path / "out" / "report.md").read_text()


def test_the_command_line_takes_it_all_and_says_which_file_it_read(table, tmp_path, capsys):
    declare(table, 'question = "Which?"\n')
    report.command(
        table,
        output=tmp_path / "out",
        title="A 'B' $(C)",
        family=["adequacy", "fluency"],
        seed=3,
        unit="pair",
    )
    text = (tmp_path / "out" / "report.json").read_text()
    assert json.loads(text)["name"] == "A 'B' $(C)"
    made = (tmp_path / "out" / "report.md").read_text()
    # For a shell: what is quoted is one word, and a program in it is not run.
    assert """--title 'A '"'"'B'"'"' $(C)' --family adequacy --family fluency --seed 3 --unit pair""" in made
