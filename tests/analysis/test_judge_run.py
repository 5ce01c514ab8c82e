"""How judges were asked: calibration counted by hand, and what the report says of it."""

from datetime import UTC, datetime

import pytest

from analysis.reports.sections import judge_run
from analysis.results.judges.judge_usage import (
    FailureCount,
    JudgeUsage,
    UsedPrompt,
    calibration_rows,
    changed,
)
from guard_eval.records import CheckedItem, JudgeSpending, ModelSeen
from guard_eval.reporting.tables import to_csv, to_html


def spent(judge="m", **more):
    values = dict.fromkeys(
        ("requests", "answers", "lost", "open", "unmetered", "unpriced", "input_tokens", "cached_tokens",
         "output_tokens", "reasoning_tokens"), 0,
    ) | {"usd": 0.0, "held_usd": 0.0}  # fmt: skip
    return JudgeSpending(judge=judge, **(values | more))


def checked(check, *items, criterion="fluency", judge="m"):
    """Return items of a check, each a word of t(arget), o(ther) and = for its orders."""
    names = {"t": "target", "o": "other", "=": "tie"}
    orders = 1 if check == "identical" else 2
    return [
        CheckedItem(
            judge=judge,
            check=check,
            item=str(number),
            criterion=criterion,
            answers=tuple(names[letter] for letter in item),
            asked=orders,
        )
        for number, item in enumerate(items)
    ]


def seen(model, start, stop, *, judge="m", fingerprint=None, answers=1):
    def at(hour):
        return datetime(2026, 11, 20, hour, 5, tzinfo=UTC)

    return ModelSeen(
        judge=judge, model=model, fingerprint=fingerprint, answers=answers, first=at(start), last=at(stop)
    )


@pytest.mark.parametrize(
    ("check", "items", "hits", "opposite", "missing"),
    [
        ("identical", ("=", "=", "t", "o", ""), 2, 2, 1),
        # both for it; one and a tie; one each way; two ties; one against; both against; one order alone
        ("shuffled", ("tt", "t=", "to", "==", "o=", "oo", "t"), 2, 2, 1),
        ("padded", ("tt", "=t", "ot", "==", "o=", "oo", ""), 2, 2, 1),
        # the same method, or a tie, either way round
        ("swapped", ("tt", "oo", "==", "to", "t=", "=o", "o"), 3, 3, 1),
    ],
)
def test_a_check_counts_items_over_both_orders(check, items, hits, opposite, missing):
    (row,) = calibration_rows(checked(check, *items))
    assert (row.hits, row.opposite, row.missing) == (hits, opposite, missing)
    assert row.share.n == len(items) - missing
    assert row.share.estimate == pytest.approx(hits / (len(items) - missing))


def test_shares_have_wilsons_interval():
    (row,) = calibration_rows(checked("identical", *"=====", *"ttttt"))
    # Wilson 1927, 5 of 10: .2366 to .7634
    assert (round(row.share.low, 4), round(row.share.high, 4)) == (0.2366, 0.7634)
    (row,) = calibration_rows(checked("identical", *"=="), alpha=0.1)
    assert row.share.level == pytest.approx(0.9)


def test_no_item_has_no_share():
    (row,) = calibration_rows(checked("padded", "", "t"))
    assert (row.share.estimate, row.share.low, row.missing) == (None, None, 2)


def test_rows_come_by_judge_check_and_criterion():
    given = [
        *checked("padded", "tt", judge="b"),
        *checked("identical", "=", judge="b", criterion="coherence"),
        *checked("identical", "=", judge="b"),
        *checked("identical", "=", judge="a"),
    ]
    rows = calibration_rows(given)
    assert [(row.judge, row.check, row.criterion) for row in rows] == [
        ("b", "identical", "fluency"),
        ("b", "identical", "coherence"),
        ("b", "padded", "fluency"),
        ("a", "identical", "fluency"),
    ]


def test_a_model_that_changed_is_told_from_a_configuration_that_did():
    same = (seen("m-1", 8, 9, fingerprint="x"), seen("m-1", 9, 10, fingerprint="y"), seen(None, 8, 9))
    assert changed(same) == ()
    ((judge, models),) = changed([*same, seen("m-2", 11, 12, answers=7)])
    assert judge == "m"
    assert [(one.model, one.answers, one.first.hour, one.last.hour) for one in models] == [
        ("m-1", 2, 8, 10),
        ("m-2", 7, 11, 12),
    ]


