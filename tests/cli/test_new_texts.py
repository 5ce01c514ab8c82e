"""`new --texts`: texts that others wrote, in the files in which they come, become a study."""

import csv
import functools
import io
import json
import tomllib
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from read_files import read_json_lines

from guard_eval.errors import StudyError
from guard_eval.study import Study
from guard_eval.texts.new import new
from guard_eval.texts.pair import pair
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.systems import find_texts

BOTH = ("--column", "x", "--column", "y")
QUESTIONS = [f"Why does plant {n} need rain?" for n in range(4)]


def write(name, rows, *, ends="\n"):
    """Write rows as CSV, JSON or JSON lines, and return the file's name."""
    path = Path(name)
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


def plain(name, **options):
    """Write a system's texts without its name."""
    return write(f"{name}.jsonl", rows_of(name, **options))


def write_prompts(form="{}"):
    """Write the prompts with their numbers as ids."""
    return write("source.jsonl", [{"id": form.format(n), "prompt": q} for n, q in enumerate(QUESTIONS)])


def write_both(make, name="{}.jsonl"):
    """Write the rows `make(number, question, text)` for x and for y. Return the names of the files."""
    return [
        write(name.format(system), [make(n, q, f"{system} on {q}") for n, q in enumerate(QUESTIONS)])
        for system in ("x", "y")
    ]


def alpaca(name):
    """Return a file as AlpacaEval's model_outputs.json."""
    rows = rows_of(name, prompt="instruction", text="output", heading="generator", dataset="helpful_base")
    return write(f"{name}/model_outputs.json", rows)


def samples(name, *, nested):
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
    return write(f"{name}.jsonl", rows)


def wide(*names, **more):
    rows = [
        {"prompt": question} | {name: f"{name} on {question}" for name in names} | more
        for question in QUESTIONS
    ]
    return write("wide.csv", rows)


