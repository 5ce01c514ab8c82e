"""A verdict and the next pair in one transaction: what is handed out, what is written, what it costs."""

from dataclasses import replace

import pytest
from rating import make_gold, people
from sqlalchemy import event

from guard_eval.errors import StudyError
from guard_eval.store import handout, notes, pairs, unblind, verdicts

CHOICES = {"fluency": "A", "coherence": "tie"}


def rate_on(store, rater, plan):
    """Rate until nothing is left, each pair handed out with the verdict before; return what was shown."""
    shown = handout.claim(store, rater, plan)
    while (
        following := verdicts.save(store, shown[-1].presentation, CHOICES, rater=rater, then=plan).next
    ) is not None:
        shown.append(following)
    return shown


@pytest.fixture
def statements(store):
    """What is sent to the database: statements, commits among them."""
    sent = []
    engine = store.engine
    event.listen(engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    event.listen(engine, "commit", lambda _: sent.append("COMMIT"))
    return sent


def test_the_next_pair_is_the_one_that_a_hand_out_gives(store, make_pairs, plan):
    """Gold and repeats among them, and each leased to the rater as any other."""
    pairs.add(store, make_pairs(6))
    pairs.add_gold(store, make_gold(2))
    checked = replace(plan, gold_every=3, repeats=1)
    (ann,) = people(store, "Ann")
    shown = handout.claim(store, ann, checked)
    while True:
        following = verdicts.save(store, shown[-1].presentation, CHOICES, rater=ann, then=checked).next
        given = handout.claim(store, ann, checked)
        assert given == ([] if following is None else [following])
        if following is None:
            break
        shown.append(following)
    assert len(shown) == 6 + 2 + 1
    assert verdicts.trail(store, ann) == [blind.presentation for blind in shown]


def test_a_verdict_and_what_follows_it_are_written_together_or_not_at_all(
    store, make_pairs, plan, monkeypatch
):
    pairs.add(store, make_pairs(3))
    (ann,) = people(store, "Ann")
    (first,) = handout.claim(store, ann, plan)
    with monkeypatch.context() as broken:

        def fail(*_given, **_named):
            raise StudyError("the database went away")

        broken.setattr(handout, "claim_in", fail)
        with pytest.raises(StudyError, match="went away"):
            verdicts.save(store, first.presentation, CHOICES, rater=ann, comment="late", then=plan)
    assert unblind.tidy(store) == []
    assert notes.read(store) == []
    # The rater presses once more.
    saved = verdicts.save(store, first.presentation, CHOICES, rater=ann, comment="late", then=plan)
    assert saved.next is not None
    assert len(unblind.tidy(store)) == 2
    assert [note.detail for note in notes.read(store)] == ["late"]


@pytest.mark.parametrize("slots", [1, 2, 50])
def test_a_rating_is_one_transaction_and_few_statements_at_any_overlap(
    store, make_pairs, plan, statements, slots
):
    """What was 16 statements and two waits for the disk, then 13 and one."""
    plan = replace(plan, slots=slots)
    pairs.add(store, make_pairs(20))
    ann, *others = people(store, "Ann", *(f"Rater {number}" for number in range(min(slots, 6))))
    for other in others[1:]:
        for blind in handout.claim(store, other, plan, limit=5):
            verdicts.save(store, blind.presentation, CHOICES, rater=other)
    (shown,) = handout.claim(store, ann, plan)
    shown = verdicts.save(store, shown.presentation, CHOICES, rater=ann, then=plan).next
    statements.clear()
    verdicts.save(store, shown.presentation, CHOICES, rater=ann, then=plan)
    assert statements.count("COMMIT") == 1
    asked = [sent for sent in statements if sent != "COMMIT" and not sent.startswith("BEGIN")]
    assert len([sent for sent in asked if "pg_advisory" not in sent]) <= 14
