"""What a request can cost at most, and what its answer did."""

from __future__ import annotations

from guard_eval.errors import StudyError
from judge.backend import Question
from judge.parsing import Usage
from judge.prices import Price


class Budget:
    """The judge's prices, and what all judges of the study may cost together.

    Attributes:
        limit_usd: That limit, over all runs; None for none.
    """

    def __init__(self, price: Price | None, limit_usd: float | None, *, model: str) -> None:
        if limit_usd is not None and price is None:
            raise StudyError(
                f"the price of {model!r} is unknown, so no budget can be held; set "
                "usd_per_million_input_tokens and usd_per_million_output_tokens in study.toml, or leave out "
                "--budget"
            )
        self.limit_usd = limit_usd
        self._price = price

    def most(self, question: Question) -> float | None:
        """Return the most a request can cost: no tokeniser makes more tokens than there are bytes."""
        if self._price is None:
            return None
        return self._price.usd(len(question.body), question.max_output_tokens)

    def cost(self, usage: Usage) -> float | None:
        """Return what an answer cost; None where its tokens or the price are unknown."""
        return None if self._price is None else self._price.cost(usage)

    def used_up(self, most: float | None) -> StudyError:
        """Return the error that ends a run when nothing more fits into the budget."""
        return StudyError(
            f"the budget of ${self.limit_usd:g} is used up: what is spent or held leaves less than the "
            f"${most or 0:.4f} that the next request can cost at most; what was answered is saved, and "
            "--budget with a larger sum goes on from here"
        )
