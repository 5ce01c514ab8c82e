"""A clock that jumps costs nobody a rating, and no slot is lost for as long as the clock went back."""

from rating import people

from guard_eval.store import handout, pairs, unblind, verdicts


def test_a_clock_set_back_does_not_lengthen_a_lease(store, make_pairs, one, clock):
    pairs.add(store, make_pairs(1))
    ann, ben = people(store, "Ann", "Ben")
    handout.claim(store, ann, one)
    clock.advance(days=-1)
    assert handout.claim(store, ben, one) == []  # Ann may still be at it: she has half an hour from now
    clock.advance(minutes=29)
    assert handout.claim(store, ben, one) == []
    clock.advance(minutes=1)
    assert len(handout.claim(store, ben, one)) == 1


def test_a_rater_at_work_while_the_clock_goes_back_saves_and_goes_on(store, make_pairs, plan, clock):
    pairs.add(store, make_pairs(3))
    (ann,) = people(store, "Ann")
    seen = []
    for _ in range(3):
        blind = handout.claim(store, ann, plan)[0]
        clock.advance(hours=-7)
        assert handout.claim(store, ann, plan) == [blind]  # a refresh
        assert not verdicts.save(store, blind.presentation, {"fluency": "A"}, rater=ann).surplus
        verdicts.save(store, blind.presentation, {"fluency": "B"}, rater=ann)
        seen.append(blind.presentation)
    assert verdicts.trail(store, ann) == seen
    assert [row.revision for row in unblind.history(store)] == [0, 1] * 3
    assert {verdicts.current(store, number, rater=ann)["fluency"] for number in seen} == {"B"}
    assert [row.position for row in unblind.tidy(store)] == ["B"] * 3


def test_a_clock_set_forward_loses_no_rating(store, make_pairs, one, clock):
    pairs.add(store, make_pairs(1))
    ann, ben = people(store, "Ann", "Ben")
    held = handout.claim(store, ann, one)[0].presentation
    clock.advance(days=400)
    taken = handout.claim(store, ben, one)[0].presentation
    clock.advance(days=-400)
    assert verdicts.save(store, held, {"fluency": "A"}, rater=ann).surplus
    assert not verdicts.save(store, taken, {"fluency": "B"}, rater=ben).surplus
    assert [row.rater for row in unblind.tidy(store, include_surplus=True)] == ["Ann", "Ben"]
