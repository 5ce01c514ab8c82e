"""`guard-eval new`: make a study's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from guard_eval.cli.console import count_of, named_path, say, say_next
from guard_eval.errors import StudyError
from guard_eval.strategies import SOURCES, STRATEGIES, ContrastiveDecoding, signature
from guard_eval.study.folder import locate_model, seen_from
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.model_files import known_revision
from guard_eval.texts.model_hub import check_name
from guard_eval.texts.prompts import read_dataset, read_prompts

TEMPLATE = Path(__file__).with_name("study.toml.in").read_text(encoding="utf-8")
"""A new study's settings, with {names} in place of what differs."""

EXAMPLES = (
    "There was once a tailor who was so small that he slept in a shoe. One day",
    "The storm had passed, and when they opened the door they saw that",
    '"I have never told this to anybody," said the old captain, "but',
    "On the far side of the river lived a people who",
)


def command(
    folder: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder to make.", parser=named_path)],
    model: Annotated[str, typer.Option(help="Hugging Face id, folder, or 'bundled'.")] = "bundled",
    prompts: Annotated[
        Path | None, typer.Option(help="Prompts (JSONL, CSV or .txt) to copy into the study.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="A Hugging Face dataset, or a folder of one, whose texts become prompts."),
    ] = None,
    split: Annotated[str, typer.Option(help="The dataset's split.")] = "test",
    column: Annotated[str, typer.Option(help="The dataset's column of texts.")] = "text",
    words: Annotated[int, typer.Option(min=1, help="Words of a text that become the prompt.")] = 32,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only the first so many prompts.")] = None,
    seed: Annotated[int, typer.Option(help="The study's seed.")] = 1,
    strategies: Annotated[
        Literal["paper", "all"],
        typer.Option(help="Which to name: the paper's, or all, with their sources."),
    ] = "paper",
) -> None:
    """Make a study: study.toml to edit, and prompts.

    Prompts are copied into it: from a file, from a Hugging Face dataset, or a few examples to be replaced.
    """
    if (folder / "study.toml").exists():
        raise StudyError(f"{folder} is a study already; edit {folder / 'study.toml'}, or name another folder")
    target = folder / "prompts.jsonl"
    if target.exists():
        raise StudyError(
            f"{target} exists already and would be overwritten; move it elsewhere and name it "
            "with --prompts, or name another folder"
        )
    if prompts is not None and not prompts.is_file():
        raise StudyError(f"--prompts: there is no file {prompts}; name a .jsonl, .csv, .tsv or .txt file")
    if prompts and dataset:
        raise StudyError("prompts come from a file or from a dataset; give --prompts or --dataset, not both")
    check_name(model, locate_model(model, Path()))
    found = read_prompts(prompts, limit=limit) if prompts else []
    if dataset:
        found = read_dataset(dataset, split=split, column=column, words=words, limit=limit)
    rows = [{"id": p.id, "dataset": p.dataset, "prompt": p.text, "reference": p.reference} for p in found]
    rows = rows or [
        {"id": f"example-{i}", "dataset": "examples", "prompt": text}
        for i, text in enumerate(EXAMPLES, start=1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    target.write_text(lines, encoding="utf-8")
    small = model == "bundled"
    compute = ["diversity", "coherence", "perplexity", "repetition", "length", "speed"]
    if not small:  # the bundled model is for trying things out, where there may be no network
        compute[1:1] = ["mauve", "bertscore"]
    template = TEMPLATE
    if strategies == "all":
        begin, end = template.index("# Others: beam"), template.index("max_new_tokens =")
        template = template[:begin] + _all_strategies().replace("{", "{{") + template[end:]
    text = template.format(
        name=json.dumps(folder.resolve().name),
        seed=seed,
        model=json.dumps(seen_from(folder, model)),
        compute=", ".join(map(json.dumps, compute)),
        scorer=json.dumps("bundled" if small else MetricSettings().coherence_model),
        new_tokens=128 if small else 256,
        prompt_tokens=128 if small else 256,
    )
    (folder / "study.toml").write_text(text, encoding="utf-8")
    say(f"{folder / 'study.toml'}: the settings, to be edited")
    say(f"{target}: {count_of(len(rows), 'prompt')}" + ("" if found else ", examples to be replaced"))
    if not Path(locate_model(model, Path())).is_absolute() and known_revision(model, "main") is None:
        say(f"{model} is no folder, so it is taken for a Hugging Face id; it is not on this machine yet")
    say_next(f"guard-eval generate {folder} --dry-run")


def _all_strategies() -> str:
    """Return the lines of study.toml that name every strategy with its source.

    Contrastive decoding is in a comment, because it needs a second model.
    """
    lines = []
    for name, kind in STRATEGIES.items():
        entry = f"{json.dumps(signature(kind()))},"
        mark = "# " if kind is ContrastiveDecoding else ""
        lines.append(f"    {mark}{entry:<{_WIDTH}} # {SOURCES[name]}")
    return "\n".join(
        [
            "# Truncations draw, penalties alone take the likeliest. Join steps by +, in their order:",
            '# "dry + min_p(p=0.05) + temperature(tau=0.8)".',
            "strategies = [",
            *lines,
            "]",
            "",
        ]
    )


_WIDTH = 52
