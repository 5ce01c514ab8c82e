"""Describe how one setting of each strategy was chosen, from how many, and how much the choice improves."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analysis.evidence import Evidence, declare_plan_keys
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.section import (
    Section,
    group_by,
    make_labelled_table,
    make_table_of_first_rows,
    name_raters,
)
from guard_eval.records import record
from guard_eval.reporting.escaping import NOTHING, Escaped
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import (
    capitalise,
    format_number,
    format_percent,
    join_with_and,
    replace_underscores,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE = (
    "Settings are tried in random order. Nine tenths of the prompts choose the best one, and the others "
    "score it, so that the score does not rise where all settings are alike."
)


MEETS = {True: "yes", False: "no"}
SHOWN_COUNTS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000)
"""The numbers of settings for which the page gives the expected best score."""


@record
class SettingRow:
    """A setting that was tried.

    Attributes:
        strategy: The strategy.
        setting: The setting, which is a system.
        maximized: The score that the choice maximizes.
        score: The value of this score on the tuning prompts.
        diversity: The diversity on the tuning prompts, in percent.
        meets_conditions: Whether the setting meets the declared conditions.
        chosen: Whether the setting was chosen.
        chosen_share: The share of resamples of the prompts in which the setting is chosen.
    """

    strategy: str
    setting: str
    maximized: str
    score: float | None
    diversity: float | None
    meets_conditions: bool
    chosen: bool
    chosen_share: float


@record
class ExpectedBestRow:
    """The expected score of the best of several settings, on prompts that were not used to choose it."""

    strategy: str
    settings: int
    score: float | None


@declare_plan_keys()
def list_tried_settings(evidence: Evidence) -> list[SettingRow]:
    """Return a row for each tried setting."""
    choice = evidence.context.choice
    if choice is None:
        return []
    return [
        SettingRow(
            strategy=tuned.strategy,
            setting=setting.name,
            maximized=choice.tuning.maximize,
            score=setting.scores.get(choice.tuning.maximize),
            diversity=setting.scores.get("diversity"),
            meets_conditions=setting.meets,
            chosen=setting.name == tuned.chosen,
            chosen_share=setting.chosen_share,
        )
        for tuned in choice.searches
        for setting in tuned.settings
    ]


@declare_plan_keys()
def list_expected_best_scores(evidence: Evidence) -> list[ExpectedBestRow]:
    """Return the expected best score for each number of tried settings."""
    choice = evidence.context.choice
    return [
        ExpectedBestRow(strategy=tuned.strategy, settings=count, score=score)
        for tuned in (choice.searches if choice else ())
        for count, score in enumerate(tuned.expected_best, start=1)
    ]


def describe_search(evidence: Evidence) -> Iterator[str]:
    """Describe the tried settings, the choice, and the raters of the chosen settings."""
    choice = evidence.context.choice
    if choice is not None:
        raters = [*dict.fromkeys(name_raters(row) for row in evidence.rows(select_rows_for_report_answer))]
        how = f"{choice.tuning_budgets_in_words} · {choice.selection_in_words}"
        yield f"{how} · tested by {join_with_and(raters)}"
    for name in evidence.context.unknown_searches:
        yield f"How {name} was chosen is not known: its search is unknown"


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "How were the settings chosen?"."""
    rows = evidence.rows(list_tried_settings)
    described = list(describe_search(evidence))
    if not described:
        return None
    choice = evidence.context.choice
    score = capitalise(replace_underscores(rows[0].maximized)) if rows else ""
    conditions = " and ".join(choice.tuning.where) if choice else ""
    tables = make_table_of_first_rows(
        rows,
        lambda row: {"Strategy": row.strategy, "Setting": row.setting},
        lambda row: {
            score: format_number(row.score),
            "Diversity, %": format_number(row.diversity),
            "Meets conditions": MEETS[row.meets_conditions] if conditions else NOTHING,
            "Chosen from other samples": format_percent(row.chosen_share, 0),
        },
        csv_name="search",
        caption="Settings",
        note=f"Bold: chosen. Conditions: {conditions or 'none'}.",
        is_emphasised=lambda row: row.chosen,
    )
    return Section(
        anchor="search",
        question="How were the settings chosen?",
        answer="; ".join(described),
        tables=(*tables, *_tabulate_expected_best_scores(evidence.rows(list_expected_best_scores), score)),
        notes=tuple(choice.list_warnings()) if choice else (),
        figures=(_draw_score_by_diversity(rows, score),) if rows and score != "Diversity" else (),
    )


def _tabulate_expected_best_scores(rows: Sequence[ExpectedBestRow], score: str) -> Iterator[Table]:
    """Yield a table of the expected best score: a row per strategy, a column per number of tried settings."""
    if not rows:
        return
    curves = group_by(rows, lambda row: row.strategy)
    counts = [count for count in SHOWN_COUNTS if count <= max(map(len, curves.values()))]
    nothing = {f"of {count}": NOTHING for count in counts}
    figures = [
        nothing | {f"of {row.settings}": format_number(row.score) for row in curve if row.settings in counts}
        for curve in curves.values()
    ]
    yield make_labelled_table(
        [{"Strategy": strategy} for strategy in curves],
        figures,
        caption=f"{score} to expect of the best setting",
        note=f"{CURVE} csv/expected_best.csv has all numbers of settings.",
    )


def _draw_score_by_diversity(rows: Sequence[SettingRow], score: str) -> Escaped:
    """Draw the score against diversity: a line for each strategy, and diamonds for the chosen settings."""
    from guard_eval.reporting.drawing import FIRST, SECOND, Caption, draw_figure, shorten_label  # noqa: PLC0415 (slow to load)

    points = [
        (row, row.diversity, row.score) for row in rows if row.diversity is not None and row.score is not None
    ]

    def draw(axes: "Axes") -> None:
        for strategy, tried in group_by(points, lambda point: point[0].strategy).items():
            axes.plot([x for _, x, _ in tried], [y for _, _, y in tried], "o-", color=FIRST, linewidth=0.6)
            for row, x, y in tried:
                if row.chosen:
                    axes.plot([x], [y], "D", color=SECOND, markersize=8)
                    axes.annotate(shorten_label(strategy), (x, y), (7, 4), textcoords="offset points")
        axes.set_xlabel("diversity, %")
        axes.set_ylabel(score.lower())

    heading = f"{score} against diversity of all settings; diamonds: chosen"
    words = "; ".join(f"{row.setting}: {format_number(y)}, {format_number(x)} %" for row, x, y in points)
    caption = Caption(name="search", heading=heading, description=words)
    return draw_figure(draw, caption, height=3.6).svg