def words(section):
    cells = [str(cell) for part in section.parts for row in part.rows for cell in row]
    return " ".join((*section.paragraphs, *cells))


def test_nothing_was_asked():
    assert judge_run.section(None) is None
    assert judge_run.section(JudgeUsage()) is None


def test_the_section_says_what_it_took_what_failed_and_what_changed():
    first = spent(
        requests=1234,
        answers=1230,
        lost=4,
        unmetered=2,
        input_tokens=1_500_000,
        cached_tokens=500_000,
        output_tokens=61_000,
        usd=3.5,
        held_usd=0.02,
    )
    run = JudgeUsage(
        prompts=(UsedPrompt(judge="gpt", version="abc123", words="the paper's prompt", text="…"),),
        spent=(first, spent("n", requests=5, unpriced=5)),
        failed=(
            FailureCount(judge="m", kind="refusal", count=3, reason="I cannot <b>compare</b> these"),
            FailureCount(judge="m", kind="odd_kind", count=1),
        ),
        seen=(seen("m-1", 8, 9, answers=900), seen("m-2", 10, 11, answers=330)),
        asked_otherwise=("n",),
    )
    section = judge_run.section(run)
    text = words(section).replace("\u00a0", " ")
    for part in (
        "hash abc123",
        "n answered requests unlike those",
        "1,234",
        "1,500,000",
        "$3.50",
        "$0.0200",
        "unknown",
        "the model behind m changed while it judged: m-1, 900 answers from 2026-11-20 08:05 to ",
        "; then m-2, 330 answers from 2026-11-20 10:05",
        "4 showings of a pair ended without",
        "the model declined",
        "I cannot <b>compare</b> these",
        "odd kind",
        "No judge was calibrated",
    ):
        assert part in text, part
    assert "2\u00a0answers came without token counts" in section.parts[0].note
    assert "&lt;b&gt;compare&lt;/b&gt;" in to_html(section.parts[1])

    ledger = to_csv(section.exports["judge_ledger"]).splitlines()
    assert ledger[0].startswith("simulated,judge,requests,answers,lost,under_way,prompt_tokens")
    assert ledger[1].startswith("false,m,1234,1230,4,0,1500000,500000,61000,0,2,0,3.5,0.02")
    assert "judge_calibration" not in section.exports


def test_reasons_are_many_and_long():
    failed = tuple(
        FailureCount(judge="m", kind="rejected", count=20 - place, reason=f"{place} " + "x" * 500)
        for place in range(20)
    )
    section = judge_run.section(JudgeUsage(spent=(spent("m"),), failed=failed))
    table = section.parts[1]
    assert len(table.rows) == 12
    assert max(len(row[3]) for row in table.rows) == 160
    assert f"{sum(range(1, 9))}\u00a0showings more, for rarer reasons" in table.note
    assert len(section.exports["judge_failures"].rows) == 20


def test_the_section_names_what_a_judge_that_reads_would_not_do():
    good = [
        *checked("identical", *["="] * 20),
        *checked("shuffled", *["tt"] * 19, "t="),
        *checked("swapped", *["tt"] * 20),
        *checked("padded", *["=="] * 15, *["oo"] * 5),
    ]
    run = JudgeUsage(spent=(spent(),), checked=tuple(good))
    assert judge_run.NO_WORRIES in judge_run.section(run).paragraphs
    bad = [
        *checked("identical", *["="] * 19, "t"),
        *checked("shuffled", *["tt"] * 12, *["oo"] * 8),  # 60 %, from 38.7 %
        *checked("padded", *["tt"] * 18, "oo", ""),
    ]
    text = words(judge_run.section(JudgeUsage(spent=(spent(),), checked=tuple(bad))))
    assert "m does not always call identical texts similar (it does in 95\u00a0% on fluency)" in text
    assert (
        "m is not shown to prefer texts to their own words in disorder (it does in 60\u00a0% on fluency)"
        in text
    )
    assert "m prefers padded texts to themselves (it does in 95\u00a0% on fluency)" in text
    assert "Of the calibration's 60\u00a0items, 1 were not answered" in text
