"""A published study is complete and names nobody. A description has the plan of the study."""

import hashlib
import json
import re
import zlib
from contextlib import nullcontext
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
from factories import make_pair
from read_files import read_csv, read_folder
from refusals import expect_refusal

from analysis.evidence import Context, StudyFacts
from analysis.publication.describe import describe
from analysis.publication.export import export
from analysis.publication.publish import publish
from analysis.reports import notebook
from analysis.reports.command import report
from analysis.reports.study_record import read_study_record
from analysis.reports.study_report import compare_with_written_plan
from guard_eval.errors import StudyError
from guard_eval.reporting.writing import write_atomically
from guard_eval.store import Store, handout, verdicts
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.study import Study
from guard_eval.study.tuning import Choice

pytestmark = pytest.mark.slow

TOML = """
name = "Tales"
question = "Which is better?"
seed = 3
authors = ["Zoë Author"]
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
[pairs]
compare = [["guard", "greedy"]]
per_dataset = 12
[annotation]
criteria = ["fluency"]
raters_per_pair = 3
[annotation.recruitment]
prolific = "61a2b3c4d5e6f708192a3b4c"
[annotation.recruitment.codes]
completed = "C0FFEE42"
"""
CODE = "C0FFEE42"
PEOPLE = ("Quentin Überall", "marge", "P-1")


def make_rated_study(folder, *, prompt="Once upon a time", names=PEOPLE, order=None, more="", toml=TOML):
    """Make a study whose people have rated 12 pairs. `order` is the order of their invitations."""
    folder.mkdir()
    (folder / "study.toml").write_text(toml + more, encoding="utf-8")
    study = Study.open(folder)
    with Store.open(f"sqlite:///{folder / 'study.db'}", declared=study.declared, create=True) as store:
        store_pairs.add_pairs(store, [make_tale_pair(n, f"{prompt} {n}") for n in range(12)])
        raters = {name: store_raters.invite_rater(store, name)[0] for name in (order or names)}
        for number, name in enumerate(names):  # whoever was invited first, they answer alike
            for blind in handout.claim_pairs(store, raters[name], study.hand_out_plan, limit=12):
                side = "AB"[zlib.crc32(f"{number}{blind.prompt}".encode()) % 2]
                choices = dict.fromkeys(study.settings.annotation.criteria, side)
                verdicts.save_verdict(store, blind.presentation, choices, rater=raters[name], seconds=7.25)
    return study


def make_tale_pair(n, prompt):
    texts = f"=1+{n} Write to info@example.org at 10.1.2.3, said Anna, 42 years old.", f"\n- The {n} end."
    named = {"method_b": "greedy", "ids": (f"a{n}", f"b{n}"), "dataset": "tales", "prompt_id": f"p{n}"}
    return make_pair(n, prompt=prompt, text_a=texts[0], text_b=texts[1], **named)


@pytest.fixture
def study(tmp_path):
    return make_rated_study(tmp_path / "study")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def read_words(folder):
    """Return everything that is written in the files of a folder."""
    return b"\n".join(read_folder(folder).values()).decode("utf-8", "replace")


def test_published_study_has_no_names_and_the_same_shares(study, out, tmp_path):
    result = publish(study, out)
    written, table = read_folder(out), read_csv(out / "verdicts.csv")
    files = {"README.md", "pairs.jsonl", "report.toml", "verdicts.csv", "report/index.html"}
    assert files | {"report.schema.json"} <= written.keys()
    assert written["report.toml"].startswith(b"#:schema ./report.schema.json\n")
    assert (result.verdicts, len(table)) == (36, 36)
    everything = read_words(out).casefold()
    assert [
        word for word in (*PEOPLE[:2], CODE, "7.25", str(tmp_path)) if word.casefold() in everything
    ] == []
    card = written["README.md"].decode()
    assert "Zoë Author: Tales. Data set." in card
    assert "- SHA-256 of the settings of people: " in card
    assert "Raters: 3 people." in card
    assert "- config_name: verdicts\n  data_files: verdicts.csv\n" in card
    assert "SIMULATED" not in card
    assert "No licence was named" in card
    share = read_csv(out / "report" / "csv" / "win_shares.csv")[0]
    wins = sum(row["verdict"] == "guard" for row in table)
    assert float(share["win_share_pooled"]) == pytest.approx(wins / 36)
    assert json.loads(written["report/report.json"])["name"] == "Tales"
    pairs = [json.loads(line) for line in written["pairs.jsonl"].decode().splitlines()]
    assert pairs[1]["text_a"] == "=1+1 Write to info@example.org at 10.1.2.3, said Anna, 42 years old."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "study"]


