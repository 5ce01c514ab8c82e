"""`new --texts`: texts that others wrote, in the files in which they come, become a study."""

import csv
import functools
import io
import json
import tomllib
import zipfile

import pandas as pd
import pytest
from read_files import read_json_lines

from guard_eval.errors import StudyError
from guard_eval.study import Study
from guard_eval.texts.new import new
from guard_eval.texts.pair import pair
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.systems import find_texts

QUESTIONS = [f"Why does plant {n} need rain?" for n in range(4)]


def write(folder, name, rows, *, ends="\n"):
    """Write rows as CSV, JSON or JSON lines, and return the file's name."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if name.endswith(".csv"):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=ends).writerows([list(rows[0]), *(row.values() for row in rows)])
        path.write_bytes(text.getvalue().encode())
    elif name.endswith(".json"):
        path.write_text(json.dumps(rows))
    else:
        path.write_bytes("".join(json.dumps(row) + ends for row in rows).encode())
    return name


def rows_of(*names, prompt="prompt", text="text", heading="", questions=QUESTIONS, words="{} on {}", **more):
    """Return a row for each question and system; the system stands under a heading, if there is one."""
    return [
        {prompt: question, heading: name, text: words.format(name, question)} | more
        if heading
        else {prompt: question, text: words.format(name, question)} | more
        for question in questions
        for name in names
    ]


def plain(folder, name, **options):
    """Write a system's texts without its name."""
    return write(folder, f"{name}.jsonl", rows_of(name, **options))


def alpaca(folder, name):
    """Return a file as AlpacaEval's model_outputs.json."""
    rows = rows_of(name, prompt="instruction", text="output", heading="generator", dataset="helpful_base")
    return write(folder, f"{name}/model_outputs.json", rows)


def samples(folder, name, *, nested):
    """Return a file as lm-evaluation-harness' samples, old or new."""
    rows = [
        {
            "doc_id": number,
            "doc": {"question": question},
            "target": "because",
            "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": []}}}
            if nested
            else [[question, {}]],
            "resps": [[f"{name} on {question}"]],
            "filtered_resps": [extracted],
            "filter": filter_name,
            "exact_match": 0.0,
        }
        for filter_name, extracted in (("strict-match", "[invalid]"), ("flexible-extract", "18"))
        for number, question in enumerate(QUESTIONS)
    ]
    return write(folder, f"{name}.jsonl", rows)


def wide(folder, *names, **more):
    rows = [
        {"prompt": question} | {name: f"{name} on {question}" for name in names} | more
        for question in QUESTIONS
    ]
    return write(folder, "wide.csv", rows)


SHAPES = {
    "alpaca_eval": lambda folder: [alpaca(folder, "x"), alpaca(folder, "y")],
    "lm-eval": lambda folder: [samples(folder, "x", nested=False), samples(folder, "y", nested=True)],
    "a column for each": lambda folder: [wide(folder, "x", "y")],
    "a row for each": lambda folder: [write(folder, "long.jsonl", rows_of("x", "y", heading="method"))],
    "a file for each": lambda folder: [plain(folder, "x"), plain(folder, "y")],
}


def texts_of(folder):
    """Return each system's first texts by the words of their prompts."""
    study = Study.open(folder)
    prompts = read_prompts(study.prompts_path)
    words = {prompt.id: prompt.text for prompt in prompts}
    return {
        name: {words[prompt_id]: text.text for (prompt_id, number), text in texts.items() if number == 1}
        for name, texts in find_texts(study, study.settings.systems, prompts).items()
    }


EXPECTED = {name: {question: f"{name} on {question}" for question in QUESTIONS} for name in ("x", "y")}


@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
def test_every_file_layout_gives_the_same_study(run, tmp_path, make):
    ran = run("new", "s", "--texts", *make(tmp_path))
    assert (ran.code, ran.err) == (0, "")
    assert texts_of(tmp_path / "s") == EXPECTED
    assert "x: 4 texts from" in ran.out
    row = read_json_lines(tmp_path / "s" / "texts" / "x.jsonl")[0]
    assert row.keys() == {"id", "text"}
    assert "set task in study.toml" in ran.out
    assert "4 pairs, 4 new. People will rate 4 of them, 4 people each" in run("pair", "s").out
    assert "key: none is sent" in run("judge", "s", "--dry-run").out  # a paid model is the owner's choice
    assert "2 systems, 2 in files" in run("status", "s").out


def test_further_texts_of_a_sample_are_reported(run, tmp_path):
    """lm-evaluation-harness with several repeats of each prompt."""
    for name in ("x", "y"):
        file = tmp_path / samples(tmp_path, name, nested=False)
        rows = [row | {"resps": [[*row["resps"][0], "again"]]} for row in read_json_lines(file)]
        write(tmp_path, file.name, rows)
    ran = run("new", "s", "--texts", "x.jsonl", "y.jsonl")
    assert "x: 4 texts from x.jsonl (4 exact duplicates left out; only the first of several texts" in ran.out
    assert texts_of(tmp_path / "s") == EXPECTED


def chat(question, answer, role="role", words="content", names=("user", "assistant")):
    return [{role: names[0], words: question}, {role: names[1], words: answer}]


def turn(text):
    """Return an answer in the shape of Anthropic's messages."""
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def complete(answer, **more):
    """Return a server's answer in the shape of OpenAI's chat completions."""
    choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
    return {"object": "chat.completion", "created": 1, "model": "m", "choices": [choice]} | more