SHAPES = {
    "alpaca_eval": lambda: [alpaca("x"), alpaca("y")],
    "lm-eval": lambda: [samples("x", nested=False), samples("y", nested=True)],
    "a column for each": lambda: [wide("x", "y")],
    "a row for each": lambda: [write("long.jsonl", rows_of("x", "y", heading="method"))],
    "a file for each": lambda: [plain("x"), plain("y")],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def read_texts(run):
    """Return a function that makes a study of texts, and returns the texts in it."""

    def read(*arguments):
        ran = run("new", "s", "--texts", *arguments)
        assert (ran.code, ran.err) == (0, "")
        return texts_of("s")

    return read


@pytest.fixture
def refuse(run):
    """Return a function that returns the message of a refusal."""
    return lambda *arguments: run("new", "s", "--texts", *arguments).refused()


def texts_of(folder):
    """Return each system's first texts by the words of their prompts."""
    study = Study.open(folder)
    prompts = read_prompts(study.prompts_path)
    words = {prompt.id: prompt.text for prompt in prompts}
    return {
        name: {words[prompt_id]: text.text for (prompt_id, number), text in texts.items() if number == 1}
        for name, texts in find_texts(study, study.settings.systems, prompts).items()
    }


EXPECTED = {name: {question: f"{name} on {question}" for question in QUESTIONS} for name in "xy"}


@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
def test_every_file_layout_gives_the_same_study(run, make):
    ran = run("new", "s", "--texts", *make())
    assert (ran.code, ran.err) == (0, "")
    assert texts_of("s") == EXPECTED
    assert "x: 4 texts from" in ran.out
    row = read_json_lines(Path("s/texts/x.jsonl"))[0]
    assert row.keys() == {"id", "text"}
    assert "set task in study.toml" in ran.out
    assert "4 pairs, 4 new. People will rate 4 of them, 4 people each" in run("pair", "s").out
    assert "key: none is sent" in run("judge", "s", "--dry-run").out  # a paid model is the owner's choice
    assert "2 systems, 2 in files" in run("status", "s").out


def test_further_texts_of_a_sample_are_reported(run, tmp_path):
    """lm-evaluation-harness with several repeats of each prompt."""
    for name in "xy":
        file = tmp_path / samples(name, nested=False)
        rows = [row | {"resps": [[*row["resps"][0], "again"]]} for row in read_json_lines(file)]
        write(file.name, rows)
    ran = run("new", "s", "--texts", "x.jsonl", "y.jsonl")
    assert "x: 4 texts from x.jsonl (4 exact duplicates left out; only the first of several texts" in ran.out
    assert texts_of("s") == EXPECTED


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


@pytest.mark.parametrize(
    "headings",
    ["Frage,Modell,Antwort", "consigne,modèle,réponse", "pregunta,modelo,respuesta", "问题,模型,回答"],
)
def test_headings_of_other_languages_are_read(read_texts, headings):
    prompt, system, text = headings.split(",")
    files = write_both(lambda _, question, words: {prompt: question, text: words})
    rows = [row | {system: Path(file).stem} for file in files for row in read_json_lines(Path(file))]
    assert read_texts(write("all.jsonl", rows)) == EXPECTED


@pytest.mark.parametrize("make", NESTED.values(), ids=NESTED)
def test_nested_records_of_tools_are_read(read_texts, make):
    assert read_texts(*write_both(lambda _, question, text: make(question, text))) == EXPECTED


@pytest.mark.parametrize("make", WITHOUT_PROMPTS.values(), ids=WITHOUT_PROMPTS)
def test_answers_of_servers_find_their_prompts(read_texts, make):
    """The file of prompts is the input of a batch. Only answers with its ids may come in another order."""
    requests = [
        {"custom_id": f"q-{n}", "body": {"model": "m", "messages": [{"role": "user", "content": question}]}}
        for n, question in enumerate(QUESTIONS)
    ]
    write("requests.jsonl", requests)
    files = write_both(lambda n, _, text: make(f"q-{n}", text))
    for file in files:
        rows = read_json_lines(Path(file))
        write(file, rows if "context" in rows[0] else rows[::-1])
    assert read_texts(*files, "--prompts", "requests.jsonl") == EXPECTED


def test_ids_of_a_batch_belong_to_prompts_and_not_to_answers(read_texts):
    """Both files have an `id`, and the prompts' ids are in the batch's `custom_id`."""
    prompts = [{"id": f"q-{n}", "prompt": question} for n, question in enumerate(QUESTIONS)]
    files = write_both(lambda n, _, text: WITHOUT_PROMPTS["OpenAI's batches"](f"q-{n}", text))
    for file in files:
        write(file, read_json_lines(Path(file))[::-1])
    assert read_texts(*files, "--prompts", write("p.jsonl", prompts)) == EXPECTED


@pytest.mark.parametrize("make", [lambda words: words, lambda words: {"content": words}])
def test_question_with_one_turn_is_a_prompt(read_texts, refuse, make):
    """FastChat's questions, and its answers in another order. MT-Bench has two turns, and one is chosen."""

    def answer(n, _, text):
        turns = [{"turns": [make(text)]}]
        return {"question_id": 81 + n, "answer_id": f"a{n}", "tstamp": 1.5, "choices": turns}

    questions = [{"question_id": 81 + n, "turns": [make(q)]} for n, q in enumerate(QUESTIONS)]
    files = write_both(answer)
    for file in files:
        write(file, read_json_lines(Path(file))[::-1])
    arguments = (*files, "--prompts", write("q.jsonl", questions))
    assert read_texts(*arguments) == EXPECTED
    write("q.jsonl", [{**row, "turns": 2 * row["turns"]} for row in questions])
    assert "'turns' is" in refuse(*arguments)


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
def test_results_of_several_systems_are_read(read_texts, make):
    rows = [
        {
            "provider": {"id": name},
            "prompt": {"raw": q, "label": "p"},
            "response": {"output": f"{name} on {q}"},
        }
        for q in QUESTIONS
        for name in "xy"
    ]
    assert read_texts(write("all.json", make(rows))) == EXPECTED


@pytest.mark.parametrize("key", ["id", "question"])
def test_values_of_nested_objects_name_the_prompts(read_texts, key):
    """Beside prompts in another order, their order would give the texts of other prompts."""
    prompts = [{"id": f"q{n}", "prompt": question} for n, question in enumerate(QUESTIONS)]
    docs = [{"id": row["id"], "question": row["prompt"]}[key] for row in prompts]
    files = write_both(lambda n, _, text: {"doc": {key: docs[n]}, "text": text})
    assert read_texts(*files, "--prompts", write("p.jsonl", prompts[::-1])) == EXPECTED


@pytest.mark.parametrize("is_by_system", [False, True])
def test_ids_as_keys_of_objects_name_the_prompts(read_texts, is_by_system):
    """{system: {id: text}} and {id: {system: text}} beside prompts in another order."""
    texts = {name: {f"q-{n}": f"{name} on {q}" for n, q in enumerate(QUESTIONS)} for name in "xy"}
    by_id = {key: {name: texts[name][key] for name in texts} for key in texts["x"]}
    Path("all.json").write_text(json.dumps(texts if is_by_system else by_id))
    rows = [{"id": f"q-{n}", "prompt": question} for n, question in enumerate(QUESTIONS)]
    assert read_texts("all.json", "--prompts", write("p.jsonl", rows[::-1])) == EXPECTED


@pytest.mark.parametrize("by_name", [False, True])
def test_systems_inside_a_record_are_read(read_texts, by_name):
    """UltraFeedback has a list of models and texts in each record, and others an object."""
    rows = []
    for question in QUESTIONS:
        texts = {name: f"{name} on {question}" for name in "xy"}
        items = [{"id": name, "model": name, "response": text} for name, text in texts.items()]
        rows.append({"instruction": question, "responses": texts if by_name else items})
    write("all.json", rows)
    assert read_texts("all.json") == EXPECTED


@pytest.mark.parametrize(
    "more",
    [
        {"judgements": [{"system": name, "text": "A verdict."} for name in "ab"]},
        {"scores": [{"method": "BLEU", "value": 0.1}, {"method": "ROUGE", "value": 0.2}]},
        {"choices": [{"id": name, "text": "An option."} for name in "ab"]},
        {"request": {"content": "A question."}},
    ],
)
def test_nested_values_beside_a_text_are_no_texts(read_texts, more):
    write("all.jsonl", rows_of("x", "y", heading="system", **more))
    assert read_texts("all.jsonl") == EXPECTED


def test_prompts_keep_their_nested_answers(read_texts):
    rows = [
        {"id": n, "prompt": q, "refs": [{"model": m, "text": m} for m in "ab"]}
        for n, q in enumerate(QUESTIONS)
    ]
    files = [plain(name) for name in "xy"]
    read_texts(*files, "--prompts", write("p.jsonl", rows))


def test_chats_with_other_words_than_the_prompt_are_refused(refuse):
    """The record's prompt may be a template, and the chat has the whole prompt."""
    rows = [{"prompt": "Answer.", "messages": chat(q, f"x on {q}")} for q in QUESTIONS]
    message = refuse(write("x.jsonl", rows), plain("y"))
    assert "'messages' differs between texts of one prompt" in message


def test_sides_inside_a_record_are_refused(refuse):
    rows = [{"prompt": q, "responses": {"response_a": f"A {q}", "response_b": f"B {q}"}} for q in QUESTIONS]
    assert "are sides" in refuse(write("x.jsonl", rows))


def test_arrays_inside_objects_of_data_frames_are_read():
    rows = rows_of("x", "y", heading="system", meta={"tags": pd.array([1, 2]).to_numpy()})
    assert new("s", texts=[pd.DataFrame(rows)]).systems == {"x": 4, "y": 4}


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
def test_doubtful_values_of_prompts_are_asked_about(run, of_prompts, heading, of_texts):
    """A measurement or an answer, which happens to equal another prompt's, would move a text there."""
    source = [{"id": f"q{n}", "prompt": q, "rank": of_prompts[n]} for n, q in enumerate(QUESTIONS)]
    files = write_texts_of_x_and_y(heading, zip(of_texts, QUESTIONS, strict=True))
    run_new = run("new", "s", "--common", "--prompts", write("p.jsonl", source), "--texts", *files)
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
        ({"prompt": "Q", "output": [{"type": "thinking", "content": "Hm"}]}, "'output' is"),
        ({"prompt": "Q", "output": {"type": [], "content": [{"type": {}}]}}, "'output' is"),
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
def test_unclear_nested_records_are_refused(refuse, row, message):
    write("x.jsonl", [row])
    assert message in refuse("x.jsonl", plain("y"))


@pytest.mark.parametrize(
    "failure",
    [
        {"response": {"status_code": 500, "body": {"error": {"message": "busy"}}}},
        {"response": None, "error": {"code": "batch_expired"}},
        {"result": {"type": "errored", "error": {"type": "overloaded"}}},
    ],
)
def test_failed_request_of_a_batch_is_a_missing_text(refuse, read_texts, failure):
    write("p.jsonl", [{"custom_id": f"q{n}", "prompt": q} for n, q in enumerate([*QUESTIONS, "Q"])])
    files = write_both(lambda n, _, text: {"custom_id": f"q{n}", "response": {"body": complete(text)}})
    for file in files:
        write(file, [*read_json_lines(Path(file)), {"custom_id": "q4"} | failure])
    arguments = (*files, "--prompts", "p.jsonl")
    assert "x in x.jsonl has no text to 1 of 5" in refuse(*arguments)
    assert read_texts(*arguments, "--common") == EXPECTED


def test_several_texts_of_an_answer_are_counted(run, refuse):
    """The first of several texts is read, and an answer without content is no text."""
    files = write_both(
        lambda _, question, text: {
            "prompt": question,
            "choices": [*complete(text)["choices"], {"text": "again"}],
        }
    )
    for file in files:
        write(file, [*read_json_lines(Path(file)), {"prompt": "Q"} | complete(None)])
    assert "x in x.jsonl has no text to 1 of 5, such as 0005: 'Q'" in refuse(*files)
    ran = run("new", "s", "--common", "--texts", *files)
    assert "x: 4 texts from x.jsonl (only the first of several texts is read in 4 records)" in ran.out
    assert texts_of("s") == EXPECTED


def test_lines_of_plain_text_are_texts_in_order(run, refuse):
    Path("source.txt").write_text("\n".join(QUESTIONS))
    for name in "xy":
        Path(f"{name}.txt").write_text("".join(f"{name} on {question}\n" for question in QUESTIONS))
    message = refuse("x.txt", "y.txt")
    assert "no text has a prompt beside it" in message
    ran = run("new", "s", "--prompts", "source.txt", "--texts", "x.txt", "y.txt")
    assert "x: 4 texts from x.txt (in the order of the prompts)" in ran.out
    assert texts_of("s") == EXPECTED
    Path("y.txt").write_text(f"y on {QUESTIONS[0]}\n\n\ny on {QUESTIONS[3]}\n")
    ran = run("new", "blank", "--prompts", "source.txt", "--texts", "x.txt", "y.txt")
    assert "y: 4 texts from y.txt (in the order of the prompts; 2 empty)" in ran.out
    Path("y.txt").write_text("".join(f"q{n}\ty on {question}\n" for n, question in enumerate(QUESTIONS)))
    ran = run("new", "tabs", "--prompts", "source.txt", "--texts", "x.txt", "y.txt")
    assert "y.txt has no column named text" in ran.refused()


def test_three_systems_are_all_compared(read_texts):
    read_texts(wide("x", "y", "z"))
    compared = Study.open("s").settings.pairs.compare
    assert compared == [["x", "y"], ["x", "z"], ["y", "z"]]


def with_own_ids(name, *, first=0, questions=QUESTIONS):
    rows = [row | {"id": first + n} for n, row in enumerate(rows_of(name, questions=questions))]
    return write(f"{name}.jsonl", rows)


def test_same_id_in_two_files_may_be_two_prompts(run, read_texts):
    """The same id is another prompt in the other file, whose order is reversed."""
    file = with_own_ids("x")
    other = with_own_ids("y", questions=QUESTIONS[::-1])
    assert read_texts(file, other) == EXPECTED
    assert run("new", "t", "--texts", file, with_own_ids("z", first=7)).code == 0
    assert len(read_prompts(Path("t/prompts.jsonl"))) == 4


def test_prompts_match_by_text_if_one_file_lacks_ids(read_texts):
    files = with_own_ids("x", first=1), plain("y")
    assert read_texts(*files) == EXPECTED


def test_prompt_with_two_ids_is_one_prompt(run):
    """Row numbers as ids tell two samples of a prompt apart; they make no independent prompts."""
    files = [with_own_ids(name, questions=[q for q in QUESTIONS for _ in "ab"]) for name in "xy"]
    for file in files:
        rows = read_json_lines(Path(file))
        write(file, [row | {"text": f"{row['text']} {row['id']}"} for row in rows])
    assert "8 texts from x.jsonl (4 prompts)" in run("new", "s", "--texts", *files).out
    assert len(pair(Study.open("s")).pairs) == 4


def test_line_ends_and_unicode_form_do_not_distinguish_prompts(read_texts):
    accented = ["Café au lait:\nhow much?", *QUESTIONS]
    composed = ["Cafe\u0301 au lait:\r\nhow much? ", *QUESTIONS]
    rows = [{"prompt": question, "text": f"y {question}"} for question in composed]
    files = plain("x", questions=accented), write("y.csv", rows, ends="\r\n")
    read_texts(*files)
    assert len(read_prompts(Path("s/prompts.jsonl"))) == 5


def test_three_texts_per_prompt_become_runs(run):
    rows = [{"prompt": question, "text": f"x {n} {question}"} for n in range(3) for question in QUESTIONS]
    ran = run("new", "s", "--texts", write("x.jsonl", [*rows, rows[0]]), plain("y"))
    assert "x: 12 texts from x.jsonl (4 prompts; 1 exact duplicate left out)" in ran.out
    study = Study.open("s")
    texts = find_texts(study, ["x"], read_prompts(study.prompts_path))["x"]
    assert [text.text for (prompt, _), text in texts.items() if prompt == "0001"] == [
        f"x {n} {QUESTIONS[0]}" for n in range(3)
    ]


def test_systems_with_different_prompts_are_refused(run, refuse):
    files = plain("x"), plain("y", questions=QUESTIONS[:3])
    message = refuse(*files)
    assert "y in y.jsonl has no text to 1 of 4, such as 0004: 'Why does plant 3 need rain?'" in message
    assert "on the 3 prompts that all have: --common" in message
    assert not Path("s").exists()
    ran = run("new", "s", "--common", "--texts", *files)
    assert "x: 3 texts from x.jsonl (1 text for other prompts left out)" in ran.out
    assert len(pair(Study.open("s")).pairs) == 3


def test_too_many_planned_ratings_are_refused(run, monkeypatch):
    run("new", "s", "--texts", plain("x"), plain("y"))
    monkeypatch.setattr("guard_eval.texts.pair._MOST_RATINGS", 1000)
    message = run("pair", "s", "--set", "annotation.raters_per_pair=251").refused()
    assert "plans 1,004 ratings by people, and at most 1,000 are possible; lower annotation.raters" in message
    assert run("pair", "s", "--set", "annotation.raters_per_pair=250").code == 0


def test_equal_ids_with_prompts_cut_differently_are_refused(refuse):
    for name, end in (("x", 12), ("y", 14)):
        rows = [
            {"id": f"p{n}", "prompt": question[:end], "text": name} for n, question in enumerate(QUESTIONS)
        ]
        write(f"{name}.jsonl", rows)
    message = refuse("x.jsonl", "y.jsonl", "--common")
    assert "x in x.jsonl has no text to 1 of 2" in message
    assert "4 ids stand for other words in another file" in message
    assert "--common" not in message


def test_ids_of_several_prompts_need_prompts(read_texts, refuse):
    """An id stands for one prompt in x and for another prompt in y, and z has ids alone."""
    files = with_own_ids("x"), with_own_ids("y", questions=QUESTIONS[::-1])
    bare = write("z.jsonl", [{"id": n, "text": f"z on {q}"} for n, q in enumerate(QUESTIONS)])
    for order in ([*files, bare], [bare, *files[::-1]]):
        message = refuse(*order, "--common")
        assert "4 texts by z in z.jsonl have an id and no prompt, and the id stands for several" in message
        assert f"'0' is {QUESTIONS[0]!r} and {QUESTIONS[3]!r}" in message
    source = write_prompts()
    assert read_texts(*files, bare, "--prompts", source)["z"] == {
        question: f"z on {question}" for question in QUESTIONS
    }


def test_ids_of_unknown_prompts_are_named(refuse):
    other_ids = write("y.jsonl", [{"id": 100 + n, "text": "y"} for n in range(4)])
    message = refuse(with_own_ids("x"), other_ids)
    assert "4 of the texts by y have other ids, such as '100'. Correct them if" in message
    assert "Add these texts" in message


@pytest.mark.parametrize("change", [str.upper, lambda text: text.replace(" ", "  ")])
def test_prompts_that_differ_in_case_or_spaces_are_named(refuse, change):
    changed = plain("y", questions=[change(question) for question in QUESTIONS])
    message = refuse(plain("x"), changed)
    assert "4 of these prompts and prompts of x differ only in spaces or in capital" in message


def test_an_invalid_name_is_traced_to_the_file_of_its_texts(refuse):
    message = refuse(write("both.jsonl", rows_of("tie", "GPT", heading="system")))
    assert "'tie': this word means a side" in message
    assert "Nothing was written. Systems get their names from both.jsonl" in message
    assert not Path("s").exists()


@pytest.mark.parametrize("option", ["--prompts", "--texts"])
def test_half_a_character_is_refused_with_its_remedy(run, option):
    Path("half.jsonl").write_text('{"prompt": "a \\ud83d", "text": "b \\ud83d"}\n')
    assert "without halves of characters such as" in run("new", "s", option, "half.jsonl").refused()


def test_prompts_come_from_a_file_by_id_or_order(run):
    source = write_prompts("q{}")
    by_id = [{"id": f"q{n}", "text": f"x on {q}"} for n, q in enumerate(QUESTIONS)]
    in_order = [{"text": f"y on {q}"} for q in QUESTIONS]
    files = write("x.csv", by_id[::-1]), write("y.csv", in_order)
    ran = run("new", "s", "--prompts", source, "--texts", *files)
    assert texts_of("s") == EXPECTED
    assert "y: 4 texts from y.csv (in the order of the prompts)" in ran.out


IDS = {
    "a shared column of ids": ("question_id", "question_id"),
    "another name for ids": ("id", "example_id"),
    "a shared column of words": ("topic", "topic"),
    "another name for words": ("topic", "case"),
    "an id for words": ("topic", "id"),
}


@pytest.mark.parametrize(("of_prompts", "of_texts"), IDS.values(), ids=IDS)
def test_ids_under_other_headings_are_recognised(read_texts, of_prompts, of_texts):
    """Parallel requests write texts in another order than that of the prompts."""
    names = [f"topic {n}" if of_prompts == "topic" else n + 7 for n in range(5)]
    named = list(zip(names, QUESTIONS, strict=False))
    source = write("source.jsonl", [{of_prompts: name, "prompt": q} for name, q in named])
    x = [{"request": n % 2, of_texts: name, "text": f"x on {q}"} for n, (name, q) in enumerate(named[::-1])]
    y = [{of_texts: name, "text": f"y on {q}", "response_id": 7} for name, q in (*named[2:], *named[:2])]
    if of_texts in {of_prompts, "case"}:
        y.append({of_texts: names[-1], "text": "Of another prompt.", "response_id": 8})
    if of_prompts == "question_id":  # as pandas writes numbers beside an empty cell
        y = [row | {of_texts: float(row[of_texts])} for row in y]
    files = write("x.jsonl", x), write("y.csv", y)
    assert read_texts(*files, "--prompts", source) == EXPECTED


def write_texts_of_x_and_y(heading, rows):
    """Write the texts of two systems with a number beside each text. Return the names of the files."""
    rows = list(rows)
    return [
        write(f"{name}.jsonl", [{heading: n, "text": f"{name} on {q}"} for n, q in rows]) for name in "xy"
    ]


@pytest.mark.parametrize("heading", ["item", "rank", "index", "sample", "nr", ""])
def test_prompt_numbers_in_another_order_are_asked_about(refuse, read_texts, heading):
    """Numbers under these headings can be the prompts' ids, or count the rows of each file."""
    rows = list(enumerate(QUESTIONS, start=1))
    rotated = [*rows[1:], rows[0]]
    source = write("source.jsonl", [{heading: n, "prompt": q} for n, q in rows])
    files = write_texts_of_x_and_y(heading, rotated)
    message = refuse(*files, "--prompts", source)
    assert f"{heading!r} has the prompts' values in another order" in message
    write_texts_of_x_and_y(heading, rows)
    assert read_texts(*files, "--prompts", source) == EXPECTED


def test_prompt_ids_in_another_order_name_the_prompts(read_texts):
    rows = list(enumerate(QUESTIONS, start=1))
    source = write("source.jsonl", [{"prompt_id": n, "prompt": q} for n, q in rows])
    files = write_texts_of_x_and_y("prompt_id", [*rows[1:], rows[0]])
    assert read_texts(*files, "--prompts", source) == EXPECTED


@pytest.mark.parametrize("label", ["{}", "q00{}", "#{}"])
def test_shuffled_numbers_beside_prompts_without_ids_are_asked_about(read_texts, refuse, label):
    """The file of prompts has no ids, so the numbers of its rows may be the ids of the texts."""
    rows = [(label.format(n), q) for n, q in enumerate(QUESTIONS)]
    source = write("source.jsonl", [{"prompt": q} for q in QUESTIONS])
    files = write_texts_of_x_and_y("item", [*rows[1:], rows[0]])
    message = refuse(*files, "--prompts", source)
    assert "'item' has the prompts' values in another order" in message
    write_texts_of_x_and_y("item", rows)
    read_texts(*files, "--prompts", source)


@pytest.mark.parametrize("number", [{}, {"id": 1}])
def test_column_with_words_of_prompts_is_no_system(run, number):
    """The column `message` has the prompts in another order. Rows have no ids, or the ids of the prompts."""
    ids = [number and {"id": n} for n in range(len(QUESTIONS))]
    rows = list(zip(ids, QUESTIONS, strict=True))
    source = write("source.jsonl", [name | {"prompt": q} for name, q in rows])
    wide = [name | {"message": q, "x": f"x on {q}", "y": f"y on {q}"} for name, q in rows[::-1]]
    new = ("new", "s", "--prompts", source, "--texts", write("w.csv", wide))
    assert "'message' has the words of the prompts. Rename it to 'prompt', or name" in run(*new).refused()
    assert run(*new, *BOTH).code == 0
    assert texts_of("s") == EXPECTED


def test_column_with_a_single_text_is_offered_as_a_system(refuse):
    """A number beside three systems makes the columns doubtful. The third system failed on most prompts."""
    rows = [
        {"prompt": q, "x": f"x on {q}", "y": f"y on {q}", "z": "" if n else f"z on {q}", "size": n}
        for n, q in enumerate(QUESTIONS[:3])
    ]
    message = refuse(write("w.csv", rows))
    assert "--column 'x' --column 'y' --column 'z'" in message


@pytest.mark.parametrize("copied", [2, len(QUESTIONS)])
def test_system_that_copies_prompts_keeps_its_texts(run, read_texts, copied):
    """A system that corrects sentences leaves some or all of them unchanged."""
    source = write_prompts()
    x, y = write_both(lambda n, _, text: {"id": n, "text": text})
    corrected = read_json_lines(Path(x))[copied:]
    write(x, [{"id": n, "text": q} for n, q in enumerate(QUESTIONS[:copied])] + corrected)
    read_texts(x, y, "--prompts", source)
    assert run("pair", "s").code == 0
    assert run("measure", x, y, "--prompts", source, "--metrics", "length").code == 0


def test_object_of_texts_by_ids_is_read(read_texts):
    source = write_prompts("q{}")
    for name in "xy":
        texts = {f"q{n}": f"{name} on {q}" for n, q in enumerate(QUESTIONS)}
        Path(f"{name}.json").write_text(json.dumps(texts))
    assert read_texts("x.json", "y.json", "--prompts", source) == EXPECTED


def test_shifted_ids_are_named_and_not_compared(refuse):
    source = write("source.jsonl", [{"id": n + 1, "prompt": q} for n, q in enumerate(QUESTIONS)])
    files = write_both(lambda n, _, text: {"id": n, "text": text})
    message = refuse(*files, "--prompts", source)
    assert "such as '0'. Correct them if ids begin with 0 in one file and with 1 in another" in message
    assert "--common" not in message


def test_prompt_with_a_missing_text_is_not_called_reworded(refuse):
    rows = rows_of("x")
    rows[1]["text"] = None
    message = refuse(write("x.jsonl", rows), plain("y"))
    assert "x in x.jsonl has no text to 1 of 4" in message
    assert "Add these texts, or compare on the 3 prompts" in message


def test_texts_without_ids_need_the_order_of_the_prompts(refuse):
    bare = write("bare.jsonl", [{"text": f"bare on {question}"} for question in QUESTIONS])
    message = refuse(plain("x"), bare)
    assert "bare in bare.jsonl has no text to 4 of 4" in message
    assert "bare has 4 texts without ids and prompts. Add a prompt to each text" in message
    assert "name a file with a prompt for each text in the same order: --prompts FILE" in message


def test_texts_without_any_prompts_are_refused(refuse):
    message = refuse(*write_both(lambda _, __, text: {"text": text}))
    assert "write the prompts in a column 'prompt', or name a file" in message
    assert "--prompts FILE" in message
    assert not Path("s").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"latency": 3.5}, "'latency' holds '3.5'"),
        ({"category": "plants"}, "'category' holds 'plants'"),
        ({"annotator_note": "I like it"}, "'annotator_note' holds 'I like it'"),
        ({"rationale": "I like it"}, "'rationale' holds 'I like it'"),
    ],
)
def test_columns_without_texts_are_named(read_texts, refuse, more, words):
    file = wide("x", "y", **more)
    message = refuse(file)
    assert words in message
    assert "--column 'x' --column 'y'" in message
    assert read_texts(file, *BOTH) == EXPECTED


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
def test_columns_of_far_shorter_texts_are_asked_about(read_texts, refuse, rows, heading, cell):
    """Labels have at most three words, or a quarter of the words of the longest texts (here 18)."""
    texts = [
        {"prompt": f"Why {n}?", heading: cell.format(n)}
        | {name: f"{name} says that {n} plants need rain" + " and sun and some air" * 2 for name in "xy"}
        for n in range(rows)
    ]
    file = write("all.csv", texts)
    message = refuse(file)
    assert f"{heading!r} holds {cell.format(0)!r}" in message
    assert "such as --column 'x' --column 'y'" in message
    assert read_texts(file, *BOTH).keys() == {"x", "y"}


