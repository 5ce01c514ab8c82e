"""`guard-eval judge`: language models as raters."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from guard_eval import progress
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import FailureCount, JudgeSpending
from guard_eval.reporting.escaping import visible
from guard_eval.reporting.tables import Table
from guard_eval.results import Result
from guard_eval.store import Store, pairs, requests
from guard_eval.study import Study
from guard_eval.study.judge_settings import Judge
from judge.calibration import read_unanswered
from judge.preview import Preview, preview_judge, show_costs
from judge.price import KEYS, show_usd
from judge.questions import read_left
from judge.server import Server, connect_to, may_send_keys, parse_send_key
from judge.viewer import write_page

WITH_FAILURES = 3
"""The exit code if all judges came to the end, and some questions have no verdict."""

_REASONS = 5
"""So many reasons of one kind of failure are printed."""

_REMEDIES = {
    "timeout": " (they may have been charged; set a longer timeout in study.toml, and they are asked again)",
    "truncated": " (set a higher max_output_tokens in study.toml, and they are asked again)",
    "too_long": " (the texts do not fit the model's context; name another model)",
}
_VARIES = re.compile(r"\d+(?:[.,:]\d+)*|\b(?=\w*\d)[\w-]{8,}")


def count_reasons(failures: Iterable[tuple[str, str, str]]) -> list[FailureCount]:
    """Return why questions have no verdict, by judge, the most frequent first.

    Sentences that differ in nothing but numbers, or in the name of a request, are one reason.

    Args:
        failures: Judge, kind and sentence of each.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str, str], str] = {}
    for judge, kind, detail in failures:
        key = judge, kind, _VARIES.sub("#", detail)
        examples.setdefault(key, detail)
        counts[key] += 1
    ordered = sorted(counts.items(), key=lambda each: (each[0][0], -each[1], each[0]))
    return [
        FailureCount(judge=key[0], kind=key[1], reason=examples[key], count=count) for key, count in ordered
    ]


@dataclass(frozen=True, kw_only=True)
class Judged(Result):
    """What the judges of a study were asked, or would be.

    Attributes:
        previews: What was left to ask of each judge, and its price.
        judges: What each judge has taken over all runs.
        failures: Why questions have no verdict to this day.
        page: The page of exchanges that was written.
    """

    previews: tuple[dict[str, object], ...] = ()
    judges: tuple[JudgeSpending, ...] = ()
    failures: tuple[FailureCount, ...] = ()
    page: Path | None = None


def judge(
    study: Study,
    /,
    *,
    dry_run: bool = False,
    yes: bool = False,
    budget: float | None = None,
    only: str | None = None,
    batch: bool = False,
    calibrate: bool = False,
    view: Path | None = None,
    send_key: Sequence[str] = (),
) -> Judged:
    """Let language models compare the pairs.

    Begin with --dry-run: it shows one request in full, and what all of them would cost. What is answered is
    stored and never paid for again, so a run can be stopped at any moment, and the same command goes on.

    A maker's own key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY) goes to that maker's server alone,
    and OpenAI's also to your own OPENAI_BASE_URL. Any other key goes where you say.

    Exit code 0: all is judged. 3: all was asked, and some pairs have no verdict. 2: an error that you can
    mend kept a judge from its end; the other judges were asked all the same.

    Args:
        study: The study's folder.
        dry_run: Print what would be sent and what it would cost; send nothing.
        yes: Do not ask before spending; for scripts.
        budget: What all judges of the study may cost together over all runs, in US dollars.
        only: Only the judge of this name, or of this model.
        batch: Ask by the Batch API, at half the price at OpenAI, and within a day.
        calibrate: Ask about pairs whose answer is known, made of the study's texts.
        view: Write all exchanges with judges as one HTML page to read and filter, and stop.
        send_key: Let a key go to a server that study.toml names: VARIABLE=https://host.

    Raises:
        StudyError: A judge could not be asked, or an option makes no sense.
    """
    if budget is not None and not 0 < budget < float("inf"):
        raise StudyError(f"--budget {budget:g} must be an amount above 0, in US dollars, such as --budget 20")
    judges = _choose(study, only)
    with Store.open(study.database, declared=study.declared) as store:
        if view is not None:
            name = None if only is None else judges[0].rater_name
            page = write_page(store, study.settings.judge, view, seed=study.settings.seed, only=name)
            return Judged(lines=(f"{view}: {page} exchanges; open it in a browser",), page=view)
        if not pairs.read(store):
            raise StudyError(f"{study.folder} has no pairs yet; run: {study.command('pair')}")
        asking = Asking(study, store, budget=budget, batch=batch, calibrate=calibrate, send_key=send_key)
        previews = asking.preview(judges)
        chosen = [*(("--only", only) if only is not None else ()), *(("--batch",) if batch else ())]
        chosen += [*(("--budget", f"{budget:g}") if budget is not None else ())]
        chosen += [*(("--calibrate",) if calibrate else ())]
        again = study.command("judge", *chosen, *(word for key in send_key for word in ("--send-key", key)))
        if dry_run:
            result = asking.show(previews, examples=True, next_command=again)
        elif find_spec("openai") is None:  # before a key is asked for
            raise MissingExtraError("judge", "openai")
        elif not asking.confirm(previews, yes=yes):
            result = asking.show(previews, examples=False, next_command=again)
        else:
            asking.run(previews)
            result = asking.summarize()
    if asking.errors:
        progress.show(result)
        raise asking.error()
    return result


