"""What the paper claims and no GPU is needed to check: `guard-eval replicate --check`.

A check is a function without arguments that returns a `Check`. `registry.py` lists them with the outcome on
record; a run passes when each finds that, also where it is "does not hold". `docs/errata.md` tells what was
found.
"""

from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.running import as_recorded, each, names, run
from guard_eval.replicate.checks.telling import lines, outcome, summary

__all__ = ["Check", "as_recorded", "each", "lines", "names", "outcome", "run", "summary"]
