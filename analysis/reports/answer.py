"""The report's first paragraph: what was asked, answered with its uncertainty, and nothing beyond it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from analysis.results.ranking import RankingRow
from analysis.results.shares import ShareRow, disagreement
from analysis.stats.population import FEWEST_RATERS
from analysis.verdicts.composite import Composite
from analysis.verdicts.panel import PANEL_OF
from guard_eval.records import PEOPLE_OF, SIMULATED
from guard_eval.reporting.words import (
    KIND_PLACE,
    and_list,
    equals,
    judge_name,
    limits,
    percent,
    plural,
    title,
)
from guard_eval.rubric import COMPOSITE

SPELT_OUT = 6
"""Up to this many results are given with their figures; more would no longer be one paragraph."""
JUDGES_SPELT_OUT = 4
"""Up to this many judges have sentences of their own."""
RANKINGS_SPELT_OUT = 4
"""Up to this many rankings of one group of raters are put into words."""
NAMED = 3
"""Methods that a sentence names before it counts the rest."""
RANKS_OF_THESE = "Ranks, and the test of any difference, hold for these raters alone."
RANKS_HOLD = "All statements on ranks hold together at the level of the intervals (see Ranking)."
ONE_BY_ONE = "Each judge is a result of its own; they are not counted together."
ONE_BY_ONE_BUT_PANEL = "Judges are counted together in the declared panel alone."


def answer(
    rows: Sequence[ShareRow],
    *,
    alpha: float,
    exploratory: bool,
    redundant: Sequence[str] = (),
    sides: Sequence[str] = (),
    panels: Collection[str] = (),
    rankings: Sequence[RankingRow] = (),
    assisted_by: str | None = None,
    composite: Composite | None = None,
    texts: str = "continuations",
    sensitivity: bool = True,
) -> str:
    """Return one plain paragraph on the rows of all datasets, people first.

    "No evidence of a difference" is what a test that does not reject says; it never says "equal".

    Args:
        rows: `share_rows` of the verdicts.
        alpha: The error rate.
        exploratory: Whether anything makes these results exploratory.
        redundant: What an audit found on criteria that measure the same thing.
        sides: What an audit found on methods that were mostly shown first.
        panels: Names of declared panels of judges.
        rankings: `ranking_rows`: of three or more methods the answer is who leads.
        assisted_by: The judge who was declared to assist people.
        composite: What was declared as the overall result.
        texts: What was compared, in the plural.
        sensitivity: Whether the report also has other analyses of the same verdicts.
    """
    totals = [row for row in rows if row.dataset is None]
    groups: dict[tuple[str, str], list[ShareRow]] = {}
    for row in totals:
        groups.setdefault(row.who, []).append(row)
    order = sorted(groups, key=lambda who: (KIND_PLACE[who[0]], who[1] not in panels, who[1]))
    kinds = {kind for kind, _ in order}
    judges = [who for who in order if who[1]]
    left_out = set(judges[JUDGES_SPELT_OUT:])
    parts = [
        _group(groups[who], alpha, texts, [row for row in rankings if row.who == who])
        for who in order
        if who not in left_out
    ]
    if left_out:
        parts.append(f"{len(left_out)} more judges stand in the table below.")
    if len(judges) > 1:
        parts.append(ONE_BY_ONE if not panels else ONE_BY_ONE_BUT_PANEL)
    if assisted_by is not None:
        parts.append(_assisted(totals, assisted_by))
    if composite is not None and any(row.criterion == COMPOSITE for row in totals):
        parts.append(f"The composite, declared as the overall result, is {composite}.")
    if sides:
        parts.append(shown_unevenly(sides))
    parts.append(_closing(totals, sensitivity=sensitivity))
    if redundant:
        several = "Some criteria hardly count as separate evidence; the audits name them."
        parts.append(f"Of the criteria, {redundant[0]}." if len(redundant) == 1 else several)
    if SIMULATED.intersection(kinds):
        which = "These verdicts are" if SIMULATED.issuperset(kinds) else "Some of these verdicts are"
        parts.insert(
            0, f"{which} SIMULATED: they show what a report looks like and say nothing of any method."
        )
    if exploratory:
        parts.append("These results are exploratory, for the reason given below.")
    return " ".join(parts)


def shown_unevenly(sides: Sequence[str]) -> str:
    """Say that a preference may be one for a place."""
    if len(sides) == 1:
        return f"However, {sides[0]}."
    return (
        f"However, in {len(sides)} comparisons one method was mostly shown first: preferences for place and "
        "method mix (see Audits)."
    )


def _assisted(rows: list[ShareRow], judge: str) -> str:
    """Say whose share it is that a judge assists, or that it could not."""
    alone = [title(row.criterion) for row in rows if row.rater_kind == "person" and not row.assisted_by]
    if any(row.assisted_by for row in rows):
        text = (
            f"The shares of people are theirs, assisted by {judge}'s verdicts on all pairs, as was declared"
        )
        return f"{text} (on {and_list(alone)} they are people's alone)." if alone else f"{text}."
    return f"An answer assisted by {judge} was declared and is not possible; the section on it says why."


def differs(row: ShareRow, alpha: float) -> bool:
    """Return whether the item-level test rejects "no difference", after correction in the family."""
    p = row.deciding
    return p is not None and p <= alpha


def _group(rows: list[ShareRow], alpha: float, texts: str, rankings: Sequence[RankingRow]) -> str:
    """Word what people, or one judge, found: differences first, then what showed none, the clearest first."""
    declared = [row for row in rows if row.family] or rows
    ranked = [ranking_sentence(row, alpha) for row in rankings[:RANKINGS_SPELT_OUT]]
    if len(rankings) > len(ranked):
        ranked.append(f"{plural(len(rankings) - len(ranked), 'more ranking')} stand below.")
    if ranked:
        ranked.append(RANKS_HOLD)
        if any(row.estimand == "population" for row in declared):
            ranked.append(RANKS_OF_THESE)
    if ranked and len(declared) > SPELT_OUT:
        return " ".join([_opening(declared, texts, brief=True), *ranked, _counted(declared, alpha)])
    ordered = sorted(declared, key=lambda row: (not differs(row, alpha), _rank(row)))
    shown, rest = ordered[:SPELT_OUT], ordered[SPELT_OUT:]
    groups: dict[tuple[str, str, str], list[ShareRow]] = {}
    for row in shown:
        groups.setdefault(_finding(row, alpha), []).append(row)
    sentences = [_sentence(finding, members) for finding, members in groups.items()]
    more = sum(differs(row, alpha) for row in rest)
    if more:
        sentences.append(f"A difference also appears in {plural(more, 'further result')} of the table below.")
    if len(rest) > more:
        sentences.append(
            f"In {plural(len(rest) - more, 'further result')} there is no evidence of a difference."
        )
    return " ".join([_opening(declared, texts), *ranked, *sentences]) + disagreement(shown)


def ranking_sentence(row: RankingRow, alpha: float) -> str:
    """Say who leads, who may lead as well, and who comes last; or that no method is shown to be better."""
    names = [row.methods[place] for place in row.order]
    sets = [row.sets[place] for place in row.order] if row.sets else []
    on, p = f"On {title(row.criterion)}", row.adjusted
    about = f"any difference: {equals(p)}" if p is not None else "no test of any difference"
    if p is None or p > alpha or not sets:
        none = f"there is no evidence that one of {len(names)} methods is better than another"
        return f"{on} {none} over all comparisons ({about})."
    may_lead = [name for name, (low, _) in zip(names, sets, strict=True) if low == 1]
    may_be_last = [name for name, (_, high) in zip(names, sets, strict=True) if high == len(names)]
    if len(may_lead) == len(names) == len(may_be_last):
        return f"{on} the {len(names)} methods differ ({about}), and no rank is sure; {names[0]} is first."
    if len(may_lead) == 1:
        first = f"{on} {names[0]} leads, ahead of all others"
    else:
        others = may_lead if names[0] not in may_lead else [name for name in may_lead if name != names[0]]
        first = f"{on} {names[0]} leads and cannot be told apart from {_some(others)}"
    last = ""
    if len(may_lead) + len(may_be_last) <= len(names) or len(may_be_last) == 1:
        last = f"; {_some(may_be_last[::-1])} {'comes' if len(may_be_last) == 1 else 'may come'} last"
    return f"{first}{last} ({about})."


def _some(names: Sequence[str]) -> str:
    """Return a few names, and how many there are besides."""
    if len(names) <= NAMED:
        return and_list(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def _counted(rows: Sequence[ShareRow], alpha: float) -> str:
    """Say how many comparisons show a difference."""
    criteria, of = ({row.criterion for row in rows}, {(row.method_a, row.method_b) for row in rows})
    results = f"{len(rows)} comparisons"
    if len(criteria) > 1:
        results = f"{len(rows)} results ({len(of)} comparisons, {len(criteria)} criteria)"
    found = sum(differs(row, alpha) for row in rows)
    corrected = f" after {rows[0].correction}'s correction" if rows[0].family else ""
    few = sum(bool(row.out_of_reach or row.test.withheld) for row in rows)
    rest = "rests" if few == 1 else "rest"
    small = f" {few} of them {rest} on too few {rows[0].unit}s that favour a method to show one."
    small = small if few else ""
    if not found:
        return f"None of the {results} shows a difference by itself{corrected}.{small}"
    shows = "shows" if found == 1 else "show"
    return f"Of {results}, {found} {shows} a difference{corrected}: see Comparisons.{small}"


def _opening(rows: list[ShareRow], texts: str, *, brief: bool = False) -> str:
    whole = rows[0].whole
    text = f"{_who(rows[0])} compared {plural(whole.pairs, 'pair')} of {texts}"
    compared = {(row.method_a, row.method_b): row.comparison for row in rows}
    if brief:
        methods = {name for pair in compared for name in pair}
        return f"{text} by {len(methods)} methods in {len(compared)} comparisons."
    if len(compared) > 1:
        people = not rows[0].judge
        parts = [
            f"{a} against {b}: {plural(found.pairs, 'pair')}"
            + (f", {plural(found.raters, 'rater')}" if people else "")
            for (a, b), found in list(compared.items())[:SPELT_OUT]
        ]
        more = [f"{len(compared) - SPELT_OUT} more comparisons"] if len(compared) > SPELT_OUT else []
        text += f" ({'; '.join([*parts, *more])})"
    counts = sorted({row.items for row in rows})
    if any(row.items != row.comparison.pairs for row in rows):
        text += (
            f"; a result rests on {counts[0]} to {plural(counts[-1], 'pair')}"
            if counts[1:]
            else (f"; a result rests on {plural(counts[0], 'pair')}")
        )
    return f"{text}."


def _who(row: ShareRow) -> str:
    """Return who judged, at the beginning of a sentence."""
    if row.judge:
        name = judge_name(row.judge, row.rater_kind)
        return f"The {name}," if row.judge.startswith(PANEL_OF) else f"The judge {name}"
    one, many = {"person": ("person", "people")}.get(row.rater_kind, ("SIMULATED rater", "SIMULATED raters"))
    return f"{row.whole.raters}\u00a0{one if row.whole.raters == 1 else many}"


def _finding(row: ShareRow, alpha: float) -> tuple[str, str, str]:
    """Return what is found, or why there is no test, and of which two methods, in the order of the tables."""
    if row.out_of_reach or row.test.withheld:
        return ("out of reach", row.method_a, row.method_b)
    if row.test.p_value is None:
        why = "; ".join(row.test.warnings) or "there is none"
        return ("no test" if row.test.n == 0 else why, row.method_a, row.method_b)
    if not differs(row, alpha):
        return ("no evidence", row.method_a, row.method_b)
    ahead = (row.share.estimate or 0.0) > 0.5
    return ("preferred" if ahead else "preferred less", row.method_a, row.method_b)


def _sentence(finding: tuple[str, str, str], rows: list[ShareRow]) -> str:
    result, first, second = finding
    if result == "no test":
        names = and_list([title(row.criterion) for row in rows])
        balanced = f"every {rows[0].unit} is balanced between {first} and {second}"
        return f"On {names} {balanced}, so there is nothing to test."
    figures = and_list([f"{title(row.criterion)} ({_figures(row)})" for row in rows])
    if result == "preferred":
        return f"{first} was preferred to {second} on {figures}."
    if result == "preferred less":
        return f"{first} was preferred less often than {second} on {figures}; the share is that of {first}."
    if result == "out of reach":
        few = f"Too few {rows[0].unit}s favour {first} or {second} to tell them apart on"
        return f"{few} {figures}; the share is that of {first}."
    if result == "no evidence":
        none = f"There is no evidence of a difference between {first} and {second} on"
        return f"{none} {figures}; the share is that of {first}."
    return (
        f"Between {first} and {second} there is no test on {figures}; the share is that of {first}: {result}."
    )


def _figures(row: ShareRow) -> str:
    """Return share, interval and p."""
    interval = (
        f", {percent(row.level, 0)} interval {limits(row.share)}\u00a0%" if row.share.low is not None else ""
    )
    p = row.deciding
    few = f"{row.test.n} of {plural(row.units, row.unit)}; " if row.out_of_reach or row.test.withheld else ""
    return f"{few}win share {percent(row.share.estimate)}{interval}, {'no p' if p is None else equals(p)}"


def _closing(rows: list[ShareRow], *, sensitivity: bool) -> str:
    sizes = sorted({row.family for row in rows if row.family})
    outside = sum(not row.family for row in rows)
    sampled = any(row.estimand == "population" for row in rows)
    test, interval = "t tests over raters and pairs" if sampled else "sign-flip tests on item means", ""
    if any(row.assisted_by for row in rows):
        test = f"prediction-powered t tests where a judge assists, and of {test} elsewhere"
    if any(row.anytime for row in rows):
        test, interval = "tests that hold whenever one looks", "; the intervals hold at all times together"
    text = f"The p-values are of {test}{_units(rows)}"
    if sizes and sizes != [1]:
        kinds = _of_each({row.who for row in rows})
        name = next(row.correction for row in rows if row.family)
        text += f", after {name}'s correction for {and_list([str(size) for size in sizes])} results{kinds}"
    if outside:
        text += f"; the table also gives {plural(outside, 'result')} outside the declared family, uncorrected"
    return f"{text}{interval}. {_for_whom(rows, sensitivity=sensitivity)}"


def _of_each(groups: Collection[tuple[str, str]]) -> str:
    """Say which results Holm's family holds where people and judges, or several judges, have judged."""
    if len(groups) == 1:
        return ""
    judges, people = sum(bool(judge) for _, judge in groups), any(not judge for _, judge in groups)
    return f" {'by people and ' if people else ''}by {'each' if judges > 1 else 'the'} judge"