NESTED = {
    "messages": lambda q, a: {"messages": chat(q, a)},
    "JSON in a cell": lambda q, a: {"messages": json.dumps(chat(q, a)), "n": 1},
    "a chat in a column of texts": lambda q, a: {"generation": json.dumps(chat(q, a)), "n": 1},
    "a chat as pandas writes it": lambda q, a: {"messages": str(chat(q, a)), "n": 1},
    "ShareGPT": lambda q, a: {"id": q[-12], "conversations": chat(q, a, "from", "value", ("human", "gpt"))},
    "TRL": lambda q, a: {"prompt": chat(q, a)[:1], "completion": chat(q, a)[1:]},
    "transformers": lambda q, a: {"generated_text": chat(q, a)},
    "vLLM": lambda q, a: {"request_id": "7", "prompt": q, "outputs": [{"index": 0, "text": a}]},
    "a log": lambda q, a: {"request": {"model": "m", "messages": chat(q, a)[:1]}, "response": complete(a)},
    "Inspect": lambda q, a: {"input": q, "messages": chat(q, a), "output": complete(a, completion=a)},
    "HELM": lambda q, a: {"request": {"prompt": q}, "result": {"completions": [{"text": a}]}},
    "Braintrust": lambda q, a: {"id": a, "input": {"question": q}, "output": a},
    "LangSmith": lambda q, a: {"id": a, "inputs": {"question": q}, "outputs": {"output": a}},
    "Bedrock": lambda q, a: {"modelInput": {"messages": chat(q, a)[:1]}, "modelOutput": turn(a)},
    "Arena-Hard 2": lambda q, a: {"uid": a, "messages": chat(q, {"answer": a})},
    "OpenCompass": lambda q, a: {"origin_prompt": q, "prediction": a},
    "Ragas": lambda q, a: {"user_input": q, "response": a},
    "parts": lambda q, a: {
        "messages": chat(
            [{"type": "text", "text": q}],
            [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": a[:4]}, {"text": a[4:]}],
        )
    },
}
WITHOUT_PROMPTS = {
    "OpenAI's batches": lambda n, a: {"id": a, "custom_id": n, "response": {"body": complete(a)}},
    "OpenAI's responses": lambda n, a: {
        "custom_id": n,
        "output": [{"type": "reasoning"}, {"role": "assistant", "content": [{"text": a}]}],
    },
    "Anthropic's batches": lambda n, a: {
        "custom_id": n,
        "result": {"type": "succeeded", "message": {"role": "assistant", "content": [{"text": a}]}},
    },
    "Gemini": lambda n, a: {
        "custom_id": n,
        "response": {"candidates": [{"content": {"parts": [{"text": a}]}}]},
    },
    "OpenAI's completions": lambda n, a: complete(a, id=f"chatcmpl-{n}", context=None),
    "Anthropic": lambda n, a: {"id": f"msg_{n}", "type": "message", "context": None} | turn(a),
    "OpenAI's response": lambda n, a: {
        "object": "response",
        "created_at": 1,
        "id": n[::-1],
        "text": {"format": {}},
        "output": [turn(a)],
        "context": None,
    },
    "Ollama": lambda n, a: {"model": "m", "created_at": n, "response": a, "context": [1, 2]},
    "FastChat": lambda n, a: {"custom_id": n, "choices": [{"index": 0, "turns": [a]}]},
}


@pytest.mark.parametrize("make", NESTED.values(), ids=NESTED)
def test_nested_records_of_tools_are_read(run, tmp_path, make):
    for name in ("x", "y"):
        write(tmp_path, f"{name}.jsonl", [make(question, f"{name} on {question}") for question in QUESTIONS])
    ran = run("new", "s", "--texts", "x.jsonl", "y.jsonl")
    assert (ran.code, ran.err, texts_of(tmp_path / "s")) == (0, "", EXPECTED)


@pytest.mark.parametrize("make", WITHOUT_PROMPTS.values(), ids=WITHOUT_PROMPTS)
def test_answers_of_servers_find_their_prompts(run, tmp_path, make):
    """The file of prompts is the input of a batch. Only answers with its ids may come in another order."""
    ids = [f"q-{number}" for number in range(4)]
    requests = [
        {"custom_id": name, "body": {"model": "m", "messages": [{"role": "user", "content": question}]}}
        for name, question in zip(ids, QUESTIONS, strict=True)
    ]
    write(tmp_path, "requests.jsonl", requests)
    for name in ("x", "y"):
        rows = [make(n, f"{name} on {q}") for n, q in zip(ids, QUESTIONS, strict=True)]
        write(tmp_path, f"{name}.jsonl", rows if "context" in rows[0] else rows[::-1])
    ran = run("new", "s", "--prompts", "requests.jsonl", "--texts", "x.jsonl", "y.jsonl")
    assert (ran.code, ran.err, texts_of(tmp_path / "s")) == (0, "", EXPECTED)


@pytest.mark.parametrize("make", [lambda words: words, lambda words: {"content": words}])
def test_question_with_one_turn_is_a_prompt(run, tmp_path, make):
    """FastChat's questions, and its answers in another order. MT-Bench has two turns, and one is chosen."""
    questions = [{"question_id": 81 + n, "turns": [make(q)]} for n, q in enumerate(QUESTIONS)]
    write(tmp_path, "q.jsonl", questions)
    for name in ("x", "y"):
        turns = [[make(f"{name} on {question}")] for question in QUESTIONS]
        rows = [
            {"question_id": 81 + n, "answer_id": f"a{n}", "tstamp": 1.5, "choices": [{"turns": answer}]}
            for n, answer in enumerate(turns)
        ]
        write(tmp_path, f"{name}.jsonl", rows[::-1])
    new = ("new", "s", "--prompts", "q.jsonl", "--texts", "x.jsonl", "y.jsonl")
    ran = run(*new)
    assert (ran.code, ran.err, texts_of(tmp_path / "s")) == (0, "", EXPECTED)
    write(tmp_path, "q.jsonl", [{**row, "turns": 2 * row["turns"]} for row in questions])
    assert "'turns' is" in run(*new).refused()


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: {"results": {"version": 3, "results": rows}, "config": {}},
        lambda rows: {"results": {"score": 0.5}, "samples": rows},
        lambda rows: [
            {
                "prompt": row["prompt"],
                "policy": row["provider"]["id"],
                "response": {"text": row["response"]["output"], "model": row["provider"]["id"]},
            }
            for row in rows
        ],
    ],
    ids=["promptfoo", "a summary", "a policy"],
)
def test_results_of_several_systems_are_read(run, tmp_path, make):
    rows = [
        {
            "provider": {"id": name},
            "prompt": {"raw": q, "label": "p"},
            "response": {"output": f"{name} on {q}"},
        }
        for q in QUESTIONS
        for name in ("x", "y")
    ]
    run("new", "s", "--texts", write(tmp_path, "all.json", make(rows)))
    assert texts_of(tmp_path / "s") == EXPECTED


@pytest.mark.parametrize("key", ["id", "question"])
def test_values_of_nested_objects_name_the_prompts(run, tmp_path, key):
    """Beside prompts in another order, their order would give the texts of other prompts."""
    prompts = [{"id": f"q{n}", "prompt": question} for n, question in enumerate(QUESTIONS)]
    docs = [{"id": row["id"], "question": row["prompt"]}[key] for row in prompts]
    for name in ("x", "y"):
        texts = [f"{name} on {question}" for question in QUESTIONS]
        rows = [{"doc": {key: doc}, "text": text} for doc, text in zip(docs, texts, strict=True)]
        write(tmp_path, f"{name}.jsonl", rows)
    run("new", "s", "--prompts", write(tmp_path, "p.jsonl", prompts[::-1]), "--texts", "x.jsonl", "y.jsonl")
    assert texts_of(tmp_path / "s") == EXPECTED


@pytest.mark.parametrize("is_by_system", [False, True])
def test_ids_as_keys_of_objects_name_the_prompts(run, tmp_path, is_by_system):
    """{system: {id: text}} and {id: {system: text}} beside prompts in another order."""
    texts = {name: {f"q-{n}": f"{name} on {q}" for n, q in enumerate(QUESTIONS)} for name in ("x", "y")}
    by_id = {key: {name: texts[name][key] for name in texts} for key in texts["x"]}
    (tmp_path / "all.json").write_text(json.dumps(texts if is_by_system else by_id))
    rows = [{"id": f"q-{n}", "prompt": question} for n, question in enumerate(QUESTIONS)]
    run("new", "s", "--prompts", write(tmp_path, "p.jsonl", rows[::-1]), "--texts", "all.json")
    assert texts_of(tmp_path / "s") == EXPECTED


@pytest.mark.parametrize("by_name", [False, True])
def test_systems_inside_a_record_are_read(run, tmp_path, by_name):
    """UltraFeedback has a list of models and texts in each record, and others an object."""
    rows = []
    for question in QUESTIONS:
        texts = {name: f"{name} on {question}" for name in ("x", "y")}
        items = [{"id": name, "model": name, "response": text} for name, text in texts.items()]
        rows.append({"instruction": question, "responses": texts if by_name else items})
    write(tmp_path, "all.json", rows)
    assert run("new", "s", "--texts", "all.json").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


@pytest.mark.parametrize(
    "more",
    [
        {"judgements": [{"system": name, "text": "A verdict."} for name in "ab"]},
        {"scores": [{"method": "BLEU", "value": 0.1}, {"method": "ROUGE", "value": 0.2}]},
        {"choices": [{"id": name, "text": "An option."} for name in "ab"]},
        {"request": {"content": "A question."}},
    ],
)
def test_nested_values_beside_a_text_are_no_texts(run, tmp_path, more):
    write(tmp_path, "all.jsonl", rows_of("x", "y", heading="system", **more))
    assert run("new", "s", "--texts", "all.jsonl").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def test_prompts_keep_their_nested_answers(run, tmp_path):
    rows = [
        {"id": n, "prompt": q, "refs": [{"model": m, "text": m} for m in "ab"]}
        for n, q in enumerate(QUESTIONS)
    ]
    files = [plain(tmp_path, name) for name in ("x", "y")]
    assert run("new", "s", "--prompts", write(tmp_path, "p.jsonl", rows), "--texts", *files).code == 0


