"""What `guard-eval generate` has to do, by strategy, and how long it will take; the same for every engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from guard_eval.cli.console import progress, say
from guard_eval.engines.loading import expected_dtype
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt
from guard_eval.strategies import parse, signature
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import MadeAlready, append_continuations, continuation_file, wanted
from guard_eval.texts.model_files import known_revision
from guard_eval.texts.shards import Shard

_WIDEST = 28
"""Characters of a strategy's name for which 80 columns have room beside its progress."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one strategy has to do, and what it has done.

    Attributes:
        strategy: Its signature.
        missing: The prompts of this shard that it has not continued.
        made: How many texts exist by the strategy, of all shards.
        seconds: How long those took, together.
        devices: Where they were made.
    """

    strategy: str
    missing: list[Prompt]
    made: int
    seconds: float
    devices: frozenset[str]


def chosen(study: Study, only: Sequence[str]) -> list[str]:
    """Return the study's strategies, or those of them that are asked for, in the study's order.

    Raises:
        StudyError: What is asked for is none of the study's.
    """
    named = study.settings.generation.strategies
    wanted_here = [signature(parse(name)) for name in only]
    for name in wanted_here:
        if name not in named:
            raise StudyError(
                f"--strategy {name} is not in generation.strategies of {study.folder / 'study.toml'}; "
                f"add it there, or choose from: {', '.join(named)}"
            )
    return [name for name in named if name in wanted_here] if wanted_here else named


def made_with(study: Study, strategies: Sequence[str], *, device: str | None = None) -> dict[str, str | None]:
    """Return what a text would be made with here, as far as it is known without loading the models.

    Args:
        study: The study.
        strategies: Those at work.
        device: Where the models lie that make the texts; that of the settings if left out.

    Returns:
        Of a recipe's `revision`, `dtype` and `amateur_revision` each what it would be; None where that is
        not known yet.
    """
    model = study.settings.model
    location = study.locate_model(model.name)
    revision = known_revision(location, model.revision)
    amateur = dtype = None
    if revision is not None:
        dtype = expected_dtype(location, revision=revision, dtype=model.dtype, device=device or model.device)
    if model.amateur is not None and any(map(study.settings.amateur_of, strategies)):
        amateur = known_revision(study.locate_model(model.amateur), model.amateur_revision)
    return {"revision": revision, "dtype": dtype, "amateur_revision": amateur}


def work_of(
    study: Study,
    strategies: Sequence[str],
    prompts: Sequence[Prompt],
    shard: Shard,
    made_by: Mapping[str, str | None],
    *,
    engine: str | None = None,
) -> list[Work]:
    """Return what each strategy has to do; existing texts are read one by one.

    Args:
        study: The study.
        strategies: By signature.
        prompts: All prompts.
        shard: Whose part of the prompts is at work.
        made_by: `made_with`.
        engine: The `Recipe.engine` that would make what is missing.
    """
    mine = [prompt for prompt in prompts if shard.holds(prompt.id)]
    part = "" if shard.count == 1 else f" of shard {shard}"
    found = []
    for strategy in strategies:
        asked = wanted(strategy, study.settings, **made_by)
        made = MadeAlready(study.continuations, strategy, asked, mine, engine=engine)
        missing = [prompt for prompt in mine if prompt not in made]
        say(f"{strategy}: {len(mine) - len(missing)} of {len(mine)} continuations{part} are there")
        say_otherwise(strategy, made.otherwise(missing))
        if made_by["revision"] is None and len(made):
            say(f"  not compared with {study.settings.model.name}, which is not on this machine")
        work = Work(
            strategy=strategy, missing=missing, made=len(made), seconds=made.seconds, devices=made.devices
        )
        found.append(work)
    return found


def say_otherwise(strategy: str, found: Sequence[str]) -> None:
    """Say which texts do not count, because something that can change a text is another now."""
    for one in found:
        say(f"{strategy}: {one}: they stay in the file, are not used, and are made again")


def forecast(study: Study, work: Sequence[Work]) -> None:
    """Say how much there is to do, and how long it will take at the speed of what has been done."""
    settings = study.settings
    total = sum(len(one.missing) for one in work)
    most = total * settings.generation.max_new_tokens
    say(f"would make {total} continuations of at most {most:,} tokens with {settings.model.name}")
    known = [one for one in work if one.missing and one.made]
    if not known:
        return
    seconds = sum(len(one.missing) * one.seconds / one.made for one in known)
    devices = ", ".join(sorted({device for one in known for device in one.devices}))
    say(f"estimated time: {_duration(seconds)}, at the speed of what is there ({devices})")
    unknown = [one.strategy for one in work if one.missing and not one.made]
    if unknown:
        say(f"not in it, because nothing of them is there yet: {', '.join(unknown)}")


def write_texts(
    study: Study,
    work: Sequence[Work],
    shard: Shard,
    batches: Callable[[Work], Iterable[Sequence[Continuation]]],
) -> None:
    """Write what is missing batch by batch, each on disk before the next begins, and show how far it is."""
    total = sum(len(one.missing) for one in work)
    # Batches may take minutes each; the time left follows from all of them, not from the last half minute.
    with progress("", window=86400) as bar:
        whole = bar.add_task("all", total=total, note="")
        for one in work:
            if not one.missing:
                continue
            name = one.strategy if len(one.strategy) <= _WIDEST else f"{one.strategy[: _WIDEST - 1]}…"
            task = bar.add_task(name, total=len(one.missing), note="")
            began, tokens = time.monotonic(), 0
            path = continuation_file(study.continuations, one.strategy, shard)
            for batch in batches(one):
                append_continuations(path, batch)
                tokens += sum(text.new_tokens for text in batch)
                rate = tokens / max(time.monotonic() - began, 1e-9)
                bar.update(task, advance=len(batch), note=f"{rate:,.0f} tokens/s")
                bar.update(whole, advance=len(batch))
    say(f"continuations: {study.continuations}{Path('/')}")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