def test_report_on_published_data_uses_the_declared_test(out, tmp_path):
    study = make_rated_study(tmp_path / "study", more="[analysis]\nsequential = true\n")
    publish(study, out)
    (tmp_path / "study").rename(tmp_path / "elsewhere")
    report(out / "verdicts.csv", output=tmp_path / "again")
    for folder in (out / "report", tmp_path / "again"):
        assert len(read_csv(folder / "csv" / "sequential.csv")) == 1
    with pytest.raises(StudyError, match="no valid test exists for margin with sequential; keep only one"):
        report(out / "verdicts.csv", output=tmp_path / "again", overrides=("margin=0.1",))


def change_settings(study, change, monkeypatch):
    old, new = change
    path = study.folder / "study.toml"
    path.write_text(path.read_text().replace(old, new))


def exclude_after_report(study, reason, monkeypatch):
    report(study.folder)
    with Store.open(study.database, declared=study.declared) as store:
        store_raters.decide_about_rater(store, "marge", "exclude", by="root", reason=reason)


def choose_settings(study, prompts, monkeypatch):
    settings = [
        {"name": f"guard(eta={eta})", "scores": {"diversity": None}, "meets": True, "chosen_share": 0.5}
        for eta in (1, 2)
    ]
    searches = [
        {"strategy": name, "chosen": name, "settings": settings[:count], "expected_best": [None, 1.0]}
        for name, count in (("guard", 2), ("greedy", 1))
    ]
    tuning = {"prompts": prompts, "maximize": "diversity"}
    choice = Choice(tuning=tuning, rule="", hash="", prompts=["p0"], searches=searches)
    monkeypatch.setattr("guard_eval.study.folder._read_tuning_choice", lambda *_: choice)


CHANGED_PLAN = ("[annotation]", "[analysis]\nalpha = 0.2\n[annotation]")
TWO_CRITERIA = TOML.replace('["fluency"]', '["wit", "fluency"]')
STATES = {
    "changed plan": (change_settings, CHANGED_PLAN, "These results are exploratory"),
    "late exclusion": (
        exclude_after_report,
        "too fast",
        "excluded after the results were first seen (too fast)",
    ),
    "early look": (
        change_settings,
        ("raters_per_pair = 3", "raters_per_pair = 4"),
        "looked at early: people gave 36",
    ),
    "same prompts": (choose_settings, 0, "The prompts that chose the settings also test them."),
    "unequal search": (choose_settings, 1, "Settings tried: guard 2, greedy 1"),
}


@pytest.mark.parametrize("state", STATES)
def test_data_of_a_study_give_the_answer_of_the_study(out, tmp_path, monkeypatch, state):
    """What makes the answer less sure travels with the table. Only the days are not published."""
    change, how, words = STATES[state]
    study = make_rated_study(tmp_path / "study", toml=TWO_CRITERIA, more=WIT)
    change(study, how, monkeypatch)
    study = Study.open(study.folder)
    answer = read_answer(report(study.folder).folder)
    assert words in answer
    exported = export(study).path
    publish(study, out)
    monkeypatch.undo()
    assert read_answer(report(exported, output=tmp_path / "again").folder) == answer
    assert read_answer(out / "report") == answer
    notebook.report(exported, tmp_path / "python")
    assert words in read_answer(tmp_path / "python")


WIT = '[criteria.wit]\ntitle = "Wit and humour"\ndefinition = "Funny."\n'
COMPARED = 'strategies = ["greedy", "guard"]\n[pairs]\ncompare = [["guard", "greedy"]]'
OTHERS = 'strategies = ["greedy", "guard", "top_k"]\n[pairs]\ncompare = [["top_k", "greedy"]]'


@pytest.mark.parametrize("change", [(COMPARED, OTHERS), ('["wit", "fluency"]', '["fluency"]')])
def test_family_is_never_smaller_after_the_verdicts(tmp_path, monkeypatch, change):
    study = make_rated_study(tmp_path / "study", toml=TWO_CRITERIA, more=WIT)
    before = {
        row["criterion"]: row for row in read_csv(report(study.folder).folder / "csv" / "win_shares.csv")
    }
    change_settings(study, change, monkeypatch)
    folder = report(study.folder).folder
    for row in read_csv(folder / "csv" / "win_shares.csv"):
        assert (row["family"], row["p_adjusted"]) == ("2", before[row["criterion"]]["p_adjusted"])
    assert read_answer(folder).startswith(
        "These results are exploratory: settings were changed after the first"
    )


