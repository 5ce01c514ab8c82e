"""Import texts from files or data frames: they become the prompts and systems of a study.

Ambiguous files are refused. Assumptions are reported in `ImportedSystem.line` and the notes.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError, format_count
from guard_eval.records import Generation, Prompt, clean_for_raters, record
from guard_eval.texts.generation_files import ECHO, FURTHER, TextTable
from guard_eval.texts.systems.matching import NO_TEXT, MatchedTexts, PromptIndex
from guard_eval.texts.systems.served_files import make_system_file_name

Source = Path | Any
"""A file, or a data frame with the columns prompt, system and text."""


@record
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
        return "".join(map(_format_text_line, self.texts)).encode()


def _format_text_line(text: Generation) -> str:
    """Return a text as a JSON line: the prompt's id, the text, and the known facts about its generation."""
    row = {"id": text.prompt_id, "text": text.text}
    more = {"finish": text.finish, "new_tokens": text.tokens, "seconds": text.seconds, "batch": text.batch}
    facts = {name: value for name, value in more.items() if value is not None}
    return json.dumps(row | facts, ensure_ascii=False) + "\n"


def import_texts(
    sources: Sequence[Source],
    *,
    columns: Sequence[str],
    prompts: Sequence[Prompt],
    common: bool,
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
    systems = read_systems(sources, columns, prompts)
    if len(systems) < 2:
        raise StudyError(
            f"only one system was found, {', '.join(systems)}; name the files of at least two systems, or a "
            "file with a column 'system', which names the system of each text"
        )
    if not prompts:
        _refuse_ambiguous_ids(systems.values())
    index = PromptIndex(prompts or _collect_prompts_of_texts(systems.values()))
    matched = {
        name: index.match_texts(system.texts, by_order=bool(prompts)) for name, system in systems.items()
    }
    shared = [prompt for prompt in index.prompts if all((prompt.id, 1) in m.texts for m in matched.values())]
    for name, result in matched.items():
        missing = [prompt for prompt in index.prompts if (prompt.id, 1) not in result.texts]
        if missing and not (common and shared):
            # Other ids beside as many texts as prompts may be shifted: 0, 1, … instead of 1, 2, ….
            may_be_shifted = result.unmatched and len(systems[name].texts) == len(index.prompts)
            is_common = shared and not may_be_shifted
            remedy = f", or compare on the {len(shared)} prompts that all have: --common" if is_common else ""
            raise StudyError(
                f"systems are compared on the same prompts, and {name} in {systems[name].source} has no text "
                f"to {len(missing)} of {len(index.prompts)}, such as {missing[0].id}: "
                f"{missing[0].text[-60:]!r}. {_explain_missing_texts(systems, name, result, missing)}{remedy}"
            )
    ids = {prompt.id for prompt in shared}
    return shared, [_keep_texts_of_prompts(systems[name], result, ids) for name, result in matched.items()]


def _explain_missing_texts(
    systems: Mapping[str, ImportedSystem], name: str, matched: MatchedTexts, missing: Sequence[Prompt]
) -> str:
    """Return possible causes, and the remedy, if a system lacks texts for some prompts."""
    texts = systems[name].texts
    if not any(text.prompt_id or text.prompt is not None for text in texts):
        return (
            f"{name} has {format_count(len(texts), 'text')} without ids and prompts. Add a prompt to each "
            "text, or name a file with a prompt for each text in the same order: --prompts FILE"
        )
    causes = ""
    if reworded := len(_find_ambiguous_ids(systems.values())):
        causes += f"{reworded} ids stand for other words in another file, so these prompts differ. "
    strangers = [text.prompt_id for text in matched.unmatched if text.prompt_id and text.prompt is None]
    if strangers:
        causes += (
            f"{len(strangers)} of the texts by {name} have other ids, such as {strangers[0]!r}. Correct them "
            "if ids begin with 0 in one file and with 1 in another. "
        )
    prompts = {
        _ignore_case_and_spaces(text.prompt)
        for text in texts
        if text.prompt is not None and NO_TEXT not in text.flaws
    }
    if alike := sum(_ignore_case_and_spaces(prompt.text) in prompts for prompt in missing):
        return (
            f"{causes}{alike} of these prompts and prompts of {name} differ only in spaces or in capital "
            "letters. Write them alike"
        )
    return f"{causes}Add these texts"


def _ignore_case_and_spaces(text: str) -> str:
    return " ".join(text.casefold().split())


def _refuse_ambiguous_ids(systems: Collection[ImportedSystem]) -> None:
    """Raise a `StudyError` if a text has no prompt, only an id that stands for several prompts."""
    ambiguous = _find_ambiguous_ids(systems)
    for system in systems:
        unclear = [text for text in system.texts if text.prompt is None and text.prompt_id in ambiguous]
        if unclear:
            first, second, *_ = sorted(ambiguous[unclear[0].prompt_id])
            raise StudyError(
                f"{len(unclear)} texts by {system.name} in {system.source} have an id and no prompt, and the "
                f"id stands for several prompts: {unclear[0].prompt_id!r} is {first[:60]!r} and "
                f"{second[:60]!r}. Write the prompt beside each of these texts, or name a file with the "
                "prompts by id: --prompts FILE"
            )


def _find_ambiguous_ids(systems: Iterable[ImportedSystem]) -> dict[str, set[str]]:
    """Return the ids that stand for several prompts, each with the words of these prompts."""
    words: dict[str, set[str]] = defaultdict(set)
    for text in chain.from_iterable(system.texts for system in systems):
        if text.prompt_id and text.prompt is not None:
            words[text.prompt_id].add(clean_for_raters(text.prompt))
    return {identifier: wordings for identifier, wordings in words.items() if len(wordings) > 1}


def read_systems(
    sources: Sequence[Source], columns: Sequence[str], prompts: Sequence[Prompt]
) -> dict[str, ImportedSystem]:
    """Return the texts of all files by system, in the order of the files.

    Ids of `prompts` are recognised in a column of any name.

    Raises:
        StudyError: A file cannot be read, two files have the same system, or no file has a given column.
    """
    result: dict[str, ImportedSystem] = {}
    unused = set(columns)
    for number, source in enumerate(sources, start=1):
        table = TextTable.open(source).add_prompt_ids(prompts, columns=columns)
        name = table.name if len(sources) == 1 or isinstance(source, Path) else f"{table.name} {number}"
        used = [column for column in columns if column in table.records[0].row]
        unused -= set(used)
        for _, text in table.read_texts(used, by_order=bool(prompts)):
            system = result.setdefault(text.strategy, ImportedSystem(name=text.strategy, source=name))
            if system.source != name:
                remedy = "name the system in each record (a key 'system'), or rename a file"
                if text.strategy in table.records[0].row:  # each column seems to be a system
                    remedy = "name the column of the texts (--column NAME), and call the prompts 'prompt'"
                raise StudyError(f"{name} and {system.source} both have texts by {text.strategy!r}; {remedy}")
            has_prompt = text.prompt is None or text.prompt.strip()
            system.texts.append(text if has_prompt else replace(text, prompt=None))
    if unused:
        raise StudyError(f"--column {min(unused)}: none of the files has this column; correct its name")
    return result


def _collect_prompts_of_texts(systems: Iterable[ImportedSystem]) -> list[Prompt]:
    """Return the different prompts of all texts, in the order of the texts.

    Prompts with the same words are one prompt, even with different ids, because they are not independent. A
    prompt keeps its first id. If another prompt has this id already, a number is added.

    Raises:
        StudyError: No text has a prompt in its record.
    """
    texts_by_words: dict[str, list[Generation]] = defaultdict(list)
    for text in chain.from_iterable(system.texts for system in systems):
        if text.prompt is not None:
            texts_by_words[clean_for_raters(text.prompt)].append(text)
    if not texts_by_words:
        raise StudyError(
            "no text has a prompt beside it; write the prompts in a column 'prompt', or name a file with the "
            "prompts, by id or in the same order: --prompts FILE"
        )
    prompts = []
    used: Counter[str] = Counter()
    for position, texts in enumerate(texts_by_words.values(), start=1):
        identifier = next((text.prompt_id for text in texts if text.prompt_id), f"{position:04d}")
        used[identifier] += 1
        if used[identifier] > 1:
            identifier += f"-{used[identifier]}"
        prompt = Prompt(
            id=identifier,
            dataset="prompts" if texts[0].dataset == "unnamed" else texts[0].dataset,
            text=str(texts[0].prompt),
            reference=next((text.reference for text in texts if text.reference is not None), None),
        )
        prompts.append(prompt)
    return prompts


def _keep_texts_of_prompts(
    system: ImportedSystem, matched: MatchedTexts, ids: Collection[str]
) -> ImportedSystem:
    """Return a system with only the texts for the prompts with these ids, and with remarks on the texts."""
    texts = [text for (prompt_id, _), text in matched.texts.items() if prompt_id in ids]
    unused = len(matched.texts) - len(texts) + len(matched.unmatched)
    flaws = Counter(flaw for text in texts for flaw in text.flaws)
    empty = sum(not text.text.strip() for text in texts)
    all_echo = 0 < flaws[ECHO] == len(texts) - empty
    if all_echo:
        texts = [replace(text, text=text.text.removeprefix(text.prompt or "")) for text in texts]
    prompts = len({text.prompt_id for text in texts})
    duplicates = matched.duplicates
    further = flaws[FURTHER]
    remarks = [
        (prompts < len(texts), format_count(prompts, "prompt")),
        (matched.in_place, "in the order of the prompts"),
        (all_echo, "each began with its prompt, which is cut off"),
        (flaws[ECHO] and not all_echo, f"{flaws[ECHO]} begin with their prompt: look at them"),
        (empty, f"{empty} empty"),
        (duplicates, f"{format_count(duplicates, 'exact duplicate')} left out"),
        (further, f"only the first of several texts is read in {format_count(further, 'record')}"),
        (unused, f"{format_count(unused, 'text')} for other prompts left out"),
    ]
    return replace(system, texts=texts, remarks=tuple(words for applies, words in remarks if applies))