def test_chats_with_other_words_than_the_prompt_are_refused(run, tmp_path):
    """The record's prompt may be a template, and the chat has the whole prompt."""
    rows = [{"prompt": "Answer.", "messages": chat(q, f"x on {q}")} for q in QUESTIONS]
    message = run("new", "s", "--texts", write(tmp_path, "x.jsonl", rows), plain(tmp_path, "y")).refused()
    assert "'messages' differs between texts of one prompt" in message


def test_sides_inside_a_record_are_refused(run, tmp_path):
    rows = [{"prompt": q, "responses": {"response_a": f"A {q}", "response_b": f"B {q}"}} for q in QUESTIONS]
    assert "are sides" in run("new", "s", "--texts", write(tmp_path, "x.jsonl", rows)).refused()


def test_arrays_inside_objects_of_data_frames_are_read(tmp_path):
    rows = rows_of("x", "y", heading="system", meta={"tags": pd.array([1, 2]).to_numpy()})
    assert new(tmp_path / "s", texts=[pd.DataFrame(rows)]).systems == {"x": 4, "y": 4}


@pytest.mark.parametrize(
    ("of_prompts", "heading", "of_texts"),
    [
        ([4, 3, 2, 1], "response_id", [1, 2, 3, 4]),  # it may number the rows
        (["Paris", "Rome", "Oslo", "Bonn"], "extracted", ["Paris", "Rome", "Bonn", "Bonn"]),
        (["Paris", "Rome", "Oslo", "Bonn"], "extracted", ["Paris", "Rome", "Lima", "Bonn"]),
        ([20, 20, 21, 22], "rank", [22, 21, 20, 20]),
        (["news", "news", "tale", "tale"], "rank", ["tale", "news", "tale", "news"]),
    ],
)
def test_doubtful_values_of_prompts_are_asked_about(run, tmp_path, of_prompts, heading, of_texts):
    """A measurement or an answer, which happens to equal another prompt's, would move a text there."""
    source = [{"id": f"q{n}", "prompt": q, "rank": of_prompts[n]} for n, q in enumerate(QUESTIONS)]
    files = write_texts_of_x_and_y(tmp_path, heading, zip(of_texts, QUESTIONS, strict=True))
    run_new = run("new", "s", "--common", "--prompts", write(tmp_path, "p.jsonl", source), "--texts", *files)
    assert f"{heading!r} has" in run_new.refused()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": chat("Q", [{"type": "image_url"}])}, "only messages; write rows without nested"),
        ({"messages": chat("Q", "A"), "text": "<user>Q"}, "the text may be under 'text' or 'generated_text'"),
        (
            {"question": "Q", "choices": [{"label": label, "text": "x"} for label in "AB"]},
            "only question, choices; write",
        ),
        ({"prompt": "Q", "output": [turn("A"), {"type": "call"}, turn("B")]}, "'output' is"),
        ({"messages": [turn("A"), turn("B")]}, "only messages; write rows"),
        ({"prompt": "Q", "message": turn("A"), "output": {"text": "B"}}, "under 'text' or 'output'"),
        ({"prompt": "Q", "choices": [{"turns": ["first", "second"]}]}, "only prompt, choices; write rows"),
        ({"x": "of y", "n": 7, "choices": [{"turns": ["1", "2"]}]}, "--column 'x', or write rows without"),
        ({"prompt": "Q", "output": functools.reduce(lambda inner, _: [inner], range(800), [])}, "must be a"),
        ({"prompt": {"lang": "en"}, "text": "A"}, "'prompt' is {'lang': 'en'}; it must be a string"),
        ({"prompt": "Q", "response": {"answer": "A"}}, "'response' is {'answer': 'A'}; it must be a string"),
    ],
)
def test_unclear_nested_records_are_refused(run, tmp_path, row, message):
    write(tmp_path, "x.jsonl", [row])
    assert message in run("new", "s", "--texts", "x.jsonl", plain(tmp_path, "y")).refused()


@pytest.mark.parametrize(
    "failure",
    [
        {"response": {"status_code": 500, "body": {"error": {"message": "busy"}}}},
        {"response": None, "error": {"code": "batch_expired"}},
        {"result": {"type": "errored", "error": {"type": "overloaded"}}},
    ],
)
def test_failed_request_of_a_batch_is_a_missing_text(run, tmp_path, failure):
    write(tmp_path, "p.jsonl", [{"custom_id": f"q{n}", "prompt": q} for n, q in enumerate([*QUESTIONS, "Q"])])
    for name in ("x", "y"):
        texts = [f"{name} on {question}" for question in QUESTIONS]
        rows = [{"custom_id": f"q{n}", "response": {"body": complete(text)}} for n, text in enumerate(texts)]
        write(tmp_path, f"{name}.jsonl", [*rows, {"custom_id": "q4"} | failure])
    command = ("new", "s", "--prompts", "p.jsonl", "--texts", "x.jsonl", "y.jsonl")
    assert "x in x.jsonl has no text to 1 of 5" in run(*command).refused()
    assert run(*command, "--common").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def test_several_texts_of_an_answer_are_counted(run, tmp_path):
    """The first of several texts is read, and an answer without content is no text."""
    for name in ("x", "y"):
        contents = [f"{name} on {question}" for question in QUESTIONS]
        rows = [
            {"prompt": question, "choices": [*complete(content)["choices"], {"text": "again"}]}
            for question, content in zip(QUESTIONS, contents, strict=True)
        ]
        write(tmp_path, f"{name}.jsonl", [*rows, {"prompt": "Q"} | complete(None)])
    files = ("--texts", "x.jsonl", "y.jsonl")
    assert "x in x.jsonl has no text to 1 of 5, such as 0005: 'Q'" in run("new", "s", *files).refused()
    ran = run("new", "s", "--common", *files)
    assert "x: 4 texts from x.jsonl (only the first of several texts is read in 4 records)" in ran.out
    assert texts_of(tmp_path / "s") == EXPECTED


def test_lines_of_plain_text_are_texts_in_order(run, tmp_path):
    (tmp_path / "source.txt").write_text("\n".join(QUESTIONS))
    for name in ("x", "y"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} on {question}\n" for question in QUESTIONS))
    message = run("new", "s", "--texts", "x.txt", "y.txt").refused()
    assert "no text has a prompt beside it" in message
    ran = run("new", "s", "--prompts", "source.txt", "--texts", "x.txt", "y.txt")
    assert "x: 4 texts from x.txt (in the order of the prompts)" in ran.out
    assert texts_of(tmp_path / "s") == EXPECTED
    (tmp_path / "y.txt").write_text(f"y on {QUESTIONS[0]}\n\n\ny on {QUESTIONS[3]}\n")
    ran = run("new", "blank", "--prompts", "source.txt", "--texts", "x.txt", "y.txt")
    assert "y: 4 texts from y.txt (in the order of the prompts; 2 empty)" in ran.out
    (tmp_path / "y.txt").write_text(
        "".join(f"q{n}\ty on {question}\n" for n, question in enumerate(QUESTIONS))
    )
    ran = run("new", "tabs", "--prompts", "source.txt", "--texts", "x.txt", "y.txt")
    assert "y.txt has no column named text" in ran.refused()


def test_three_systems_are_all_compared(run, tmp_path):
    assert run("new", "s", "--texts", wide(tmp_path, "x", "y", "z")).code == 0
    compared = Study.open(tmp_path / "s").settings.pairs.compare
    assert compared == [["x", "y"], ["x", "z"], ["y", "z"]]


