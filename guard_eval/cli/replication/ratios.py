"""What follows from the paper's table of speed and is not printed there: ratios of tokens per second."""

from __future__ import annotations

from dataclasses import replace

from guard_eval.cli.replication.figures import Figure, published

_TABLE = "tab:speed_comparison"


def with_ratios() -> tuple[Figure, ...]:
    """Return the figures of the table of speed, and after them the ratios that they give.

    The paper has two: that of its tokens per second, and the other way round that of its seconds per text.
    They differ, because its columns do not multiply to each other (`docs/errata.md`).
    """
    figures = published(_TABLE)
    by_key = {(figure.strategy, figure.metric): figure for figure in figures}
    rate = by_key["guard", "tokens_per_sec"]
    made = []
    for figure in figures:
        if figure.metric == "tokens_per_sec" and figure.strategy != "guard":
            seconds = (
                by_key[figure.strategy, "sec_per_story"].number / by_key["guard", "sec_per_story"].number
            )
            for column, value in (
                ("by #tokens/sec", rate.number / figure.number),
                ("by sec/story", seconds),
            ):
                made.append(
                    replace(
                        rate,
                        row=f"GUARD over {figure.row}",
                        group="tokens per second, a ratio",
                        column=column,
                        value=f"{value:.2f}",
                        mark="",
                        versus=figure.strategy,
                        metric="tokens_per_sec_ratio",
                    )
                )
    return (*figures, *made)