@pytest.mark.parametrize(
    "heading", ["gold_answer", "answer_key", "expected", "Ground truth", "correct answer"]
)
def test_expected_answer_is_the_reference_and_no_system(read_texts, heading):
    texts = [
        {"prompt": f"Why {n}?", heading: f"{n} red apples", "x": f"{n} green apples", "y": f"only {n} apples"}
        for n in range(4)
    ]
    assert read_texts(write("all.csv", texts)).keys() == {"x", "y"}
    first = read_json_lines(Path("s/prompts.jsonl"))[0]
    assert first["reference"] == "0 red apples"


def test_terse_and_verbose_systems_are_named_by_their_columns(read_texts, refuse):
    texts = [{"prompt": f"Why {n}?", "x": f"{n} rain", "y": f"{n} " + "rain " * 9} for n in range(4)]
    file = write("all.csv", texts)
    refused = refuse(file)
    assert "Name the column of the texts, or one column for each system, such as --column 'y'" in refused
    read_texts(file, *BOTH)


SOURCES = {
    "a row for each text": lambda: [
        write("all.csv", [row | find_genre(row) | {"latency": n} for n, row in enumerate(ROWS)])
    ],
    "a file for each system": lambda: [
        write(
            f"{name}.jsonl",
            [row | find_genre(row) | {name: 1} for row in ROWS if row["system"] == name],
        )
        for name in "xy"
    ],
    "a column for each system": lambda: [
        write(
            "all.csv",
            [{"prompt": q, "x": f"x {q}", "y": f"y {q}"} | find_genre({"prompt": q}) for q in QUESTIONS],
        )
    ],
    "a file of prompts": lambda: [
        *("x.jsonl", "y.jsonl", "--prompts"),
        write("p.csv", [{"prompt": q} | find_genre({"prompt": q}) for q in QUESTIONS]),
    ],
}