def test_declared_columns_of_prompts_are_published(out, tmp_path):
    study = make_rated_study(tmp_path / "study", more='[analysis]\nby = ["genre"]\n')
    prompts = [{"id": f"p{n}", "prompt": f"Tale {n}", "genre": ("story", "=poem")[n % 2]} for n in range(12)]
    (study.folder / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    publish(study, out)
    report(export(study).path, output=tmp_path / "again")
    report(study.folder)
    expected = read_csv(study.folder / "report" / "csv" / "by_value.csv")
    assert {row["value"] for row in expected} == {"story", "'=poem"}
    for folder in (out / "report", tmp_path / "again"):
        assert read_csv(folder / "csv" / "by_value.csv") == expected


def test_record_of_published_data_names_nobody(study, out, tmp_path, monkeypatch):
    exclude_after_report(study, "marge told Zoë that she slept", monkeypatch)
    change_settings(study, (CODE, "S3CRET99"), monkeypatch)
    publish(Study.open(study.folder), out)
    record = json.loads((out / "verdicts.study.json").read_text(encoding="utf-8"))["facts"]
    [excluded] = record["exclusions"]
    assert (excluded["rater"], excluded["at"]) == ("excluded-1", "")
    assert excluded["reason"] == "… told Zoë that she slept"
    assert record["shares_with_excluded"][0].startswith("fluency ")
    everything = read_words(out)
    assert [word for word in ("marge", CODE, "S3CRET99", str(tmp_path)) if word in everything] == []


def test_changed_tables_and_plans_are_told(study, out, tmp_path):
    publish(study, out)
    table = out / "verdicts.csv"
    result = report(table, output=tmp_path / "again", overrides=("alpha=0.2",))
    page = (tmp_path / "again" / "report.md").read_text(encoding="utf-8")
    assert "settings were changed after the first verdict: alpha from 0.05 to 0.2" in page
    assert result.warnings == ()
    table.write_bytes(table.read_bytes().replace(b"rater-3", b"rater-4"))
    more = tmp_path / "more.csv"
    more.write_bytes(table.read_bytes().replace(b"rater-", b"reader-"))
    warnings = report(more, table, output=tmp_path / "again").warnings  # in either order
    assert "verdicts.csv was changed after verdicts.study.json was written" in warnings
    with pytest.warns(UserWarning, match=r"verdicts\.csv was changed after"):
        notebook.shares(table)
    with pytest.warns(UserWarning, match=r"verdicts\.study\.json has facts that weaken the answer"):
        notebook.read(table)
    assert (
        "verdicts.study.json describes only the study of verdicts.csv, and not the other tables" in warnings
    )
    (out / "verdicts.study.json").write_text('{"table": 1}')
    with pytest.raises(
        StudyError, match=r"is not the record of a study: table: .*publish or export, or remove"
    ):
        report(table)
    (out / "verdicts.study.json").unlink()
    with expect_refusal(r"record = 'verdicts\.study\.json' .*, and it is not beside .*verdicts\.csv"):
        report(table)


ROWS = {
    "prompts": dict.fromkeys(("description", "manner", "text"), "x")
    | {"id": "0123456789ab", "prompt": "0123456789ab", "answers": 1, "verdicts": 1},
    "failed": {"kind": "refusal", "count": 1, "reason": ""},
    "seen": {"model": None, "fingerprint": None, "answers": 1}
    | dict.fromkeys(("first", "last"), "2026-01-01T00:00:00Z"),
    "checked": {"check": "padded", "criterion": "fluency", "orders": 1, "answers": ["tie"]},
}
"""Facts about the requests to judges, as a record has them."""


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("prompts", "prompt", "../evil"),
        ("prompts", "text", 1),
        ("failed", "reason", None),
        ("seen", "first", {}),
        ("checked", "check", "other"),
    ],
)
def test_wrong_facts_about_judges_are_refused(tmp_path, kind, key, value):
    def read_record(**changed):
        facts = {"judging": {kind: [ROWS[kind] | {"judge": "j"} | changed]}}
        record = json.dumps({"table": "1", "settings": {}, "facts": facts})
        (tmp_path / "verdicts.study.json").write_text(record)
        return read_study_record(tmp_path / "verdicts.csv")

    assert getattr(read_record().facts.judging, kind)[0].judge == "j"
    with pytest.raises(StudyError, match=rf"facts.judging.{kind}.0.{key}: .* or remove it"):
        read_record(**{key: value})


