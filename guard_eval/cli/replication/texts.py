"""The paper's texts beside ours: case studies, and the text whose entropies a figure shows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from guard_eval.cli.console import say

if TYPE_CHECKING:
    from guard_eval.cli.replication.registry import Entry
    from guard_eval.study.folder import Study

_WIDTH = 100
_NAMES = {"CS": "contrastive(k=10, alpha=0.6)", "ACS": "acs(q=1)", "GUARD": "guard"}
RED = "Between ⟦ and ⟧: what the paper sets in red, as a deviation from the context."


def show_case(entry: Entry, place: Path, study: Study, departures: Sequence[str]) -> None:
    """Print a case study's texts, the paper's above ours, and write them into `place`."""
    from guard_eval.cli.replication.figures import cases

    texts = cases()[entry.label]
    ours = _texts(study, entry.label.removeprefix("tab:"), tuple(_NAMES.values()))
    rows = [(name, texts[name], ours.get(strategy, "")) for name, strategy in _NAMES.items()]
    said = [_setting(departures), RED if any("⟦" in text for text in texts.values()) else ""]
    say(f"\n{entry.label}: {entry.title}")
    for line in filter(None, said):
        say(line)
    _say_text("prompt", texts["Prompt"])
    _say_text("reference", texts["Reference"])
    for name, paper, own in rows:
        _say_text(f"{name}, paper", paper)
        _say_text(f"{name}, ours", own)
    _write(
        entry, place, said, [("Prompt", texts["Prompt"], ""), ("Reference", texts["Reference"], ""), *rows]
    )


def show_trace(entry: Entry, place: Path, study: Study, departures: Sequence[str]) -> None:
    """Draw what GUARD adapted, print the paper's text and ours, and write both into `place`.

    Raises:
        StudyError: The text was made without its trace.
    """
    from guard_eval.cli.replication.figures import cases
    from guard_eval.errors import StudyError
    from guard_eval.metrics.trace_figures import behaviour
    from guard_eval.reporting.drawing import standalone
    from guard_eval.reporting.writing import write_whole
    from guard_eval.texts.continuations import continuation_files, read_traces

    texts = cases()[entry.label]
    files = [path.with_suffix(".trace.jsonl") for path in continuation_files(study.continuations, "guard")]
    traces = read_traces([path for path in files if path.exists()])
    if not traces:
        raise StudyError(
            f"the text in {study.continuations} has no trace; name another FOLDER to make it with one"
        )
    own = _texts(study, "figure", ("guard",)).get("guard", "")
    said = [_setting(departures)]
    say(f"\n{entry.label}: {entry.title}")
    for line in filter(None, said):
        say(line)
    for name, text in (("prompt", texts["Prompt"]), ("GUARD, paper", texts["GUARD"]), ("GUARD, ours", own)):
        _say_text(name, text)
    drawing = behaviour(traces[-1:], name=entry.name, title="GUARD on the figure's prompt")
    assert drawing is not None  # GUARD records all that is drawn
    for suffix, data in ((".svg", standalone(drawing).encode()), (".png", drawing.png)):
        write_whole(place / f"replication-{entry.name}{suffix}", data, make_folder=True)
    say(
        f"\nfigure: {place / f'replication-{entry.name}.svg'}, also as .png; the data of the paper's are not "
        "published, so they can only be looked at side by side"
    )
    rows = [("Prompt", texts["Prompt"], ""), ("GUARD", texts["GUARD"], own)]
    _write(entry, place, said, rows, figure=place / f"replication-{entry.name}.svg")


def _setting(departures: Sequence[str]) -> str:
    if not departures:
        return ""
    return f"OTHER SETTING: {'; '.join(departures)}. A difference says nothing of the paper's texts."


def _texts(study: Study, prompt_id: str, strategies: Sequence[str]) -> dict[str, str]:
    from guard_eval.texts.continuations import current_texts
    from guard_eval.texts.prompts import read_prompts

    prompts = read_prompts(study.prompts_path)
    made = current_texts(study, strategies, prompts)
    return {name: texts[prompt_id].text.strip() for name, texts in made.items() if prompt_id in texts}


def _say_text(name: str, text: str) -> None:
    from guard_eval.reporting.escaping import one_line

    wrapped = textwrap.wrap(one_line(text), _WIDTH - 18) or ["–"]
    for head, line in zip([name, *[""] * len(wrapped)], wrapped, strict=False):
        say(f"{head:>16}  {line}")


def _write(
    entry: Entry,
    place: Path,
    said: Sequence[str],
    rows: Sequence[tuple[str, str, str]],
    figure: Path | None = None,
) -> None:
    from guard_eval.cli.replication.pages import write_texts

    page = write_texts(
        rows,
        place / f"replication-{entry.name}.html",
        title=f"{entry.label}: {entry.title}",
        notes=[line for line in said if line],
        figure=figure,
    )
    say(f"\nreplication: {page}, also as .csv .md .tex")