def _choose(study: Study, only: str | None) -> list[Judge]:
    judges = [each for each in study.settings.judge if only in (None, each.model, each.rater_name)]
    if judges:
        return judges
    known = ", ".join(each.rater_name for each in study.settings.judge)
    if only and known:
        raise StudyError(f"the study has no judge {only!r}; it has: {known}")
    raise StudyError(f'{study.folder} has no judge; add to its study.toml: [[judge]] with model = "…"')


class Asking:
    """One call of the command.

    Attributes:
        errors: What kept judges from their end, by their names.
    """

    def __init__(
        self,
        study: Study,
        store: Store,
        *,
        budget: float | None,
        batch: bool,
        calibrate: bool,
        send_key: Sequence[str],
    ) -> None:
        self.errors: dict[str, StudyError] = {}
        self._study = study
        self._store = store
        self._seed = study.settings.seed
        self._budget = budget
        self._batch = batch
        self._calibrate = calibrate
        self._allowed = parse_send_key(send_key)
        self._failed: list[tuple[str, str, str]] = []
        self._lines: list[str] = []

    def preview(self, judges: Sequence[Judge]) -> list[tuple[Judge, Preview]]:
        """Return what would be asked of each judge that can be asked."""
        previews = []
        for each in judges:
            try:
                questions = self._questions(each)
                previews.append((each, preview_judge(self._store, each, questions, seed=self._seed)))
            except StudyError as error:
                self.errors[each.rater_name] = error
        return previews

    def _questions(self, judge: Judge) -> list[requests.Question]:
        read = read_unanswered if self._calibrate else read_left
        return read(self._store, judge, seed=self._seed)

    def show(self, previews: Sequence[tuple[Judge, Preview]], *, examples: bool, next_command: str) -> Judged:
        """Return the previews as a result."""
        shown = [each for _, each in previews]
        lines = [
            line
            for each in shown
            for line in (*each.lines, *(("nothing is left to ask",) if not each.requests else ()), "")
        ]
        first = next((each for each in shown if each.example), None)
        if examples and first is not None:
            lines += [f"The first request to {first.judge}, as it would be sent:", "", str(first.example), ""]
        rows = show_costs(shown)
        table = Table(columns=("cost", "expected", "at worst"), rows=tuple(rows), caption="")
        return Judged(
            lines=tuple(lines),
            tables=(table,) if rows else (),
            warnings=tuple(warning for each in shown for warning in each.warnings),
            next=(next_command,) if next_command else (),
            previews=tuple(_record(each) for each in shown),
        )

    def confirm(self, previews: Sequence[tuple[Judge, Preview]], *, yes: bool) -> bool:
        """Return whether the user agrees with what is to be sent, where to, and for how much.

        Raises:
            StudyError: Nobody is there to be asked.
        """
        asked = [(judge, each) for judge, each in previews if each.requests]
        servers = []
        for judge, each in asked:
            try:
                servers.append(self._connect(judge))
                _check_price(judge, each)
            except StudyError as error:
                self.errors[judge.rater_name] = error
        if not may_send_keys(servers, self._allowed):
            return False
        if yes or not asked or len(self.errors) == len(previews):
            return True
        if not sys.stdin.isatty():
            raise StudyError("there is no terminal to confirm the cost in; add --yes")
        progress.show(self.show(previews, examples=False, next_command=""))
        return progress.confirm(self._ask_for(asked))

    def _ask_for(self, asked: Sequence[tuple[Judge, Preview]]) -> str:
        count = sum(each.requests for _, each in asked)
        if self._budget is not None:
            return f"Send {count:,} requests, for never more than {show_usd(self._budget)} over all runs?"
        usd = [each.batch_usd if self._batch else (each.expected_usd, each.worst_usd) for _, each in asked]
        expected, worst = (sum(each[place] or 0.0 for each in usd if each) for place in (0, 1))
        return f"Send {count:,} requests, for about {show_usd(expected)} and at worst {show_usd(worst)}?"

    def _connect(self, judge: Judge) -> Server:
        return connect_to(judge, plain_http={url for url, _ in self._allowed})

    def run(self, previews: Sequence[tuple[Judge, Preview]]) -> None:
        """Ask the judges, one after the other. What only the user can mend keeps no other judge waiting."""
        for judge, preview in previews:
            if judge.rater_name not in self.errors:
                try:
                    self._run(judge, preview)
                except StudyError as error:
                    self.errors[judge.rater_name] = error

    def _run(self, judge: Judge, preview: Preview) -> None:
        from judge.batches import BatchRun  # noqa: PLC0415
        from judge.run import Run  # noqa: PLC0415

        name = visible(judge.rater_name)
        questions = self._questions(judge)
        if not self._batch:
            with self._store.read() as db:
                waiting = requests.read_in_batches(db, judge.rater_name)
            left = [each for each in questions if (each.pair_id, each.number) not in waiting]
            if len(left) < len(questions):
                progress.warn(
                    f"{len(questions) - len(left)} questions are in batches; collect them with --batch"
                )
            questions = left
        with progress.task(name, total=len(questions), unit="judgments") as advance:
            run = (BatchRun if self._batch else Run)(
                self._store, judge, seed=self._seed, server=self._connect(judge), price=preview.price,
                budget_usd=self._budget, advance=advance,
            )  # fmt: skip
            ledger = run.judge_questions(questions)
        for (kind, detail), count in ledger.failures.items():
            self._failed += [(name, kind, detail)] * count
        cost = f", {show_usd(ledger.cost / requests.BILLION)}" if preview.price is not None else ""
        self._lines.append(
            f"{name}: {ledger.verdicts} judged, {ledger.requests} requests sent ({ledger.retries} of them "
            f"again), {ledger.reused} answers from earlier requests{cost}"
        )

    def summarize(self) -> Judged:
        """Return what this run did, and what the judges have taken over all runs."""
        with self._store.read() as db:
            spending = requests.read_spending(db)
            failures = [(key[0], *why) for key, why in requests.read_failures(db).items()]
        shown = self._failed if self._calibrate else failures
        reasons = tuple(count_reasons(shown))
        lines = [*self._lines, *_show_reasons(reasons)]
        for each in spending:
            if each.unmetered:
                lines.append(f"{each.judge}: {each.unmetered} answers came without token counts")
            if each.open:
                lines.append(f"{each.judge}: {each.open} requests are under way, or in a batch")
        return Judged(
            lines=tuple(lines),
            tables=(show_spending(spending),) if spending else (),
            next=(self._study.command("report"),),
            exit_code=WITH_FAILURES if self._failed else 0,
            judges=tuple(spending),
            failures=reasons,
        )

    def error(self) -> StudyError:
        """Return what kept judges from their end, as one error."""
        if len(self.errors) == 1 and len(self._study.settings.judge) == 1:
            return next(iter(self.errors.values()))
        lines = [f"{visible(name)}: {error}" for name, error in self.errors.items()]
        count = f"{len(lines)} judges" if len(lines) > 1 else "a judge"
        return StudyError("\n  ".join((f"{count} did not come to the end:", *lines)))