@pytest.mark.parametrize("kind", SOURCES)
def test_new_keeps_columns_that_describe_prompts(run, kind):
    for name in "xy":
        write(f"{name}.jsonl", [row for row in ROWS if row["system"] == name])
    columns = BOTH if kind == "a column for each system" else ()
    ran = run("new", "s", "--texts", *SOURCES[kind](), *columns)
    assert "4 prompts, with genre" in ran.out
    prompts = read_json_lines(Path("s/prompts.jsonl"))
    assert [{*row} - {"reference"} for row in prompts] == [{"id", "dataset", "prompt", "genre"}] * 4
    assert [row["genre"] for row in prompts] == ["odd" if n % 2 else "even" for n in range(4)]


def test_file_without_a_column_of_texts_is_refused(refuse):
    rows = [{"prompt": q, "rater": "r", "winner": "x"} for q in QUESTIONS]
    message = refuse(write("verdicts.csv", rows))
    assert "verdicts.csv has no column of texts: 'rater' holds 'r', 'winner' holds 'x'" in message
    assert "--column" not in message


def test_texts_numbered_by_run_may_have_other_columns(run, read_texts):
    rows = [
        {"prompt": q, "system": name, "run": n, "text": f"{name} {n}", "raw_output": f"Say {name} {n} now"}
        for q in QUESTIONS
        for name in "xy"
        for n in (1, 2)
    ]
    read_texts(write("all.csv", rows))
    parts = [row | {"document": f"a {row['run']}"} for row in rows]
    message = run("new", "t", "--texts", write("all.csv", parts)).refused()
    assert "the column 'document' differs between texts of one prompt" in message