@pytest.mark.parametrize(("value", "message"), [("x", "study.json has 1 problem:\n *raters: "), (None, None)])
def test_wrong_plan_in_a_record_names_its_file(out, tmp_path, value, message):
    table = tmp_path / "verdicts.csv"
    table.write_text("pair_id,method_a,method_b,verdict\n1,x,y,x\n", encoding="utf-8")
    record = {"table": "1", "settings": {"raters": value}, "facts": {}}
    (tmp_path / "verdicts.study.json").write_text(json.dumps(record))
    with pytest.raises(StudyError, match=message) if message else nullcontext():
        report(table, overrides=("raters=fixed",), output=out)


def test_every_fact_of_a_context_travels_or_is_known_otherwise():
    """A new fact of the report must be decided: is it known from the table, from its plan, or recorded?"""
    of_plan = {
        "name",
        "question",
        "seed",
        "texts",
        "ties",
        "planned",
        "plan",
        "by",
        "random_part",
        "contests",
    }
    of_run = {"compare", "explored", "versions", "settings", "command"}
    private = {"with_excluded", "people"}
    without_effect = {"metrics", "examples"}
    other_facts = {field.name for field in fields(Context)} - {field.name for field in fields(StudyFacts)}
    assert other_facts == of_plan | of_run | private | without_effect


def read_answer(folder):
    """Return the answer of a report without days, and whether its results are exploratory."""
    facts = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    page = (folder / "report.md").read_text(encoding="utf-8")
    foot = "These results are exploratory" if "These results are exploratory" in page else ""
    answer = " ".join([facts["answer"], foot]).replace("\u00a0", " ")
    return re.sub(r" · \d{4}-\d\d-\d\d", "", answer)


def test_published_numbers_reveal_no_name_or_order_of_raters(tmp_path):
    def published(name, **how):
        publish(make_rated_study(tmp_path / name, **how), tmp_path / f"{name}-out")
        return (tmp_path / f"{name}-out" / "verdicts.csv").read_bytes()

    assert published("b", order=tuple(reversed(PEOPLE))) == published("a")
    assert read_raters(tmp_path / "a-out") == {"rater-1", "rater-2", "rater-3"}


def read_raters(folder):
    return {row["rater"] for row in read_csv(folder / "verdicts.csv")}


def test_pseudonyms_differ_from_the_names_of_raters(out, tmp_path):
    publish(make_rated_study(tmp_path / "study", names=("rater-2", "Ann", "Bo")), out)
    assert read_raters(out) == {"xrater-1", "xrater-2", "xrater-3"}


@pytest.mark.parametrize("name", ["Will", "root", "greedily"])
def test_rater_names_in_texts_do_not_stop_publishing(out, tmp_path, name):
    prompt = f"{name} had a rose; will it grow at the root of this tale"
    study = make_rated_study(tmp_path / "study", names=(name, "Ann", "Bo"), prompt=prompt)
    with Store.open(study.database, declared=study.declared) as store:
        store_raters.decide_about_rater(store, "Bo", "exclude", by="root", reason="too fast")
    assert publish(study, out).verdicts == 24


def test_error_names_excluded_raters_if_no_verdict_counts(study, out):
    with Store.open(study.database, declared=study.declared) as store:
        for name in PEOPLE:
            store_raters.decide_about_rater(store, name, "exclude", by="root", reason="too fast")
    words = r"all raters with verdicts in .* are excluded.*raters include"
    with pytest.raises(StudyError, match=words):
        report(study.folder)
    with pytest.raises(StudyError, match=words):
        publish(study, out)


