"""The shapes in which tables hold two methods and a verdict, each turned into a row a verdict."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.verdicts.columns import HEADINGS, NAMES, NO, YES, Columns, is_missing_word, plain_heading
from analysis.verdicts.draft import METHODS, UNKNOWN_RATER, Draft
from analysis.verdicts.items import pair_codes
from analysis.verdicts.layout import as_texts, distinct_rows
from analysis.verdicts.sides import read_first
from analysis.verdicts.words import TIED, A, B, meaning
from guard_eval.errors import StudyError
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

MOSTLY = 0.9
"""A column of verdicts names a method of its row, or a side, or a tie, in this share of its filled cells."""
MOSTLY_ONCE = 0.8
"""If this share of all methods occurs in one couple or has a long name, they are texts and no methods."""
MAX_WORDS = 50
"""A column with more different words that name no method holds texts."""
FEWEST_COUPLES = 4
"""Couples below which it is not looked at whether their methods occur elsewhere."""
LONGEST_NAME, MOST_WORDS = 80, 10
"""The name of a method has at most so many characters, and words; a longer one is a text."""

SYSTEMS = "(?:method|model|system|strategy|generator|player|engine|policy|bot|agent)"
TEXTS = "(?:response|text|option|output|answer|assistant|completion)"
"""Nouns for what was compared."""
_COUPLE = (
    r"(name)?{0}(name|id)?(?P<after>a|b|1|2|left|right)(name|id)?"
    r"|(?P<before>left|right|first|second){0}(name)?"
)
_SECOND = {"a": "b", "1": "2", "left": "right", "first": "second"}
_ABOUT_METHODS = re.compile(rf"({SYSTEMS}|name|id)*")
_RATER = re.compile(
    r"(?P<rater>(rater|annotator|judge|coder|evaluator|worker|participant|labell?er|expert)[\W_]*\d*)"
    r"([\W_]*(?P<criterion>.*))?",
    re.IGNORECASE,
)
"""A heading of one rater's verdicts, and of one criterion of that rater."""


def find_methods(draft: Draft) -> None:
    """Find the two methods of each row and call their columns method_a and method_b.

    Raises:
        StudyError: Several columns can be the methods.
    """
    if draft.has(*METHODS):
        return
    names = draft.columns.names
    if lone := [name for name in METHODS if name in names]:
        [missing] = set(METHODS).difference(lone)
        raise StudyError(
            f"the table has {lone[0]} and no {missing}; say which column is: --set columns.{missing}=HEADING"
        )
    named = sorted(set(draft.declared.words.values()) - {"a", "b", TIE, ""})
    if couples := couples_of(names):
        _use_couples(draft, couples)
    elif draft.declared.columns.get("headings") == "pair_id" and not draft.has("pair_id"):
        return  # they are looked for again once each pair has a row
    elif draft.items:
        _join_items(draft)
    elif won_and_lost := _won_and_lost(names):
        _use_won_and_lost(draft, *won_and_lost)
    elif len(named) == 2:
        draft.replace(draft.frame.assign(method_a=named[0], method_b=named[1]))
        draft.record("methods", "", f"declared: {and_list(named)}")
    elif couples := couples_of(names, TEXTS):
        _use_couples(draft, couples)


def couples_of(names: Sequence[str], nouns: str = SYSTEMS) -> list[tuple[tuple[str, str], bool]]:
    """Return the headings that can be those of two methods, and whether they are of the left and right side.

    >>> couples_of(["model_a", "model_b", "left", "right"])
    [(('model_a', 'model_b'), False), (('left', 'right'), True)]
    """
    plain = {plain_heading(name): name for name in names}
    couples = []
    for heading, name in plain.items():
        match = re.fullmatch(_COUPLE.format(nouns), heading)
        side = (match["after"] or match["before"]) if match else heading
        if side not in _SECOND or (match is None and heading not in {"a", "left"}):
            continue
        start = match.start("after" if match["after"] else "before") if match else 0
        other = heading[:start] + _SECOND[side] + heading[start + len(side) :]
        if other in plain:
            couples.append(((name, plain[other]), side in {"left", "first"}))
    return couples


