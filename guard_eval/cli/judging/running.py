"""What `guard-eval judge` does with a study: preview, ask, run, and afterwards the ledger."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import typer

from guard_eval.cli.console import say
from guard_eval.cli.judging.printing import (
    question,
    say_ledger,
    say_previews,
    say_reparsed,
    showing_progress,
)
from guard_eval.cli.judging.trust import may_leave
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import visible
from guard_eval.store import Store
from guard_eval.study.folder import Study
from guard_eval.study.judge_settings import Judge
from judge.backend import Backend
from judge.calibration import calibrate, left
from judge.lookup import reparse, request_changes
from judge.pricing.availability import check_available
from judge.pricing.preview import DryRun, dry_run
from judge.pricing.price import Price
from judge.pricing.prices import KEYS, priced, study_prices
from judge.prompts.examples import check_examples
from judge.providers.endpoint import provider_of, with_server_url
from judge.rater import check_criteria, check_words, judge_plan, rater_name
from judge.replay import Replay, load_recording, save_recording

T = TypeVar("T")


class JudgeRunner:
    """One call of the command, on one study."""

    def __init__(
        self,
        study: Study,
        store: Store,
        *,
        budget: float | None,
        calibrate: bool,
        replay: Path | None,
        plain_http: bool = False,
    ) -> None:
        if budget is not None and not 0 < budget < float("inf"):
            raise StudyError(f"--budget {budget:g} is no sum to spend; give US dollars, such as --budget 20")
        self._study = study
        self._seed = study.settings.seed
        self._store = store
        self._budget = budget
        self._calibrate = calibrate
        self._replay = replay
        self._plain_http = plain_http
        self._errors: dict[str, StudyError] = {}
        self.failed = 0
        """Showings that have no verdict after this call."""
        self._several = False

    def judge(self, judges: Sequence[Judge], *, dry_run: bool, yes: bool) -> bool:
        """Preview, ask, and run; return whether the judges have judged.

        A judge that only the user can put right keeps no other one waiting; see `raise_errors`.

        Raises:
            StudyError: None of the judges can be asked.
        """
        if not self._store.pairs():
            raise StudyError(
                f"{self._study.folder} has no pairs yet; run: guard-eval pair {self._study.folder}"
            )
        self._several = len(judges) > 1
        planned = [(judge, preview) for judge in judges if (preview := self._try(judge, self._preview))]
        judges, previews = [each for each, _ in planned], [each for _, each in planned]
        changed = {visible(rater_name(each)): self._changes(each) for each in judges}
        say_previews(previews, notes=dry_run or not yes, example=dry_run, changes=changed)
        if dry_run or not previews:
            self.raise_errors()
            return False
        if not any(preview.example for preview in previews):
            return True
        asks = not (yes or self._replay) and any(preview.estimate.requests for preview in previews)
        if asks and not sys.stdin.isatty():
            raise StudyError("there is no terminal to confirm the cost in; add --yes")
        ready, previews = self._prepared(judges, previews, yes=yes)
        if not ready:
            self.raise_errors()
        keys = () if self._replay else (provider_of(each, plain_http=self._plain_http) for each in ready)
        if not may_leave(keys) or (asks and not typer.confirm(question(previews, budget=self._budget))):
            return False
        for judge in ready:
            self._try(judge, self._run)
        self.show_ledger()
        return True

    def _prepared(
        self, judges: Sequence[Judge], previews: Sequence[DryRun], *, yes: bool
    ) -> tuple[list[Judge], list[DryRun]]:
        """Return the judges that can be asked, with their prices, and what that would take."""
        ready, found = [], []
        for judge, preview in zip(judges, previews, strict=True):
            if not preview.example:
                continue
            name = visible(rater_name(judge))
            known = self._try(judge, partial(self._ready, preview=preview, yes=yes))
            if known is None:
                if not self._several:
                    continue
                say(f"{name} is not asked: {self._errors[name]}")
                continue
            ready.append(known)
            found.append(preview if preview.estimate.price else self._preview(known))
        return ready, found

    def _try(self, judge: Judge, step: Callable[[Judge], T]) -> T | None:
        """Take a step with a judge; keep the error that only the user can fix for the end."""
        try:
            return step(judge)
        except StudyError as error:
            self._errors[visible(rater_name(judge))] = error
            return None

    def raise_errors(self) -> None:
        """Raise what kept judges from judging, if anything did.

        Raises:
            StudyError: It names each judge, unless there is one alone.
        """
        if not self._errors:
            return
        if not self._several:
            raise next(iter(self._errors.values()))
        lines = [f"{name}: {error}" for name, error in self._errors.items()]
        count = f"{len(lines)} judges" if len(lines) > 1 else "a judge"
        raise StudyError("\n  ".join((f"{count} did not come to the end:", *lines)))

    def reparse(self, judges: Sequence[Judge]) -> None:
        """Read the journal again."""
        for judge in judges:
            say_reparsed(rater_name(judge), reparse(self._store, judge, seed=self._seed))

    def record(self, judges: Sequence[Judge], path: Path) -> None:
        """Write all answers of these judges to a file."""
        answers = chain.from_iterable(self._store.answers_of(rater_name(judge)) for judge in judges)
        say(f"{path}: {save_recording(path, answers)} answers, for --replay")

    def show_ledger(self) -> None:
        """Print what the judges have taken, over all runs."""
        say_ledger(self._store.spending(), self._store.failures())

    def _changes(self, judge: Judge) -> tuple[str, ...]:
        """Return what of the judge's requests is another than it was, setting by setting."""
        return request_changes(self._store, judge, seed=self._seed)

    def _preview(self, judge: Judge) -> DryRun:
        name = rater_name(judge)
        check_examples(self._store, judge)
        check_words(self._store, judge)
        if not self._calibrate and any(each.judge == name for each in self._store.spending()):
            check_criteria(self._store, judge, self._store.rater(name, "model"))
        if self._calibrate:
            showings = left(self._store, judge, seed=self._seed)
        else:
            showings = self._store.waiting(name, judge_plan(judge, seed=self._seed))
        return dry_run(
            judge,
            showings,
            seed=self._seed,
            answered=self._store.answered(),
            so_far=next((each for each in self._store.spending() if each.judge == name), None),
            own=study_prices(self._study.folder),
            folder=self._study.folder,
        )

    def _ready(self, judge: Judge, preview: DryRun, *, yes: bool) -> Judge:
        """Return the judge with its price, after what would stop it has been found.

        Raises:
            StudyError: There is no key, or no price.
        """
        if self._replay:
            return priced(judge, Price(input=0.0, output=0.0, source="a recording"))
        from judge.providers import client  # noqa: F401, PLC0415 (names a missing extra before a question)

        provider_of(judge, plain_http=self._plain_http)
        check_available(with_server_url(judge), own=study_prices(self._study.folder))
        known = preview.estimate.price
        if known is None:
            known = self._asked_price(judge, yes=yes)
        if known.assumed and self._budget is not None:
            raise StudyError(
                f"--budget cannot be held for {judge.model!r}, of which no price is known: set {KEYS} in "
                "study.toml (0 if it costs nothing), or leave --budget out"
            )
        return priced(judge, known)

    def _asked_price(self, judge: Judge, *, yes: bool) -> Price:
        if yes:
            raise StudyError(
                f"the price of {judge.model!r} is unknown; set {KEYS} in study.toml (0 if it costs nothing), "
                "or name the model in a prices.toml beside it (docs/judge.md)"
            )
        say(f"What does {judge.model} cost, in US dollars per million tokens?")
        input_usd, output_usd = (typer.prompt(f"  {kind}", type=float) for kind in ("input", "output"))
        if not (0 <= input_usd < float("inf") and 0 <= output_usd < float("inf")):
            raise StudyError("a price is a number of US dollars, and not negative")
        say(f"This counts for this run; set {KEYS} in study.toml to keep it.")
        return Price(input=input_usd, output=output_usd, source="asked")

    def _run(self, judge: Judge) -> None:
        options: dict[str, Any] = {
            "budget_usd": self._budget,
            "plain_http": self._plain_http,
            "own": study_prices(self._study.folder),
        }
        if self._replay:
            options["connect"] = self._replaying(judge, self._replay)
        from judge.run import run_judge  # noqa: PLC0415 (a preview needs no openai)

        go = calibrate if self._calibrate else run_judge
        with showing_progress(rater_name(judge), budget=self._budget) as shown:
            ledger = go(self._store, judge, seed=self._seed, on_progress=shown.progress, **options)
            shown.done(ledger)
            self.failed += ledger.failures.total()
            if self._calibrate:
                shown.failures(ledger)

    def _replaying(self, judge: Judge, path: Path) -> Callable[[], Backend]:
        recording = load_recording(path)
        return lambda: Replay(judge, recording, seed=self._seed)