def with_own_ids(folder, name, *, first=0, questions=QUESTIONS):
    rows = [row | {"id": first + n} for n, row in enumerate(rows_of(name, questions=questions))]
    return write(folder, f"{name}.jsonl", rows)


def test_same_id_in_two_files_may_be_two_prompts(run, tmp_path):
    """The same id is another prompt in the other file, whose order is reversed."""
    file = with_own_ids(tmp_path, "x")
    other = with_own_ids(tmp_path, "y", questions=QUESTIONS[::-1])
    assert run("new", "s", "--texts", file, other).code == 0
    assert texts_of(tmp_path / "s") == EXPECTED
    assert run("new", "t", "--texts", file, with_own_ids(tmp_path, "z", first=7)).code == 0
    assert len(read_prompts(tmp_path / "t" / "prompts.jsonl")) == 4


def test_prompts_match_by_text_if_one_file_lacks_ids(run, tmp_path):
    files = with_own_ids(tmp_path, "x", first=1), plain(tmp_path, "y")
    assert run("new", "s", "--texts", *files).code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def test_prompt_with_two_ids_is_one_prompt(run, tmp_path):
    """Row numbers as ids tell two samples of a prompt apart; they make no independent prompts."""
    files = [with_own_ids(tmp_path, name, questions=[q for q in QUESTIONS for _ in "ab"]) for name in "xy"]
    for file in files:
        rows = read_json_lines(tmp_path / file)
        write(tmp_path, file, [row | {"text": f"{row['text']} {row['id']}"} for row in rows])
    assert "8 texts from x.jsonl (4 prompts)" in run("new", "s", "--texts", *files).out
    assert len(pair(Study.open(tmp_path / "s")).pairs) == 4


def test_line_ends_and_unicode_form_do_not_distinguish_prompts(run, tmp_path):
    accented = ["Café au lait:\nhow much?", *QUESTIONS]
    composed = ["Cafe\u0301 au lait:\r\nhow much? ", *QUESTIONS]
    rows = [{"prompt": question, "text": f"y {question}"} for question in composed]
    files = plain(tmp_path, "x", questions=accented), write(tmp_path, "y.csv", rows, ends="\r\n")
    ran = run("new", "s", "--texts", *files)
    assert (ran.code, ran.err) == (0, "")
    assert len(read_prompts(tmp_path / "s" / "prompts.jsonl")) == 5


def test_three_texts_per_prompt_become_runs(run, tmp_path):
    rows = [{"prompt": question, "text": f"x {n} {question}"} for n in range(3) for question in QUESTIONS]
    ran = run("new", "s", "--texts", write(tmp_path, "x.jsonl", [*rows, rows[0]]), plain(tmp_path, "y"))
    assert "x: 12 texts from x.jsonl (4 prompts; 1 exact duplicate left out)" in ran.out
    study = Study.open(tmp_path / "s")
    texts = find_texts(study, ["x"], read_prompts(study.prompts_path))["x"]
    assert [text.text for (prompt, _), text in texts.items() if prompt == "0001"] == [
        f"x {n} {QUESTIONS[0]}" for n in range(3)
    ]


def test_systems_with_different_prompts_are_refused(run, tmp_path):
    files = plain(tmp_path, "x"), plain(tmp_path, "y", questions=QUESTIONS[:3])
    message = run("new", "s", "--texts", *files).refused()
    assert "y in y.jsonl has no text to 1 of 4, such as 0004: 'Why does plant 3 need rain?'" in message
    assert "on the 3 prompts that all have: --common" in message
    assert not (tmp_path / "s").exists()
    ran = run("new", "s", "--common", "--texts", *files)
    assert "x: 3 texts from x.jsonl (1 text for other prompts left out)" in ran.out
    assert len(pair(Study.open(tmp_path / "s")).pairs) == 3


def test_too_many_planned_ratings_are_refused(run, tmp_path, monkeypatch):
    run("new", "s", "--texts", plain(tmp_path, "x"), plain(tmp_path, "y"))
    monkeypatch.setattr("guard_eval.texts.pair._MOST_RATINGS", 1000)
    message = run("pair", "s", "--set", "annotation.raters_per_pair=251").refused()
    assert "plans 1,004 ratings by people, and at most 1,000 are possible; lower annotation.raters" in message
    assert run("pair", "s", "--set", "annotation.raters_per_pair=250").code == 0


def test_equal_ids_with_prompts_cut_differently_are_refused(run, tmp_path):
    for name, end in (("x", 12), ("y", 14)):
        rows = [
            {"id": f"p{n}", "prompt": question[:end], "text": name} for n, question in enumerate(QUESTIONS)
        ]
        write(tmp_path, f"{name}.jsonl", rows)
    message = run("new", "s", "--common", "--texts", "x.jsonl", "y.jsonl").refused()
    assert "x in x.jsonl has no text to 1 of 2" in message
    assert "4 ids stand for other words in another file" in message
    assert "--common" not in message


def test_ids_of_several_prompts_need_prompts(run, tmp_path):
    """An id stands for one prompt in x and for another prompt in y, and z has ids alone."""
    files = with_own_ids(tmp_path, "x"), with_own_ids(tmp_path, "y", questions=QUESTIONS[::-1])
    bare = write(tmp_path, "z.jsonl", [{"id": n, "text": f"z on {q}"} for n, q in enumerate(QUESTIONS)])
    for order in ([*files, bare], [bare, *files[::-1]]):
        message = run("new", "s", "--common", "--texts", *order).refused()
        assert "4 texts by z in z.jsonl have an id and no prompt, and the id stands for several" in message
        assert f"'0' is {QUESTIONS[0]!r} and {QUESTIONS[3]!r}" in message
    source = write(tmp_path, "source.jsonl", [{"id": n, "prompt": q} for n, q in enumerate(QUESTIONS)])
    assert run("new", "s", "--prompts", source, "--texts", *files, bare).code == 0
    assert texts_of(tmp_path / "s")["z"] == {question: f"z on {question}" for question in QUESTIONS}


def test_ids_of_unknown_prompts_are_named(run, tmp_path):
    rows_with_prompts = [{"id": n, "prompt": question, "text": "x"} for n, question in enumerate(QUESTIONS)]
    rows_with_ids = [{"id": 100 + n, "text": "y"} for n in range(4)]
    files = write(tmp_path, "x.jsonl", rows_with_prompts), write(tmp_path, "y.jsonl", rows_with_ids)
    message = run("new", "s", "--texts", *files).refused()
    assert "4 of the texts by y have other ids, such as '100'. Correct them if" in message
    assert "Add these texts" in message


@pytest.mark.parametrize("change", [str.upper, lambda text: text.replace(" ", "  ")])
def test_prompts_that_differ_in_case_or_spaces_are_named(run, tmp_path, change):
    rows = [[{"prompt": form(q), "text": "x"} for q in QUESTIONS] for form in (str, change)]
    files = write(tmp_path, "x.jsonl", rows[0]), write(tmp_path, "y.jsonl", rows[1])
    message = run("new", "s", "--texts", *files).refused()
    assert (
        f"{len(QUESTIONS)} of these prompts and prompts of x differ only in spaces or in capital" in message
    )


def test_an_invalid_name_is_traced_to_the_file_of_its_texts(run, tmp_path):
    rows = [
        {"prompt": q, "text": f"{name} {q}", "system": name} for q in QUESTIONS for name in ("tie", "GPT")
    ]
    message = run("new", "s", "--texts", write(tmp_path, "both.jsonl", rows)).refused()
    assert "'tie': this word means a side" in message
    assert "Nothing was written. Systems get their names from both.jsonl" in message
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("option", ["--prompts", "--texts"])
def test_half_a_character_is_refused_with_its_remedy(run, tmp_path, option):
    path = tmp_path / "half.jsonl"
    path.write_text('{"prompt": "a \\ud83d", "text": "b \\ud83d"}\n')
    assert "without halves of characters such as" in run("new", "s", option, path).refused()