def _use_couples(draft: Draft, couples: Sequence[tuple[tuple[str, str], bool]]) -> None:
    """Use the columns of the methods; those of the sides are the methods', too, if there are no others."""
    named = [couple for couple, is_shown in couples if not is_shown]
    if len({tuple(draft.columns.codes(*couple)) for couple in named}) > 1:
        listed = and_list([" and ".join(couple) for couple in named])
        raise StudyError(f"the methods could be {listed}; rename one of them to method_a and method_b")
    if not named:
        _use_sides(draft, couples[0][0])
        return
    for heading, name in zip(named[0], METHODS, strict=True):
        draft.rename(heading, name)


def _use_sides(draft: Draft, couple: tuple[str, str]) -> None:
    """Take the columns of the sides for those of the methods, too."""
    left, right = couple
    frame = draft.frame.rename(columns={left: "left", right: "right"})
    draft.replace(frame.assign(method_a=frame["left"], method_b=frame["right"]))
    draft.record("methods", f"{left}, {right}", "the sides as shown")


def _won_and_lost(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the headings of the method that won and of the one that lost, the longest ones."""
    plain = {plain_heading(name): name for name in names}
    matches = [
        (heading, heading.replace(won, lost, 1))
        for won, lost in HEADINGS["won_and_lost"]
        for heading in plain
        if won in heading and _ABOUT_METHODS.fullmatch(heading.replace(won, "", 1))
    ]
    matches = [(won, lost) for won, lost in matches if lost in plain]
    if not matches:
        return None
    won, lost = max(matches, key=lambda match: len(match[0]))
    return plain[won], plain[lost]


def _use_won_and_lost(draft: Draft, won: str, lost: str) -> None:
    """Take the methods in alphabetical order, and the winner for the verdict."""
    texts = draft.columns.texts(won, lost).astype(object)
    is_first = (texts[won] < texts[lost]).to_numpy()
    draft.replace(
        draft.frame.drop(columns=[won, lost]).assign(
            method_a=texts[won].where(is_first, texts[lost]),
            method_b=texts[lost].where(is_first, texts[won]),
            verdict=texts[won],
        )
    )
    for role in ("methods", "verdict"):
        draft.record(role, f"{won}, {lost}", "the first won against the second")


def _join_items(draft: Draft) -> None:
    """Add what another file says of the item of each row."""
    items = draft.items
    holding = [name for name in draft.free() if set(draft.columns.values(name)) <= items.keys()]
    holding += ["pair_id"] if draft.has("pair_id") else []
    if not holding:
        return
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
    used = [name for name in holding[:1] if name != "pair_id"]
    draft.replace(draft.frame.drop(columns=used).assign(**new))


def refuse_texts(draft: Draft) -> None:
    """Refuse methods that are texts: long ones, or nearly all of them in one couple that a rater saw once.

    Raises:
        StudyError: They are.
    """
    if not draft.has(*METHODS) or "method_a" in draft.declared.columns:
        return
    couples = draft.columns.texts(*METHODS).drop_duplicates()
    counts = Counter(text for name in METHODS for text in couples[name].dropna())
    once = sum(count == 1 for count in counts.values())
    long = sum(len(text) > LONGEST_NAME or len(text.split()) > MOST_WORDS for text in counts)
    keys = [*METHODS, *(name for name in ("rater", "criterion") if draft.has(name))]
    is_seen_once = not draft.has("rater") or draft.columns.count(*keys) == len(draft.frame)
    are_items = len(couples) >= FEWEST_COUPLES and is_seen_once and once >= MOSTLY_ONCE * len(counts)
    if are_items or long >= max(1, MOSTLY_ONCE * len(counts)):
        headings = [role.column for role in draft.roles if role.role in {*METHODS, "methods"}]
        why = f"{once} of {len(counts)} occur in one pair" if are_items else "they are long"
        raise StudyError(
            f"{' and '.join(headings) or 'method_a and method_b'}: nearly every cell differs, so these are "
            f"texts ({why}); add columns method_a and method_b with the names of the methods. If these are "
            "names: --set columns.method_a=HEADING --set columns.method_b=HEADING"
        )


def find_verdicts(draft: Draft) -> list[str]:
    """Find the verdicts: a column, one for each winner, or counts of wins. Return those of a wide table.

    Raises:
        StudyError: Two columns can be the verdict.
    """
    if "headings" in draft.declared.columns:
        return columns_of_verdicts(draft)
    wide: list[str] = []
    named = [name for name in draft.columns.named("verdict") if name in draft.free()]
    if not draft.has("verdict") and (named or not _use_marks(draft)):
        if any(not _agree(draft, named[0], name) for name in named[1:]):
            raise StudyError(f"verdict could be {and_list(named)}; rename the column that is it to verdict")
        holding = columns_of_verdicts(draft) if not named else []
        is_single = len(holding) == 1 and not _RATER.fullmatch(holding[0])
        if named:
            draft.rename(named[0], "verdict")
            draft.unused += named[1:]
            draft.replace(draft.frame.drop(columns=named[1:]))
        elif is_single and draft.has("criterion") == draft.has("rater"):
            draft.rename(holding[0], "verdict", "its cells are verdicts")
        else:
            wide = holding
    _use_tie_flags(draft)
    return wide


def _agree(draft: Draft, *names: str) -> bool:
    """Return whether two columns have the same verdict in every row, in other words or by name."""
    if not draft.has(*METHODS):
        return False

    def winner(word: str | None, a: str | None, b: str | None) -> str | None:
        known = None if word is None or word in {a, b} else meaning(word)
        return word if known is None else {A: a, TIED: TIE, B: b}[known.side]

    rows = distinct_rows(draft.columns.texts(*names, *METHODS), [*names, *METHODS])[1]
    return all(winner(first, a, b) == winner(second, a, b) for first, second, a, b in rows)


def _use_marks(draft: Draft) -> bool:
    """Read columns that each stand for a verdict, with 1 or a number of wins: winner_model_a, A_wins, win1.

    Among zeros and ones a row of zeros is a tie. Each counted win is of a pair of its own if no two rows
    count the same comparison. Otherwise a row may be an item, and each of its wins is by another rater.
    """
    words: dict[str, str] = {}
    counting = []
    counted = set(HEADINGS["counting"])
    for name in draft.free():
        parts = re.findall("[a-z]+|[0-9]+", name.casefold())
        word = " ".join(part for part in parts if part not in [*counted, *HEADINGS["marking"]])
        known = meaning(f"model {word}" if word in {"1", "2"} else word)
        is_tie = known is not None and known.side == TIED and draft.columns.is_number(name)
        is_counting = is_tie or not counted.isdisjoint(parts)
        if known and (is_counting or draft.columns.is_boolean(name)):
            words[name] = f"model {word}" if word in {"1", "2"} else word
            counting += [name] if is_counting else []
    sides = [known.side for word in words.values() if (known := meaning(word)) and known.side != TIED]
    if sorted(sides) != [B, A]:
        return False
    listed = and_list(list(words))
    counts = pd.DataFrame({name: _as_counts(draft.columns, name) for name in words})
    is_filled = counts.notna().any(axis=1)
    counts = counts.fillna(0).astype(int)
    total = counts.sum(axis=1)
    if (total > 1).any():
        if len(counting) < len(words) or not draft.has(*METHODS):
            raise StudyError(f"more than one of {listed} is 1 in a row; mark one winner in each")
        _repeat_rows(draft, counts, words)
        return True
    verdict = counts.idxmax(axis=1).map(words).where(total > 0, TIE).where(is_filled)
    if ties := int((is_filled & (total == 0)).sum()):
        draft.notes.append(f"{ties} rows in which none of {listed} is 1 are read as ties")
    draft.replace(draft.frame.drop(columns=list(words)).assign(verdict=verdict))
    draft.record("verdict", ", ".join(words), "one of them is 1 in each row")
    return True


def _as_counts(columns: Columns, name: str) -> pd.Series:
    """Return the cells of a column as whole numbers: 0 or 1 for no and yes, NaN for an empty cell."""
    texts = columns.texts(name)[name].astype(object).str.strip().str.casefold()
    numbers = pd.to_numeric(texts.mask(texts.isin(YES), "1").mask(texts.isin(NO), "0"), errors="coerce")
    if (numbers.isna() & texts.notna()).any() or (numbers < 0).any() or (numbers % 1 > 0).any():
        raise StudyError(f"{name} counts wins, and a cell is no whole number; write 0, 1, 2, …")
    return numbers


def _repeat_rows(draft: Draft, counts: pd.DataFrame, words: Mapping[str, str]) -> None:
    """Turn counts of wins into rows, one a win."""
    rows = draft.frame.drop(columns=list(words))
    are_items = int(pair_codes(draft.columns).max(initial=-1)) + 1 < len(rows)
    if are_items and not draft.has("pair_id"):
        rows = rows.assign(pair_id=[str(number) for number in range(1, len(rows) + 1)])
    wins = [rows.loc[rows.index.repeat(counts[name])].assign(verdict=word) for name, word in words.items()]
    long = pd.concat(wins).sort_index(kind="stable")
    if are_items and not draft.has("rater"):
        long["rater"] = [f"{UNKNOWN_RATER} {number + 1}" for number in long.groupby(level=0).cumcount()]
    draft.replace(long)
    each = "by another, unnamed rater of the row's pair" if are_items else "of a pair of its own"
    draft.record("verdict", ", ".join(words), f"they count wins, and each win is {each}")


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
            draft.frame.drop(columns=name).assign(
                verdict=verdict.mask(_as_counts(draft.columns, name) == 1, TIE)
            )
        )
        draft.record("verdict", name, "it marks ties")


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
    known = {*methods, *draft.declared.words}
    words = {text for text in filled if text.strip() in known or meaning(text)}
    return are_methods or sum(filled[text] for text in words) >= MOSTLY * sum(filled.values())


def _split_headings(draft: Draft, names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return what the headings of a wide table are, by role.

    Raises:
        StudyError: It is not clear.
    """
    heads = draft.declared.columns.get("headings", "")
    matches = [_RATER.fullmatch(name) for name in names]
    missing = [name for name in ("criterion", "rater") if not draft.has(name)]
    if heads:
        return {heads: names}
    if all(matches) and "rater" in missing:
        known = [match for match in matches if match]
        raters, criteria = ([match[name] or "" for match in known] for name in ("rater", "criterion"))
        if len(set(raters)) == 1 or not all(criteria):
            return {"rater": names}
        split = {"rater": [rater.strip(" _") for rater in raters]}
        is_plain = {plain_heading(name) for name in criteria} <= {"verdict", *NAMES["verdict"]}
        return split if is_plain else {**split, "criterion": criteria}
    if len(missing) == 1 and draft.has(*METHODS):
        return {missing[0]: names}
    raise StudyError(_survey_problem(draft, names))


def melt(draft: Draft, names: Sequence[str]) -> None:
    """Turn a wide table long.

    Args:
        draft: The table.
        names: The columns of verdicts.

    Raises:
        StudyError: It is not clear what a heading is.
    """
    if not names:
        raise StudyError(
            "no column has verdicts under its heading; declare the words: --set 'verdicts.\"WORD\"=a'"
        )
    split = _split_headings(draft, names)
    if taken := [name for name in ("verdict", *split) if draft.has(name)]:
        raise StudyError(f"the headings are not {taken[0]}: there is a column {taken[0]}; drop one of them")
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
    if sided and named and not draft.declared.words:
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
