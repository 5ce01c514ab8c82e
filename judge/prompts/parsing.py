"""Read the verdict in a judge's answer, or the reason why there is no verdict.

A verdict is read only from an answer that is one JSON object, or from a verdict block with the comparison's
code. A verdict is never read from prose, from reasoning, or from JSON inside other text. A failure never
counts as a verdict or a tie.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from guard_eval.records import CHOICES, Choice, JsonObject
from guard_eval.rubric import remove_case_and_punctuation
from guard_eval.servers.answers import (
    get_object_or_empty,
    read_answer,
    read_json_object,
    remove_thinking,
    shorten,
)
from guard_eval.servers.failures import FailureKind, RequestFailure
from judge.prompts.prompt import RATIONALE
from judge.prompts.sanitize import CONTROL_TOKEN

Choices = dict[str, Choice]
"""A verdict: the choice A, tie or B for each criterion, by the criterion's name."""

_DECORATION = " \t*_`'\"“”[]()."
_BULLET = re.compile(r"^[\s>#*•–-]*(?:\d+[.)]\s*)?")
_REASONS = re.compile(
    r"\s+(?:because|since|as|but|though|although|while|yet|or|and)\b.*|\s*[;,:(/|–—].*|\.\s.*|\s-\s.*",
    re.DOTALL | re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\W*(?:because|since|as|reason\w*|rationale|explanation|justification|comments?|notes?|why)\b",
    re.IGNORECASE,
)
_CLAIM = re.compile(
    r"\b(?:better|best|superior|stronger|wins?|prefer\w*|ahead|tied?|equal|similar|but|however|although|though"
    r"|yet|still|overall|actually|rather|instead|finally|or)\b",
    re.IGNORECASE,
)
_SIDE = re.compile(
    r"\bA\b|(?i:\b(?:b|first|second|former|latter|other|both|ties?|tied|draw|equal(?:ly)?|similar(?:ly)?|same"
    r"|alike)\b)"
)
_DENIED = re.compile(r"\A\W*(?:no|not|nope|wrong|never)(?:\s+(?:really|at all))?\W*\Z", re.IGNORECASE)
"""Matches a text that denies the judgment before this text, such as "not really"."""

_OVERALL = re.compile(
    r"\W*(?:in (?:summary|total|conclusion|short)|all in all|(?:(?:final|overall)\b\W*)*"
    r"(?:summary|conclusion|verdict|judge?ment|winner|result|decision|answer|preference|assessment|evaluation"
    r"|rating|choice|score|total)|final|overall)\b\W*|(?=.*\boverall\W*\Z)",
    re.IGNORECASE,
)
"""Matches the beginning of an overall judgment, such as "In summary:", or a line that ends with "overall"."""

_NAMED_SIDE = re.compile(r"\b(?:(?i:method)\s+([abAB])|([AB]))\b")
_TOLD_SIDE = re.compile(r"\b(?:first|second|former|latter|other|one)\b", re.IGNORECASE)

_JUDGMENTS: dict[str, Choice] = {
    **dict.fromkeys(("method a is better", "a is better", "method a", "a"), "A"),
    **dict.fromkeys(("method b is better", "b is better", "method b", "b"), "B"),
    **dict.fromkeys(
        ("both methods are similar", "both are similar", "similar", "both", "tie", "equal"), "tie"
    ),
}


def read_verdict_block(
    content: str, criteria: Sequence[str], tag_code: str, criterion_titles: Mapping[str, str]
) -> dict[str, Choice] | None:
    r"""Return the verdict in an answer's verdict blocks, or None without one clear choice for each criterion.

    Args:
        content: The model's answer.
        criteria: The names of the criteria. Lines about other criteria are not read.
        tag_code: The code that the tags must contain.
        criterion_titles: The titles of criteria in a block, by name. By default, the title is the name.

    >>> read_verdict_block("<verdict-1f>\nFluency: Method A is better\n</verdict-1f>", ["fluency"], "1f", {})
    {'fluency': 'A'}
    """
    result: dict[str, Choice] = {}
    tag = _make_tag_pattern("verdict", tag_code)
    for following in re.split(rf"<\s*{tag}", content, flags=re.IGNORECASE)[1:]:
        inside = re.split(rf"<\s*/\s*(?:{tag}|verdict\s*>)", following, maxsplit=1, flags=re.IGNORECASE)[0]
        for name, words in _read_criterion_judgments(inside, criteria, criterion_titles):
            if not words.strip(_DECORATION + "…"):
                continue  # the empty block, copied
            choice = _read_choice_in_line(words)
            if choice is None or result.setdefault(name, choice) != choice:
                return None  # it says nothing, or two things
    return {name: result[name] for name in criteria} if len(result) == len(set(criteria)) else None