def test_prompts_come_from_a_file_by_id_or_order(run, tmp_path):
    source = write(tmp_path, "source.jsonl", [{"id": f"q{n}", "prompt": q} for n, q in enumerate(QUESTIONS)])
    by_id = [{"id": f"q{n}", "text": f"x on {q}"} for n, q in enumerate(QUESTIONS)]
    in_order = [{"text": f"y on {q}"} for q in QUESTIONS]
    files = write(tmp_path, "x.csv", by_id[::-1]), write(tmp_path, "y.csv", in_order)
    ran = run("new", "s", "--prompts", source, "--texts", *files)
    assert texts_of(tmp_path / "s") == EXPECTED
    assert "y: 4 texts from y.csv (in the order of the prompts)" in ran.out


IDS = {
    "a shared column of ids": ("question_id", "question_id"),
    "another name for ids": ("id", "example_id"),
    "a shared column of words": ("topic", "topic"),
    "another name for words": ("topic", "case"),
    "an id for words": ("topic", "id"),
}


@pytest.mark.parametrize(("of_prompts", "of_texts"), IDS.values(), ids=IDS)
def test_ids_under_other_headings_are_recognised(run, tmp_path, of_prompts, of_texts):
    """Parallel requests write texts in another order than that of the prompts."""
    names = [f"topic {n}" if of_prompts == "topic" else n + 7 for n in range(5)]
    named = list(zip(names, QUESTIONS, strict=False))
    source = write(tmp_path, "source.jsonl", [{of_prompts: name, "prompt": q} for name, q in named])
    x = [{"request": n % 2, of_texts: name, "text": f"x on {q}"} for n, (name, q) in enumerate(named[::-1])]
    y = [{of_texts: name, "text": f"y on {q}", "response_id": 7} for name, q in (*named[2:], *named[:2])]
    if of_texts in {of_prompts, "case"}:
        y.append({of_texts: names[-1], "text": "Of another prompt.", "response_id": 8})
    if of_prompts == "question_id":  # as pandas writes numbers beside an empty cell
        y = [row | {of_texts: float(row[of_texts])} for row in y]
    files = write(tmp_path, "x.jsonl", x), write(tmp_path, "y.csv", y)
    assert run("new", "s", "--prompts", source, "--texts", *files).code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def write_texts_of_x_and_y(folder, heading, rows):
    """Write the texts of two systems with a number beside each text. Return the names of the files."""
    rows = list(rows)
    return [
        write(folder, f"{name}.jsonl", [{heading: n, "text": f"{name} on {q}"} for n, q in rows])
        for name in ("x", "y")
    ]


@pytest.mark.parametrize("heading", ["item", "rank", "index", "sample", "nr", ""])
def test_prompt_numbers_in_another_order_are_asked_about(run, tmp_path, heading):
    """Numbers under these headings can be the prompts' ids, or count the rows of each file."""
    rows = list(enumerate(QUESTIONS, start=1))
    rotated = [*rows[1:], rows[0]]
    source = write(tmp_path, "source.jsonl", [{heading: n, "prompt": q} for n, q in rows])
    files = write_texts_of_x_and_y(tmp_path, heading, rotated)
    message = run("new", "s", "--prompts", source, "--texts", *files).refused()
    assert f"{heading!r} has the prompts' values in another order" in message
    write_texts_of_x_and_y(tmp_path, heading, rows)
    assert run("new", "s", "--prompts", source, "--texts", *files).code == 0
    write(tmp_path, "source.jsonl", [{"prompt_id": n, "prompt": q} for n, q in rows])
    write_texts_of_x_and_y(tmp_path, "prompt_id", rotated)
    assert run("new", "t", "--prompts", source, "--texts", *files).code == 0
    assert texts_of(tmp_path / "s") == texts_of(tmp_path / "t") == EXPECTED


@pytest.mark.parametrize("label", ["{}", "q00{}", "#{}"])
def test_shuffled_numbers_beside_prompts_without_ids_are_asked_about(run, tmp_path, label):
    """The file of prompts has no ids, so the numbers of its rows may be the ids of the texts."""
    rows = [(label.format(n), q) for n, q in enumerate(QUESTIONS)]
    source = write(tmp_path, "source.jsonl", [{"prompt": q} for q in QUESTIONS])
    files = write_texts_of_x_and_y(tmp_path, "item", [*rows[1:], rows[0]])
    message = run("new", "s", "--prompts", source, "--texts", *files).refused()
    assert "'item' has the prompts' values in another order" in message
    write_texts_of_x_and_y(tmp_path, "item", rows)
    assert run("new", "s", "--prompts", source, "--texts", *files).code == 0


@pytest.mark.parametrize("number", [{}, {"id": 1}])
def test_column_with_words_of_prompts_is_no_system(run, tmp_path, number):
    """The column `message` has the prompts in another order. Rows have no ids, or the ids of the prompts."""
    ids = [number and {"id": n} for n in range(len(QUESTIONS))]
    rows = list(zip(ids, QUESTIONS, strict=True))
    source = write(tmp_path, "source.jsonl", [name | {"prompt": q} for name, q in rows])
    wide = [name | {"message": q, "x": f"x on {q}", "y": f"y on {q}"} for name, q in rows[::-1]]
    new = ("new", "s", "--prompts", source, "--texts", write(tmp_path, "w.csv", wide))
    assert "'message' has the words of the prompts. Rename it to 'prompt', or name" in run(*new).refused()
    assert run(*new, "--column", "x", "--column", "y").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def test_column_with_a_single_text_is_offered_as_a_system(run, tmp_path):
    """A number beside three systems makes the columns doubtful. The third system failed on most prompts."""
    rows = [
        {"prompt": q, "x": f"x on {q}", "y": f"y on {q}", "z": "" if n else f"z on {q}", "size": n}
        for n, q in enumerate(QUESTIONS[:3])
    ]
    message = run("new", "s", "--texts", write(tmp_path, "w.csv", rows)).refused()
    assert "--column 'x' --column 'y' --column 'z'" in message


@pytest.mark.parametrize("copied", [2, len(QUESTIONS)])
def test_system_that_copies_prompts_keeps_its_texts(run, tmp_path, copied):
    """A system that corrects sentences leaves some or all of them unchanged."""
    source = write(tmp_path, "source.jsonl", [{"id": n, "prompt": q} for n, q in enumerate(QUESTIONS)])
    texts = [q if n < copied else f"x on {q}" for n, q in enumerate(QUESTIONS)]
    x = write(tmp_path, "x.jsonl", [{"id": n, "text": text} for n, text in enumerate(texts)])
    y = write(tmp_path, "y.jsonl", [{"id": n, "text": f"y on {q}"} for n, q in enumerate(QUESTIONS)])
    assert run("new", "s", "--prompts", source, "--texts", x, y).code == 0
    assert run("pair", "s").code == 0
    assert run("measure", x, y, "--prompts", source, "--metrics", "length").code == 0


def test_object_of_texts_by_ids_is_read(run, tmp_path):
    source = write(tmp_path, "source.jsonl", [{"id": f"q{n}", "prompt": q} for n, q in enumerate(QUESTIONS)])
    for name in ("x", "y"):
        texts = {f"q{n}": f"{name} on {q}" for n, q in enumerate(QUESTIONS)}
        (tmp_path / f"{name}.json").write_text(json.dumps(texts))
    assert run("new", "s", "--prompts", source, "--texts", "x.json", "y.json").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def test_shifted_ids_are_named_and_not_compared(run, tmp_path):
    source = write(tmp_path, "source.jsonl", [{"id": n + 1, "prompt": q} for n, q in enumerate(QUESTIONS)])
    files = [with_own_ids(tmp_path, name) for name in ("x", "y")]
    for file in files:
        rows = [{"id": row["id"], "text": row["text"]} for row in read_json_lines(tmp_path / file)]
        write(tmp_path, file, rows)
    message = run("new", "s", "--prompts", source, "--texts", *files).refused()
    assert "such as '0'. Correct them if ids begin with 0 in one file and with 1 in another" in message
    assert "--common" not in message


