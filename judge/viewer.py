"""Write all requests to a study's judges, with the answers, as one HTML page that names no method.

For each pair, a random text is called Text 1, because the order in the study would reveal the methods. Texts,
requests and answers are escaped on the page, and control characters are shown as codes.
"""

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pvariance

from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE_OF, TIE, Choice, JsonObject, Pair, make_content_id
from guard_eval.reporting.escaping import Escaped, escape_invisible_characters
from guard_eval.reporting.rendering import render
from guard_eval.reporting.writing import check_replaceable, write_atomically
from guard_eval.servers.answers import read_answer
from guard_eval.servers.price import format_usd
from guard_eval.store import Store, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store.judging import requests
from guard_eval.store.judging.requests import Attempt
from guard_eval.store.schema import split_into_sql_chunks
from guard_eval.study.judge_settings import Judge
from judge.prompts.forms import format_request


def write_judge_exchanges_page(
    store: Store, judges: Iterable[Judge], path: Path, *, seed: int, only_judges: set[str] | None = None
) -> int:
    """Write the page of exchanges with all judges, or with the judges in `only_judges`; return their number.

    Raises:
        StudyError: There is nothing to show, or the file cannot be written.
    """
    if path.is_dir():
        raise StudyError(f"{path} is a folder; name the file to write, such as {path / 'exchanges.html'}")
    titles = {criterion.name: criterion.title for judge in judges for criterion in judge.rubric}
    comparisons = list(read_judged_comparisons(store, seed=seed, only_judges=only_judges))
    if not comparisons:
        missing_judges = " and ".join(map(repr, sorted(only_judges or ()))) or "a judge"
        raise StudyError(
            f"no request about a pair of the study was sent to {missing_judges} yet; run: guard-eval judge "
            "STUDY"
        )
    script = Path(__file__).with_name("view.js").read_text("utf-8")
    page = render(
        __file__,
        "view.html",
        title="What the judges were asked and answered",
        script=Escaped(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        own_style=Escaped(Path(__file__).with_name("view.css").read_text("utf-8")),
        comparisons=comparisons,
        criteria=titles,
        visible=escape_invisible_characters,
        format_request=format_request,
        format_answer=format_answer,
        format_usd=format_usd,
    )
    check_replaceable(path, page.partition("\n")[0])
    write_atomically(path, page.encode("utf-8", "replace"))
    return sum(len(comparison["orders"]) for comparison in comparisons)


_Groups = dict[tuple[str, str, int], dict[int, list[Attempt]]]
"""Requests by comparison (id of the pair, judge and sample), and then by number of the question."""


def read_judged_comparisons(
    store: Store, *, seed: int, only_judges: set[str] | None = None
) -> Iterator[JsonObject]:
    """Yield the values that the page shows for each pair, judge and sample."""
    choices: dict[tuple[str, str, int], dict[str, Choice]] = defaultdict(dict)
    votes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in unblind.read_tidy_rows(store, include_excluded=True):
        choices[row.pair_id, row.rater, row.slot][row.criterion] = row.position
        if row.rater_kind not in PEOPLE_OF and not row.excluded:
            side = {row.method_a: "a", row.method_b: "b"}.get(row.verdict, TIE)
            votes[row.pair_id][row.criterion].append(side)
    for some_pairs in split_into_sql_chunks(store_pairs.read_pairs(store)):
        pairs_by_id = {pair.id: pair for pair in some_pairs}
        groups = _group_attempts_by_comparison(store, pairs_by_id, only_judges)
        for (pair_id, judge, sample), orders in groups.items():
            pair = pairs_by_id[pair_id]
            drawn = "ba" if int(make_content_id(seed, "view", pair.id), 16) % 2 else "ab"
            names = {drawn[0]: "text 1", drawn[1]: "text 2"}
            described = [
                _describe_judgment_in_order(attempts, choices[pair.id, judge, number], names)
                for number, attempts in orders.items()
            ]
            verdicts = [order["better"] for order in described]
            people = {
                name: [names.get(vote, vote) for vote in sides] for name, sides in votes[pair.id].items()
            }
            texts = {"a": pair.text_a, "b": pair.text_b}
            yield {
                "id": pair.id,
                "judge": judge,
                "sample": sample,
                "source": f"{pair.dataset}, prompt {pair.prompt_id}",
                "prompt": pair.prompt,
                "texts": [texts[side] for side in drawn],
                "orders": sorted(described, key=lambda order: str(order["first"])),
                "flip": _compare_verdicts_between_orders(verdicts),
                **_compare_votes_with_judge(people, verdicts),
            }


def _group_attempts_by_comparison(
    store: Store, pairs: Mapping[str, Pair], only_judges: set[str] | None
) -> _Groups:
    """Return the requests about these pairs to all judges, or only to the judges in `only_judges`.

    They are sorted by the position of the pair, and then by judge and question.
    """
    with store.begin_read() as db:
        attempts = requests.read_requests_about_pairs(db, list(pairs))
    attempts.sort(key=lambda a: (pairs[a.question.pair_id].position, a.judge, a.question.number))
    groups: _Groups = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        if only_judges is None or attempt.judge in only_judges:
            question = attempt.question
            groups[question.pair_id, attempt.judge, question.number // 2][question.number].append(attempt)
    return groups


def _compare_votes_with_judge(
    votes: Mapping[str, Sequence[str]], verdicts: Sequence[Mapping[str, str]]
) -> dict[str, object]:
    """Return the votes of people on each criterion, and two measures of disagreement.

    A vote for text 1 counts 1, a vote for text 2 counts −1, and a tie counts 0. `apart` is the largest
    difference between the mean votes of people and judge on a criterion. `split` is the largest variance of
    people's votes.
    """
    sides = {"text 1": 1, "tie": 0, "text 2": -1}
    apart = [0.0]
    split = [0.0]
    for name, texts in votes.items():
        people = [sides[text] for text in texts]
        judged = [sides[verdict[name]] for verdict in verdicts if name in verdict]
        split.append(pvariance(people))
        if judged:
            apart.append(abs(fmean(people) - fmean(judged)))
    counts = {name: Counter(texts) for name, texts in votes.items()}
    return {"people": counts, "apart": max(apart), "split": max(split)}


def _compare_verdicts_between_orders(verdicts: Sequence[Mapping[str, str]]) -> str:
    """Return `same` or `flip` if both orders have equal or different verdicts, otherwise `one`."""
    if len(verdicts) != 2 or not all(verdicts):
        return "one"
    return "same" if verdicts[0] == verdicts[1] else "flip"


def _describe_judgment_in_order(
    attempts: Sequence[Attempt], choices: Mapping[str, Choice], text_names: Mapping[str, str]
) -> JsonObject:
    sides = "ab" if attempts[0].question.first == "a" else "ba"
    first, second = (text_names[side] for side in sides)
    letters = {"A": first, "B": second, "tie": "tie"}
    return {
        "first": first,
        "second": second,
        "better": {name: letters[choice] for name, choice in choices.items()},
        "verdict": "; ".join(f"{name}: {choice} ({letters[choice]})" for name, choice in choices.items()),
        "failure": None if choices else attempts[-1].failure,
        "attempts": attempts,
    }


def format_answer(attempt: Attempt) -> str:
    """Return the text of an answer, or an empty text if there is no answer that can be read."""
    answer = read_answer(attempt.response or b"")
    return "" if answer is None else answer.refusal or answer.text or ""
