"""The speed table against itself (`tab:speed_comparison`)."""

from __future__ import annotations

from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.sources import GUARD, figure
from guard_eval.replicate.figures import published

SUBJECT = "generation speed"
TABLE = "tab:speed_comparison"
COLUMNS = ("sec_per_story", "tokens_per_sec", "tokens_per_story")
LIMIT = 256
STORIES = 30
TOLERANCE = 0.03
"""A mean of ratios is not the ratio of means; so much apart may be that and rounding."""


def value(strategy: str, metric: str) -> float:
    """Return a figure of the table."""
    return figure(TABLE, strategy=strategy, metric=metric).number


def slowest_mean_speed(tokens: float, seconds: float, *, stories: int, limit: int) -> float:
    """Return the least mean of tokens per second that mean tokens and mean seconds allow.

    With at most `limit` tokens each, no story can fall short by more than all do together, and by Jensen's
    inequality the mean of 1 / seconds is at least 1 / the mean of seconds.

    >>> slowest_mean_speed(256, 4, stories=30, limit=256)
    64.0
    """
    shortest = limit - stories * (limit - tokens)
    return shortest / seconds


def rows() -> Check:
    """Check seconds × tokens per second = tokens."""
    strategies = tuple(dict.fromkeys(f.strategy for f in published(TABLE)))
    said, off = [], {}
    for strategy in strategies:
        shown = [figure(TABLE, strategy=strategy, metric=metric) for metric in COLUMNS]
        seconds, speed, tokens = (each.number for each in shown)
        off[strategy] = seconds * speed / tokens - 1
        said.append(
            f"{strategy} {shown[0].value} s × {shown[1].value}/s = {seconds * speed:.1f} for {shown[2].value}"
        )
    seconds, tokens = value(GUARD, "sec_per_story"), value(GUARD, "tokens_per_story")
    speed = value(GUARD, "tokens_per_sec")
    least = slowest_mean_speed(tokens - 0.05, seconds + 0.005, stories=STORIES, limit=LIMIT)
    base = "acs(q=1)"
    by_time = value(base, "sec_per_story") / seconds
    by_speed = speed / value(base, "tokens_per_sec")
    return Check(
        name="speed-rows",
        subject=SUBJECT,
        where=TABLE,
        claim="GUARD takes 4.42 s for a story of 255.9 tokens, at 28.3 tokens/s",
        found=f"{'; '.join(said)}",
        holds=all(abs(share) <= TOLERANCE for share in off.values()),
        source=f"the rows of {TABLE}",
        detail=(
            (
                f"{tokens:g} tokens in {seconds:g} s are {tokens / seconds:.1f} tokens/s; {speed:g} tokens/s "
                "are "
                f"{tokens / speed:.1f} s. Averaging cannot explain it: {STORIES} stories of at most {LIMIT} "
                "tokens with these "
                f"means have a mean speed of {least:.1f} at the least."
            ),
            (
                f"So GUARD is {by_time:.2f} times as fast as ACS (q = 1) by seconds and {by_speed:.2f} times "
                "by "
                "tokens per "
                "second. One of its two figures is wrong; which, the paper does not show."
            ),
            (
                "No row is plain greedy search, and device, model, precision and batch are not given for "
                "this "
                "table."
            ),
        ),
    )


TEXT = {
    ("contrastive(k=10, alpha=0.6)", "sec_per_story"): "11.6",
    ("acs(q=1)", "sec_per_story"): "15.7",
    ("acs(q=8)", "sec_per_story"): "16.3",
    (GUARD, "sec_per_story"): "4.42",
    ("contrastive(k=10, alpha=0.6)", "tokens_per_sec"): "21.98",
    ("acs(q=8)", "tokens_per_sec"): "15.35",
    ("acs(q=1)", "tokens_per_sec"): "16.29",
    (GUARD, "tokens_per_sec"): "28.3",
}
"""The figures of the section "Generation speed"."""


def text() -> Check:
    """Check the figures in the text against the table."""
    apart = []
    for (strategy, metric), said in TEXT.items():
        shown = figure(TABLE, strategy=strategy, metric=metric)
        if abs(shown.number - float(said)) > shown.half_unit + 1e-9:
            apart.append(f"{strategy} {said} and {shown.value}")
    return Check(
        name="speed-text",
        subject=SUBJECT,
        where="sec:results",
        claim=f"the text's figures: {', '.join(dict.fromkeys(TEXT.values()))}",
        found=f"{len(TEXT) - len(apart)} of {len(TEXT)} are the table's, rounded"
        + (f"; not: {'; '.join(apart)}" if apart else ""),
        holds=not apart,
        source=f"the section “Generation speed” and {TABLE}",
    )
