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
    "judge": Command("judge.command:judge", RATERS, "Let language models compare the pairs."),
}
"""A name of two words, such as `raters list`, is a command of a group of commands."""

GROUPS: dict[str, Command] = {}
"""The help of the first word of such names: `"raters": Command("", RATERS, "Invite raters, …")`."""


def load(name: str) -> Callable[..., Any]:
    """Return the function of a command."""
    if name not in COMMANDS:  # until it has moved
        return load_function(f"guard_eval.cli.commands:{name}")
    return load_function(COMMANDS[name].function)


def load_function(path: str) -> Callable[..., Any]:
    """Return a function by its `package.module:name`."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]