def test_date_columns_are_not_read_as_systems(refuse):
    rows = [
        {"prompt": q, "x": f"x on {q}", "y": f"y on {q}", "made": f"2025-01-0{n + 1}"}
        for n, q in enumerate(QUESTIONS)
    ]
    assert "'made' holds '2025-01-01'" in refuse(write("all.csv", rows))


def test_measure_finds_the_same_systems_as_new(run):
    file = wide("x", "y")
    scores = json.loads(run("measure", file, "--metrics", "length", "--json").out)["scores"]
    assert {row["strategy"] for row in scores} == {"x", "y"}
    cut = plain("cut", words="and so"), plain("done", words="So it is.")
    printed = run("measure", *cut, "--metrics", "length").out
    assert "100 % of cut's texts end in mid-sentence, none of done's" in printed
    doubtful = wide("x", "y", score=1)
    assert "'score' holds '1'" in run("measure", doubtful, "--metrics", "length").refused()


def test_prompt_repeated_in_all_texts_is_removed(run):
    echo = plain("y", words="{1} Because.")
    ran = run("new", "s", "--texts", plain("x"), echo)
    assert "y: 4 texts from y.jsonl (each began with its prompt, which is cut off)" in ran.out
    assert set(texts_of("s")["y"].values()) == {" Because."}