def _make_tag_pattern(name: str, code: str) -> str:
    """Return a pattern for a tag such as `verdict-1f>`. Further digits of the code may follow the code."""
    return rf"{name}-{re.escape(code)}[0-9a-f]*\s*>"


def _read_criterion_judgments(
    block: str, criteria: Sequence[str], criterion_titles: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each criterion with the judgment: the text after the name, and the lines below."""
    names_by_label = {
        remove_case_and_punctuation(alias): name
        for name in criteria
        for alias in (name, criterion_titles.get(name, name))
    }
    result: list[tuple[str, str]] = []
    adds = False
    for line in block.splitlines():
        label, colon, judgment = _BULLET.sub("", line).partition(":")
        name = names_by_label.get(remove_case_and_punctuation(label))
        if name is not None and colon:
            result.append((name, judgment))
        elif adds and _is_overall_judgment(line, result, criteria):
            adds = False
            continue
        elif line.strip(_DECORATION) and adds:
            result[-1] = (result[-1][0], f"{result[-1][1].rstrip()}; {line.strip()}")
        adds = bool(result) and bool(line.strip())
    yield from result


def _is_overall_judgment(line: str, judgments: Sequence[tuple[str, str]], criteria: Sequence[str]) -> bool:
    """Return whether a line after the last criterion is an overall judgment that contradicts no criterion.

    The line says that both texts are similar, or names only texts that are better on some criterion.
    """
    overall = _OVERALL.match(line)
    if overall is None or {name for name, _ in judgments} != set(criteria):
        return False
    words = line[overall.end() :]
    choice = _read_choice_in_line(words)
    preferred = {_read_choice_in_line(judgment) for _, judgment in judgments}
    if choice is not None:
        return choice == "tie" or choice in preferred
    sides = {(first or second).upper() for first, second in _NAMED_SIDE.findall(words)}
    return sides <= preferred and not _TOLD_SIDE.search(words)


def _read_choice_in_line(line: str) -> Choice | None:
    """Return the choice that a line states, or None if the line states no choice or several choices."""
    words = " ".join(line.split()).strip(_DECORATION)
    if (choice := _JUDGMENTS.get(words.casefold())) is not None:
        return choice
    reasons = _REASONS.search(words)
    head = words if reasons is None else words[: reasons.start()]
    choice = _JUDGMENTS.get(head.strip(_DECORATION).casefold())
    if choice is None or reasons is None:
        return None
    reason = reasons.group()
    doubtful = (
        _DENIED.search(reason) or _CLAIM.search(reason) or (_SIDE.search(reason) and not _CAUSE.match(reason))
    )
    return None if doubtful else choice


_FENCE = re.compile(r"\A```\w*[^\S\n]*\n(?P<json>.*)\n[^\S\n]*```\Z", re.DOTALL | re.IGNORECASE)


def parse_response(
    body: bytes,
    criteria: Sequence[str],
    *,
    tag_code: str | None = None,
    criterion_titles: Mapping[str, str] | None = None,
) -> Choices | RequestFailure:
    """Return the verdict in an answer, or the failure if there is no verdict. A rationale is ignored.

    Args:
        body: The bytes of a response with HTTP status 200, or a line of a batch's results.
        criteria: The names of the criteria. Other fields are not read.
        tag_code: The code that a verdict block must contain; None if no block is possible.
        criterion_titles: The titles of criteria in a block, by name. By default, the title is the name.
    """
    answer = read_answer(body)
    if answer is None:
        error = get_object_or_empty(read_json_object(body).get("error"))
        withheld = error.get("message")  # the model's own text is not JSON
        words = str(withheld or body.decode(errors="replace"))
        return _fail("unparseable" if withheld else "unreadable", "no answer", words)
    if answer.ended == "content_filter":
        return RequestFailure(kind="content_filter", detail="the server's content filter withheld the answer")
    if answer.refusal:
        return RequestFailure(kind="refusal", detail=shorten(answer.refusal))
    if answer.ended == "length":
        return RequestFailure(kind="truncated", detail="the answer ended at max_output_tokens")
    if answer.text is None:
        return RequestFailure(kind="unparseable", detail="the answer has no text")
    return _read_choices(answer.text, criteria, tag_code, criterion_titles or {})


def _read_choices(
    content: str, criteria: Sequence[str], tag_code: str | None, criterion_titles: Mapping[str, str]
) -> Choices | RequestFailure:
    fields = _parse_json_object(content)  # a whole object: what looks like a tag is in one of its strings
    if fields is None:
        answer = read_final_answer(content)
        if answer is None:
            return _fail("unparseable", "the thinking never ends", content)
        if tag_code is not None and re.search(
            rf"<\s*{_make_tag_pattern('verdict', tag_code)}", answer, re.IGNORECASE
        ):
            # what follows the end of a rationale is read like the rest of the answer, whose blocks must all
            # agree: so a block that a rationale quotes can spoil the verdict, and never make one
            tag = _make_tag_pattern(RATIONALE, tag_code)
            verdict = re.sub(rf"(?is)<\s*{tag}.*?(?:<\s*/\s*{tag}|\Z)", "", answer, count=1)
            block = read_verdict_block(verdict, criteria, tag_code, criterion_titles)
            return block or _fail("wrong_schema", "not one judgment for each criterion", content)
        fields = _parse_json_object(answer)
    if fields is None:
        return _fail("unparseable", "not one JSON object", content)
    choices: JsonObject = {name: fields.get(name) for name in criteria}
    if any(choice not in CHOICES for choice in choices.values()):
        return _fail("wrong_schema", "a criterion has no choice", content)
    plain = {remove_case_and_punctuation(name): choice for name, choice in choices.items()}
    if any(plain.get(remove_case_and_punctuation(other), value) != value for other, value in fields.items()):
        return _fail("wrong_schema", "two judgments on one criterion", content)
    return choices


def _fail(kind: FailureKind, problem: str, content: str) -> RequestFailure:
    return RequestFailure(kind=kind, detail=f"{problem}: {shorten(content)}")


def _parse_json_object(text: str) -> JsonObject | None:
    """Return the fields of a text that is exactly one JSON object, or None for other texts."""
    fenced = _FENCE.match(text.strip())
    try:
        fields = json.loads(
            fenced["json"] if fenced else text, object_pairs_hook=_reject_repeated_json_fields
        )
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _reject_repeated_json_fields(pairs: list[tuple[str, object]]) -> JsonObject:
    """Return the fields of a JSON object, or an empty dict if a field occurs twice."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else {}


# The final words of an answer, without thinking and control tokens.

_TURN = re.compile(
    r"\A\s*<\|start\|>assistant"
    r"|<\|?/?(?:s|bos|eos|pad|(?:begin|start|end)_?of_?(?:text|turn|sentence|message)|im_start|im_end|endoftext"
    r"|eot_id|eom_id|start|end|return|assistant)\|?>(?:assistant\b|model\b)?",
    re.IGNORECASE,
)
"""Matches control tokens at the beginning or end of a turn. Some servers do not remove these tokens."""
_WRAPPER = r"box|answer|response|solution|output|final(?:[_ ](?:answer|response))?"
_OPENS_ANSWER = re.compile(
    rf"<\|?(?:(?:begin|start)_(?:of_)?)?(?:{_WRAPPER})\|?>|\[BEGIN (?:{_WRAPPER})\]|<\|START_TEXT\|>",
    re.IGNORECASE,
)
_CLOSES_ANSWER = re.compile(
    rf"(?:</(?:{_WRAPPER})>|<\|end_(?:of_)?(?:{_WRAPPER}|text)\|>|\[END (?:{_WRAPPER})\])\s*\Z",
    re.IGNORECASE,
)
"""Matches the control token or tag at the end of an answer, such as `</answer>` or `<|end_of_box|>`."""


def read_final_answer(content: str) -> str | None:
    """Return an answer without the model's thinking and control tokens, or None if the thinking never ends.

    Known control tokens enclose the final answer. Other control tokens may enclose thinking, so the final
    answer is the text after the last control token.

    >>> read_final_answer("<unused94>thought B is better<unused95>A")
    'A'
    >>> read_final_answer("A text: <answer>A</answer>")
    'A'
    """
    reply = remove_thinking(content)
    if reply is None:
        return None
    answer = _TURN.sub("", reply).strip()
    for opening in list(_OPENS_ANSWER.finditer(answer))[-1:]:
        inside = _CLOSES_ANSWER.sub("", answer[opening.end() :])
        if not CONTROL_TOKEN.search(inside):
            return inside.strip()
    tokens = list(CONTROL_TOKEN.finditer(answer))
    if not tokens:
        return answer
    return None if tokens[-1].start() == 0 else answer[tokens[-1].end() :].strip()
