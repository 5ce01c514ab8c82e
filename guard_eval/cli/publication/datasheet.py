"""`guard-eval datasheet`: the Human Evaluation Datasheet (HEDS 3.0), filled as far as the study knows."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from guard_eval.cli.console import StudyFolder, say
from guard_eval.cli.publication.datasheet_answers import Filled, known_answers, open_study
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import clean
from guard_eval.reporting.rendering import render
from guard_eval.reporting.writing import write_whole
from guard_eval.study.folder import Study
from guard_eval.study.problems import read_toml

_HERE = Path(__file__).parent
ANSWERS = "datasheet.toml"
"""The author's own answers, in the study's folder; made once, never written again."""
_MANY = "heds-criteria-criterion"
_OPTIONS = re.compile(r"(\d+(?:\s*,\s*\d+)*)(?::\s*(.*))?", re.DOTALL)
_SECTIONS = {
    "1": "1 Main reference and supplementary resources",
    "2": "2 Evaluated systems",
    "3": "3 Sample, evaluators and experimental design",
    "5": "5 Ethics",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One field of the datasheet.

    Attributes:
        number: The question's number.
        name: The field of the web form.
        title: What is asked, in short.
        options: How many options there are; 0 for a text.
        criterion: Of which criterion it is asked; empty for the others.
        answer: The answer; None where the study does not know it.
        own: The author's answer.
        stale: The author answered for settings that have changed since.
    """

    number: str
    name: str
    title: str
    options: int
    criterion: str
    answer: Filled | None
    own: bool
    stale: bool

    @property
    def filled(self) -> bool:
        """Return whether there is an answer."""
        return self.answer is not None

    @property
    def words(self) -> str:
        """Return the answer as it is read."""
        if self.answer is None:
            return "TO BE ANSWERED BY THE AUTHOR"
        chosen = ", ".join(map(str, self.answer.options))
        text = f"Option {chosen}. {self.answer.text}".strip() if chosen else self.answer.text
        mark = " [STALE: the study's settings have changed since the author wrote this]" if self.stale else ""
        return text + mark


