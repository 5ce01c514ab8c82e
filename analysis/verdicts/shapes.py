"""The shapes in which tables hold two methods and a verdict, each turned into a row a verdict."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.verdicts.columns import BOOLEANS, Columns, plain_heading
from analysis.verdicts.draft import METHODS, Draft
from analysis.verdicts.layout import as_texts
from analysis.verdicts.sides import read_first
from analysis.verdicts.words import TIED, A, B, is_missing_word, meaning
from guard_eval.errors import StudyError
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

MOSTLY = 0.9
"""A column of verdicts names a method of its row, or a side, or a tie, in this share of its filled cells."""
MOSTLY_ONCE = 0.8
"""If this share of all methods occurs once, they are texts and no methods."""
MAX_WORDS = 50
"""A column with more different words that name no method holds texts."""
FEWEST_ROWS = 4
"""Rows below which it is not looked at whether methods occur once."""

_NOUN = "(method|model|system|strategy|generator|player|engine|policy|bot|agent)"
_METHOD = re.compile(
    rf"(name)?{_NOUN}(name|id)?(?P<after>a|b|1|2|left|right)(name|id)?|(?P<before>left|right|first|second){_NOUN}(name)?"
)
_SECOND = {"a": "b", "1": "2", "left": "right", "first": "second"}
WON_AND_LOST = (
    ("winner", "loser"),
    ("winningmodel", "losingmodel"),
    ("winnermodel", "losermodel"),
    ("chosenmodel", "rejectedmodel"),
    ("chosenmodelname", "rejectedmodelname"),
    ("chosensystem", "rejectedsystem"),
    ("chosenmethod", "rejectedmethod"),
    ("chosen", "rejected"),
)
"""Headings of the method that won and of the one that lost."""
_COUNTS = (("win1", "win2"), ("wins1", "wins2"), ("wina", "winb"), ("winsa", "winsb"), ("awins", "bwins"))
"""Headings of how often the first method won, and the second one."""
_TIE_COUNTS = ("ties", "tie", "draws", "draw")
_RATER = re.compile(
    r"(?P<rater>(rater|annotator|judge|coder|evaluator|worker|participant|labell?er|expert)[\W_]*\d*)"
    r"([\W_]*(?P<criterion>.*))?",
    re.IGNORECASE,
)
"""A heading of one rater's verdicts, and of one criterion of that rater."""


def find_methods(draft: Draft, items: Mapping[str, Mapping[str, str]]) -> None:
    """Find the two methods of each row and call their columns method_a and method_b.

    Args:
        draft: The table.
        items: What another file says of items, by their ids: the methods, and more.

    Raises:
        StudyError: Several columns can be the methods, or the columns hold texts.
    """
    if not draft.has(*METHODS):
        couples = couples_of(draft.columns.names)
        shown = [couple for couple, is_shown in couples if is_shown]
        named = [couple for couple, is_shown in couples if not is_shown]
        if len(named) > 1 and len({tuple(draft.columns.codes(*couple)) for couple in named}) > 1:
            listed = and_list([" and ".join(couple) for couple in named])
            raise StudyError(f"the methods could be {listed}; rename one of them to method_a and method_b")
        if named:
            for heading, name in zip(named[0], METHODS, strict=True):
                draft.rename(heading, name)
        elif shown:
            _use_sides(draft, shown[0])
        elif draft.declared.get("headings") != "pair_id" or draft.has("pair_id"):
            _use_other_methods(draft, items)
    if draft.has(*METHODS):
        _refuse_texts(draft)


def couples_of(names: Sequence[str]) -> list[tuple[tuple[str, str], bool]]:
    """Return the headings that can be those of two methods, and whether they are of the left and right side.

    >>> couples_of(["model_a", "model_b", "left", "right"])
    [(('model_a', 'model_b'), False), (('left', 'right'), True)]
    """
    plain = {plain_heading(name): name for name in names}
    couples = []
    for heading, name in plain.items():
        match = _METHOD.fullmatch(heading)
        side = (match["after"] or match["before"]) if match else heading
        if side not in _SECOND or (match is None and heading not in {"a", "left"}):
            continue
        start = match.start("after" if match["after"] else "before") if match else 0
        other = heading[:start] + _SECOND[side] + heading[start + len(side) :]
        if other in plain:
            couples.append(((name, plain[other]), side in {"left", "first"}))
    return couples


