"""Preview the requests of a judge's run: their server and cost. No connection and no key is needed."""

from collections.abc import Mapping, Sequence

from guard_eval.records import record
from guard_eval.servers.failures import SAMPLES
from guard_eval.servers.form import PATHS
from guard_eval.servers.price import REMEDY, Price, find_price, format_usd
from guard_eval.servers.server import find_key_variable, find_server_url
from guard_eval.store import Store
from guard_eval.store.judging import requests, usage
from guard_eval.store.judging.requests import Attempt, Question
from guard_eval.store.schema import SqlRow
from guard_eval.study.judge_settings import Judge
from judge.decide import REASONING_TOKENS, Send
from judge.prompts.forms import format_request
from judge.prompts.prompt import compare_prompt_with_paper, make_prompt
from judge.questions import (
    RequestBuilder,
    check_criteria_unchanged,
    describe_setting_changes,
    refuse_examples_from_study,
)

ONLINE, IN_BATCH = "online", "in a batch"
BYTES_PER_TOKEN = 4
TOKENS_PER_CRITERION, TOKENS_OF_BRACES, TOKENS_OF_RATIONALE = 8, 4, 90
TOKENS_OF_REASONING = 1000
"""The assumed number of reasoning tokens in an answer, until there are real answers."""


@record
class Preview:
    """The preview of a judge's run.

    Attributes:
        judge: The study's settings for the judge.
        questions: The questions without a verdict.
        attempts: For a recheck, the stored requests to send again.
        open: The number of earlier requests that have no answer yet. Most of these requests are in batches.
        requests: The number of requests to pay for if every answer is readable.
        price: The price of the judge's tokens, if the price is known.
        costs: The expected and the worst cost in US dollars, online and in a batch, with or without
            reasoning. The expected cost has the tokens of earlier answers, or assumed numbers of tokens. The
            worst cost has one token for each byte, the longest answers, and three samples.
        lines: The preview in words.
        warnings: Problems that the user should know before the run.
        example: The first request in full; None if there is no open question.
    """

    judge: Judge
    questions: Sequence[Question] = ()
    attempts: Sequence[Attempt] = ()
    open: int = 0
    requests: int
    price: Price | None
    costs: Mapping[str, tuple[float, float]]
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    example: str | None = None

    @property
    def name(self) -> str:
        """The judge's name as a rater."""
        return self.judge.rater_name

    def to_json(self) -> dict[str, object]:
        """Return the preview as the JSON object that `--json` prints."""
        return {
            "judge": self.name,
            "model": self.judge.model,
            "server": find_server_url(self.judge),
            "requests": self.requests,
            "usd": self.costs,
        }

    def make_cost_rows(self) -> list[tuple[str, str, str]]:
        """Return table rows with the expected and the worst cost, online and in a batch."""
        if not self.requests or self.price is None or self.price.assumed:
            return []
        return [
            (f"{self.name}, {way}", format_usd(usd), format_usd(top))
            for way, (usd, top) in self.costs.items()
        ]


def preview_judge(store: Store, judge: Judge, questions: Sequence[Question], *, seed: int) -> Preview:
    """Preview the requests that ask a judge these questions, with the cost.

    Raises:
        StudyError: The judge cannot be asked with these settings.
    """
    refuse_examples_from_study(store, judge)
    check_criteria_unchanged(store, judge)
    url = find_server_url(judge)
    variable = find_key_variable(judge)
    price = find_price(judge, url)
    with store.begin_read() as db:
        spent = next((row for row in usage.read_spending(db) if row.judge == judge.rater_name), None)
        in_batches = set(requests.KEYS_IN_BATCHES(db, judge=judge.rater_name).scalars())
    builder = RequestBuilder(judge, seed=seed)
    run = builder.make_initial_run_state(store)
    bodies = []
    for question, step, _ in builder.replay_stored_answers(store, questions, run):
        if not isinstance(step, Send):
            continue
        about = question, step.form, step.sample
        if builder.make_request_key(*about) not in in_batches:
            bodies.append(builder.build_request_body(*about, max_output_tokens=run.max_output_tokens))
    sizes = [len(body) for body in bodies]
    longest = judge.max_output_tokens or REASONING_TOKENS
    has_reasoning = run.max_output_tokens == REASONING_TOKENS
    may_reason = judge.max_output_tokens is None and not has_reasoning
    if_it_reasons = ", if the model reasons" if may_reason else ""
    lines = [
        f"judge: {judge.rater_name} (the model {judge.model}) at {url} (prompt {make_prompt(judge).version})",
        f"criteria: {', '.join(judge.criteria)}",
        f"key: {'none is sent' if variable is None else f'the value of {variable}, if it is set'}",
        f"requests to send: {len(sizes):,}",
        f"prompt tokens: at most {sum(sizes):,} (counted as UTF-8 bytes; the model counts fewer)",
        f"answer tokens: at most {len(sizes) * longest:,} ({longest:,} each{if_it_reasons})",
        f"price: {f'unknown; {REMEDY}' if price is None else price}",
    ]
    if special := compare_prompt_with_paper(judge):
        lines.append(f"asked with {special}")
    if len(sizes) < len(questions):
        lines.append(f"{len(questions) - len(sizes):,} questions are answered or in a batch already")
    costs = {}
    if price is not None:
        costs = _estimate_request_costs(price, judge, sizes, spent, has_reasoning=has_reasoning)
        if may_reason:
            reasoning = _estimate_request_costs(price, judge, sizes, None, has_reasoning=True)
            costs |= {f"{way}{if_it_reasons}": usd for way, usd in reasoning.items()}
    warnings = []
    if changes := describe_setting_changes(store, judge):
        warnings.append(
            f"{judge.rater_name} has verdicts with other settings ({'; '.join(changes)}). These verdicts are "
            "kept. Undo the change in study.toml, or give the judge a new name there "
            '(name = "…"). A judge with a new name judges all pairs again'
        )
    example = f"[POST {PATHS[run.form.interface]}]\n{format_request(bodies[0])}" if bodies else None
    return Preview(
        judge=judge,
        questions=questions,
        open=spent.open if spent else 0,
        requests=len(sizes),
        price=price,
        costs=costs,
        lines=tuple(lines),
        warnings=tuple(warnings),
        example=example,
    )


def _estimate_request_costs(
    price: Price, judge: Judge, request_sizes: Sequence[int], spent: SqlRow | None, *, has_reasoning: bool
) -> dict[str, tuple[float, float]]:
    """Estimate the expected and the worst cost of requests of these sizes (in bytes), online and batched."""
    longest = judge.max_output_tokens or REASONING_TOKENS
    if spent is not None and spent.answers and spent.input_tokens:
        prompt = round(spent.input_tokens / spent.answers)
        answer = round(spent.output_tokens / spent.answers)
    else:
        prompt = round(sum(request_sizes) / BYTES_PER_TOKEN / max(len(request_sizes), 1))
        answer = TOKENS_OF_BRACES + TOKENS_PER_CRITERION * len(judge.criteria)
        answer += TOKENS_OF_RATIONALE * judge.rationale
        answer += TOKENS_OF_REASONING * has_reasoning
    costs = {}
    for way, batch in ((ONLINE, False), (IN_BATCH, True)):
        expected = len(request_sizes) * price.price_tokens(prompt, answer, batch=batch)
        worst = sum(price.price_tokens(size, longest, batch=batch) for size in request_sizes)
        costs[way] = (expected, SAMPLES * worst)
    return costs
