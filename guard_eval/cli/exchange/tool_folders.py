"""The verdicts of a study as folders that other tools open: Potato, Label Studio, Hugging Face's datasets.

An item is a pair as a rater saw it, texts by their sides: an answer is the letter that was pressed, and no
position is lost. What raters can see in Potato and Label Studio names no method: methods.jsonl does, by the
items' ids. `guard-eval import` reads all of them again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from xml.sax.saxutils import quoteattr

from guard_eval.cli.exchange.row_files import json_lines, row_bytes
from guard_eval.records import Pair
from guard_eval.store import TidyRow


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownPair:
    """A pair as it was shown, and what one rater answered.

    Attributes:
        id: A hash of the pair, its first side, and which of a rater's showings in this order it was.
        methods: Which methods are on its sides, of which pair.
        texts: The prompt and both texts.
        rows: The rater's verdicts, one a criterion.
    """

    id: str
    methods: Mapping[str, object]
    texts: Mapping[str, str]
    rows: tuple[TidyRow, ...]


def shown_pairs(rows: Sequence[TidyRow], pairs: Sequence[Pair]) -> Iterator[ShownPair]:
    """Yield every presentation that has verdicts, in the order of the rows."""
    known = {pair.id: pair for pair in pairs}
    presentations: dict[int, list[TidyRow]] = {}
    for row in rows:
        presentations.setdefault(row.presentation, []).append(row)
    times: Counter[tuple[str, str, str]] = Counter()
    for found in presentations.values():
        row = found[0]
        pair = known[row.pair_id]
        times[pair.id, row.shown_first, row.rater] += 1
        showing = times[pair.id, row.shown_first, row.rater]
        a_first = row.shown_first == pair.method_a
        sides = (pair.text_a, pair.text_b) if a_first else (pair.text_b, pair.text_a)
        name = sha256(f"{pair.id} {row.shown_first} {showing}".encode()).hexdigest()[:20]
        methods = {
            "id": name,
            "pair_id": pair.id,
            "dataset": pair.dataset,
            "prompt_id": pair.prompt_id,
            "showing": str(showing),
            "method_a": pair.method_a,
            "method_b": pair.method_b,
            "left": row.shown_first,
            "right": pair.method_b if a_first else pair.method_a,
            "answers": "sides",
        }
        texts = {"prompt": pair.prompt, "text_left": sides[0], "text_right": sides[1]}
        yield ShownPair(id=name, methods=methods, texts=texts, rows=tuple(found))


def potato_files(rows: Sequence[TidyRow], pairs: Sequence[Pair]) -> dict[str, bytes]:
    """Return a Potato project: its configuration, its data file, and annotations as Potato exports them."""
    items: dict[str, dict[str, object]] = {}
    methods: dict[str, Mapping[str, object]] = {}
    annotations = []
    for shown in shown_pairs(rows, pairs):
        texts = [shown.texts["text_left"], shown.texts["text_right"]]
        items[shown.id] = {"id": shown.id, "text": texts, "prompt": shown.texts["prompt"]}
        methods[shown.id] = shown.methods
        annotations.append(
            {
                "instance_id": shown.id,
                "user_id": shown.rows[0].rater,
                "rater_kind": shown.rows[0].rater_kind,
                "labels": {row.criterion: {"selection": row.position} for row in shown.rows},
                "spans": {},
                "links": {},
            }
        )
    config = {
        "annotation_task_name": "Compare two texts",
        "task_dir": ".",
        "output_annotation_dir": "annotation_output/",
        "data_files": ["items.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "user_config": {"allow_all_users": True, "users": []},
        "annotation_schemes": [
            {
                "annotation_type": "pairwise",
                "name": name,
                "description": name,
                "mode": "binary",
                "items_key": "text",
                "labels": ["A", "B"],
                "allow_tie": True,
                "tie_label": "tie",
            }
            for name in _criteria(rows)
        ],
    }
    return {
        "config.yaml": (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode(),  # which is YAML
        "items.jsonl": json_lines(items.values()),
        "methods.jsonl": json_lines(methods.values()),
        "annotations.jsonl": json_lines(annotations),
    }


def label_studio_files(rows: Sequence[TidyRow], pairs: Sequence[Pair]) -> dict[str, bytes]:
    """Return a Label Studio project: its labelling configuration, tasks, and these with their annotations.

    Whoever is still to rate gets tasks.json: annotations.json says who answered what. Raters stand in a text
    area, since accounts (`completed_by`) are those of a server.
    """
    tasks: dict[str, dict[str, object]] = {}
    methods: dict[str, Mapping[str, object]] = {}
    annotations: dict[str, list[dict[str, object]]] = {}
    for shown in shown_pairs(rows, pairs):
        tasks[shown.id] = {"data": {"id": shown.id, **shown.texts}}
        methods[shown.id] = shown.methods
        first = shown.rows[0]
        texts = {"rater": first.rater, "rater_kind": first.rater_kind}
        result = [
            *(
                {"from_name": row.criterion, "to_name": "prompt", "type": "choices"}
                | {"value": {"choices": [row.position]}}
                for row in shown.rows
            ),
            *(
                {"from_name": name, "to_name": "prompt", "type": "textarea", "value": {"text": [text]}}
                for name, text in texts.items()
            ),
        ]
        annotations.setdefault(shown.id, []).append(
            {"result": result, "was_cancelled": False, "lead_time": first.seconds, "created_at": first.at}
        )
    found = [{**task, "annotations": annotations[name]} for name, task in tasks.items()]
    return {
        "config.xml": _labelling(rows),
        "tasks.json": json_lines([list(tasks.values())]),
        "annotations.json": json_lines([found]),
        "methods.jsonl": json_lines(methods.values()),
    }


def _labelling(rows: Sequence[TidyRow]) -> bytes:
    choices = "".join(f'<Choice value="{word}"/>' for word in ("A", "tie", "B"))
    lines = [
        "<View>",
        '  <Text name="prompt" value="$prompt"/>',
        '  <View style="display: flex; gap: 2em">',
        '    <Text name="text_left" value="$text_left"/>',
        '    <Text name="text_right" value="$text_right"/>',
        "  </View>",
    ]
    for name in _criteria(rows):
        lines += [
            f"  <Header value={quoteattr(name)}/>",
            f'  <Choices name={quoteattr(name)} toName="prompt" choice="single" showInline="true">',
            f"    {choices}",
            "  </Choices>",
        ]
    lines += [f'  <TextArea name="{name}" toName="prompt"/>' for name in ("rater", "rater_kind")]
    return "\n".join([*lines, "</View>", ""]).encode()


def hub_configs(files: Sequence[str]) -> str:
    """Return the lines of a card by which `datasets` opens each file by its stem; the first is default."""
    return "configs:\n" + "".join(
        f"- config_name: {file.rpartition('.')[0]}\n  default: {'false' if number else 'true'}\n"
        f"  data_files:\n  - split: train\n    path: {file}\n"
        for number, file in enumerate(files)
    )


def dataset_files(rows: Sequence[TidyRow], pairs: Sequence[Pair]) -> dict[str, bytes]:
    """Return a folder for `datasets.load_dataset`: verdicts, and the pairs with their texts as "pairs"."""
    card = (
        f"---\n{hub_configs(['verdicts.parquet', 'pairs.parquet'])}---\n\n"
        "Verdicts on pairs of texts, one a row; the pairs with their texts.\n"
    )
    judged = {row.pair_id for row in rows}
    shown = [pair for pair in pairs if pair.id in judged]
    return {
        "README.md": card.encode(),
        "verdicts.parquet": row_bytes(rows, form="parquet", kind=TidyRow),
        "pairs.parquet": row_bytes(shown, form="parquet", kind=Pair),
    }


def _criteria(rows: Sequence[TidyRow]) -> list[str]:
    return list(dict.fromkeys(row.criterion for row in rows))


TOOLS: Mapping[str, Callable[[Sequence[TidyRow], Sequence[Pair]], dict[str, bytes]]] = {
    "potato": potato_files,
    "label-studio": label_studio_files,
    "huggingface": dataset_files,
}
"""The folders of `guard-eval export --to`: each takes verdicts and pairs, and returns files by name."""
