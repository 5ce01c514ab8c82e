"""The figures of the speed table are compared with each other (`tab:speed_comparison`)."""

from paper_data import ACS, GUARD, find_figure, find_figures

TABLE = "tab:speed_comparison"
STORIES, LIMIT = 30, 256


def compute_slowest_mean_speed(tokens, seconds, *, stories, limit):
    """Return the least mean of tokens per second that mean tokens and mean seconds allow.

    With at most `limit` tokens each, no story can fall short by more than all do together, and by Jensen's
    inequality the mean of 1 / seconds is at least 1 / the mean of seconds.
    """
    return (limit - stories * (limit - tokens)) / seconds


def test_guards_printed_speeds_contradict_each_other(claim):
    """GUARD takes 4.42 s for a story of 255.9 tokens, at 28.3 tokens/s (tab:speed_comparison)"""
    words, off, numbers = [], {}, {}
    for strategy in dict.fromkeys(f.strategy for f in find_figures(TABLE)):
        cells = [
            find_figure(TABLE, strategy=strategy, metric=metric)
            for metric in ("sec_per_story", "tokens_per_sec", "tokens_per_story")
        ]
        seconds, speed, tokens = numbers[strategy] = [cell.number for cell in cells]
        off[strategy] = abs(seconds * speed / tokens - 1)
        words.append(
            f"{strategy} {cells[0].value} s × {cells[1].value}/s = {seconds * speed:.1f} for {cells[2].value}"
        )
    seconds, speed, tokens = numbers[GUARD]
    # As printed, to the nearest .01 s and .1 tokens.
    least = compute_slowest_mean_speed(tokens - 0.05, seconds + 0.005, stories=STORIES, limit=LIMIT)
    by_time, by_speed = numbers[ACS][0] / seconds, speed / numbers[ACS][1]
    claim.fails(
        "; ".join(words),
        f"{tokens:g} tokens in {seconds:g} s are {tokens / seconds:.1f} tokens/s; {speed:g} tokens/s are "
        f"{tokens / speed:.1f} s. Averaging cannot explain it: {STORIES} stories of at most {LIMIT} tokens "
        f"with these means have a mean speed of {least:.1f} at the least.",
        f"So GUARD is {by_time:.2f} times as fast as ACS (q = 1) by seconds and {by_speed:.2f} times by "
        "tokens per second. One of its two figures is wrong; which, the paper does not show.",
        "No row is plain greedy search, and device, model, precision and batch are not given for this table.",
    )
    assert least > 2 * speed
    assert max(share for strategy, share in off.items() if strategy != GUARD) <= 0.03
