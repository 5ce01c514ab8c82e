"""What a person reads of a data set: README.md, which is the Hub's dataset card, LICENSE and CITATION.cff."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from guard_eval.cli.console import count_of
from guard_eval.cli.exchange.tool_folders import hub_configs
from guard_eval.cli.publication.croissant import PublishedTable
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import escape_markdown, one_line
from guard_eval.rubric import Criterion
from guard_eval.store import TidyRow
from guard_eval.study.folder import Study

_ON_THE_HUB = (
    "apache-2.0 mit bsd-3-clause gpl-3.0 agpl-3.0 lgpl-3.0 odc-by odbl pddl cc0-1.0 cc-by-3.0 cc-by-4.0 "
    "cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-4.0"
)
"""Licences that the Hub knows by these names; any other is `other`."""
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))
NO_AUTHORS = "AUTHORS: fill in"
_PRIVACY = (
    "People are numbers here. The numbers follow the order of the verdicts themselves, not that of names, "
    "ids or arrival, and are no hash of a name, which a list of names would give away. Moments and durations "
    "are left out: beside a recruiting platform's list of when participants came, or how long they took, "
    "they would identify the person. Names, participants' ids, answers on themselves, consent, pages seen, "
    "and the verdicts of people who were excluded are not published."
)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the words are about.

    Attributes:
        study: The study.
        license: The licence's SPDX identifier, where one was named.
        tables: The files of rows.
        rows: The verdicts.
        criteria: What was asked.
        answer: The report's answer.
        picture: Its figure's path, where there is one.
        changed: The settings' hash at the first verdict, where it was another.
        excluded: How many people's verdicts are left out.
    """

    study: Study
    license: str | None
    tables: Sequence[PublishedTable]
    rows: Sequence[TidyRow]
    criteria: Sequence[Criterion]
    answer: str
    picture: str | None
    changed: str | None
    excluded: int

    @property
    def authors(self) -> tuple[str, ...]:
        """Return who made the study, as study.toml says it."""
        return tuple(map(one_line, self.study.settings.publication.authors))

    @property
    def title(self) -> str:
        """Return the data set's title."""
        return f"{one_line(self.study.settings.name)}: verdicts on pairs of continuations"

    def files(self) -> dict[str, str]:
        """Return README.md, LICENSE and CITATION.cff."""
        return {"README.md": self._readme(), "LICENSE": self._license(), "CITATION.cff": self._citation()}

    def about(self) -> dict[str, object]:
        """Return what croissant.json says of the whole."""
        creators = [{"@type": "sc:Person", "name": name} for name in self.authors]
        found: dict[str, object] = {
            "name": re.sub(r"\W+", "-", one_line(self.study.settings.name), flags=re.ASCII).strip("-")
            or "study",
            "description": f"{self.title}. {one_line(self.study.settings.question)} {self.answer}",
            "version": "1.0.0",
            "citeAs": f"{', '.join(self.authors) or NO_AUTHORS}. {self.title}.",
            "creator": creators or [{"@type": "sc:Organization", "name": NO_AUTHORS}],
            "keywords": ["human evaluation", "text generation", "decoding", "pairwise preference"],
            "inLanguage": self.study.settings.annotation.language,
            "rai:personalSensitiveInformation": _PRIVACY,
        }
        if self.license:
            found["license"] = f"https://spdx.org/licenses/{self.license}.html"
        return found

    def _readme(self) -> str:
        settings = self.study.settings
        question, name = escape_markdown(settings.question), escape_markdown(settings.name)
        picture = f"\n![The answer as a figure]({self.picture})\n" if self.picture else ""
        tables = "\n".join(_columns(table) for table in self.tables)
        asked = "\n".join(f"- {escape_markdown(each.words)}" for each in self.criteria)
        return f"""{self._front_matter()}
# {name}

{question}

{escape_markdown(self.answer)}
{picture}
The whole report is `report/index.html`; it was made from `verdicts.csv` and opens from disk.

## Files

{tables}
- `verdicts.csv`: the rows of `verdicts.jsonl`, for spreadsheets and `guard-eval report`.
- `study.toml`: the study's settings, hash `{self.study.hash}`.{self._hash_note()}
- `report.toml`: what the study declared, as `guard-eval report` reads it beside a table.
- `report/`: the report, every number as CSV and JSON.
- `croissant.json`: the files and columns for machines; `SHA256SUMS`: every file's checksum.

To compute the report's shares again:

```sh
guard-eval report verdicts.csv
```

## How the verdicts were collected

{self._collected()}

What was asked:

{asked}

## What is not here, and why

{_PRIVACY}

## Licence

{self._license()}
## Citation

See `CITATION.cff`.{"" if self.authors else " Its authors are still to be filled in."}
"""

    def _front_matter(self) -> str:
        known = self.license is not None and self.license.lower() in _ON_THE_HUB.split()
        named = self.license.lower() if self.license and known else "other" if self.license else "unknown"
        size = next((name for most, name in _SIZES if len(self.rows) < most), "n>1M")
        return "\n".join(
            [
                "---",
                f"pretty_name: {json.dumps(one_line(self.study.settings.name), ensure_ascii=False)}",
                f"license: {named}",
                *(
                    [f"license_name: {json.dumps(self.license)}", "license_link: LICENSE"]
                    * (named == "other")
                ),
                f"language:\n- {self.study.settings.annotation.language}",
                "task_categories:\n- text-generation",
                "tags:\n- human-evaluation\n- pairwise-preference\n- decoding",
                f"size_categories:\n- {size}",
                hub_configs([table.file for table in self.tables]) + "---",
            ]
        )

    def _hash_note(self) -> str:
        if self.changed is None:
            return " It is the hash that was stored with the first verdict."
        return f" The settings were changed after the first verdict, when it was `{self.changed}`."

    def _collected(self) -> str:
        settings = self.study.settings
        by_kind: Counter[str] = Counter()
        for kind, _ in {(row.rater_kind, row.rater) for row in self.rows}:
            by_kind[kind] += 1
        words = {"person": ("person", "people"), "model": ("model as a judge", "models as judges")}
        words |= {"simulated": ("SIMULATED rater", "SIMULATED raters")}
        words |= {"simulated_model": ("SIMULATED judge", "SIMULATED judges")}
        who = ", ".join(count_of(by_kind[kind], *word) for kind, word in words.items() if by_kind[kind])
        simulated = by_kind.keys() & SIMULATED
        people = settings.annotation.raters_per_pair
        model = escape_markdown(settings.model.name)
        sentences = (
            f"Raters: {who}.",
            "SIMULATED verdicts say nothing of any method." if simulated else "",
            "Each saw two continuations of one prompt, and no names; which stood first was balanced.",
            "The answers are A, B or a tie, for each criterion.",
            f"{people} people were planned for each pair."
            if by_kind.keys() & {"person", "simulated"}
            else "",
            f"The verdicts of {self.excluded} people are left out, as the owner decided."
            * (self.excluded > 0),
            f"The texts are by the model {model}; Methods in the report say how they were made.",
        )
        return " ".join(filter(None, sentences))

    def _license(self) -> str:
        texts = (
            f"The continuations were written by {escape_markdown(self.study.settings.model.name)} from the "
            "prompts in pairs.jsonl. The licences of that model and of the prompts' sources hold for these "
            "texts as well.\n"
        )
        if self.license is None:
            return (
                "No licence was named when this was published: without one, the verdicts may not be reused. "
                f"The authors can name one here.\n\n{texts}"
            )
        return f"The verdicts and the report: {self.license} (SPDX identifier).\n\n{texts}"

    def _citation(self) -> str:
        names = [json.dumps(name, ensure_ascii=False) for name in self.authors]
        lines = [
            "cff-version: 1.2.0",
            "message: If you use these data, please cite them.",
            "type: dataset",
            f"title: {json.dumps(self.title, ensure_ascii=False)}",
            "authors:",
            *(f"  - name: {name}" for name in names or [json.dumps(NO_AUTHORS)]),
            *([f"license: {self.license}"] if self.license else []),
        ]
        return "\n".join(lines) + "\n"


def _columns(table: PublishedTable) -> str:
    """Return what a file and its columns mean, as a list."""
    columns = "".join(f"  - `{name}`: {meaning}\n" for name, meaning in table.columns.items())
    return f"- `{table.file}`: {table.meaning} {table.rows} rows.\n{columns}".rstrip()
