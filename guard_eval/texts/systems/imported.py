"""Import texts from files or data frames: they become the prompts and systems of a study.

Ambiguous files are refused. Assumptions are reported in `ImportedSystem.line` and the notes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError, format_count
from guard_eval.lookalike import make_visible_form
from guard_eval.records import Prompt, clean_for_raters
from guard_eval.study.system_settings import NO_SYSTEM
from guard_eval.texts.generation_files import ECHO, FURTHER, TextTable
from guard_eval.texts.generations import Generation
from guard_eval.texts.systems.matching import MatchedTexts, PromptIndex
from guard_eval.texts.systems.served_files import make_system_file_name

Source = Path | Any
"""A file, or a data frame with the columns prompt, system and text."""


@dataclass(frozen=True, kw_only=True)
class ImportedSystem:
    """A system whose texts come from a file.

    Attributes:
        name: The system's name, from the records, the column or else the file's name.
        source: The file, for messages.
        texts: The texts, in the file's order. In a study, each prompt has one or several texts.
        remarks: Sentences on texts that were left out or shortened, and on assumptions.
    """

    name: str
    source: str
    texts: list[Generation] = field(default_factory=list)
    remarks: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Return the path of the system's file in the study."""
        return make_system_file_name(self.name)

    @property
    def line(self) -> str:
        """Return a line about the system: the number of texts, and the remarks."""
        remarks = f" ({'; '.join(self.remarks)})" if self.remarks else ""
        return f"{self.name}: {format_count(len(self.texts), 'text')} from {self.source}{remarks}"

    def lines(self) -> bytes:
        """Return the texts as the lines of the system's file."""
        return "".join(map(_format_text_line, self.texts)).encode("utf-8", "replace")


def _format_text_line(text: Generation) -> str:
    """Return a text as a JSON line: the prompt's id, the text, and the known facts about its generation."""
    row = {"id": text.prompt_id, "text": text.text}
    more = {"finish": text.finish, "new_tokens": text.tokens, "seconds": text.seconds, "batch": text.batch}
    facts = {name: value for name, value in more.items() if value is not None}
    return json.dumps(row | facts, ensure_ascii=False) + "\n"


def import_texts(
    sources: Sequence[Source],
    *,
    columns: Sequence[str] = (),
    prompts: Sequence[Prompt] = (),
    common: bool = False,
) -> tuple[list[Prompt], list[ImportedSystem]]:
    """Return the prompts of all files, or `prompts`, and the systems with their texts for these prompts.

    Args:
        sources: Files or data frames.
        columns: The names of the columns of texts. A file may lack some of these columns.
        prompts: The prompts, if the files have no prompts.
        common: Take only prompts for which every system has a text.

    Raises:
        StudyError: Two files have the same system, there are fewer than two systems, a text has no prompt, or
            the systems have different prompts.
    """
    systems = read_systems(sources, columns)
    if len(systems) < 2:
        raise StudyError(
            f"only one system was found, {', '.join(systems)}; name the files of at least "
            "two systems, or a file in which a column names the system of each text"
        )
    _check_system_names(systems)
    index = PromptIndex(prompts or _collect_prompts_of_texts(systems))
    has_one_order = bool(prompts) or _have_same_prompt_order(systems)
    matched = {
        name: index.match_texts(system.texts, by_order=has_one_order) for name, system in systems.items()
    }
    shared = [prompt for prompt in index.prompts if all((prompt.id, 1) in m.texts for m in matched.values())]
    if len(shared) < len(index.prompts) and not (common and shared):
        raise StudyError(_explain_lacking_texts(systems, matched, index.prompts, shared=len(shared)))
    ids = {prompt.id for prompt in shared}
    return shared, [_keep_texts_of_prompts(systems[name], result, ids) for name, result in matched.items()]


def read_systems(sources: Sequence[Source], columns: Sequence[str] = ()) -> dict[str, ImportedSystem]:
    """Return the texts of all files by system, in the order of the files.

    Raises:
        StudyError: A file cannot be read, two files have the same system, or no file has a given column.
    """
    result: dict[str, ImportedSystem] = {}
    unused = set(columns)
    for number, source in enumerate(sources, start=1):
        table = TextTable.open(source)
        name = table.name if len(sources) == 1 or isinstance(source, Path) else f"{table.name} {number}"
        used = [column for column in columns if column in table.records[0].row]
        unused -= set(used)
        for _, text in table.read_texts(used):
            system = result.setdefault(text.strategy, ImportedSystem(name=text.strategy, source=name))
            if system.source != name:
                raise StudyError(
                    f"{name} and {system.source} both have texts by {text.strategy!r}; name the system in "
                    "each record (a key 'system'), or rename a file"
                )
            has_prompt = text.prompt is None or text.prompt.strip()
            system.texts.append(text if has_prompt else replace(text, prompt=None))
    if unused:
        raise StudyError(f"--column {min(unused)}: none of the files has this column; correct its name")
    return result


def _check_system_names(systems: Mapping[str, ImportedSystem]) -> None:
    """Refuse systems whose names look alike, or have another meaning in tables, such as `tie`."""
    names: dict[str, str] = {}
    for name, system in systems.items():
        if (other := names.setdefault(make_visible_form(name), name)) != name:
            raise StudyError(f"the systems {other!a} and {name!a} look alike; write one name, or rename one")
        if name.strip().casefold() in NO_SYSTEM:
            raise StudyError(
                f"{system.source} has texts by {name!r}, a word that means a side, a tie or the references "
                "in tables of verdicts and scores; rename the file, or name the system in each record (a "
                "key 'system')"
            )