def _use_sides(draft: Draft, couple: tuple[str, str]) -> None:
    """Take the columns of the sides for those of the methods, too."""
    left, right = couple
    frame = draft.frame.rename(columns={left: "left", right: "right"})
    draft.replace(frame.assign(method_a=frame["left"], method_b=frame["right"]))
    draft.record("methods", f"{left}, {right}", "the sides as shown")


def _use_other_methods(draft: Draft, items: Mapping[str, Mapping[str, str]]) -> None:
    """Take methods from the winner and the loser, from another file, or from the declared words."""
    plain = {plain_heading(name): name for name in draft.columns.names}
    couple = next((pair for pair in WON_AND_LOST if set(pair) <= plain.keys()), None)
    named = list(dict.fromkeys(word for word in draft.words.values() if word not in {"a", "b", TIE, ""}))
    if couple is not None and not items:
        won, lost = (plain[name] for name in couple)
        texts = draft.columns.texts(won, lost).astype(object)
        is_first = (texts[won] < texts[lost]).to_numpy()
        draft.replace(
            draft.frame.drop(columns=[won, lost]).assign(
                method_a=texts[won].where(is_first, texts[lost]),
                method_b=texts[lost].where(is_first, texts[won]),
                verdict=texts[won],
            )
        )
        draft.record("methods, verdict", f"{won}, {lost}", "the first won against the second")
    elif items:
        _join_items(draft, items)
    elif len(named) == 2:
        draft.replace(draft.frame.assign(method_a=named[0], method_b=named[1]))
        draft.record("methods", "", f"declared: {and_list(named)}")


def _join_items(draft: Draft, items: Mapping[str, Mapping[str, str]]) -> None:
    """Add what another file says of the item of each row."""
    holding = [name for name in draft.free() if set(draft.columns.values(name)) <= items.keys()]
    holding += ["pair_id"] if draft.has("pair_id") else []
    if not holding:
        raise StudyError(
            "no column has only ids of the file that names the methods; add the ids that are missing"
        )
    ids = draft.columns.texts(holding[0])[holding[0]].astype(object)
    if unknown := sorted(set(map(str, ids)) - items.keys()):
        raise StudyError(f"no item has the id {unknown[0]!r}; add it to the file that names the methods")
    names = dict.fromkeys(name for cells in items.values() for name in cells)
    new = {
        name: pd.Series([items[str(key)].get(name) for key in ids], ids.index, dtype=object)
        for name in names
        if name not in draft.columns.names
    }
    draft.record("methods", holding[0], "another file names the methods of each")
    draft.replace(draft.frame.drop(columns=holding[0]).assign(**new))


def _refuse_texts(draft: Draft) -> None:
    """Refuse methods that nearly all occur once: they are texts."""
    texts = draft.columns.texts(*METHODS)
    counts = Counter(text for name in METHODS for text in texts[name].dropna())
    once = sum(count == 1 for count in counts.values())
    if len(texts) >= FEWEST_ROWS and once >= MOSTLY_ONCE * len(counts):
        column = next((role.column for role in draft.roles if role.role in {*METHODS, "methods"}), "method_a")
        raise StudyError(
            f"{column}: nearly every cell differs ({once} of {len(counts)} occur once), so these are texts; "
            "add columns method_a and method_b with the names of the methods"
        )


def find_verdicts(draft: Draft) -> list[str]:
    """Find the verdicts: a column, one for each winner, or counts of wins. Return those of a wide table.

    Raises:
        StudyError: Two columns can be the verdict.
    """
    if "headings" in draft.declared:
        return columns_of_verdicts(draft)
    wide: list[str] = []
    if not draft.has("verdict") and not _use_counts(draft) and not _use_winners(draft):
        named = [name for name in draft.columns.named("verdict") if name in draft.free()]
        named = [name for name in named if not _names_only_winner(name, named)] or named[:1]
        if len(named) > 1:
            raise StudyError(f"verdict could be {and_list(named)}; rename the column that is it to verdict")
        holding = columns_of_verdicts(draft) if not named else []
        is_single = len(holding) == 1 and not _RATER.fullmatch(holding[0])
        if named:
            draft.rename(named[0], "verdict")
        elif is_single and draft.has("criterion") == draft.has("rater"):
            draft.rename(holding[0], "verdict", "its cells are verdicts")
        else:
            wide = holding
    _use_tie_flags(draft)
    return wide


