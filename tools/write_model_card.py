"""Write the bundled model's card from the figures that training left.

python tools/write_model_card.py CORPUS_DIR MODEL_DIR
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from train_demo_model import CONTEXT, HELD_OUT, PASSAGE_CHARACTERS, VOCABULARY

CARD = Path(__file__).with_name("model_card.md")


def main() -> None:
    """Read training.json and write README.md beside it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("model", type=Path)
    options = parser.parse_args()
    training = json.loads((options.model / "training.json").read_text(encoding="utf-8"))
    shape = json.loads((options.model / "config.json").read_text(encoding="utf-8"))
    runs = [training] if training["before"] is None else [training["before"], training]
    seen = sum(run["log"][-1]["tokens"] for run in runs)
    card = CARD.read_text(encoding="utf-8").format(
        **{key: training[key] for key in training if isinstance(training[key], int | str)},
        layers=shape["num_hidden_layers"],
        width=shape["hidden_size"],
        heads=shape["num_attention_heads"],
        kv_heads=shape["num_key_value_heads"],
        context=CONTEXT,
        vocabulary=VOCABULARY,
        passage=PASSAGE_CHARACTERS,
        seen=seen,
        epochs=seen / training["train_tokens"],
        minutes=sum(run["log"][-1]["minutes"] for run in runs),
        train_loss=training["log"][-1]["train_loss"],
        held_out=" and ".join(f"*{name.replace('-', ' ')}*" for name in training["held_out_books"]),
        bits=training["held_out_bits_per_character"],
        by_book=", ".join(
            f"*{name.replace('-', ' ')}* {bits:.3f}" for name, bits in training["held_out_by_book"].items()
        ),
        runs="\n\n".join(_run(number, run) for number, run in enumerate(runs, start=1)),
        books="\n".join(_book(path) for path in sorted(options.corpus.glob("*.txt"))),
    )
    (options.model / "README.md").write_text(card, encoding="utf-8")


def _run(number: int, run: dict[str, Any]) -> str:
    settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in run["options"].items())
    rows = [
        f"| {entry['step']:,} | {entry['tokens']:,} | {entry['train_loss']:.3f} | "
        f"{entry['held_out_bits_per_character']:.3f} |"
        for entry in run["log"]
    ]
    start = "From random weights" if number == 1 else "From the weights of the run before"
    head = ["| step | tokens | training loss | held out, bits per character |", "|---:|---:|---:|---:|"]
    return "\n".join([f"Run {number}. {start}; {settings}.", "", *head, *rows])


def _book(path: Path) -> str:
    title, _, number = path.stem.rpartition("_")
    held_out = " (held out)" if path.name.startswith(HELD_OUT) else ""
    return (
        f"- {title.replace('-s-', chr(8217) + 's ').replace('-', ' ')}, Project Gutenberg {number}{held_out}"
    )


if __name__ == "__main__":
    main()
