"""Which checks there are, where they live, and what each is recorded to find.

True: the claim holds. False: it does not, and `docs/errata.md` has an entry. None: what is published cannot
decide.
"""

from __future__ import annotations

HOLDS, FAILS, OPEN = True, False, None

RECORDED: dict[str, tuple[str, bool | None]] = {
    # human study
    "human-p-values": ("human_study.p_values", HOLDS),
    "human-shares": ("human_study.shares", HOLDS),
    "human-percentages": ("human_study.percentages", HOLDS),
    "human-direction": ("human_study.direction", HOLDS),
    "human-all-row": ("human_study.all_row", FAILS),
    "human-swap": ("human_study.swap", FAILS),
    "human-pairs": ("human_study.pairs", FAILS),
    "human-test-level": ("human_tests.level", FAILS),
    "human-clustered": ("human_tests.clustered_tests", OPEN),
    "human-kappa": ("human_tests.kappa", OPEN),
    # the judge
    "judge-counts": ("judged.counts", HOLDS),
    "judge-overall": ("judged.overall", HOLDS),
    "judge-direction": ("judged.direction", HOLDS),
    "judge-evidence": ("judged.evidence", FAILS),
    "judge-criteria": ("judged.criteria", FAILS),
    "judge-grim": ("judged.grim", FAILS),
    "judge-beside-people": ("judged.beside", HOLDS),
    "judge-coherence-lead": ("judged.coherence_lead", HOLDS),
    # tables of automatic metrics
    "tables-agree": ("between_tables.agree", FAILS),
    "tables-llama": ("between_tables.llama", FAILS),
    "tables-identical-rows": ("between_tables.identical_rows", FAILS),
    "bold-main": ("bold.main", FAILS),
    "bold-models": ("bold.models", FAILS),
    "bold-bertscore": ("bold.bertscores", FAILS),
    "bold-judge": ("bold.judge", FAILS),
    "text-both": ("prose.both", HOLDS),
    "text-closest": ("prose.closest", HOLDS),
    "text-five-metrics": ("prose.five_metrics", FAILS),
    "text-models": ("prose.models", FAILS),
    "text-settings": ("prose.settings", HOLDS),
    "baseline-beam": ("prose.beam", FAILS),
    "baseline-sampling": ("prose.sampling", HOLDS),
    "window-choice": ("settings_tried.window_choice", HOLDS),
    "window-trend": ("settings_tried.window_trend", FAILS),
    "decay-stable": ("settings_tried.decay_stable", FAILS),
    "ablation-percentages": ("settings_tried.percentages", HOLDS),
    "ablation-friedman": ("settings_tried.friedman", HOLDS),
    "ablation-effect-sizes": ("settings_tried.effect_sizes", OPEN),
    # speed
    "speed-rows": ("speed.rows", FAILS),
    "speed-text": ("speed.text", HOLDS),
    # published texts
    "diversity-guard": ("published_texts.guard", HOLDS),
    "diversity-human": ("published_texts.human", FAILS),
    "diversity-formula": ("published_texts.formula", FAILS),
    "datasets-sizes": ("published_texts.sizes", HOLDS),
    # propositions
    "entropy-unbiased": ("propositions.unbiased", HOLDS),
    "entropy-consistent-average": ("propositions.plain_average", HOLDS),
    "entropy-consistent-decay": ("propositions.with_decay", FAILS),
    "entropy-instantaneous": ("propositions.instantaneous", FAILS),
    # the method
    "method-ranges": ("method.ranges", HOLDS),
    "method-penalty": ("method.penalty", FAILS),
    "method-at-rest": ("method.at_rest", FAILS),
    "method-arctanh": ("method.arctanh_domain", FAILS),
    "method-equation-numbers": ("method.equation_numbers", FAILS),
    "method-formulations": ("formulations.tokens", FAILS),
    "method-first-steps": ("formulations.first_steps", FAILS),
}
"""Name of a check → the function of this package that makes it, and the outcome on record."""