def _for_whom(rows: list[ShareRow], *, sensitivity: bool) -> str:
    """Say for which raters the answer holds."""
    sampled = [row for row in rows if row.estimand == "population"]
    if all(row.rater_kind in PEOPLE_OF for row in rows):
        one = len({row.who for row in rows}) == 1
        return f"The answer holds for {'this judge' if one else 'these judges'}, and for no other rater."
    if not sampled:
        # With fewer raters than that Sensitivity has nothing on others.
        enough = any(row.whole.raters >= FEWEST_RATERS for row in rows if row.rater_kind not in PEOPLE_OF)
        shown = sensitivity and enough
        more = "; for raters like them, see Sensitivity" if shown else ", and for no other rater"
        return f"The answer holds for these raters{more}."
    few = any(row.share.low is None and row.whole.raters < FEWEST_RATERS for row in sampled)
    if few:
        return (
            "An answer for all raters like these was declared, which takes at least "
            f"{FEWEST_RATERS} of them{'; for these raters alone, see Sensitivity' if sensitivity else ''}."
        )
    judges = "" if len(sampled) == len(rows) else " people"
    alone = "; for these alone, see Sensitivity" if sensitivity else ""
    return f"The answer holds for all{judges} raters like these{alone}."


def _units(rows: list[ShareRow]) -> str:
    """Say what is taken as independent, and how many of it there are."""
    wholes = {row.who: (row.unit, row.whole.units) for row in rows}
    if all(unit == "pair" for unit, _ in wholes.values()):
        return ", whose unit is the pair"
    numbers = sorted({count for _, count in wholes.values()})
    return f", whose unit is the prompt ({and_list([str(number) for number in numbers])} in all)"


def _rank(row: ShareRow) -> float:
    return 2.0 if row.test.p_value is None else row.test.p_value
