"""Texts that models behind servers wrote: what each is asked, and the file with its answers.

`texts/NAME.served.jsonl` has a line for each answer, as soon as it is there: the prompt's id, the text's
number, the text, and a hash of the request. A text counts as long as study.toml asks for the same request:
after a change of settings texts are requested again, and if it is taken back, the earlier ones count again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guard_eval.records import Prompt, content_id
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.generations import Generation
from guard_eval.texts.journal import append_lines, read_lines
from guard_eval.texts.systems.matching import SystemTexts, assign_prompt

TEXTS = "texts"
"""The folder of a study in which texts lie that no local model wrote."""

_OF_TEXTS = {"id": str, "text": str, "number": int, "request": str}
_OF_ATTEMPTS = {"attempt": str, "cost": int}
"""The types of the values that a line must have."""


def text_file(name: str, ending: str = ".jsonl") -> str:
    """Return the path of a system's file in a study, whatever characters its name has.

    >>> text_file("GPT"), text_file("a/b"), text_file("a:b")
    ('texts/GPT.jsonl', 'texts/a_b-1693b0.jsonl', 'texts/a_b-07d94a.jsonl')
    """
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "_", name).strip("._-")[:60]
    if plain == name:
        return f"{TEXTS}/{name}{ending}"
    return f"{TEXTS}/{plain or 'system'}-{content_id(name)[:6]}{ending}"


def served_path(study: Study, system: System) -> Path:
    """Return the file with a served system's texts."""
    return study.folder / text_file(system.name, ".served.jsonl")


def build_request(study: Study, system: System, prompt: Prompt, number: int) -> dict[str, Any]:
    """Return the body of the request for a system's text to a prompt: 1, 2, …."""
    generation = study.settings.generation
    served = system.served_model
    body: dict[str, Any] = {"model": served.model}
    if system.chat:
        body["messages"] = [{"role": "user", "content": prompt.text}]
    else:
        body["prompt"] = prompt.text
    body["max_tokens"] = generation.max_new_tokens
    if system.temperature is not None:
        body["temperature"] = system.temperature
    if generation.stop:
        body["stop"] = generation.stop
    body["seed"] = int(content_id(study.settings.seed, "served", prompt.id, number), 16) % 2**31
    return body | system.body


def hash_request(system: System, body: Mapping[str, Any]) -> str:
    """Return the hash of a request: server, headers that can change an answer, and body."""
    return content_id("request", system.base_url, system.answering_headers, body)


def find_served(study: Study, system: System, prompts: Mapping[str, Prompt]) -> SystemTexts:
    """Return a served system's texts to these prompts, as far as they exist.

    Raises:
        StudyError: A whole line of the file cannot be read.
    """
    runs = study.settings.count_runs(system.name)
    texts: dict[tuple[str, int], Generation] = {}
    for row in _read_rows(served_path(study, system), _OF_TEXTS):
        prompt = prompts.get(row["id"])
        number = row["number"]
        if prompt is None or not 1 <= number <= runs:
            continue
        if row["request"] == hash_request(system, build_request(study, system, prompt, number)):
            text = Generation(
                prompt_id=prompt.id,
                dataset=prompt.dataset,
                strategy=system.name,
                text=row["text"],
                tokens=row.get("new_tokens"),
                finish=row.get("finish"),
                seconds=row.get("seconds"),
            )
            texts.setdefault((prompt.id, number), assign_prompt(text, prompt, number))
    return texts


def append_served(study: Study, system: System, row: Mapping[str, Any]) -> None:
    """Append an answer to the file of a served system. When this returns, it outlives a crash."""
    append_lines(served_path(study, system), [dict(row)])


def append_attempt(study: Study, system: System, attempt: str, cost: int) -> None:
    """Record the highest cost before a request, and the real cost after a failure without an answer."""
    append_lines(_attempts_path(study, system), [{"attempt": attempt, "cost": cost}])


def read_total_cost(study: Study) -> int:
    """Return the cost of all served systems, in billionths of a dollar.

    A request without an answer counts with the most that it can have cost.
    """
    spent: dict[str, int] = {}
    for system in study.settings.systems.values():
        if system.source == "server":
            for row in _read_rows(_attempts_path(study, system), _OF_ATTEMPTS):
                spent[row["attempt"]] = row["cost"]
            for row in _read_rows(served_path(study, system), _OF_TEXTS):
                if type(row.get("cost")) is int:
                    spent[str(row.get("attempt"))] = row["cost"]
    return sum(spent.values())


def _attempts_path(study: Study, system: System) -> Path:
    """Return the file that says what requests of a served system can cost."""
    return study.folder / text_file(system.name, ".requests.jsonl")


def _read_rows(path: Path, kinds: Mapping[str, type]) -> list[dict[str, Any]]:
    """Return the lines of a file. Check that each has these keys, with values of these types.

    Raises:
        StudyError: A whole line cannot be read.
    """

    def check(row: dict[str, Any]) -> dict[str, Any]:
        if any(type(row[key]) is not kind for key, kind in kinds.items()):
            raise TypeError(f"{', '.join(kinds)} have wrong types")
        return row

    return list(read_lines(path, check, "served text")) if path.exists() else []