def test_prompt_with_a_missing_text_is_not_called_reworded(run, tmp_path):
    rows = [{"prompt": q, "text": None if n == 1 else f"x on {q}"} for n, q in enumerate(QUESTIONS)]
    files = write(tmp_path, "x.jsonl", rows), plain(tmp_path, "y")
    message = run("new", "s", "--texts", *files).refused()
    assert "x in x.jsonl has no text to 1 of 4" in message
    assert "Add these texts, or compare on the 3 prompts" in message


def test_texts_without_ids_need_the_order_of_the_prompts(run, tmp_path):
    bare = write(tmp_path, "bare.jsonl", [{"text": f"bare on {question}"} for question in QUESTIONS])
    message = run("new", "s", "--texts", plain(tmp_path, "x"), bare).refused()
    assert "bare in bare.jsonl has no text to 4 of 4" in message
    assert "bare has 4 texts without ids and prompts. Add a prompt to each text" in message
    assert "name a file with a prompt for each text in the same order: --prompts FILE" in message


def test_texts_without_any_prompts_are_refused(run, tmp_path):
    for name in ("x", "y"):
        write(tmp_path, f"{name}.jsonl", [{"text": f"{name} {n}"} for n in range(4)])
    message = run("new", "s", "--texts", "x.jsonl", "y.jsonl").refused()
    assert "write the prompts in a column 'prompt', or name a file" in message
    assert "--prompts FILE" in message
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"latency": 3.5}, "'latency' holds '3.5'"),
        ({"category": "plants"}, "'category' holds 'plants'"),
        ({"annotator_note": "I like it"}, "'annotator_note' holds 'I like it'"),
        ({"rationale": "I like it"}, "'rationale' holds 'I like it'"),
    ],
)
def test_columns_without_texts_are_named(run, tmp_path, more, words):
    file = wide(tmp_path, "x", "y", **more)
    message = run("new", "s", "--texts", file).refused()
    assert words in message
    assert "--column 'x' --column 'y'" in message
    assert run("new", "s", "--texts", file, "--column", "x", "--column", "y").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


ROWS = [
    {"prompt": question, "system": name, "text": f"{name} {question}", "task": "same"}
    for question in QUESTIONS
    for name in "xy"
]


def find_genre(row):
    """Return the genre of a row's prompt."""
    return {"genre": ("even", "odd")[QUESTIONS.index(row["prompt"]) % 2]}


@pytest.mark.parametrize("rows", [3, 30])
@pytest.mark.parametrize(
    ("heading", "cell"),
    [
        ("author", "Name {}"),
        ("hint", "think of {}"),
        ("genre", "kind {}"),
        ("facts", "the number is {}"),
        ("key_points", "there are {} plants"),
    ],
)
def test_columns_of_far_shorter_texts_are_asked_about(run, tmp_path, rows, heading, cell):
    """Labels have at most three words, or a quarter of the words of the longest texts (here 18)."""
    texts = [
        {"prompt": f"Why {n}?", heading: cell.format(n)}
        | {name: f"{name} says that {n} plants need rain" + " and sun and some air" * 2 for name in "xy"}
        for n in range(rows)
    ]
    file = write(tmp_path, "all.csv", texts)
    message = run("new", "s", "--texts", file).refused()
    assert f"{heading!r} holds {cell.format(0)!r}" in message
    assert "such as --column 'x' --column 'y'" in message
    assert run("new", "s", "--texts", file, "--column", "x", "--column", "y").code == 0
    assert texts_of(tmp_path / "s").keys() == {"x", "y"}


@pytest.mark.parametrize(
    "heading", ["gold_answer", "answer_key", "expected", "Ground truth", "correct answer"]
)
def test_expected_answer_is_the_reference_and_no_system(run, tmp_path, heading):
    texts = [
        {"prompt": f"Why {n}?", heading: f"{n} red apples", "x": f"{n} green apples", "y": f"only {n} apples"}
        for n in range(4)
    ]
    assert run("new", "s", "--texts", write(tmp_path, "all.csv", texts)).code == 0
    assert texts_of(tmp_path / "s").keys() == {"x", "y"}
    first = read_json_lines(tmp_path / "s" / "prompts.jsonl")[0]
    assert first["reference"] == "0 red apples"


def test_terse_and_verbose_systems_are_named_by_their_columns(run, tmp_path):
    texts = [{"prompt": f"Why {n}?", "x": f"{n} rain", "y": f"{n} " + "rain " * 9} for n in range(4)]
    file = write(tmp_path, "all.csv", texts)
    refused = run("new", "s", "--texts", file).refused()
    assert "Name the column of the texts, or one column for each system, such as --column 'y'" in refused
    assert run("new", "s", "--texts", file, "--column", "x", "--column", "y").code == 0


SOURCES = {
    "a row for each text": lambda folder: [
        write(folder, "all.csv", [row | find_genre(row) | {"latency": n} for n, row in enumerate(ROWS)])
    ],
    "a file for each system": lambda folder: [
        write(
            folder,
            f"{name}.jsonl",
            [row | find_genre(row) | {name: 1} for row in ROWS if row["system"] == name],
        )
        for name in "xy"
    ],
    "a column for each system": lambda folder: [
        write(
            folder,
            "all.csv",
            [{"prompt": q, "x": f"x {q}", "y": f"y {q}"} | find_genre({"prompt": q}) for q in QUESTIONS],
        )
    ],
    "a file of prompts": lambda folder: [
        *("x.jsonl", "y.jsonl", "--prompts"),
        write(folder, "p.csv", [{"prompt": q} | find_genre({"prompt": q}) for q in QUESTIONS]),
    ],
}


@pytest.mark.parametrize("kind", SOURCES)
def test_new_keeps_columns_that_describe_prompts(run, tmp_path, kind):
    for name in "xy":
        write(tmp_path, f"{name}.jsonl", [row for row in ROWS if row["system"] == name])
    columns = ("--column", "x", "--column", "y") if kind == "a column for each system" else ()
    ran = run("new", "s", "--texts", *SOURCES[kind](tmp_path), *columns)
    assert "4 prompts, with genre" in ran.out
    prompts = read_json_lines(tmp_path / "s" / "prompts.jsonl")
    assert [{*row} - {"reference"} for row in prompts] == [{"id", "dataset", "prompt", "genre"}] * 4
    assert [row["genre"] for row in prompts] == ["odd" if n % 2 else "even" for n in range(4)]


def test_file_without_a_column_of_texts_is_refused(run, tmp_path):
    rows = [{"prompt": q, "rater": "r", "winner": "x"} for q in QUESTIONS]
    message = run("new", "s", "--texts", write(tmp_path, "verdicts.csv", rows)).refused()
    assert "verdicts.csv has no column of texts: 'rater' holds 'r', 'winner' holds 'x'" in message
    assert "--column" not in message


def test_texts_numbered_by_run_may_have_other_columns(run, tmp_path):
    rows = [
        {"prompt": q, "system": name, "run": n, "text": f"{name} {n}", "raw_output": f"Say {name} {n} now"}
        for q in QUESTIONS
        for name in "xy"
        for n in (1, 2)
    ]
    assert run("new", "s", "--texts", write(tmp_path, "all.csv", rows)).code == 0
    parts = [row | {"document": f"a {row['run']}"} for row in rows]
    message = run("new", "t", "--texts", write(tmp_path, "all.csv", parts)).refused()
    assert "the column 'document' differs between texts of one prompt" in message


