"""The study.toml of each table, adapted to another model or a smaller run; studies laid out or found again.

A shipped file is changed line by line, so that its comments and its order stay.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from guard_eval.cli.console import say
from guard_eval.cli.replication.compare import Departures, departures
from guard_eval.cli.replication.paper import PROMPTS, Entry, model_named
from guard_eval.cli.replication.prompts import USUAL, WHERE, case_prompts, entropy_prompt, files_of, lines_of
from guard_eval.cli.replication.prompts import prompts_of as read_files
from guard_eval.demo import PROMPTS as BUNDLED_PROMPTS
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.reporting.writing import write_whole
from guard_eval.study.folder import BUNDLED, Study, seen_from
from guard_eval.study.settings import Settings
from guard_eval.texts.pairing import draw_prompts
from guard_eval.texts.prompts import read_prompts

ROOT = Path("replication")
"""Where replications lie unless a folder is named."""
FOLDER = Path(__file__).parent / "studies"
"""Where the tables' studies lie."""
_CD = "contrastive_decoding"
_NEED_NETWORK = {"mauve", "bertscore"}

Changes = Mapping[tuple[str, str], str | int | list[str]]
"""New values by table and key."""


@dataclass(frozen=True, kw_only=True)
class ReplicationOptions:
    """What replaces the paper's setting; empty or None where nothing does."""

    models: tuple[str, ...] = ()
    amateur: str | None = None
    prompts: tuple[Path, ...] = ()
    limit: int | None = None
    max_new_tokens: int | None = None
    device: str | None = None
    metrics: tuple[str, ...] | None = None
    coherence_model: str | None = None


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A study to be, before anything is written: its folder, the text of its study.toml, its prompts.

    `model` is the paper's name of its model, or the model's own where the paper does not have it.
    """

    folder: Path
    model: str
    text: str
    prompts: Sequence[Prompt] = field(repr=False)


def shipped(entry: Entry) -> str:
    """Return the text of an entry's study.toml as it is shipped.

    Raises:
        StudyError: There is nothing to run.
    """
    if not entry.study:
        raise StudyError(f"{entry.label} has nothing to run; {entry.pointer}")
    return (FOLDER / f"{entry.study}.toml").read_text(encoding="utf-8")


def settings_of(entry: Entry) -> Settings:
    """Return the settings of an entry's study as shipped."""
    return Settings.model_validate(tomllib.loads(shipped(entry)))


def changed(text: str, changes: Changes) -> str:
    r"""Return a study's text with other values; a key that is not there is added to its table.

    >>> changed('[model]\nname = "a"  # which\n', {("model", "name"): "b", ("model", "dtype"): "auto"})
    '[model]\ndtype = "auto"\nname = "b"\n'
    """
    lines = text.split("\n")
    for (table, key), value in changes.items():
        start = lines.index(f"[{table}]")
        end = next((n for n in range(start + 1, len(lines)) if lines[n].startswith("[")), len(lines))
        place = next((n for n in range(start, end) if re.match(rf"{key}\s*=", lines[n])), None)
        written = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        if place is None:
            lines.insert(start + 1, written)
        else:
            lines[place] = written
    return "\n".join(lines)


def without(text: str, strategy: str) -> str:
    """Return a study's text without a strategy, which has a line of its own."""
    return text.replace(f'    "{strategy}",\n', "")


def name_of(model: str) -> str:
    """Return the paper's name of a model, or the model's own."""
    known = model_named(model)
    return known.name if known else PurePath(model).name


def planned(entry: Entry, folder: Path, options: ReplicationOptions) -> list[Planned]:
    """Return the studies of a table: one, or one for each model in a folder of its own.

    Raises:
        StudyError: There are no prompts, or the options do not go with the table.
    """
    several = len(entry.models) > 1
    if len(options.models) > 1 and not several:
        raise StudyError(f"{entry.label} is about one model; give --model once, and a FOLDER for each run")
    prompts = _prompts(entry, options)
    made = []
    for name in options.models or entry.models:
        known, model = model_named(name), name_of(name)
        place = folder / re.sub(r"[^\w.-]+", "-", model) if several else folder
        text = _text(entry, place, options, hub=known.hub if known else name)
        made.append(Planned(folder=place, model=model, text=text, prompts=prompts))
    return made


def existing(folder: Path) -> list[tuple[str, Study]]:
    """Return the studies that are laid out in `folder`, each with its model's name: it, or those in it."""
    files = [folder / "study.toml"] if (folder / "study.toml").exists() else folder.glob("*/study.toml")
    studies = [Study.open(path.parent) for path in sorted(files)]
    return [(name_of(study.settings.model.name), study) for study in studies]


