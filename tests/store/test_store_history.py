"""Every revision with position and method, for whoever wants to see how a verdict came about."""

from dataclasses import asdict, replace

from guard_eval.store import HistoryRow


def test_a_change_of_mind_is_two_rows(store, make_pairs, plan, clock):
    pair = make_pairs(1)[0]
    store.add_pairs([replace(pair, position=1)])  # an odd position shows b first
    ann, _ = store.invite("Ann")
    number = store.hand_out(ann, plan)[0].presentation
    clock.advance(seconds=20)
    store.save(number, {"fluency": "A"}, rater=ann, seconds=20.0, active_seconds=15.0)
    clock.advance(seconds=5)
    store.save(number, {"fluency": "B"}, rater=ann)
    common = {
        "presentation": number,
        "pair_id": pair.id,
        "dataset": "wikinews",
        "method_a": "guard",
        "method_b": "top_k(k=50)",
        "rater": "Ann",
        "rater_kind": "person",
        "role": "study",
        "slot": 0,
        "shown_first": "top_k(k=50)",
        "criterion": "fluency",
        "handed_out": "2026-01-02T03:04:05.678+00:00",
        "surplus": False,
        "excluded": False,
    }
    assert store.history() == [
        HistoryRow(
            **common,
            revision=0,
            position="A",
            verdict="top_k(k=50)",
            seconds=20.0,
            active_seconds=15.0,
            at="2026-01-02T03:04:25.678+00:00",
        ),
        HistoryRow(
            **common,
            revision=1,
            position="B",
            verdict="guard",
            seconds=None,
            active_seconds=None,
            at="2026-01-02T03:04:30.678+00:00",
        ),
    ]
    (row,) = store.tidy()
    assert (row.position, row.verdict, row.excluded) == ("B", "guard", False)


def test_surplus_excluded_and_repeats_are_there_and_marked(store, make_pairs, plan, clock):
    store.add_pairs(make_pairs(2))
    one = replace(plan, slots=1, repeats=1)
    late, ann = (store.invite(name)[0] for name in ("late", "Ann"))
    lost = store.hand_out(late, one)[0].presentation
    clock.advance(hours=1)
    while given := store.hand_out(ann, one):
        store.save(given[0].presentation, {"fluency": "A"}, rater=ann)
    store.save(lost, {"fluency": "tie"}, rater=late)
    store.exclude("Ann", "why", "who")
    rows = [(row.rater, row.role, row.surplus, row.excluded, row.position) for row in store.history()]
    assert rows == [
        ("late", "study", True, False, "tie"),
        ("Ann", "study", False, True, "A"),
        ("Ann", "study", False, True, "A"),
        ("Ann", "repeat", False, True, "A"),
    ]


def test_a_row_is_plain_values(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    ann, _ = store.invite("Ann")
    store.save(store.hand_out(ann, plan)[0].presentation, {"fluency": "A"}, rater=ann)
    assert {type(value) for value in asdict(store.history()[0]).values()} == {str, int, bool, type(None)}
