"""A complete small study, from prompts to a report, with simulated raters."""

import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from analysis.reports.command import report
from guard_eval import progress
from guard_eval.cli.commands import load_command
from guard_eval.demo import PROMPTS, STUDY
from guard_eval.demo.raters import NAMES, judge_all_pairs, measure_text_appeal, rate_all_pairs
from guard_eval.errors import StudyError
from guard_eval.metrics.export import make_score_tables
from guard_eval.reporting.writing import write_atomically
from guard_eval.results import Result
from guard_eval.store import Store
from guard_eval.study import Study
from guard_eval.study.schema import STUDY_TOML, make_schema_file_name, write_study_toml
from guard_eval.texts.pair import pair
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.systems import find_texts

EXCERPT_CHARACTERS = 300


def demo(folder: Path = Path("demo-study"), /) -> Result:
    """Run a complete small study.

    A small bundled model writes continuations. They are scored and paired, SIMULATED raters compare the
    pairs, and the report is written.

    Args:
        folder: The folder for the study.

    Raises:
        StudyError: If the folder has other files, or another study.
    """
    began = time.monotonic()
    folder = Path(folder)
    prepare_demo_folder(folder)
    study = Study.open(folder)
    steps: dict[str, Callable[[Study], Result]] = {
        "1. Continuations": generate_texts,
        "   Why the decoding strategy matters": find_repetitive_example,
        "2. Metrics": measure_texts,
        "3. Blinded pairs": pair,
        "4. SIMULATED raters": simulate_verdicts,
        "5. Report": lambda study: report(study.folder),
    }
    for title, step in steps.items():
        progress.show_result(Result(lines=("", title)))
        progress.show_result(replace(step(study), next=()))
    seconds = time.monotonic() - began
    return Result(
        lines=(
            "",
            f"Done in {seconds:.0f} s. Raters and judge are SIMULATED: see what a report looks like.",
            f"Open {study.report_folder / 'index.html'} in a browser.",
            "Then rate the same pairs yourself, or see what a judge would be sent and what it costs:",
        ),
        next=(study.format_command("annotate", "--invite", "ME"), study.format_command("judge", "--dry-run")),
    )


def prepare_demo_folder(folder: Path) -> None:
    """Write the demo's study.toml and prompts into `folder`. An existing demo stays unchanged.

    Raises:
        StudyError: The folder has other files or another study, to which simulated raters would be added.
    """
    if (folder / "study.toml").exists() and Study.open(folder).hash == Study.open(STUDY.parent).hash:
        progress.show_notice(f"{folder} exists already; the demo continues there")
        return
    # An interrupted demo leaves its prompts without a study.toml.
    prompts = folder / "prompts.jsonl"
    is_interrupted = prompts.is_file() and prompts.read_bytes() == PROMPTS.read_bytes()
    others = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if is_interrupted:
        others -= {prompts.name, make_schema_file_name(STUDY_TOML)}
    if others or (folder.exists() and not folder.is_dir()):
        raise StudyError(
            f"{folder} has other files, and the demo would add SIMULATED raters to them; name another "
            "folder: guard-eval demo FOLDER"
        )
    write_atomically(prompts, PROMPTS.read_bytes(), make_folder=True)
    write_study_toml(folder, STUDY.read_bytes())


def generate_texts(study: Study) -> Result:
    """Generate the continuations, and return their number."""
    return Result(lines=load_command("generate")(study).lines[-1:])


def find_repetitive_example(study: Study) -> Result:
    """Find the prompt with the most repetitive greedy text. Return it with the texts of greedy and GUARD."""
    prompts = read_prompts(study.prompts_path)
    greedy, guard = find_texts(study, ("greedy", "guard"), prompts).values()
    worst = min(prompts, key=lambda prompt: measure_text_appeal(greedy[prompt.id, 1].text))
    texts = {"prompt": worst.text, "greedy": greedy[worst.id, 1].text, "guard": guard[worst.id, 1].text}
    lines = (f"{name:>6}: {text}" for name, text in texts.items())
    excerpts = [textwrap.shorten(line, EXCERPT_CHARACTERS, placeholder=" …") for line in lines]
    return Result(lines=("On the prompt where greedy decoding does worst:", *excerpts))


def measure_texts(study: Study) -> Result:
    """Measure the texts, and return the most important metrics as means over the datasets."""
    measured = load_command("measure")(study)
    rows = [row for row in measured.scores if row.metric in {"diversity", "coherence", "words"}]
    return Result(lines=measured.lines, tables=tuple(make_score_tables(rows)[:1]), warnings=measured.warnings)


def simulate_verdicts(study: Study) -> Result:
    """Let the simulated raters rate their pairs, and let the simulated judge judge all pairs."""
    criteria = study.settings.annotation.criteria
    with Store.open_study(study) as store:
        rated = rate_all_pairs(store, study.hand_out_plan, criteria)
        judged = judge_all_pairs(store, study.hand_out_plan, criteria)
    return Result(
        lines=(
            f"{rated} new ratings by {len(NAMES)} SIMULATED raters; their kind is 'simulated'",
            f"{judged} new answers by a SIMULATED judge in both orders; its kind is 'simulated_model'",
        )
    )
