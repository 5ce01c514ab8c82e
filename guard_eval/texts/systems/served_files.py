"""Texts of models behind servers: build the requests, and read and write the files with the answers.

`texts/NAME.served.jsonl` gets a line for each answer as soon as it arrives: the prompt's id, the text's
number, the text, and a hash of the request. A text counts while the settings in study.toml give the same
request. After a change of settings, texts are requested again; after undoing the change, the old texts count.
`texts/NAME.unreadable.jsonl` keeps the answers without a text, and `texts/NAME.requests.jsonl` the costs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guard_eval.records import Generation, Prompt, make_content_id
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.continuations import append_lines, build_items_from_lines
from guard_eval.texts.systems.matching import SystemTexts, assign_prompt_to_text

TEXTS = "texts"
"""The folder of a study for texts from servers and files."""

SERVED = ".served.jsonl"
UNREADABLE = ".unreadable.jsonl"
REQUESTS = ".requests.jsonl"
"""The endings of a served system's files: texts, answers without a text, and the costs of requests."""

_OF_TEXTS = {"id": str, "text": str, "number": int, "request": str}
_OF_UNREADABLE = {"request": str}
_OF_REQUESTS = {"attempt": str, "cost": int}
"""The keys that each line of a file must have, with the types of their values."""


def make_system_file_name(name: str, ending: str = ".jsonl") -> str:
    """Return the path of a system's file in a study. The system's name may have any characters.

    >>> make_system_file_name("GPT"), make_system_file_name("a/b"), make_system_file_name("a:b")
    ('texts/GPT.jsonl', 'texts/a_b-1693b0.jsonl', 'texts/a_b-07d94a.jsonl')
    """
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "_", name).strip("._-")[:60]
    if plain == name:
        return f"{TEXTS}/{name}{ending}"
    return f"{TEXTS}/{plain or 'system'}-{make_content_id(name)[:6]}{ending}"


def locate_served_file(study: Study, system: System, ending: str = SERVED) -> Path:
    """Return a file of a served system: by default the file with the texts."""
    return study.folder / make_system_file_name(system.name, ending)


def build_request(study: Study, system: System, prompt: Prompt, number: int) -> dict[str, object]:
    """Return the body of the request for the n-th text (1, 2, …) of a system for a prompt."""
    generation = study.settings.generation
    served = system.served_model
    body: dict[str, object] = {"model": served.model}
    if system.chat:
        body["messages"] = [{"role": "user", "content": prompt.text}]
    else:
        body["prompt"] = prompt.text
    body["max_tokens"] = generation.max_new_tokens
    if system.temperature is not None:
        body["temperature"] = system.temperature
    if generation.stop:
        body["stop"] = generation.stop
    body["seed"] = int(make_content_id(study.settings.seed, "served", prompt.id, number), 16) % 2**31
    return body | system.body


def hash_request(study: Study, system: System, prompt: Prompt, number: int) -> str:
    """Return the hash of a request: of the server, the body, and the headers that can change an answer."""
    body = build_request(study, system, prompt, number)
    return make_content_id("request", system.base_url, system.headers_affecting_answers, body)


def find_served_texts(study: Study, system: System, prompts: Mapping[str, Prompt]) -> SystemTexts:
    """Return the existing texts of a served system for these prompts.

    Raises:
        StudyError: A complete line of the file cannot be read.
    """
    runs = study.settings.count_texts_per_prompt(system.name)
    texts: dict[tuple[str, int], Generation] = {}
    for row in _read_checked_rows(locate_served_file(study, system), _OF_TEXTS):
        prompt = prompts.get(row["id"])
        number = row["number"]
        if prompt is None or not 1 <= number <= runs:
            continue
        if row["request"] == hash_request(study, system, prompt, number):
            text = Generation(
                prompt_id=prompt.id,
                dataset=prompt.dataset,
                strategy=system.name,
                text=row["text"],
                tokens=row.get("new_tokens"),
                finish=row.get("finish"),
                seconds=row.get("seconds"),
            )
            texts.setdefault((prompt.id, number), assign_prompt_to_text(text, prompt, number))
    return texts


def append_row(study: Study, system: System, ending: str, row: Mapping[str, object]) -> None:
    """Append a line to a file of a served system, and sync the file so that a crash loses nothing."""
    append_lines(locate_served_file(study, system, ending), [row])


def read_unreadable_answers(study: Study, system: System) -> set[str]:
    """Return the hashes of the requests to a system whose answers were stored, but contain no text."""
    path = locate_served_file(study, system, UNREADABLE)
    return {row["request"] for row in _read_checked_rows(path, _OF_UNREADABLE)}


def read_total_cost(study: Study) -> int:
    """Return the cost of all served systems, also of removed systems, in billionths of a dollar.

    A request has a line with its highest possible cost, and later a line with its real cost.
    """
    paths = (study.folder / TEXTS).glob(f"*{REQUESTS}")
    rows = [row for path in paths for row in _read_checked_rows(path, _OF_REQUESTS)]
    return sum({row["attempt"]: row["cost"] for row in rows}.values())


def _read_checked_rows(path: Path, kinds: Mapping[str, type]) -> list[dict[str, Any]]:
    """Return the lines of a file. Check that each line has these keys, with values of these types.

    Raises:
        StudyError: A complete line cannot be read.
    """

    def check_row(row: dict[str, Any]) -> dict[str, Any]:
        if any(type(row[key]) is not kind for key, kind in kinds.items()):
            raise TypeError(f"{', '.join(kinds)} have wrong types")
        return row

    return list(build_items_from_lines(path, check_row, "served text")) if path.exists() else []
