"""The plan for testing verdicts: one class for study.toml, for report.toml and for every analysis."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from guard_eval.rubric import Weights
from guard_eval.study.criteria_settings import SettingsTable, refuse_duplicates, to_one_line

EXCLUSIVE = ("correction", "weights", "margin", "sequential", "raters", "assisted_by")
"""Keys that exclude each other: if `sequential` or `assisted_by` is set, no other of them may be set."""

Correction = Literal["holm", "bh", "max-t"]
PairWeights = Literal["equal", "precision"]
RaterSampling = Literal["fixed", "random"]
PanelRule = Literal["majority", "mean"]
Heading = Annotated[str, AfterValidator(to_one_line)]


class TestPlan(SettingsTable):
    """The plan for testing the verdicts, declared before the first verdict.

    Attributes:
        alpha: The error rate of the tests.
        correction: The correction for the number of tests in the family: `holm` limits the chance of any
            error, `bh` (Benjamini–Hochberg) the expected share of errors among the findings. `max-t` limits
            the chance of any error by the same sign flips in all results, and finds more if they correlate.
        weights: The weight of a pair: `equal`, or its `precision`, which is larger for a pair with more
            ratings. `precision` finds more if pairs have unequal numbers of ratings.
        margin: The largest distance of a win share from one half that does not matter. Results are then
            equivalent, different, both (different but negligible) or undecided. Default: no such test.
        sequential: Use tests that stay valid if results are viewed before all verdicts are in.
        raters: The raters whom the answer is about: `fixed`, those who take part, or `random`, all raters of
            the same kind, of whom at least three must take part.
        assisted_by: The judge, by name, whose verdicts assist people's in the answer (docs/assisted.md).
            Default: the answer is of people alone, and the assistance of each judge is shown beside it.
        panel: The rule by which all judges also count as one rater: `majority`, or the `mean` of scores.
        composite: The weights of criteria whose weighted mean is an overall result.
    """

    __test__: ClassVar[bool] = False  # pytest collects classes whose name begins with Test

    alpha: float = Field(default=0.05, gt=0, lt=1)
    correction: Correction = "holm"
    weights: PairWeights = "equal"
    margin: float | None = Field(default=None, gt=0, lt=0.5)
    sequential: bool = False
    raters: RaterSampling = "fixed"
    assisted_by: Heading | None = None
    panel: PanelRule | None = None
    composite: Weights | None = None

    @property
    def level(self) -> float:
        """Return the confidence level."""
        return 1 - self.alpha

    def list_non_default_keys(self) -> frozenset[str]:
        """Return the keys whose value is not the default."""
        fields = TestPlan.model_fields.items()
        return frozenset(name for name, field in fields if getattr(self, name) != field.default)

    @model_validator(mode="after")
    def _check_valid_test_exists(self) -> Self:
        """Check that a valid test exists for these settings."""
        chosen = [name for name in EXCLUSIVE if name in self.list_non_default_keys()]
        if len(chosen) > 1 and (self.sequential or self.assisted_by):
            raise ValueError(f"no valid test exists for {' with '.join(chosen)}; keep only one of them")
        return self


class SplitPlan(TestPlan):
    """The plan for testing and splitting the verdicts, declared before the first verdict.

    Attributes:
        by: Columns by whose values results are split, such as `dataset`. Whether a result depends on one of
            them is tested, and corrected together with the other results.
    """

    by: Annotated[list[Heading], AfterValidator(refuse_duplicates)] = []

    @model_validator(mode="after")
    def _check_column_test_exists(self) -> Self:
        """Check that the test of a column exists for these weights."""
        if self.by and self.weights != "equal":
            raise ValueError("the test of by gives every pair the same weight; remove weights, or remove by")
        return self