def test_date_columns_are_not_read_as_systems(run, tmp_path):
    rows = [
        {"prompt": q, "x": f"x on {q}", "y": f"y on {q}", "made": f"2025-01-0{n + 1}"}
        for n, q in enumerate(QUESTIONS)
    ]
    assert (
        "'made' holds '2025-01-01'" in run("new", "s", "--texts", write(tmp_path, "all.csv", rows)).refused()
    )


def test_measure_finds_the_same_systems_as_new(run, tmp_path):
    file = wide(tmp_path, "x", "y")
    scores = json.loads(run("measure", file, "--metrics", "length", "--json").out)["scores"]
    assert {row["strategy"] for row in scores} == {"x", "y"}
    cut = plain(tmp_path, "cut", words="and so"), plain(tmp_path, "done", words="So it is.")
    printed = run("measure", *cut, "--metrics", "length").out
    assert "100 % of cut's texts end in mid-sentence, none of done's" in printed
    doubtful = wide(tmp_path, "x", "y", score=1)
    assert "'score' holds '1'" in run("measure", doubtful, "--metrics", "length").refused()


def test_prompt_repeated_in_all_texts_is_removed(run, tmp_path):
    echo = plain(tmp_path, "y", words="{1} Because.")
    ran = run("new", "s", "--texts", plain(tmp_path, "x"), echo)
    assert "y: 4 texts from y.jsonl (each began with its prompt, which is cut off)" in ran.out
    assert set(texts_of(tmp_path / "s")["y"].values()) == {" Because."}


def test_prompts_are_removed_from_texts_even_if_one_is_empty(run, tmp_path):
    rows = [{"prompt": q, "text": f"{q} So." if n else ""} for n, q in enumerate(QUESTIONS)]
    ran = run("new", "s", "--texts", write(tmp_path, "x.jsonl", rows), plain(tmp_path, "y"))
    assert "x: 4 texts from x.jsonl (each began with its prompt, which is cut off; 1 empty)" in ran.out


@pytest.mark.parametrize("heading", ["system", "System", "model", "Model name", "model_id", "LLM", "Method"])
@pytest.mark.parametrize(("prompt", "text"), [("prompt", "text"), ("Instruction", "Response")])
def test_column_of_systems_is_found(run, tmp_path, heading, prompt, text):
    run(
        "new",
        "s",
        "--texts",
        write(tmp_path, "all.csv", rows_of("x", "y", heading=heading, text=text, prompt=prompt)),
    )
    assert texts_of(tmp_path / "s") == EXPECTED


@pytest.mark.parametrize("heading", ["model", "system", "Model name"])
def test_two_columns_of_systems_are_refused(run, tmp_path, heading):
    """Several models with several strategies: neither column alone names the systems."""
    rows = [
        {"prompt": q, heading: name, "strategy": plan, "text": f"{name} {plan} {q}"}
        for q in QUESTIONS
        for name in ("x", "y")
        for plan in ("plan", "draft")
    ]
    file = write(tmp_path, "all.csv", rows)
    for options in ([], ["--column", "text"]):
        message = run("new", "s", "--texts", file, *options).refused()
        assert "and other columns may name the systems. Rename the one with a setting" in message
    renamed = [{"setting" if key == "strategy" else key: row[key] for key in row} for row in rows]
    assert run("new", "s", "--texts", write(tmp_path, "all.csv", renamed)).code == 0
    systems = texts_of(tmp_path / "s")
    assert systems.keys() == {"x(plan)", "x(draft)", "y(plan)", "y(draft)"}
    assert systems["y(draft)"] == {q: f"y draft {q}" for q in QUESTIONS}


def test_two_columns_of_texts_beside_a_model_are_refused(run, tmp_path):
    rows = [
        {"prompt": q, "model": name, "written": f"{name} on {q}", "full_text": f"{q} {name} on {q}"}
        for q in QUESTIONS
        for name in ("x", "y")
    ]
    file = write(tmp_path, "all.csv", rows)
    assert (
        "Name the one column of the texts: --column 'full_text'" in run("new", "s", "--texts", file).refused()
    )
    assert run("new", "s", "--texts", file, "--column", "written").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def test_column_of_texts_is_proposed_and_systems_are_found(run, tmp_path):
    rows = [
        {"No": n, "prompt": q, "provider": "router", "model": name, "answer": f"{name} on {q}"}
        for n, q in enumerate(QUESTIONS)
        for name in ("x", "y")
    ]
    file = write(tmp_path, "all.csv", rows)
    message = run("new", "s", "--texts", file).refused()
    assert message.rstrip().endswith("such as --column 'answer'")
    assert run("new", "s", "--texts", file, "--column", "answer").code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


def test_column_that_may_name_systems_is_refused(run, tmp_path):
    file = write(tmp_path, "all.csv", rows_of("x", "y", heading="arm"))
    message = run("new", "s", "--texts", file).refused()
    assert "the column 'arm' differs between texts of one prompt" in message
    assert "rename it to 'system'" in message


def test_constant_model_column_names_no_system(run, tmp_path):
    """Each file is by one system, though both name the same model."""
    files = [plain(tmp_path, name, model="opt", seed=3) for name in ("x", "y")]
    run("new", "s", "--texts", *files)
    assert texts_of(tmp_path / "s") == EXPECTED


def test_empty_texts_and_unfinished_ones_are_counted(run, tmp_path):
    rows = [
        {"prompt": q, "text": text} for q, text in zip(QUESTIONS, ("", "so", "so it", "Yes."), strict=True)
    ]
    ran = run("new", "s", "--texts", write(tmp_path, "x.jsonl", rows), plain(tmp_path, "y", words="Done."))
    assert "x: 4 texts from x.jsonl (1 empty)" in ran.out
    assert "67 % of x's texts end in mid-sentence, none of y's" in ran.out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("y.csv", "prompt,text\nWhy?,caf\u00e9\n".encode("cp1252"), "y.csv is not UTF-8 (line 2, byte 20"),
        ("y.jsonl", b'{"prompt": "Why?", "text": "\\ud800"}\n', "y.jsonl, line 1: a text is not UTF-8"),
        (
            "y.jsonl",
            b'{"prompt": "Why?", "text": 0.5}\n',
            "y.jsonl, line 1: 'text' is 0.5; it must be a string",
        ),
    ],
)
def test_texts_that_cannot_be_shown_are_refused(run, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in run("new", "s", "--texts", plain(tmp_path, "x"), name).refused()


@pytest.mark.parametrize(
    ("first", "other"), [("instruction", "input"), ("context", "instruction"), ("context", "question")]
)
def test_prompt_in_two_columns_is_refused(run, tmp_path, first, other):
    """Alpaca, Dolly, and answers to questions about a passage."""
    rows = [
        row | {first: f"Passage {QUESTIONS.index(row[other])}"}
        for row in rows_of("x", "y", prompt=other, heading="system", text="output")
    ]
    message = run("new", "s", "--texts", write(tmp_path, "all.jsonl", rows)).refused()
    assert f"line 1: the prompt may be {first!r} and {other!r} together; write the whole" in message
    whole = [row | {"prompt": row[other]} for row in rows]
    assert run("new", "s", "--texts", write(tmp_path, "all.jsonl", whole)).code == 0
    assert texts_of(tmp_path / "s") == EXPECTED


@pytest.mark.parametrize(
    "columns",
    [
        ("response_a", "response_b"),
        ("Answer 0", "Answer 1"),
        ("winner_text", "loser_text"),
        ("hyp1", "hyp2"),
        ("modelA", "modelB"),
    ],
)
def test_side_columns_are_not_read_as_systems(run, tmp_path, columns):
    """Unless the user says that they are, and no columns name the systems of each row."""
    file = wide(tmp_path, *columns)
    options = [word for column in columns for word in ("--column", column)]
    assert f"{columns[0]!r} and {columns[1]!r} are sides" in run("new", "s", "--texts", file).refused()
    assert run("new", "s", "--texts", file, *options).code == 0
    named = wide(tmp_path, *columns, model_a="p", model_b="q")
    for arguments in ((), options):
        message = run("new", "t", "--texts", named, *arguments).refused()
        assert "are sides" in message
        assert "--column" not in message or "modelA" in columns


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        *[(key, "plant {} needs rain") for key in ("document", "image", "my own heading", "Input")],
        ("expression", "1{} + 30"),
        ("a", "12 30 4 {}"),
    ],
)
@pytest.mark.parametrize("names", [("x",), ("x", "y")])
def test_column_with_part_of_the_prompt_is_refused(run, tmp_path, key, pattern, names):
    """One instruction with four documents is no single prompt with four texts."""
    rows = [
        row | {key: pattern.format(QUESTIONS.index(row["prompt"])), "prompt": "Sum up."}
        for row in rows_of(*names, heading="system")
    ]
    message = run("new", "s", "--texts", write(tmp_path, "all.jsonl", rows), plain(tmp_path, "z")).refused()
    assert "differs between texts of one prompt" in message
    assert "write the whole prompt under the key 'prompt'" in message


