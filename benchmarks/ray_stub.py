"""A worker without a model, for what `--engine ray` itself takes: a STUB whose texts repeat their prompts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from guard_eval.engines.ray_data import writers
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study import Study


class StubWriter(writers.Writer):
    """Takes the place of the worker that loads a model."""

    def _batches(self, rows: Sequence[dict[str, Any]]) -> Iterator[list[Continuation]]:
        settings = self._job.study.settings
        for number, strategy in enumerate(self._job.strategies):
            made_by = Recipe(
                model=settings.model.name,
                revision="stub",
                strategy=strategy,
                seed=settings.seed,
                max_new_tokens=settings.generation.max_new_tokens,
                max_prompt_tokens=settings.generation.max_prompt_tokens,
                dtype="float32",
            )
            yield [
                Continuation(
                    id=made_by.continuation_id(
                        Prompt(id=row["id"], dataset=row["dataset"], text=row["text"])
                    ),
                    prompt_id=row["id"],
                    dataset=row["dataset"],
                    recipe=made_by,
                    text=f"{row['text']} {row['text']}",
                    prompt_tokens=10,
                    new_tokens=20,
                    finish="length",
                    seconds=0.0,
                    batch=len(rows),
                    device="stub",
                    versions="stub",
                )
                for row in rows
                if number in row["strategies"]
            ]


def main() -> None:
    """Generate as the command does, with stubs: `python ray_stub.py STUDY STRATEGY`."""
    import ray_stub  # noqa: PLC0415 (by its name, so that workers find it; this is __main__)

    from guard_eval.cli import generate  # noqa: PLC0415

    writers.Writer = ray_stub.StubWriter  # type: ignore[misc]
    generate.run(Study.open(Path(sys.argv[1])), engine=generate.Engine.RAY, only=[sys.argv[2]])


if __name__ == "__main__":
    main()