REFUSED = [
    ("question=What does Quentin Überall like?", "question contains 'Quentin Überall'"),
    ('criteria={wit={title="Wit", definition="as marge defines it"}}', "criteria contains 'marge'"),
    ('criteria={marge={title="Wit", definition="as she has it"}}', "criteria contains 'marge'"),
    ("question=sk-abc123def456ghi789jkl?", "question contains sk-a…"),
    ("model.name=models/marge", "model.name contains 'marge'"),
    ("task=as QUENTIN UEBERALL says", "task contains 'Quentin Überall'"),
    ("task=Ueberall, Quentin says so", "task contains 'Überall'"),
    ("task=as quentin says", "task contains 'Quentin'"),
    ("question=Does quentin_ueberall@x.org like it?", "question contains 'Quentin Überall'"),
    ("license=Marge-1.0", "license contains 'marge'"),
    ('question="""Which is better?\nQuentin asked"""', "question contains 'Quentin'"),
    ("task=rate:\tUeberall", "task contains 'Überall'"),
    ('criteria={wit={title="Wit", definition="""wit:\nmarge"""}}', "criteria contains 'marge'"),
    ('question="""Which?\nsk-abc123def456ghi789jkl"""', "question contains sk-a…"),
    (
        'system=[{name="x", model="m", base_url="http://h/v1", body={chat_template="\\nmarge"}}]',
        "system contains 'marge'",
    ),
]


def test_publish_refuses_settings_with_a_rater_or_a_key(study, out):
    for setting, message in REFUSED:
        with pytest.raises(StudyError) as error:
            publish(Study.open(study.folder, [setting]), out)
        assert message in str(error.value)
        assert "789jkl" not in str(error.value)
        assert not out.exists()


@pytest.mark.parametrize("column", ["dataset", "prompt_id"])
def test_publish_refuses_datasets_and_ids_with_a_rater(out, tmp_path, monkeypatch, column):
    row = make_tale_pair(1, "p")
    monkeypatch.setitem(
        globals(), "make_tale_pair", lambda n, _: replace(row, id=f"{n}", **{column: f"Marge-{n}"})
    )
    study = make_rated_study(tmp_path / "study")
    with pytest.raises(StudyError, match="a dataset or the id of a prompt contains 'marge'"):
        publish(study, out)


def test_author_may_be_a_rater_in_another_spelling(study, out):
    settings = ['authors=["Ueberall, Quentin"]', "task=as Quentin says"]
    publish(Study.open(study.folder, settings), out)
    assert "Ueberall, Quentin: Tales" in (out / "README.md").read_text(encoding="utf-8")


def test_words_that_raters_share_identify_nobody(out, tmp_path):
    study = make_rated_study(tmp_path / "study", names=("reader 1", "reader 2", "Ann Lee"))
    question = "question=Which text does a reader want?"
    publish(Study.open(study.folder, [question]), out)


def test_allowed_names_do_not_stop_publishing(out, tmp_path):
    study = make_rated_study(tmp_path / "study", names=("guard", "Which", "Bo"))
    with pytest.raises(StudyError, match=r"question contains 'Which'"):
        publish(study, out)
    publish(study, out, allow=["Which"])
    assert read_raters(out) == {"rater-1", "rater-2", "rater-3"}


def test_publish_refuses_files_with_an_api_key(out, tmp_path, monkeypatch):
    study = make_rated_study(tmp_path / "study", prompt="It was a dark and stormy night")
    monkeypatch.setenv("OPENAI_API_KEY", "dark and stormy")
    with pytest.raises(StudyError, match="the value of OPENAI_API_KEY"):
        publish(study, out)
    monkeypatch.setenv("OPENAI_API_KEY", "as she has it")
    wit = 'criteria={wit={title="Wit", definition="funny as she has it"}}'
    with pytest.raises(StudyError, match="criteria contains the value of OPENAI_API_KEY"):
        publish(Study.open(study.folder, [wit]), out)


@pytest.mark.parametrize("searched", ["question", "pairs.jsonl"])
def test_publish_refuses_passwords_with_quotes(out, tmp_path, monkeypatch, searched):
    password = r'pa"ss\word1'
    monkeypatch.setenv("PGPASSWORD", password)
    study = make_rated_study(tmp_path / "study", prompt=password if searched == "pairs.jsonl" else "It")
    changes = [f"question='''Is it {password}?'''"] if searched == "question" else []
    with pytest.raises(StudyError, match=f"{searched} contains the value of PGPASSWORD"):
        publish(Study.open(study.folder, changes), out)