def test_compressed_file_names_its_system(run, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / plain(tmp_path, "inner"), "inner.jsonl")
    assert run("new", "s", "--texts", "x.zip", plain(tmp_path, "y")).code == 0
    assert texts_of(tmp_path / "s").keys() == {"x", "y"}


@pytest.mark.parametrize("samples", [1, 2])
def test_settings_of_a_model_are_systems(run, tmp_path, samples):
    """Temperatures 0 and 1 of one model: the column is asked about, and is a setting once it is named so."""
    rows = [
        {"prompt": question, "model": name, "temperature": heat, "sample": n, "text": f"{name} {heat} {n}"}
        for question in QUESTIONS
        for name in ("x", "y")
        for heat in (0, 1)
        for n in range(samples)
    ]
    message = run("new", "s", "--texts", write(tmp_path, "all.csv", rows)).refused()
    assert "the column 'temperature' differs between texts of one prompt" in message
    for name, systems in (("setting", {"x(0)", "x(1)", "y(0)", "y(1)"}), ("run", {"x", "y"})):
        renamed = [{name if key == "temperature" else key: row[key] for key in row} for row in rows]
        assert run("new", name, "--texts", write(tmp_path, f"{name}.csv", renamed)).code == 0
        assert texts_of(tmp_path / name).keys() == systems


@pytest.mark.parametrize(
    ("strategy", "setting", "name"),
    [
        ("top_p", "p=0.9", "top_p(p=0.9)"),
        ("top_p", "top_p=0.9", "top_p(top_p=0.9)"),
        ("beam", "beams=5", "beam(beams=5)"),
        ("temperature", "temperature(0.7) or less", "temperature(temperature(0.7) or less)"),
        ("GPT (new)", "T=1 (seed 2)", "GPT (new)(T=1 (seed 2))"),
        ("top_p", "top_p(p=0.9)", "top_p(p=0.9)"),
    ],
)
def test_every_setting_of_a_file_names_its_strategy(run, tmp_path, strategy, setting, name):
    rows = [
        {"prompt": question, "system": strategy, "setting": value, "text": f"{value} {question}"}
        for question in QUESTIONS
        for value in (setting, f"{strategy}(other)")
    ]
    assert run("new", "s", "--texts", write(tmp_path, "all.csv", rows)).code == 0
    settings = tomllib.loads((tmp_path / "s" / "study.toml").read_text())
    assert {system["name"]: system["setting_of"] for system in settings["system"]} == {
        name: strategy,
        f"{strategy}(other)": strategy,
    }


def test_new_keeps_the_finish_reason(run, tmp_path):
    files = plain(tmp_path, "x", finish_reason="length"), plain(tmp_path, "y", finish_reason="stop")
    assert run("new", "s", "--texts", *files).code == 0
    first_rows = [read_json_lines(tmp_path / "s" / "texts" / f"{n}.jsonl")[0] for n in "xy"]
    assert [row["finish"] for row in first_rows] == ["length", "eos"]


REFUSED = [
    (["human", "m"], "means a side, a tie or the references"),
    (["A", "m"], "means a side, a tie or the references"),
    (["m"], "only one system was found, m"),
    (["m", "x/m"], "both have texts by 'm'"),
    (["m", "M"], "the systems 'm' and 'M' look alike"),
    (["alpha", "\u0430lpha"], r"the systems 'alpha' and '\u0430lpha' look alike"),  # Cyrillic
    (["m", "m\u200b"], r"the systems 'm' and 'm\u200b' look alike"),
    ([f"s{number:02d}x" for number in range(46)], "46 systems would make 1035 comparisons, and at most 1000"),
    (["m" * 101, "n"], "at most 100 characters"),
]


@pytest.mark.parametrize(("names", "message"), REFUSED)
def test_reserved_system_names_are_refused(run, tmp_path, names, message):
    (tmp_path / "x").mkdir()
    files = [plain(tmp_path, name, words=f"{n}{{1}}") for n, name in enumerate(names)]
    assert message in run("new", "s", "--texts", *files).refused()
    assert not (tmp_path / "s").exists()


def test_two_tables_with_the_same_systems_are_refused(run, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("question,guard,acs\nWhy one?,yes it is,no it was\n")
    assert "--column NAME" in run("new", "s", "--texts", "a.csv", "b.csv").refused()


def test_data_frames_become_a_study(tmp_path):
    frame = pd.DataFrame(rows_of("x", "y", heading="system"))
    result = new(tmp_path / "s", texts=[frame])
    assert result.systems == {"x": 4, "y": 4}
    assert texts_of(tmp_path / "s") == EXPECTED
    names = frame["system"].map({"x": "a/b", "y": "a_b-1693b0"})  # files with the same name
    with pytest.raises(StudyError, match="some disks cannot tell two of these names apart"):
        new(tmp_path / "p", texts=[frame.assign(system=names)])
    with pytest.raises(StudyError, match="dict is not a source of texts; give a file or a pandas"):
        new(tmp_path / "w", texts=[{"prompt": "p"}])
    first, other = (frame[frame["system"] == name] for name in ("x", "y"))
    assert new(tmp_path / "t", texts=[first, other]).systems == {"x": 4, "y": 4}
    lacking = frame.assign(text=frame["text"].where(frame.index != 0))
    with pytest.raises(StudyError, match="x in the data frame has no text to 1 of 4"):
        new(tmp_path / "u", texts=[lacking])
    assert new(tmp_path / "v", texts=frame).systems == {"x": 4, "y": 4}


def test_interrupted_import_can_be_repeated(run, tmp_path):
    files = plain(tmp_path, "x"), plain(tmp_path, "y")
    assert run("new", "s", "--texts", *files).code == 0
    (tmp_path / "s" / "study.toml").unlink()
    assert run("new", "s", "--texts", *files).code == 0
    assert "study.toml exists already" in run("new", "s", "--texts", *files).refused()
    (tmp_path / "s" / "study.toml").unlink()
    (tmp_path / "s" / "texts" / "x.jsonl").write_text("mine")
    assert "x.jsonl exists already" in run("new", "s", "--texts", *files).refused()
    assert (tmp_path / "s" / "texts" / "x.jsonl").read_text() == "mine"