def _collect_prompts_of_texts(systems: Mapping[str, ImportedSystem]) -> list[Prompt]:
    """Return the different prompts of all texts, in the order of the texts.

    Prompts with the same words are one prompt, even with different ids, because they are not independent. A
    prompt keeps its first id. If another prompt has this id already, a number is added.

    Raises:
        StudyError: No text has a prompt in its record.
    """
    first: dict[str, Generation] = {}
    references: dict[str, str] = {}
    ids: dict[str, str] = {}
    for text in chain.from_iterable(system.texts for system in systems.values()):
        if text.prompt is None:
            continue
        words = clean_for_raters(text.prompt)
        first.setdefault(words, text)
        if text.prompt_id:
            ids.setdefault(words, text.prompt_id)
        if text.reference is not None:
            references.setdefault(words, text.reference)
    if not first:
        raise StudyError(
            "no text has a prompt beside it; name a file with the prompts, by id or in the same order: "
            "--prompts FILE"
        )
    prompts: list[Prompt] = []
    used: Counter[str] = Counter()
    for position, (words, text) in enumerate(first.items(), start=1):
        identifier = ids.get(words, f"{position:04d}")
        used[identifier] += 1
        prompts.append(
            Prompt(
                id=identifier if used[identifier] == 1 else f"{identifier}-{used[identifier]}",
                dataset="prompts" if text.dataset == "unnamed" else text.dataset,
                text=str(text.prompt),
                reference=references.get(words),
            )
        )
    return prompts


def _have_same_prompt_order(systems: Mapping[str, ImportedSystem]) -> bool:
    """Return whether the prompts of all systems are in the same order. Records may lack prompts."""
    orders = {
        tuple(
            dict.fromkeys(clean_for_raters(text.prompt) for text in system.texts if text.prompt is not None)
        )
        for system in systems.values()
    }
    return len(orders - {()}) == 1


def _explain_lacking_texts(
    systems: Mapping[str, ImportedSystem],
    matched: Mapping[str, MatchedTexts],
    prompts: Sequence[Prompt],
    *,
    shared: int,
) -> str:
    """Return the message about a system that lacks texts for some prompts, with possible causes.

    Args:
        systems: The systems.
        matched: The texts of the systems, with their prompts.
        prompts: All prompts.
        shared: The number of prompts for which all systems have texts.
    """
    lacking = {
        name: [p for p in prompts if (p.id, 1) not in result.texts] for name, result in matched.items()
    }
    name, missing = next((name, missing) for name, missing in lacking.items() if missing)
    texts = systems[name].texts
    where = f"{name} in {systems[name].source}"
    if all(text.prompt is None and not text.prompt_id for text in texts):
        return (
            f"{where} has texts without ids and prompts, so only their order could say which prompts they "
            f"belong to; {format_count(len(texts), 'text')} and {format_count(len(prompts), 'prompt')} have "
            "no common order. Add the prompts to the file, or name a file with them in the same order: "
            "--prompts FILE"
        )
    causes = ""
    if reworded := _count_ids_with_several_prompts(systems):
        causes += f"{reworded} ids stand for other words in another file, so these prompts differ. "
    strangers = matched[name].strangers
    if strangers and strangers[0].prompt_id and strangers[0].prompt is None:
        causes += f"{len(strangers)} of its texts have other ids, such as {strangers[0].prompt_id!r}. "
    remedy = f", or compare on the {shared} prompts that all have: --common" if shared else ""
    return (
        f"systems are compared on the same prompts, and {where} has no text to {len(missing)} of "
        f"{len(prompts)}, such as {missing[0].id}: {missing[0].text[-60:]!r}. {causes}Add these texts{remedy}"
    )


def _count_ids_with_several_prompts(systems: Mapping[str, ImportedSystem]) -> int:
    """Return the number of ids that name several prompts with different words."""
    words: dict[str, set[str]] = defaultdict(set)
    for system in systems.values():
        for text in system.texts:
            if text.prompt_id and text.prompt is not None:
                words[text.prompt_id].add(clean_for_raters(text.prompt))
    return sum(len(wordings) > 1 for wordings in words.values())


def _keep_texts_of_prompts(
    system: ImportedSystem, matched: MatchedTexts, ids: Collection[str]
) -> ImportedSystem:
    """Return a system with only the texts for the prompts with these ids, and with remarks on the texts."""
    texts = [text for (prompt_id, _), text in matched.texts.items() if prompt_id in ids]
    unused = len(matched.texts) - len(texts) + len(matched.strangers) + len(matched.reworded)
    flaws = Counter(flaw for text in texts for flaw in text.flaws)
    filled = sum(bool(text.text.strip()) for text in texts)
    all_echo = 0 < flaws[ECHO] == filled
    if all_echo:
        texts = [replace(text, text=text.text.removeprefix(text.prompt or "")) for text in texts]
    prompts = len({text.prompt_id for text in texts})
    empty = sum(not text.text.strip() for text in texts)
    remarks = [
        (prompts < len(texts), format_count(prompts, "prompt")),
        (matched.in_place, "in the order of the prompts"),
        (all_echo, "each began with its prompt, which is cut off"),
        (flaws[ECHO] and not all_echo, f"{flaws[ECHO]} begin with their prompt: look at them"),
        (empty, f"{empty} empty"),
        (matched.duplicates, f"{format_count(matched.duplicates, 'exact duplicate')} left out"),
        (flaws[FURTHER], f"of {flaws[FURTHER]} prompts only the first of several texts in a record is read"),
        (unused, f"{unused} more to other prompts left out"),
    ]
    return replace(system, texts=texts, remarks=tuple(words for applies, words in remarks if applies))