def _names_only_winner(name: str, others: Sequence[str]) -> bool:
    """Return whether a column beside another verdict repeats the winner by name."""
    return name != others[0] and plain_heading(name) in {
        "winnermodel",
        "winningmodel",
        "chosenmodel",
        "preferredmodel",
    }


def _use_counts(draft: Draft) -> bool:
    """Turn counts of wins into rows, one a win."""
    plain = {plain_heading(name): name for name in draft.columns.names}
    couple = next((pair for pair in _COUNTS if set(pair) <= plain.keys()), None)
    if couple is None or not draft.has(*METHODS):
        return False
    tied = next((plain[name] for name in _TIE_COUNTS if name in plain), None)
    names = {plain[couple[0]]: "A", plain[couple[1]]: "B"} | ({tied: TIE} if tied else {})
    counts = {name: pd.to_numeric(draft.frame[name], errors="coerce") for name in names}
    if any(numbers.isna().any() or (numbers < 0).any() or (numbers % 1).any() for numbers in counts.values()):
        raise StudyError(
            f"{and_list(list(names))} count wins, and a cell is no whole number; write 0, 1, 2, …"
        )
    rows = draft.frame.drop(columns=list(names))
    tables = [
        rows.loc[rows.index.repeat(counts[name].astype(int))].assign(verdict=word)
        for name, word in names.items()
    ]
    draft.replace(pd.concat(tables).sort_index(kind="stable"))
    draft.record("verdict", ", ".join(names), "they count wins, and each counts as a pair of its own")
    return True


def _use_winners(draft: Draft) -> bool:
    """Join columns of 0 and 1 that each stand for one verdict: winner_model_a, winner_model_b, winner_tie."""
    words = {}
    for name in draft.free():
        text = re.sub(r"^(winner|preferred|chosen|is)[_ ]+", "", name.strip().casefold())
        if meaning(text) is not None and draft.columns.is_boolean(name):
            words[name] = text
    sides = {meaning(text).side for text in words.values()}  # type: ignore[union-attr]
    if len(words) < 2 or not {A, B} <= sides:
        return False
    chosen = pd.DataFrame({name: _is_yes(draft.columns, name) for name in words})
    if (chosen.sum(axis=1) > 1).any():
        raise StudyError(f"more than one of {and_list(list(words))} is 1 in a row; mark one winner in each")
    verdict = chosen.idxmax(axis=1).map(words).where(chosen.any(axis=1))
    draft.replace(draft.frame.drop(columns=list(words)).assign(verdict=verdict))
    draft.record("verdict", ", ".join(words), "one of them is 1 in each row")
    return True


def _use_tie_flags(draft: Draft) -> None:
    """Read ties from a column such as both_equal beside a verdict that has none."""
    flags = [
        name
        for name in draft.free()
        if draft.has("verdict")
        and draft.columns.is_boolean(name)
        and (word := meaning(re.sub(r"^is[_ ]+", "", name.casefold())))
        and word.side == TIED
    ]
    for name in flags:
        verdict = draft.columns.texts("verdict")["verdict"].astype(object)
        draft.replace(
            draft.frame.drop(columns=name).assign(verdict=verdict.mask(_is_yes(draft.columns, name), TIE))
        )
        draft.record("verdict", name, "it marks ties")


def _is_yes(columns: Columns, name: str) -> pd.Series:
    texts = columns.texts(name)[name].astype(object).fillna("")
    return texts.str.strip().str.casefold().isin(BOOLEANS - {"false", "no", "0", "0.0", "n", "f"})


def columns_of_verdicts(draft: Draft) -> list[str]:
    """Return the free columns whose cells are verdicts: methods, sides or ties."""
    methods = {text for name in METHODS if draft.has(name) for text in draft.columns.values(name)}
    holding = [name for name in draft.free() if _holds_verdicts(draft, name, methods)]
    return [name for name in holding if not methods or read_first(draft.columns, name) is None]


def _holds_verdicts(draft: Draft, name: str, methods: set[str]) -> bool:
    """Return whether most filled cells of a column are verdicts."""
    counts = draft.columns.texts(name)[name].value_counts()
    filled = {str(text): int(count) for text, count in counts.items() if not is_missing_word(str(text))}
    if not filled or len(filled.keys() - methods) > MAX_WORDS:
        return False
    # Two unknown names with ties are methods.
    are_methods = not methods and TIE in filled and len(filled) <= 3
    words = {text for text in filled if text in methods or text.strip() in draft.words or meaning(text)}
    return are_methods or sum(filled[text] for text in words) >= MOSTLY * sum(filled.values())