def test_prompts_are_removed_from_texts_even_if_one_is_empty(run):
    rows = [{"prompt": q, "text": f"{q} So." if n else ""} for n, q in enumerate(QUESTIONS)]
    ran = run("new", "s", "--texts", write("x.jsonl", rows), plain("y"))
    assert "x: 4 texts from x.jsonl (each began with its prompt, which is cut off; 1 empty)" in ran.out


@pytest.mark.parametrize("heading", ["system", "System", "model", "Model name", "model_id", "LLM", "Method"])
@pytest.mark.parametrize(("prompt", "text"), [("prompt", "text"), ("Instruction", "Response")])
def test_column_of_systems_is_found(read_texts, heading, prompt, text):
    assert (
        read_texts(write("all.csv", rows_of("x", "y", heading=heading, text=text, prompt=prompt))) == EXPECTED
    )


@pytest.mark.parametrize("heading", ["model", "system", "Model name"])
def test_two_columns_of_systems_are_refused(read_texts, refuse, heading):
    """Several models with several strategies: neither column alone names the systems."""
    rows = [
        {"prompt": q, heading: name, "strategy": plan, "text": f"{name} {plan} {q}"}
        for q in QUESTIONS
        for name in "xy"
        for plan in ("plan", "draft")
    ]
    file = write("all.csv", rows)
    for options in ([], ["--column", "text"]):
        message = refuse(file, *options)
        assert "and other columns may name the systems. Rename the one with a setting" in message
    renamed = [{"setting" if key == "strategy" else key: row[key] for key in row} for row in rows]
    systems = read_texts(write("all.csv", renamed))
    assert systems.keys() == {"x(plan)", "x(draft)", "y(plan)", "y(draft)"}
    assert systems["y(draft)"] == {q: f"y draft {q}" for q in QUESTIONS}


