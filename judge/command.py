"""The command `guard-eval judge`: let language models rate pairs."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import BILLION, JsonObject, record
from guard_eval.reporting.tables import Table
from guard_eval.results import Result
from guard_eval.servers.price import REMEDY, Price, check_budget, format_usd
from guard_eval.servers.server import Server, confirm_sending_keys, make_server, parse_send_key_option
from guard_eval.store import Store, pairs
from guard_eval.store.judging import usage
from guard_eval.store.judging.requests import Question
from guard_eval.store.schema import SqlRow
from guard_eval.study import Study
from guard_eval.study.judge_settings import Judge
from guard_eval.study.tuning import TUNING_DATABASE
from judge.calibration import read_unanswered_calibration_questions
from judge.decide import REMEDIES
from judge.journal import RunCounts
from judge.preview import IN_BATCH, ONLINE, Preview, preview_judge
from judge.questions import make_judge_hand_out_plan, read_unjudged_questions, split_questions_into_rounds
from judge.recheck import draw_requests_to_recheck, preview_recheck, resend_requests
from judge.viewer import write_judge_exchanges_page

_REASONS = 5
"""The summary prints at most this number of different reasons for each kind of failure."""


@record
class JudgeResult(Result):
    """The result of `guard-eval judge`: the requests to the judges, sent or only previewed.

    Attributes:
        previews: The requests to each judge that are still to be sent, with the cost.
        judges: The requests and costs of each judge over all runs.
        failures: The reasons why questions still have no verdict.
    """

    previews: tuple[dict[str, object], ...] = ()
    judges: tuple[JsonObject, ...] = ()
    failures: tuple[JsonObject, ...] = ()


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
    recheck: int | None = None,
    tune: bool = False,
    view: Path | None = None,
    send_key: Sequence[str] = (),
) -> JudgeResult:
    """Let language models compare the pairs.

    Begin with --dry-run: it shows one request in full, and the cost of all requests. Answers are stored and
    never paid for again: you can stop the command at any moment and run it again.

    A provider's own key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY) is sent only to that provider's
    server, and OpenAI's also to your own OPENAI_BASE_URL. Any other key is sent only where you allow it.

    Exit code 0: all pairs are judged. 3: all requests were sent, and some pairs have no verdict. 2: an error
    that you can fix stopped a judge; the other judges have run.

    Args:
        study: The study's folder.
        dry_run: Show one request and the cost of all; send nothing.
        yes: Do not ask before spending money. This is for scripts.
        budget: The highest cost of all judges together, over all runs, in US dollars. Runs with --tune have a
            budget of their own. Default: the command asks.
        only: Run only the judge with this name, or with this model.
        batch: Use the Batch API: half the price at OpenAI, with answers within a day.
        calibrate: Judge pairs whose answers are known, made from the study's texts.
        recheck: Send this number of stored requests again, unchanged, and say whether the judge has changed.
        tune: Compare the settings in [tuning] with the baseline, instead of judging the pairs.
        view: Write all requests about pairs, and the answers, as one HTML page; send nothing.
        send_key: Allow a key to be sent to a server that study.toml names, as VARIABLE=https://host.

    Raises:
        StudyError: A judge could not be asked, or an option makes no sense.
    """
    check_budget(budget)
    if recheck is not None and (recheck < 1 or batch or calibrate):
        raise StudyError(
            "--recheck needs a number of at least 1, such as 40, and excludes --batch and --calibrate"
        )
    judges = _choose_judges(study, only)
    study = study.make_tuning_study() if tune else study
    pairing = study.format_command("measure", "--tune") if tune else study.format_command("pair")
    if tune and not (study.folder / TUNING_DATABASE).exists():
        raise StudyError(f"{study.folder} has no pairs yet; run: {pairing}")
    with Store.open_study(study) as store:
        if view is not None:
            names = None if only is None else {judge_settings.rater_name for judge_settings in judges}
            count = write_judge_exchanges_page(
                store, study.settings.judge, view, seed=study.settings.seed, only_judges=names
            )
            return JudgeResult(lines=(f"{view}: {count} exchanges; open it in a browser",))
        if not pairs.read_pairs(store):
            raise StudyError(f"{study.folder} has no pairs yet; run: {pairing}")
        command = JudgeCommand(
            study,
            store,
            budget,
            parse_send_key_option(send_key),
            batch=batch,
            calibrate=calibrate,
            recheck=recheck,
            tune=tune,
        )
        previews = command.preview_judges(judges)
        is_sent = not dry_run and command.confirm_requests(previews, yes=yes)
        if is_sent:
            command.ask_judges()
            result = command.summarize_run()
        else:
            result = command.show_previews(previews, example=dry_run)
        is_done = is_sent or not any(preview.requests or preview.open for preview in previews)
        if tune and is_done and not command.errors:
            result = replace(result, next=(pairing,))
    if command.errors:
        progress.show_result(result)
        raise command.join_judge_errors()
    return result


def _choose_judges(study: Study, only_judge: str | None) -> list[Judge]:
    judges = [judge for judge in study.settings.judge if only_judge in (None, judge.model, judge.rater_name)]
    if judges:
        return judges
    if not study.settings.judge:
        raise StudyError(f'{study.folder} has no judge; add a table [[judge]] with model = "…" to study.toml')
    names = ", ".join(judge.rater_name for judge in study.settings.judge)
    raise StudyError(f"the study has no judge {only_judge!r}; choose one of: {names}")


@dataclass
class JudgeCommand:
    """One run of the command `guard-eval judge`.

    Attributes:
        study: The study.
        store: The study's database.
        budget: The highest total cost of all judges, in US dollars.
        allowed: The servers and variables of --send-key.
        batch: Whether to use the Batch API.
        calibrate: Whether to ask about pairs whose answer is known.
        recheck: The number of stored requests to send again, if any.
        tune: Whether the judges compare settings for [tuning]. These runs have another database and budget.
        ready: The judges that can be asked: the preview, the server and the price of the tokens.
        counts: The counts of the judges' runs, by the judges' names.
        errors: The errors that stopped judges, by the judges' names.
        rechecked: For each judge, the result of sending stored requests again, in words.
    """

    study: Study
    store: Store
    budget: float | None
    allowed: set[tuple[str, str]]
    batch: bool
    calibrate: bool
    recheck: int | None
    tune: bool
    ready: list[tuple[Preview, Server, Price]] = field(default_factory=list)
    counts: dict[str, RunCounts] = field(default_factory=dict)
    errors: dict[str, StudyError] = field(default_factory=dict)
    rechecked: list[str] = field(default_factory=list)

    @contextmanager
    def _store_judge_error(self, judge: Judge) -> Iterator[None]:
        """Store a judge's error that only the user can fix, so that the other judges continue."""
        try:
            yield
        except StudyError as error:
            self.errors[judge.rater_name] = error

    def preview_judges(self, judges: Sequence[Judge]) -> list[Preview]:
        """Return a preview for each judge that can be asked."""
        previews = []
        for judge in judges:
            with self._store_judge_error(judge):
                previews.append(self._preview_judge(judge))
        return previews

    def _preview_judge(self, judge: Judge) -> Preview:
        seed = self.study.settings.seed
        if self.recheck is not None:
            attempts = draw_requests_to_recheck(self.store, judge, self.recheck, seed=seed)
            return preview_recheck(judge, attempts)
        if self.calibrate:
            questions = read_unanswered_calibration_questions(self.store, judge, seed=seed)
        else:
            questions = self._leave_out_removed_comparisons(
                judge, read_unjudged_questions(self.store, judge, seed=seed)
            )
        return preview_judge(self.store, judge, questions, seed=seed)

    def _leave_out_removed_comparisons(self, judge: Judge, questions: Sequence[Question]) -> list[Question]:
        """Leave out questions about comparisons that study.toml no longer has. Rounds keep all of them."""
        plan = self.study.settings.pairs
        removed = {
            pair.id for pair in pairs.read_pairs(self.store) if plan.is_removed(pair.method_a, pair.method_b)
        }
        remaining = [question for question in questions if question.pair_id not in removed]
        if count := len(questions) - len(remaining):
            progress.show_notice(
                f"{judge.rater_name}: {count} questions are left out, because their comparison is no longer "
                "in pairs.compare"
            )
        return remaining

    def show_previews(self, previews: Sequence[Preview], *, example: bool) -> JudgeResult:
        """Return the previews as a result to print. With `example`, also print the first request in full."""
        lines = [line for preview in previews for line in (*preview.lines, "")]
        if self.study.settings.pairs.design != "fixed":
            lines.append("Fewer requests may be sent, because a comparison stops when it is decided.")
        for preview in [preview for preview in previews if preview.example][:example]:
            lines += [f"The first request to {preview.name}, as it would be sent:", "", str(preview.example)]
            lines += ["", "To send the requests, run the command without --dry-run."]
        rows = tuple(row for preview in previews for row in preview.make_cost_rows())
        table = Table(columns=("cost", "expected", "at worst"), rows=rows, caption="")
        return JudgeResult(
            lines=tuple(lines),
            tables=(table,) if rows else (),
            warnings=tuple(text for preview in previews for text in preview.warnings),
            previews=tuple(preview.to_json() for preview in previews),
        )

    def confirm_requests(self, previews: Sequence[Preview], *, yes: bool) -> bool:
        """Ask the user to confirm the requests, the servers and the price.

        Raises:
            StudyError: The program cannot ask, because it runs without a terminal.
        """
        import guard_eval.servers.client  # noqa: F401, PLC0415 (names a missing extra before anything is asked)

        for preview in previews:
            if preview.questions or preview.attempts or preview.open:
                with self._store_judge_error(preview.judge):
                    server = make_server(preview.judge, plain_http={url for url, _ in self.allowed})
                    if preview.price is None:
                        raise StudyError(f"the price of {preview.judge.model!r} is unknown; {REMEDY}")
                    self.ready.append((preview, server, preview.price))
        if not confirm_sending_keys([server for _, server, _ in self.ready], self.allowed):
            return False
        confirmed = [preview for preview, _, _ in self.ready]
        result = self.show_previews(previews, example=False)
        if yes or not any(worst for preview in confirmed for _, worst in preview.costs.values()):
            for warning in result.warnings:
                progress.warn(warning)
            return True
        if not sys.stdin.isatty():
            raise StudyError("the cost must be confirmed, but there is no terminal. To confirm, add --yes")
        progress.show_result(result)
        costs = [preview.costs[IN_BATCH if self.batch else ONLINE] for preview in confirmed]
        expected, worst = (format_usd(sum(amounts)) for amounts in zip(*costs, strict=True))
        cost = f"about {expected} and at worst {worst}"
        if self.budget is not None:
            cost = f"never more than {format_usd(self.budget)} over all runs{' with --tune' * self.tune}"
        count = sum(preview.requests for preview in confirmed)
        return progress.confirm(f"Send {count:,} requests, for {cost}?")

    def ask_judges(self) -> None:
        """Ask the judges, one after the other."""
        from judge.batches import BatchRun  # noqa: PLC0415 (a preview needs no extra)
        from judge.run import OnlineRun  # noqa: PLC0415 (a preview needs no extra)

        for preview, server, price in self.ready:
            with (
                self._store_judge_error(preview.judge),
                progress.show_task(preview.name, total=len(preview.questions), unit="judgments") as advance,
            ):
                online = OnlineRun(
                    self.store,
                    preview.judge,
                    seed=self.study.settings.seed,
                    server=server,
                    price=price,
                    budget_usd=self.budget,
                    advance=advance,
                )
                self.counts[preview.name] = online.counts
                if preview.attempts:
                    compared = resend_requests(online, preview.attempts)
                    self.rechecked.append(f"{preview.name}: {compared}")
                else:
                    run = BatchRun(online) if self.batch else online
                    run.judge_questions(self._plan_question_rounds(preview))

    def _plan_question_rounds(self, preview: Preview) -> Iterable[Sequence[Question]]:
        """Return the questions of each round. In a study without rounds, all questions are in one round."""
        judge = preview.judge
        settings = self.study.settings
        plan = make_judge_hand_out_plan(judge, seed=settings.seed)
        rounds = settings.make_round_plan(judge.criteria, plan.slots // (1 + plan.one_order))
        if rounds is None or self.calibrate:
            return [preview.questions]
        return split_questions_into_rounds(self.store, judge, replace(plan, rounds=rounds), preview.questions)

    def summarize_run(self) -> JudgeResult:
        """Summarize this run, and the judges' costs over all runs."""
        with self.store.begin_read() as db:
            spending = usage.read_spending(db)
            failures = usage.read_failure_reasons(db)
        failed = [(name, *why) for name, counts in self.counts.items() for why in counts.failures.elements()]
        reasons = tuple(usage.count_failure_reasons(failed) if self.calibrate else failures)
        lines = [
            *self.rechecked,
            *(
                f"{name}: {counts.verdicts} judged, {counts.requests} requests sent, "
                f"{format_usd(counts.cost / BILLION)}"
                for name, counts in self.counts.items()
            ),
        ]
        if in_batches := sum(counts.in_batches for counts in self.counts.values()):
            lines.append(f"{in_batches} questions are in batches. Collect the answers later, with --batch")
        if not lines and not self.errors:
            lines = ["all questions have an answer"]
        return JudgeResult(
            lines=(*lines, *_describe_judge_failures(reasons)),
            tables=(_make_spending_table(spending),) if spending else (),
            next=() if self.errors else (self.study.format_command("status"),),
            exit_code=3 if failed or in_batches else 0,
            judges=tuple(row._asdict() for row in spending),
            failures=reasons,
        )

    def join_judge_errors(self) -> StudyError:
        """Join the errors that stopped judges into one error."""
        if len(self.study.settings.judge) == 1:
            return next(iter(self.errors.values()))
        lines = [f"{name}: {error}" for name, error in self.errors.items()]
        return StudyError("\n  ".join(("some judges could not finish:", *lines)))


def _make_spending_table(spending: Sequence[SqlRow]) -> Table:
    """Return a table of the requests and costs of each judge over all runs."""
    facts = {
        "requests": "requests",
        "without an answer": "lost",
        "under way, or in a batch": "open",
        "prompt tokens": "input_tokens",
        "completion tokens": "output_tokens",
        "US dollars": "usd",
        "reserved for requests without an answer": "held_usd",
    }
    rows = [
        (title, *(f"{getattr(row, name):{'.4f' if 'usd' in name else ''}}" for row in spending))
        for title, name in facts.items()
    ]
    return Table(columns=("", *(row.judge for row in spending)), rows=tuple(rows), caption="")


def _describe_judge_failures(reasons: Sequence[JsonObject]) -> list[str]:
    """Return lines with each judge's failures by kind, and their most frequent reasons."""
    lines = []
    for judge, kind in dict.fromkeys((row["judge"], row["kind"]) for row in reasons):
        listed = [row for row in reasons if (row["judge"], row["kind"]) == (judge, kind)]
        total = sum(row["count"] for row in listed)
        remedy = f" (to ask again, {REMEDIES[kind]})" if kind in REMEDIES else ""
        lines.append(f"failed: {judge}: {total} × {kind}{remedy}")
        lines += [f"    {row['count']} × {row['reason']}" for row in listed[:_REASONS]]
    if reasons:
        lines.append(
            "To repeat requests without an answer, run this command again. The report counts other failures."
        )
    return lines