def test_addresses_folders_codes_and_wording_are_not_published(study, out, tmp_path):
    model = tmp_path / "home" / "ada" / "model"
    model.mkdir(parents=True)
    (study.folder / "w.toml").write_text('[consent]\ntitle = "Ask marge"\n')
    judge = 'judge=[{model="m", base_url="http://gpu7.intranet/v1", api_key_env="MY_KEY"}]'
    settings = [f"model.name={json.dumps(str(model))}", "annotation.wording=w.toml", judge]
    publish(Study.open(study.folder, settings), out)
    everything = read_words(out)
    private = ("intranet", "MY_KEY", "/ada/", CODE, "61a2b3c4", "Ask marge")
    assert [word for word in private if word in everything] == []


def test_publish_refuses_folders_with_files(out, tmp_path, run):
    make_rated_study(tmp_path / "study")
    (out).mkdir()
    assert run("publish", "study", "out", "--set", "license=CC-BY-4.0").code == 0
    assert "not an empty folder" in run("publish", "study", "out").refused()
    (tmp_path / "file").touch()
    assert "not an empty folder" in run("publish", "study", "file").refused()
    assert "license: cc-by-4.0" in (out / "README.md").read_text(encoding="utf-8")


def test_publish_refuses_a_study_without_verdicts(out, tmp_path):
    study = make_rated_study(tmp_path / "study", names=())
    with pytest.raises(StudyError, match="no verdicts yet"):
        publish(study, out)


def test_plan_from_before_the_first_verdict_is_published(tmp_path):
    study = make_rated_study(tmp_path / "study", names=())
    result = describe(study)
    assert (result.path, result.verdicts) == (study.folder / "plan.md", 0)
    with Store.open(study.database) as store:
        pairs = store_pairs.read_pairs(store)
    people, drawn = result.hashes["settings of people"], result.hashes["pairs"]
    date = datetime.now(UTC).date()
    text = result.path.read_text(encoding="utf-8")
    assert f"* Date: {date}\n* SHA-256 of the settings of people: {people}\n" in text
    assert drawn == hashlib.sha256("\n".join(sorted(pair.id for pair in pairs)).encode()).hexdigest()
    assert "it is a preregistration" in text
    assert "greedy" in text
    [sentence] = compare_with_written_plan(study, pairs)
    assert "the settings of people are unchanged; the pairs are unchanged." in sentence
    assert describe(study).path.read_text(encoding="utf-8") == text
    changed = Study.open(study.folder, ["analysis.alpha=0.01"])
    [sentence] = compare_with_written_plan(changed, pairs[1:])
    assert f"the settings of people DIFFER ({people[:16]} there, " in sentence
    assert sentence.count("DIFFER") == 2
    with pytest.raises(StudyError, match="an existing plan is not replaced"):
        describe(changed)
    assert (study.folder / "plan.md").read_text(encoding="utf-8") == text


def test_description_after_verdicts_lists_collected_data(study, run):
    assert json.loads(run("describe", "study", "--json").out)["verdicts"] == 36
    text = (study.folder / "description.md").read_text(encoding="utf-8")
    assert "36 of 36 verdicts on 12 pairs count" in text
    assert "Raters: 3 people." in text
    assert "it is a preregistration" not in text
    (study.folder / "description.md").rename(study.folder / "plan.md")
    assert compare_with_written_plan(study, []) == (
        "plan.md was written when 36 verdicts existed, so it is no preregistration.",
    )
    (study.folder / "plan.md").write_text("I plan.")
    assert "holds no hash" in compare_with_written_plan(study, [])[0]


def test_second_publish_at_the_same_time_is_refused(study, out, monkeypatch):
    def report_slowly(*arguments, **options):
        (out / "report").mkdir(parents=True)
        return report(*arguments, **options)

    monkeypatch.setattr("analysis.publication.publish.report", report_slowly)
    with pytest.raises(StudyError, match=r"cannot write .*out: Directory not empty; name another folder"):
        publish(study, out)


@pytest.mark.parametrize("written", ["verdicts.csv", "README.md"])
def test_interrupted_publish_can_be_repeated(study, out, monkeypatch, written):
    """Interrupt the command while it writes a file. No folder is left, so the next run succeeds."""

    def kill(path, *arguments, **options):
        if path.name == written:
            raise KeyboardInterrupt
        write_atomically(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("analysis.publication.publish.write_atomically", kill)
        patch.setattr("shutil.rmtree", lambda *_, **__: None)  # as if the process were gone
        with pytest.raises(KeyboardInterrupt):
            publish(study, out)
    assert not out.exists()
    assert publish(study, out).verdicts == 36
    assert {"README.md", "report", "verdicts.csv"} <= {path.name for path in (out).iterdir()}