def lay_out(wanted: Planned) -> Study:
    """Write a study's files, or find them as they would be written; return the study.

    Raises:
        StudyError: There is a study of other settings or prompts.
    """
    file, prompts = wanted.folder / "study.toml", wanted.folder / "prompts.jsonl"
    lines = lines_of(wanted.prompts)
    if file.exists():
        same = tomllib.loads(file.read_text(encoding="utf-8")) == tomllib.loads(wanted.text)
        if not same or prompts.read_text(encoding="utf-8") != lines:
            raise StudyError(
                f"{wanted.folder} holds a replication with other {'prompts' if same else 'settings'}; name "
                "another FOLDER, or leave the options out to go on with it"
            )
    else:
        write_whole(prompts, lines.encode(), make_folder=True)
        # Last, because its presence says that the folder is complete.
        write_whole(file, wanted.text.encode())
        say(f"{file}: the settings; {len(wanted.prompts)} prompts beside it")
    return Study.open(wanted.folder)


def _text(entry: Entry, folder: Path, options: ReplicationOptions, *, hub: str) -> str:
    settings, text = settings_of(entry), shipped(entry)
    changes: dict[tuple[str, str], str | int | list[str]] = {("model", "name"): seen_from(folder, hub)}
    if options.amateur is not None:
        changes["model", "amateur"] = seen_from(folder, options.amateur)
    elif settings.model.amateur is not None and hub != settings.model.name:
        text = without(text, _CD)
        say(f"{_CD} is left out: it needs a smaller model of {hub}'s family; name one with --amateur")
    if options.max_new_tokens is not None:
        changes["generation", "max_new_tokens"] = options.max_new_tokens
    if options.device is not None:
        changes["model", "device"] = options.device
    if entry.kind == "verdicts" and options.limit is not None:
        changes["pairs", "per_dataset"] = min(options.limit, settings.pairs.per_dataset)
    names: list[str] = [*settings.metrics.compute]
    compute = list(options.metrics or names)
    if unknown := [name for name in compute if name not in names]:
        raise StudyError(
            f"--metrics {unknown[0]} is none of {entry.label}'s; choose from: {', '.join(names)}"
        )
    if hub == BUNDLED and options.metrics is None:
        # The bundled model is for trying things out, where there may be no network.
        compute = [name for name in names if name not in _NEED_NETWORK] or names
    if compute != names:
        changes["metrics", "compute"] = compute
    if (scorer := options.coherence_model or (BUNDLED if hub == BUNDLED else None)) is not None:
        changes["metrics", "coherence_model"] = seen_from(folder, scorer)
    return changed(text, changes)


def _prompts(entry: Entry, options: ReplicationOptions) -> list[Prompt]:
    if entry.kind in {"cases", "trace"}:
        if options.prompts:
            raise StudyError(f"{entry.label} has prompts of its own, those of the paper; leave --prompts out")
        return case_prompts() if entry.kind == "cases" else entropy_prompt()
    found = read_files(_files(options), limit=options.limit if entry.kind != "verdicts" else None)
    wanted = entry.prompts
    if "" not in wanted:  # the paper's other datasets are not this table's
        found = [prompt for prompt in found if prompt.dataset in wanted or prompt.dataset not in PROMPTS]
    if not found:
        raise StudyError(f"{entry.label} is about {', '.join(wanted)}, of which there are no prompts here")
    if entry.kind == "verdicts":
        settings = settings_of(entry)
        each = min(options.limit or settings.pairs.per_dataset, settings.pairs.per_dataset)
        return draw_prompts(found, per_dataset=each, seed=settings.seed)
    if "" not in wanted:
        return found
    seen: Counter[str] = Counter()
    in_turn = []  # a dataset's prompts in turn with the others'
    for place, prompt in enumerate(found):
        seen[prompt.dataset] += 1
        in_turn.append((seen[prompt.dataset], place))
    return [found[place] for _, place in sorted(in_turn)[: wanted[""]]]


def _files(options: ReplicationOptions) -> list[Path]:
    if options.prompts:
        return files_of(options.prompts)
    if USUAL.is_dir():
        return files_of([USUAL])
    if set(options.models) == {BUNDLED}:
        return [BUNDLED_PROMPTS]
    raise StudyError(f"there are no prompts; name files with --prompts, or put them into {USUAL}/: {WHERE}")


def apart_of(entry: Entry, studies: Sequence[tuple[str, Study]]) -> Departures:
    """Return where studies, each with its model's name, are not of the paper's setting."""
    whole = Departures()
    for model, study in studies:
        settings = study.settings
        prompts = read_prompts(study.prompts_path, limit=settings.prompts.limit)
        counts = Counter(prompt.dataset for prompt in prompts)
        if len(entry.models) == 1:
            return departures(entry, settings, counts)
        known = model in entry.models
        one = departures(entry, settings, counts, model=model if known else "")
        what = one.common if known else ("none of this table's models",)
        whole = replace(
            whole, datasets={**whole.datasets, **one.datasets}, models={**whole.models, model: what}
        )
    return whole
