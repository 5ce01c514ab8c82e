"""The table of commands. A command is a public function, whose module is loaded only when it is called.

from guard_eval.cli.commands import load_command

result = load_command("new")(Path("my-study"))
"""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command of `guard-eval`.

    Attributes:
        group: The heading of the command in `--help`.
        function: The command's function, as `package.module:function`.
        help: The first line of the function's docstring, so that `--help` does not load the function.
    """

    group: str
    function: str
    help: str


GROUPS = STUDY, PEOPLE, JUDGES, RESULTS = "Study", "People", "Judges", "Results"
"""The headings of `guard-eval --help`, in this order."""

PARENTS = {"raters": (PEOPLE, "Invite raters, list them, or exclude them.")}
"""The first words of two-word commands, with group and help. A first word alone is not a command."""

COMMANDS = {
    "demo": Command(STUDY, "analysis.demo:demo", "Run a complete small study."),
    "new": Command(
        STUDY,
        "guard_eval.texts.new:new",
        "Make a study: a folder with prompts, and settings to edit in study.toml.",
    ),
    "try": Command(
        STUDY,
        "guard_eval.generation.library:show_text",
        "Show one text while a strategy writes it, coloured by the model's uncertainty.",
    ),
    "generate": Command(
        STUDY, "guard_eval.generation.command:generate_texts", "Write continuations with every strategy."
    ),
    "measure": Command(
        STUDY,
        "guard_eval.metrics.command:measure",
        "Score texts with automatic metrics, and say how certain the scores are.",
    ),
    "power": Command(
        STUDY, "analysis.planning.command:power", "Find out how many items and raters a study needs."
    ),
    "pair": Command(STUDY, "guard_eval.texts.pair:pair", "Draw prompts and make blinded pairs."),
    "raters add": Command(
        PEOPLE, "guard_eval.store.manage:invite_raters", "Invite people: make a link for each."
    ),
    "raters links": Command(
        PEOPLE,
        "guard_eval.store.manage:renew_links",
        "Make new links for invited people, and write the links to a file.",
    ),
    "raters assign": Command(
        PEOPLE,
        "guard_eval.store.manage:assign_pairs",
        "Plan who rates which pairs, so that each rater sees both sides equally often.",
    ),
    "raters list": Command(
        PEOPLE,
        "analysis.monitor.status:list_raters",
        "List the raters with their source, progress and state.",
    ),
    "raters revoke": Command(
        PEOPLE,
        "guard_eval.store.manage:revoke_raters",
        "Stop raters from rating. Their verdicts stay, and count.",
    ),
    "raters exclude": Command(
        PEOPLE,
        "guard_eval.store.manage:exclude_raters",
        "Exclude raters: their verdicts no longer count. Nothing is deleted.",
    ),
    "raters include": Command(
        PEOPLE,
        "guard_eval.store.manage:include_raters",
        "Let raters rate again after an exclusion, a revocation, or a failed check.",
    ),
    "raters erase": Command(
        PEOPLE, "guard_eval.store.manage:erase_raters", "Delete people's identity and comments for good."
    ),
    "annotate": Command(
        PEOPLE, "annotation_app.annotate:annotate", "Serve the pairs to people in a browser."
    ),
    "judge": Command(JUDGES, "judge.command:judge", "Let language models compare the pairs."),
    "status": Command(
        RESULTS,
        "analysis.monitor.status:status",
        "Show what a study has, how its raters do, and what to do next.",
    ),
    "report": Command(
        RESULTS,
        "analysis.reports.command:report",
        "Write the report: which system wrote better texts, and how certain that is.",
    ),
    "check": Command(
        RESULTS, "analysis.claim:check_claim", "Check whether printed counts or percentages support a claim."
    ),
    "describe": Command(
        RESULTS,
        "analysis.publication.describe:describe",
        "Write one page with the plan of the study and what was collected.",
    ),
    "export": Command(RESULTS, "analysis.publication.export:export", "Write the verdicts as a table."),
    "publish": Command(
        RESULTS,
        "analysis.publication.publish:publish",
        "Make a data set of the study, without its raters' identities.",
    ),
    "backup": Command(
        RESULTS,
        "guard_eval.store.export:backup",
        "Copy the study's database to a file, even while raters rate.",
    ),
    "replicate": Command(
        RESULTS,
        "analysis.replication.command:replicate",
        "Make a table or a figure of the paper again, and show it beside the paper's own.",
    ),
}
"""All commands, in the usual order of work. `--help` has the same order."""


def load_command(name: str) -> Callable[..., Any]:
    """Return the function of a command."""
    return resolve_name(COMMANDS[name].function)  # type: ignore[no-any-return]
