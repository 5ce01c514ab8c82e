"""What is read together fits together, whatever is written meanwhile."""

from contextlib import contextmanager

from sqlalchemy import Engine, event

from guard_eval.store import Store, handout, pairs, raters, unblind, verdicts


@contextmanager
def between_statements(action):
    """Run `action` once, after the first statement that this thread's next transaction reads with."""
    waiting = [action]

    def act(connection, cursor, statement, *_):
        if waiting and "FROM pair" in statement:
            waiting.pop()()

    event.listen(Engine, "after_cursor_execute", act)
    try:
        yield waiting
    finally:
        event.remove(Engine, "after_cursor_execute", act)


def test_a_pair_that_is_rated_while_the_verdicts_are_read_is_all_there_or_not_at_all(
    store, store_url, make_pairs, one
):
    old, new = make_pairs(2)
    pairs.add(store, [old])
    ann = raters.invite(store, "Ann")[0]
    verdicts.save(store, handout.claim(store, ann, one)[0].presentation, {"fluency": "A"}, rater=ann)

    def rate_another():
        with Store.open(store_url) as other:
            pairs.add(other, [new])
            verdicts.save(other, handout.claim(other, ann, one)[0].presentation, {"fluency": "A"}, rater=ann)

    with between_statements(rate_another) as waiting:
        assert [row.pair_id for row in unblind.tidy(store)] == [old.id]
    assert waiting == []
    assert [row.pair_id for row in unblind.tidy(store)] == [old.id, new.id]