@dataclass(frozen=True, kw_only=True, slots=True)
class Datasheet:
    """A filled datasheet.

    Attributes:
        name: The study's name.
        hash: Of its settings.
        simulated: The raters are simulated.
        fields: In the form's order, section 4 once for each criterion.
    """

    name: str
    hash: str
    simulated: bool
    fields: tuple[Field, ...]

    @property
    def filled(self) -> int:
        """Return how many fields have an answer."""
        return sum(field.filled for field in self.fields)

    @property
    def counted(self) -> str:
        """Return how far it is filled, in words."""
        own = sum(field.own for field in self.fields)
        stale = sum(field.stale for field in self.fields)
        text = f"{self.filled} of {len(self.fields)} fields filled, {own} by the author"
        return f"{text} ({stale} of these before the settings changed)" if stale else text

    @property
    def note(self) -> str:
        """Return the text above the answers."""
        simulated = (
            "The raters of this study are SIMULATED: no person evaluated anything. " if self.simulated else ""
        )
        return (
            f"{simulated}Questions of HEDS 3.0 (Belz and Thomson, 2024, arXiv:2412.07940), in short; an "
            "option's number is that of the form at nlp-heds.github.io. "
            f"{self.counted}. Study settings: {self.hash}."
        )

    @property
    def sections(self) -> tuple[tuple[str, tuple[Field, ...]], ...]:
        """Return the fields by section, in the form's order."""
        found: dict[str, list[Field]] = {}
        for field in self.fields:
            section = _SECTIONS.get(field.number[0], f"4 Quality criterion: {field.criterion}")
            found.setdefault(section, []).append(field)
        return tuple((title, tuple(fields)) for title, fields in found.items())

    def form(self) -> str:
        """Return the JSON that HEDS' web form loads.

        Criteria have their names there, not their titles: the form puts these into its page as HTML.
        """
        stored: dict[str, Any] = {}
        names = dict.fromkeys(field.criterion for field in self.fields if field.criterion)
        control = {name: number == 0 for number, name in enumerate(names)}
        stored[_MANY] = {"data": {}, "control": control, "text": {}}
        for field in self.fields:
            if field.answer is None:
                continue
            text, key = clean(field.words if field.stale else field.answer.text), field.criterion
            if not field.options:
                entry = stored.setdefault(field.name, {"data": {}, "control": {}, "number": field.number})
                entry["data"][key] = text
                continue
            for option in field.answer.options:
                new = {"data": {}, "control": {}, "text": {}, "number": field.number}
                entry = stored.setdefault(f"{field.name}-{option}", new)
                entry["data"][key], entry["text"][key] = True, f"{option}."
            other = stored.setdefault(f"{field.name}-other_text", {"data": {}, "control": {}, "number": None})
            other["data"][key] = text
        return json.dumps(stored, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def command(
    folder: StudyFolder,
    output: Annotated[
        Path | None, typer.Option(help="The folder to write; default: datasheet in the study.")
    ] = None,
) -> None:
    """Fill the human evaluation datasheet (HEDS 3.0) as far as the study knows.

    Writes heds.json, which the form at nlp-heds.github.io loads, datasheet.tex, datasheet.md and
    datasheet.html. Your own answers stand in the study's datasheet.toml, made once and then only read.
    """
    study = Study.open(folder)
    sheet = datasheet(study)
    target = study.folder / "datasheet" if output is None else output
    write_whole(target / "heds.json", sheet.form().encode("utf-8", "replace"), make_folder=True)
    for ending in ("html", "md", "tex"):
        text = render(_HERE / f"datasheet.{ending}.j2", sheet=sheet)
        write_whole(target / f"datasheet.{ending}", text.encode("utf-8"))
    own = study.folder / ANSWERS
    if not own.exists():
        write_whole(own, _unanswered(sheet).encode())
    if sheet.simulated:
        say("These raters are SIMULATED.")
    say(f"{sheet.counted}; the others are marked, and are yours to answer in {own}")
    say(f"datasheet: {target / 'datasheet.html'}, datasheet.md, datasheet.tex, heds.json")


def datasheet(study: Study) -> Datasheet:
    """Return the study's datasheet, the author's answers before what the study knows.

    Raises:
        StudyError: The study's database or the author's answers cannot be read.
    """
    overview = open_study(study)
    known = known_answers(study, overview)
    own, written_for = _own_answers(study)
    fields = []
    for number, name, title, options, criterion in _asked(study):
        key = f"{number} {criterion}".strip()
        mine = own.pop(key, "").strip()
        fields.append(
            Field(
                number=number,
                name=name,
                title=title,
                options=options,
                criterion=criterion,
                answer=_chosen(key, mine, options) if mine else known.get((number, criterion)),
                own=bool(mine),
                stale=bool(mine) and written_for != study.hash,
            )
        )
    if own:
        raise StudyError(
            f"{study.folder / ANSWERS} answers {next(iter(own))!r}, which is no question of this study's "
            'datasheet; write a number such as "5.1", and in section 4 the criterion, such as "4.1.1 fluency"'
        )
    simulated = overview is not None and overview.rater_kind == "simulated"
    return Datasheet(name=study.settings.name, hash=study.hash, simulated=simulated, fields=tuple(fields))


def _asked(study: Study) -> list[tuple[str, str, str, int, str]]:
    """Return number, field, title, number of options and criterion of every question, in the form's order."""
    general, criterion = _questions()
    asked = [
        (number, f"{_MANY}-{name}", title, options, each)
        for each in study.settings.annotation.criteria
        for number, name, title, options in criterion
    ]
    before = [(number, f"heds-{name}", title, options, "") for number, name, title, options in general]
    ethics = next(place for place, row in enumerate(before) if row[0].startswith("5"))
    return [*before[:ethics], *asked, *before[ethics:]]


@cache
def _questions() -> tuple[list[tuple[str, str, str, int]], ...]:
    tables = tomllib.loads((_HERE / "heds.toml").read_text(encoding="utf-8"))
    found: dict[str, list[tuple[str, str, str, int]]] = {}
    for table, lines in tables.items():
        for line in lines.strip().splitlines():
            number, name, title, *options = (part.strip() for part in line.split("|"))
            found.setdefault(table, []).append(
                (number, name, title, int(options[0].rstrip("*")) if options else 0)
            )
    return found["general"], found["criterion"]


def _chosen(key: str, text: str, options: int) -> Filled:
    """Return an author's answer: of a choice the options' numbers, then a colon and words if need be."""
    if not options:
        return Filled(text)
    parts = _OPTIONS.fullmatch(text)
    numbers = tuple(int(one) for one in parts[1].split(",")) if parts else ()
    if parts is None or not all(1 <= number <= options for number in numbers):
        raise StudyError(
            f"{ANSWERS}: the answer to {key} is {text!r}, and this question has options 1 to "
            f'{options}; write the number, and words behind a colon, such as "{options}: because …"'
        )
    return Filled(parts[2] or "", numbers)


def _own_answers(study: Study) -> tuple[dict[str, str], object]:
    """Return the author's answers, and the hash of the settings for which they were written."""
    path = study.folder / ANSWERS
    if not path.exists():
        return {}, None
    tables = read_toml(path)
    answers = tables.get("answers", {})
    wrong = not isinstance(answers, dict) or next(
        (key for key, value in answers.items() if not isinstance(value, str)), None
    )
    if wrong:
        raise StudyError(f'{path}: write each answer as text in [answers], such as "5.1" = "…"')
    return dict(answers), tables.get("study")


def _unanswered(sheet: Datasheet) -> str:
    """Return the file in which the author answers what the study does not know."""
    lines = [
        "# Your answers, which go before those of the study; questions that are not listed can be added.",
        '# To a choice: the number of the option in the form, then words: "2", "1: a voucher".',
        "# Answers are marked as stale when the settings of the study change; read them again, then replace",
        "# the line below by the hash that the datasheet shows.",
        f'study = "{sheet.hash}"',
        "",
        "[answers]",
    ]
    for field in sheet.fields:
        if not field.filled:
            choice = f" (options 1 to {field.options})" if field.options else ""
            lines.append(f'"{f"{field.number} {field.criterion}".strip()}" = ""  # {field.title}{choice}')
    return "\n".join(lines) + "\n"