def melt(draft: Draft, names: Sequence[str]) -> None:
    """Turn a wide table long.

    Args:
        draft: The table.
        names: The columns of verdicts.

    Raises:
        StudyError: It is not clear what a heading is.
    """
    heads = draft.declared.get("headings", "")
    if not names:
        raise StudyError(
            "no column has verdicts under its heading; declare the words: --set 'verdicts.\"WORD\"=a'"
        )
    matches = [_RATER.fullmatch(name) for name in names]
    missing = [name for name in ("criterion", "rater") if not draft.has(name)]
    split: Mapping[str, Sequence[str]] = {}
    if not heads and all(matches) and "rater" in missing:
        known = [match for match in matches if match]
        if len({match["rater"] for match in known}) == 1 or not all(match["criterion"] for match in known):
            split = {"rater": names}
        else:
            split = {name: [match[name].strip(" _") for match in known] for name in ("rater", "criterion")}
    elif not heads and len(missing) == 1 and draft.has(*METHODS):
        split = {missing[0]: names}
    elif heads:
        split = {heads: names}
    else:
        raise StudyError(_survey_problem(draft, names))
    _refuse_mixed(draft, names)
    kept = [name for name in draft.columns.names if name not in names]
    long = draft.frame.melt(kept, list(names), var_name="_heading", value_name="verdict", ignore_index=False)
    positions = {name: index for index, name in enumerate(names)}
    index = long["_heading"].map(positions).to_numpy(dtype=np.int64)
    long = long.drop(columns="_heading").assign(
        **{role: np.array(values, dtype=object)[index] for role, values in split.items()},
        verdict=as_texts(long["verdict"]),
    )
    filled = long["verdict"].notna().to_numpy()
    for name in [name for name in draft.free() if name not in names]:
        cells = [text for text in draft.columns.texts(name)[name].astype(object) if isinstance(text, str)]
        if count := sum(meaning(text) is not None for text in cells):
            draft.notes.append(f"{name!r} is not read: only {count} of its {len(cells)} cells are verdicts")
    if not filled.all():
        draft.notes.append(f"{int((~filled).sum())} empty cells of a wide table are read as no verdicts")
    draft.replace(long[filled])
    for role in split:
        draft.record(role, ", ".join(names), "a wide table: its headings")


def _refuse_mixed(draft: Draft, names: Sequence[str]) -> None:
    """Refuse sides in one column and methods in another, which may say who was on which side."""
    words = {name: [meaning(text) for text in draft.columns.values(name)] for name in names}
    sided = [name for name in names if any(word is not None and word.side != TIED for word in words[name])]
    named = [name for name in names if set(words[name]) == {None}]
    if sided and named and not draft.words:
        raise StudyError(
            f"the column {sided[0]!r} has sides, and {named[0]!r} has methods: if it says which text was "
            "first, call it shown_first, or left and right; if not, write methods in both"
        )


def _survey_problem(draft: Draft, names: Sequence[str]) -> str:
    """Return how to declare a table with a row a person and a column a question."""
    listed = f"{and_list([repr(name) for name in names[:3]])}{', …' if names[3:] else ''}"
    start = f"verdicts are in {len(names)} columns ({listed}), and nothing says what their headings are"
    if draft.has(*METHODS):
        heads = " or ".join(f"--set columns.headings={head}" for head in ("criterion", "rater", "pair_id"))
        return f"{start}: {heads}"
    rater = next((role.column for role in draft.roles if role.role == "rater"), "HEADING")
    words = dict.fromkeys(word for name in names for word in draft.columns.values(name))
    sides = [word for word in words if (known := meaning(word)) is not None and known.side != TIED]
    parts = ["columns.headings=pair_id", f"columns.rater={rater}"]
    parts += [f'verdicts."{word}"=METHOD' for word in sides]
    return (
        f"{start}, and there is no method_a and method_b. In a survey with a row a person and a column a "
        f"question write: {' '.join(f'--set {shlex.quote(part)}' for part in parts)}. If the methods changed "
        "sides, give a second file with the columns item, A and B in place of METHOD"
    )
