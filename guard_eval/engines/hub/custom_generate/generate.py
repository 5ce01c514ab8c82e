"""What `model.generate(custom_generate=…)` runs; see the README above."""

from guard_eval.engines.custom import generate

__all__ = ["generate"]
