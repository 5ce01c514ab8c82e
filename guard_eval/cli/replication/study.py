"""The studies of a replication: laid out as folders, found again, or refused."""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from guard_eval.cli.console import say
from guard_eval.errors import StudyError

if TYPE_CHECKING:
    from guard_eval.cli.replication.registry import Entry
    from guard_eval.cli.replication.settings_apart import Departures
    from guard_eval.cli.replication.study_files import Changes
    from guard_eval.records import Prompt
    from guard_eval.study.folder import Study

ROOT = Path("replication")
"""Where replications lie unless a folder is named."""
_CD = "contrastive_decoding"
_NEED_NETWORK = {"mauve", "bertscore"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line asks for in place of the paper's setting; empty or None where it does not."""

    models: tuple[str, ...] = ()
    amateur: str | None = None
    prompts: tuple[Path, ...] = ()
    limit: int | None = None
    max_new_tokens: int | None = None
    device: str | None = None
    metrics: tuple[str, ...] | None = None
    coherence_model: str | None = None

    @property
    def anything(self) -> bool:
        """Say whether anything is asked for."""
        return self != Asked()


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A study to be, before anything is written.

    Attributes:
        folder: Its folder.
        model: The paper's name of its model, or the model's own where the paper does not have it.
        text: Its study.toml.
        prompts: Its prompts.
    """

    folder: Path
    model: str
    text: str
    prompts: Sequence[Prompt] = field(repr=False)


def planned(entry: Entry, folder: Path, asked: Asked) -> list[Planned]:
    """Return the studies of a table: one, or one for each model in a folder of its own.

    Raises:
        StudyError: There are no prompts, or what is asked for does not go with the table.
    """
    from guard_eval.cli.replication.registry import MODELS, model_named

    several = len(entry.models) > 1
    if len(asked.models) > 1 and not several:
        raise StudyError(f"{entry.label} is about one model; give --model once, and a FOLDER for each run")
    named = asked.models or tuple(MODELS[name].hub for name in entry.models)
    prompts = _prompts(entry, asked)
    made = []
    for name in named:
        known = model_named(name)
        model = known.name if known else PurePath(name).name
        place = folder / re.sub(r"[^\w.-]+", "-", model) if several else folder
        text = _text(entry, place, asked, hub=known.hub if known else name)
        made.append(Planned(folder=place, model=model, text=text, prompts=prompts))
    return made


def there(folder: Path) -> list[Path]:
    """Return the folders of studies that are laid out already: `folder` itself, or those in it."""
    if (folder / "study.toml").exists():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/study.toml"))


def lay_out(wanted: Planned) -> Study:
    """Write a study's files, or find them as they would be written; return the study.

    Raises:
        StudyError: There is a study of other settings or prompts.
    """
    from guard_eval.cli.replication.prompts import lines_of
    from guard_eval.reporting.writing import write_whole
    from guard_eval.study.folder import Study

    file = wanted.folder / "study.toml"
    lines = lines_of(wanted.prompts)
    if file.exists():
        same = tomllib.loads(file.read_text(encoding="utf-8")) == tomllib.loads(wanted.text)
        prompts = wanted.folder / "prompts.jsonl"
        if not same or prompts.read_text(encoding="utf-8") != lines:
            what = "prompts" if same else "settings"
            raise StudyError(
                f"{wanted.folder} holds a replication with other {what}; name another FOLDER, or leave the "
                "options out to go on with it"
            )
    else:
        write_whole(wanted.folder / "prompts.jsonl", lines.encode(), make_folder=True)
        # Last, because its presence says that the folder is complete.
        write_whole(file, wanted.text.encode())
        say(f"{file}: the settings; {len(wanted.prompts)} prompts beside it")
    return Study.open(wanted.folder)


def _text(entry: Entry, folder: Path, asked: Asked, *, hub: str) -> str:
    from guard_eval.cli.replication.study_files import changed, settings_of, shipped, without

    settings = settings_of(entry)
    text = shipped(entry)
    changes: dict[tuple[str, str], str | int | list[str]] = {("model", "name"): _seen_from(folder, hub)}
    if asked.amateur is not None:
        changes["model", "amateur"] = _seen_from(folder, asked.amateur)
    elif settings.model.amateur is not None and hub != settings.model.name:
        text = without(text, _CD)
        say(f"{_CD} is left out: it needs a smaller model of {hub}'s family; name one with --amateur")
    if asked.max_new_tokens is not None:
        changes["generation", "max_new_tokens"] = asked.max_new_tokens
    if asked.device is not None:
        changes["model", "device"] = asked.device
    if entry.kind == "verdicts" and asked.limit is not None:
        changes["pairs", "per_dataset"] = min(asked.limit, settings.pairs.per_dataset)
    changes |= _metric_changes(entry, folder, asked, bundled=hub == "bundled")
    return changed(text, changes)


def _metric_changes(entry: Entry, folder: Path, asked: Asked, *, bundled: bool) -> Changes:
    from guard_eval.cli.replication.study_files import settings_of

    all_ = [str(name) for name in settings_of(entry).metrics.compute]
    compute = list(asked.metrics or all_)
    for name in compute:
        if name not in all_:
            raise StudyError(f"--metrics {name} is none of {entry.label}'s; choose from: {', '.join(all_)}")
    scorer = asked.coherence_model
    if bundled and asked.metrics is None and (small := [name for name in all_ if name not in _NEED_NETWORK]):
        compute = small  # the bundled model is for trying things out, where there may be no network
    if bundled and scorer is None:
        scorer = "bundled"
    changes: dict[tuple[str, str], str | int | list[str]] = {}
    if compute != all_:
        changes["metrics", "compute"] = compute
    if scorer is not None:
        changes["metrics", "coherence_model"] = _seen_from(folder, scorer)
    return changes


def _seen_from(folder: Path, model: str) -> str:
    """Return a model folder's path as study.toml needs it: seen from the study, if it was relative."""
    path = Path(model).expanduser()
    return model if not path.is_dir() or path.is_absolute() else os.path.relpath(path, folder)


def _prompts(entry: Entry, asked: Asked) -> list[Prompt]:
    from guard_eval.cli.replication.prompts import case_prompts, entropy_prompt, prompts_of
    from guard_eval.cli.replication.registry import PROMPTS
    from guard_eval.cli.replication.study_files import settings_of
    from guard_eval.texts.pairing import draw_prompts

    if entry.kind in {"cases", "trace"}:
        if asked.prompts:
            raise StudyError(f"{entry.label} has prompts of its own, those of the paper; leave --prompts out")
        return case_prompts() if entry.kind == "cases" else entropy_prompt()
    limit = asked.limit if entry.kind != "verdicts" else None
    found = prompts_of(_files(asked), limit=limit)
    wanted = entry.prompts or {}
    if "" not in wanted:  # the paper's other datasets are not this table's
        found = [prompt for prompt in found if prompt.dataset in wanted or prompt.dataset not in PROMPTS]
    if not found:
        raise StudyError(f"{entry.label} is about {', '.join(wanted)}, of which there are no prompts here")
    if entry.kind == "verdicts":
        settings = settings_of(entry)
        each = min(asked.limit or settings.pairs.per_dataset, settings.pairs.per_dataset)
        return draw_prompts(found, per_dataset=each, seed=settings.seed)
    return _in_turn(found, most=wanted[""]) if "" in wanted else found


def _in_turn(prompts: Sequence[Prompt], *, most: int) -> list[Prompt]:
    """Return the first `most` prompts, a dataset's in turn with the others'."""
    seen: dict[str, int] = {}
    places = []
    for prompt in prompts:
        seen[prompt.dataset] = seen.get(prompt.dataset, 0) + 1
        places.append(seen[prompt.dataset])
    order = sorted(range(len(prompts)), key=lambda place: places[place])
    return [prompts[place] for place in order[:most]]


def _files(asked: Asked) -> list[Path]:
    from guard_eval.cli.replication.prompts import USUAL, WHERE, files_of

    if asked.prompts:
        return files_of(asked.prompts)
    if USUAL.is_dir():
        return files_of([USUAL])
    if asked.models and set(asked.models) == {"bundled"}:
        from guard_eval.demo import PROMPTS

        return [PROMPTS]
    raise StudyError(f"there are no prompts; name files with --prompts, or put them into {USUAL}/: {WHERE}")


def model_of(study: Study) -> str:
    """Return the paper's name of a study's model, or the model's own."""
    from guard_eval.cli.replication.registry import model_named

    name = study.settings.model.name
    known = model_named(name)
    return known.name if known else PurePath(name).name


def apart_of(entry: Entry, studies: Sequence[tuple[str, Study]]) -> Departures:
    """Return where studies, each with its model's name, are not of the paper's setting."""
    from guard_eval.cli.replication.settings_apart import Departures, departures
    from guard_eval.texts.prompts import read_prompts

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
