"""The commands by name. A command is a public function; its module is loaded when the command is called.

from guard_eval.commands import load

result = load("new")(Path("my-study"))
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

STUDY, RATERS, RESULTS = "Study", "People and judges", "Results"
"""The groups of `guard-eval --help`, in this order."""


class Command(NamedTuple):
    """Where a command's function is.

    Attributes:
        function: Its module and name, as `package.module:function`.
        group: Under which heading `--help` lists it.
        help: The first line of its docstring, so that `--help` loads no function.
    """

    function: str
    group: str
    help: str


COMMANDS = {
    "try": Command(
        "guard_eval.engines.show_text:show_text",
        STUDY,
        "Show one text as it is made, its tokens coloured by how unsure the model is.",
    ),
    "new": Command("guard_eval.texts.new:new", STUDY, "Make a study: study.toml to edit, and prompts."),
    "generate": Command(
        "guard_eval.engines.generate:generate", STUDY, "Write continuations with every strategy."
    ),
    "measure": Command(
        "guard_eval.metrics.command:measure", STUDY, "Score continuations, and say how sure the scores are."
    ),
    "pair": Command("guard_eval.texts.pair:pair", STUDY, "Draw prompts and make blinded pairs."),
    "annotate": Command(
        "annotation_app.annotate:annotate", RATERS, "Serve the pairs to people, in a browser."
    ),
    "demo": Command("guard_eval.demo.run:demo", STUDY, "Run a complete small study."),
    "report": Command(
        "analysis.reports.command:report",
        RESULTS,
        "Write the report: who wrote better text, and how certain that is.",
    ),
    "status": Command(
        "analysis.reports.status:status",
        RESULTS,
        "See what a study has, how its raters do, and what to do next.",
    ),
    "describe": Command(
        "guard_eval.texts.describe:describe",
        RESULTS,
        "Write the plan of the study and what was collected on one page.",
    ),
    "publish": Command(
        "guard_eval.texts.publish:publish",
        RESULTS,
        "Make a data set of the study, without its raters' identities.",
    ),
    "power": Command(
        "analysis.planning.command:power", STUDY, "Find out how many items and raters a study needs."
    ),
    "replicate": Command(
        "guard_eval.replication.command:replicate",
        RESULTS,
        "Make a table or a figure of the paper again, and show it beside the paper's.",
    ),
    "judge": Command("judge.command:judge", RATERS, "Let language models compare the pairs."),
    "raters list": Command(
        "guard_eval.store.manage:list_raters",
        RATERS,
        "List the raters: who came from where, how far they are, and who is out.",
    ),
    "raters add": Command("guard_eval.store.manage:add", RATERS, "Invite people: make a link for each."),
    "raters link": Command(
        "guard_eval.store.manage:link",
        RATERS,
        "Make a new link for people who lost theirs; the old one no longer works.",
    ),
    "raters assign": Command(
        "guard_eval.store.manage:assign",
        RATERS,
        "Plan before the first rating who rates which pairs, so that each sees both sides equally often.",
    ),
    "raters revoke": Command(
        "guard_eval.store.manage:revoke", RATERS, "Let raters in no more. What they rated stays, and counts."
    ),
    "raters exclude": Command(
        "guard_eval.store.manage:exclude",
        RATERS,
        "Leave raters' verdicts out. Nothing is deleted, and the decision is recorded.",
    ),
    "raters include": Command(
        "guard_eval.store.manage:include",
        RATERS,
        "Take excluded raters in again. This decision is recorded, too.",
    ),
    "raters erase": Command(
        "guard_eval.store.manage:erase", RATERS, "Take people's identity and comments out for good."
    ),
    "export": Command("guard_eval.store.export:export", RESULTS, "Write the verdicts as a table."),
    "backup": Command(
        "guard_eval.store.backup:backup", RESULTS, "Copy the study's database to a file while raters rate."
    ),
}
"""A name of two words, such as `raters list`, is a command of a group of commands."""

GROUPS = {"raters": Command("", RATERS, "Invite raters, list them, or take them out.")}
"""The help of the first word of such names; there is no function behind it."""


def load(name: str) -> Callable[..., Any]:
    """Return the function of a command."""
    return load_function(COMMANDS[name].function)


def load_function(path: str) -> Callable[..., Any]:
    """Return a function by its `package.module:name`."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]
