"""The parts of `guard-eval demo`: bundled model (model/README.md), prompts, study.toml, simulated raters."""

from pathlib import Path

PROMPTS = Path(__file__).parent / "prompts.jsonl"
STUDY = Path(__file__).parent / "study.toml"
