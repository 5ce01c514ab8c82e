"""`guard-eval demo`: a complete small study, from prompts to a report, with simulated raters."""

from __future__ import annotations

import shlex
import shutil
import textwrap
import time
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli import commands
from guard_eval.cli.console import progress, say, say_next
from guard_eval.demo import PROMPTS, STUDY
from guard_eval.demo.raters import NAMES, judge_all, rate_all
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.store import Store
from guard_eval.study.folder import Study
from guard_eval.texts.current import current_texts
from guard_eval.texts.prompts import read_prompts

EXCERPT = 420
"""How many characters of a text the terminal shows."""


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to make the study.")] = Path(
        "demo-study"
    ),
) -> None:
    """Run a complete small study.

    Continuations, metrics, blinded pairs, SIMULATED raters and the report, with a small bundled model.
    """
    began = time.monotonic()
    make_folder(folder)
    study = Study.open(folder)
    for title, step in (
        ("1. Continuations", lambda: commands.generate(study)),
        ("   Why the decoding strategy matters", lambda: show_one(study)),
        ("2. Metrics", lambda: commands.measure(study)),
        ("3. Blinded pairs", lambda: commands.pair(study)),
        ("4. SIMULATED raters", lambda: simulate(study)),
        ("5. Report", lambda: _report(study)),
    ):
        say(f"\n{title}")
        step()
    say(
        f"\nDone in {time.monotonic() - began:.0f} s. Raters and judge are SIMULATED: "
        "see what a report looks like."
    )
    say_next(
        f"open {shlex.quote(str(study.report / 'index.html'))} in a browser",
        f"guard-eval annotate {folder} --invite ME, to rate the same pairs yourself",
        f"guard-eval judge {folder} --dry-run, to see what a judge would be sent and what it costs",
    )


def _report(study: Study) -> None:
    report = commands.report(study)
    say(report.summary)
    say(f"\nreport: {report.paths[0]}")


def make_folder(folder: Path) -> None:
    """Write the demo's study.toml and prompts into `folder`; an existing demo stays as it is.

    Raises:
        StudyError: The folder has other files, or another study: simulated raters would be added to it.
    """
    if (folder / "study.toml").exists():
        if Study.open(folder).hash != Study.open(STUDY.parent).hash:
            raise StudyError(
                f"{folder} is a study with other settings, and the demo would add SIMULATED raters to it; "
                "name another folder: guard-eval demo FOLDER"
            )
        say(f"{folder} exists already; going on with it")
        return
    if folder.exists() and any(folder.iterdir()):
        raise StudyError(
            f"{folder} is not empty and not a study; name another folder: guard-eval demo FOLDER"
        )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PROMPTS, folder / "prompts.jsonl")
    # Last, because its presence says that the folder is complete.
    shutil.copyfile(STUDY, folder / "study.toml")


def show_one(study: Study) -> None:
    """Print the prompt on which greedy decoding loops most, as greedy and as GUARD continue it."""
    prompts = read_prompts(study.prompts_path)
    greedy, guard = current_texts(study, ("greedy", "guard"), prompts).values()

    def variety(prompt: Prompt) -> float:
        words = greedy[prompt.id].text.split()
        return len(set(words)) / max(1, len(words))

    worst = min(prompts, key=variety)
    say("On the prompt where greedy decoding does worst:")
    for name, text in (
        ("prompt", worst.text),
        ("greedy", greedy[worst.id].text),
        ("guard", guard[worst.id].text),
    ):
        say(textwrap.shorten(f"{name:>6}: {text}", EXCERPT, placeholder=" …"))


def simulate(study: Study) -> None:
    """Let the simulated raters rate what waits for them, and the simulated judge judge all pairs."""
    criteria = study.settings.annotation.criteria
    with Store.open(study.database, study_hash=study.hash) as store, progress("pairs") as bar:
        pairs = store.pairs()
        total = len(NAMES) * sum(pair.for_people for pair in pairs) + 2 * len(pairs)
        task = bar.add_task("SIMULATED", total=total, note="")
        rated, judged = (
            rate(store, study.plan, criteria, on_progress=lambda done: bar.advance(task, done))
            for rate in (rate_all, judge_all)
        )
    say(f"{rated} new ratings by {len(NAMES)} SIMULATED raters; their kind in the database is 'simulated'")
    say(f"{judged} new answers by a SIMULATED judge on all pairs in both orders; its kind: 'simulated_model'")