def test_two_columns_of_texts_beside_a_model_are_refused(refuse, read_texts):
    rows = rows_of("x", "y", heading="model", text="written")
    file = write("all.csv", [row | {"full_text": f"{row['prompt']} {row['written']}"} for row in rows])
    assert "Name the one column of the texts: --column 'full_text'" in refuse(file)
    assert read_texts(file, "--column", "written") == EXPECTED


def test_column_of_texts_is_proposed_and_systems_are_found(refuse, read_texts):
    rows = rows_of("x", "y", heading="model", text="answer", provider="router")
    file = write("all.csv", [{"No": n // 2} | row for n, row in enumerate(rows)])
    assert refuse(file).rstrip().endswith("such as --column 'answer'")
    assert read_texts(file, "--column", "answer") == EXPECTED


def test_column_that_may_name_systems_is_refused(refuse):
    file = write("all.csv", rows_of("x", "y", heading="arm"))
    message = refuse(file)
    assert "the column 'arm' differs between texts of one prompt" in message
    assert "rename it to 'system'" in message


def test_constant_model_column_names_no_system(read_texts):
    """Each file is by one system, though both name the same model."""
    files = [plain(name, model="opt", seed=3) for name in "xy"]
    assert read_texts(*files) == EXPECTED


def test_empty_texts_and_unfinished_ones_are_counted(run):
    rows = [
        {"prompt": q, "text": text} for q, text in zip(QUESTIONS, ("", "so", "so it", "Yes."), strict=True)
    ]
    ran = run("new", "s", "--texts", write("x.jsonl", rows), plain("y", words="Done."))
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
def test_texts_that_cannot_be_shown_are_refused(refuse, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in refuse(plain("x"), name)


@pytest.mark.parametrize(
    ("first", "other"), [("instruction", "input"), ("context", "instruction"), ("context", "question")]
)
def test_prompt_in_two_columns_is_refused(read_texts, refuse, first, other):
    """Alpaca, Dolly, and answers to questions about a passage."""
    rows = [
        row | {first: f"Passage {QUESTIONS.index(row[other])}"}
        for row in rows_of("x", "y", prompt=other, heading="system", text="output")
    ]
    message = refuse(write("all.jsonl", rows))
    assert f"line 1: the prompt may be {first!r} and {other!r} together; write the whole" in message
    whole = [row | {"prompt": row[other]} for row in rows]
    assert read_texts(write("all.jsonl", whole)) == EXPECTED


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
def test_side_columns_are_not_read_as_systems(run, read_texts, refuse, columns):
    """Unless the user says that they are, and no columns name the systems of each row."""
    file = wide(*columns)
    options = [word for column in columns for word in ("--column", column)]
    assert f"{columns[0]!r} and {columns[1]!r} are sides" in refuse(file)
    read_texts(file, *options)
    named = wide(*columns, model_a="p", model_b="q")
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
def test_column_with_part_of_the_prompt_is_refused(refuse, key, pattern, names):
    """One instruction with four documents is no single prompt with four texts."""
    rows = [
        row | {key: pattern.format(QUESTIONS.index(row["prompt"])), "prompt": "Sum up."}
        for row in rows_of(*names, heading="system")
    ]
    message = refuse(write("all.jsonl", rows), plain("z"))
    assert "differs between texts of one prompt" in message
    assert "write the whole prompt under the key 'prompt'" in message


def test_compressed_file_names_its_system(read_texts, tmp_path):
    with zipfile.ZipFile(Path("x.zip"), "w") as archive:
        archive.write(tmp_path / plain("inner"), "inner.jsonl")
    assert read_texts("x.zip", plain("y")).keys() == {"x", "y"}


@pytest.mark.parametrize("samples", [1, 2])
def test_settings_of_a_model_are_systems(refuse, read_texts, samples):
    """Temperatures 0 and 1 of one model: the column is asked about, and is a setting once it is named so."""
    rows = [
        {"prompt": question, "model": name, "temperature": heat, "sample": n, "text": f"{name} {heat} {n}"}
        for question in QUESTIONS
        for name in "xy"
        for heat in (0, 1)
        for n in range(samples)
    ]
    message = refuse(write("all.csv", rows))
    assert "the column 'temperature' differs between texts of one prompt" in message
    renamed = [{"setting" if key == "temperature" else key: row[key] for key in row} for row in rows]
    assert read_texts(write("all.csv", renamed)).keys() == {"x(0)", "x(1)", "y(0)", "y(1)"}


def test_column_of_runs_names_no_systems(read_texts):
    rows = [row for n in (0, 1) for row in rows_of("x", "y", heading="model", run=n, words=f"{{}} {n} {{}}")]
    assert read_texts(write("all.csv", rows)).keys() == {"x", "y"}


@pytest.mark.parametrize(
    ("strategy", "setting", "name"),
    [
        ("top_p", "p=0.9", "top_p(p=0.9)"),
        ("top_p", "top_p=0.9", "top_p(top_p=0.9)"),
        ("temperature", "temperature(0.7) or less", "temperature(temperature(0.7) or less)"),
        ("GPT (new)", "T=1 (seed 2)", "GPT (new)(T=1 (seed 2))"),
        ("top_p", "top_p(p=0.9)", "top_p(p=0.9)"),
    ],
)
def test_every_setting_of_a_file_names_its_strategy(read_texts, strategy, setting, name):
    rows = [
        {"prompt": question, "system": strategy, "setting": value, "text": f"{value} {question}"}
        for question in QUESTIONS
        for value in (setting, f"{strategy}(other)")
    ]
    read_texts(write("all.csv", rows))
    systems = tomllib.loads(Path("s/study.toml").read_text())["system"]
    assert {system["name"] for system in systems} == {name, f"{strategy}(other)"}
    assert {system["setting_of"] for system in systems} == {strategy}


def test_new_keeps_the_finish_reason(read_texts):
    read_texts(plain("x", finish_reason="length"), plain("y", finish_reason="stop"))
    first_rows = [read_json_lines(Path(f"s/texts/{name}.jsonl"))[0] for name in "xy"]
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
def test_reserved_system_names_are_refused(refuse, names, message):
    Path("x").mkdir()
    files = [plain(name, words=f"{n}{{1}}") for n, name in enumerate(names)]
    assert message in refuse(*files)
    assert not Path("s").exists()


def test_two_tables_with_the_same_systems_are_refused(refuse):
    for name in "ab":
        Path(f"{name}.csv").write_text("question,guard,acs\nWhy one?,yes it is,no it was\n")
    assert "--column NAME" in refuse("a.csv", "b.csv")


def test_data_frames_become_a_study():
    frame = pd.DataFrame(rows_of("x", "y", heading="system"))
    result = new("s", texts=[frame])
    assert result.systems == {"x": 4, "y": 4}
    assert texts_of("s") == EXPECTED
    names = frame["system"].map({"x": "a/b", "y": "a_b-1693b0"})  # files with the same name
    with pytest.raises(StudyError, match="some disks cannot tell two of these names apart"):
        new("p", texts=[frame.assign(system=names)])
    with pytest.raises(StudyError, match="dict is not a source of texts; give a file or a pandas"):
        new("w", texts=[{"prompt": "p"}])
    first, other = (frame[frame["system"] == name] for name in "xy")
    assert new("t", texts=[first, other]).systems == {"x": 4, "y": 4}
    lacking = frame.assign(text=frame["text"].where(frame.index != 0))
    with pytest.raises(StudyError, match="x in the data frame has no text to 1 of 4"):
        new("u", texts=[lacking])
    assert new("v", texts=frame).systems == {"x": 4, "y": 4}


def test_interrupted_import_can_be_repeated(read_texts, refuse):
    files = plain("x"), plain("y")
    read_texts(*files)
    Path("s/study.toml").unlink()
    read_texts(*files)
    assert "study.toml exists already" in refuse(*files)
    Path("s/study.toml").unlink()
    Path("s/texts/x.jsonl").write_text("mine")
    assert "x.jsonl exists already" in refuse(*files)
    assert Path("s/texts/x.jsonl").read_text() == "mine"