def _check_price(judge: Judge, preview: Preview) -> None:
    if preview.price is None:
        raise StudyError(
            f"the price of {judge.model!r} is unknown; set {KEYS} in study.toml (0 if it costs nothing)"
        )


def _record(preview: Preview) -> dict[str, object]:
    names = ("judge", "model", "server", "requests", "answered", "expected_usd", "worst_usd", "warnings")
    return {name: getattr(preview, name) for name in names}


def show_spending(spending: Sequence[JudgeSpending]) -> Table:
    """Return a table of what each judge has taken over all runs."""
    rows = {
        "requests": [str(each.requests) for each in spending],
        "of these lost": [str(each.lost) for each in spending],
        "prompt tokens": [str(each.input_tokens) for each in spending],
        "of these cached": [str(each.cached_tokens) for each in spending],
        "completion tokens": [str(each.output_tokens) for each in spending],
        "of these reasoning": [str(each.reasoning_tokens) for each in spending],
        "US dollars": [f"{each.usd:.4f}" for each in spending],
        "set aside for lost or open": [f"{each.held_usd:.4f}" for each in spending],
    }
    return Table(
        columns=("", *(each.judge for each in spending)),
        rows=tuple((name, *cells) for name, cells in rows.items()),
        caption="",
    )


def _show_reasons(reasons: Sequence[FailureCount]) -> list[str]:
    """Return each judge's failures by kind, with the reasons, the most frequent first."""
    lines = []
    for judge, kind in dict.fromkeys((each.judge, each.kind) for each in reasons):
        listed = [each for each in reasons if (each.judge, each.kind) == (judge, kind)]
        total = sum(each.count for each in listed)
        lines.append(f"failed: {judge}: {total} × {kind}{_REMEDIES.get(kind, '')}")
        lines += [f"    {each.count} × {each.reason}" for each in listed[:_REASONS]]
        if more := sum(each.count for each in listed[_REASONS:]):
            lines.append(f"    {more} × something else: --view FILE.html shows each")
    if reasons:
        lines.append("What got no answer is asked again by the same command; the report counts the rest.")
    return lines
