"""study.toml: everything that is wrong is named at once, each with key, value and remedy."""

import re
import traceback

import pytest

from guard_eval.errors import StudyError
from guard_eval.study.folder import Study
from guard_eval.texts.new import TEMPLATE

FACTS_JUDGE = '[[judge]]\nmodel = "m"\ncriteria = ["factuality"]\n'
TWO_JUDGES = '[[judge]]\nmodel = "a"\n[[judge]]\nmodel = "b"\n'
GOOD = """
name = "s"
seed = 3
[model]
name = "bundled"
[generation]
strategies = ["greedy", "acs", "guard"]
[pairs]
compare = [["guard", "acs"]]
"""


@pytest.fixture
def study(tmp_path):
    def write(text):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        return Study.open(tmp_path)

    return write


def test_names_are_read_as_signatures(study):
    settings = study(GOOD).settings
    assert settings.generation.strategies == ["greedy", "acs(q=1)", "guard"]
    assert settings.pairs.compare == [["guard", "acs(q=1)"]]


def test_a_byte_order_mark_is_no_setting(study):
    assert study("\N{ZERO WIDTH NO-BREAK SPACE}" + GOOD).settings == study(GOOD).settings


def test_what_follows_from_a_wrong_value_is_not_named_besides(study):
    with pytest.raises(StudyError) as error:
        study(GOOD + '[[judge]]\nmodel = "m"\nrationale = 4\n')
    assert "has 1 problem:\n  judge[1].rationale: 4: input should be" in str(error.value)


def test_an_example_without_its_keys_is_named_in_plain_words(study, tmp_path):
    (tmp_path / "e.jsonl").write_text('{"prompt": "P", "a": " ", "b": "B", "verdict": {"coherence": "C"}}\n')
    with pytest.raises(StudyError) as error:
        study(GOOD + '[[judge]]\nmodel = "m"\nexamples = "e.jsonl"\n')
    assert "e.jsonl" in str(error.value)
    assert "Value error" not in str(error.value)
    assert "Pydantic" not in str(error.value)


def test_the_hash_ignores_comments_and_order_and_nothing_else(study):
    first = study(GOOD).hash
    assert study(GOOD.replace("seed = 3", "# a word\nseed = 3")).hash == first
    assert study(GOOD.replace('"acs"', '"acs(q=1)"')).hash == first
    assert study(GOOD.replace("seed = 3", "seed = 4")).hash != first


def test_the_hash_does_not_count_what_can_change_no_result(study):
    judge = f'{GOOD}[[judge]]\nmodel = "m"\n'
    moved = judge.replace("seed = 3", 'seed = 3\ndatabase = "sqlite:///elsewhere.db"')
    assert (
        study(f'{moved}timeout = 5\napi_key_env = "OTHER_KEY"\n').hash
        == study(judge).hash
        != study(GOOD).hash
    )


def test_all_problems_are_said_at_once(study):
    bad = """
name = "s"
seed = "3"
[model]
nam = "bundled"
[generation]
strategies = ["greedy", "topk", "guard(windw=3)"]
batch_size = 0
[pairs]
compare = [["guard", "guard"]]
[annotation]
criteria = ["coherance"]
[[judge]]
model = "m"
order = "both"
"""
    with pytest.raises(StudyError) as error:
        study(bad)
    message = str(error.value)
    assert "study.toml has 9 problems" in message
    for line in (
        "seed: '3': input should be a valid integer",
        "model.name: is missing; add it",
        "model.nam: is not a setting; did you mean 'name'?",
        "generation.strategies[2]: 'topk': unknown strategy 'topk': did you mean 'top_k'?",
        "generation.strategies[3]: 'guard(windw=3)': strategy 'guard' has no parameter 'windw'",
        "generation.batch_size: 0: input should be greater than or equal to 1",
        "pairs: guard is compared with itself",
        "annotation.criteria[1]: 'coherance': unknown criterion 'coherance': did you mean 'coherence'?",
        "judge[1].order: is not a setting; did you mean 'orders'?",
    ):
        assert line in message


@pytest.mark.parametrize(
    "more",
    ["[model]|amateur = 'x'", "[model]|amateur_revision = 'x'",
     "[generation]|chat = true"],
)  # fmt: skip
def test_an_added_setting_that_is_used_counts(study, more):
    table, line = more.split("|")
    assert study(GOOD.replace(table, f"{table}\n{line}")).hash != study(GOOD).hash


def test_contradictions_between_tables_are_named_at_once(study):
    bad = (
        GOOD.replace('[["guard", "acs"]]', '[["guard", "top_k"]]\nrun = 2')
        + "[composite]\nwit = 1\nfluency = 1\n"
    )
    with pytest.raises(StudyError) as error:
        study(bad)
    assert "has 3 problems:\n  pairs.compare names top_k" in str(error.value)
    assert "\n  pairs.run = 2, and generation.runs = 1; " in str(error.value)
    assert "\n  composite names 'wit'" in str(error.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "[metrics]\nmauve_buckets = 0",
            "metrics.mauve_buckets: 0: input should be greater than or equal to 2, or 'auto'",
        ),
        ('[panel]\nmembres = ["a"]', "panel.membres: is not a setting; did you mean 'members'?"),
        ("[criteria.x]\ntitl = 'X'", "criteria.x.titl: is not a setting; did you mean 'title'?"),
        ('[generation]\nstop = [""]', "generation.stop[1]: '': "),
    ],
)
def test_a_wrong_value_is_named_once_at_its_place(study, table, message):
    heading = table.split("\n")[0]
    text = GOOD.replace(heading, table) if heading in GOOD else f"{GOOD}{table}\n"
    with pytest.raises(StudyError) as error:
        study(text)
    assert message in str(error.value)
    assert str(error.value).count(f"{message.split(':')[0]}:") == 1


def test_batch_sizes_and_device_maps(study):
    assert study(GOOD).settings.generation.batch_size == "auto"
    assert study(GOOD.replace("[pairs]", 'batch_size = "auto"\n[pairs]')).hash == study(GOOD).hash
    table = study(GOOD.replace("[gen", 'device_map = {"model" = 0, "lm_head" = "cpu"}\n[gen')).settings.model
    assert table.device_map == {"model": 0, "lm_head": "cpu"}


def test_contrastive_decoding_has_an_amateur(study):
    named = GOOD.replace('"guard"]', '"guard", "contrastive_decoding"]').replace(
        "[gen", 'amateur = "tiny"\n[gen'
    )
    settings = study(named).settings
    assert [settings.amateur_of(name) for name in settings.generation.strategies[2:]] == [None, "tiny"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ('"guard"]', '"guard", "contrastive_decoding"]'),
            "needs a second, smaller model; name it as model.amateur",
        ),
        (("[gen", 'device = "cuda"\ndevice_map = "auto"\n[gen'), "both say where the model lies; remove one"),
        (
            ("[gen", "device_map = 3\n[gen"),
            "model.device_map: 3: input should be a valid string, or a valid dictionary",
        ),
        (
            ("[pairs]", "batch_size = true\n[pairs]"),
            "generation.batch_size: True: input should be a valid integer, or 'auto'",
        ),
        (("[pairs]", 'batch_size = "big"\n[pairs]'), "generation.batch_size: 'big': input should be"),
        (
            ('compare = [["guard", "acs"]]', 'compare = [["guard", "top_k"]]'),
            "add it there, or compare one of",
        ),
        (('["greedy", "acs", "guard"]', '["greedy", "acs", "acs(q=1)", "guard"]'), "names acs(q=1) twice"),
        (("seed = 3", 'seed = 3\ndatabase = "postgresql+psycopg://me:secret@db/x"'), "set PGPASSWORD"),
        (("seed = 3", 'seed = 3\ndatabase = "postgresql+psycopg://db/x?password=secret"'), "set PGPASSWORD"),
        (("seed = 3", "seed ="), "is not valid TOML"),
        (
            ("[pairs]", '[panel]\nrule = "mean"\n[pairs]'),
            "[panel] needs two judges or more, and study.toml has 0; add a [[judge]], or remove [panel]",
        ),
        (
            ("[pairs]", "[composite]\ncoherence = 1\nfluency = -1\n[pairs]"),
            "composite: the weight of fluency is -1; give a number above 0, or leave the criterion out",
        ),
        (
            ("[pairs]", "[composite]\ncoherence = 1\ntoxicity = 1\n[pairs]"),
            "composite names 'toxicity', which nobody is asked; name some of: coherence, fluency",
        ),
        (
            (
                "[pairs]",
                f"{FACTS_JUDGE}[composite]\ncoherence = 1\nfactuality = 1\n[pairs]",
            ),
            "composite is of coherence, factuality, and neither people nor any judge is asked all of these",
        ),
        (
            ("[pairs]", '[panel]\nrule = "median"\n[pairs]'),
            "panel.rule: 'median': input should be 'majority' or 'mean'",
        ),
        (
            ("[pairs]", f'{TWO_JUDGES}[panel]\nrule = "mean"\nmembers = ["a", "c"]\n[pairs]'),
            "panel.members: no judge is called c (judges: a, b)",
        ),
        (
            ("[pairs]", f'{TWO_JUDGES}[panel]\nrule = "mean"\nmembers = ["a", "a"]\n[pairs]'),
            "panel.members: ['a', 'a']: names a twice; name each once",
        ),
        (
            ("[pairs]", '[analysis]\nassisted_by = "gpt"\n[pairs]'),
            "analysis.assisted_by: no judge is called gpt (judges: none)",
        ),
        (
            ("[pairs]", '[analysis]\nassisted_by = "gpt"\n[[judge]]\nmodel = "gpt"\n[pairs]'),
            "needs pairs that people do not rate; set pairs.human_pairs",
        ),
        (
            ("[pairs]", '[analysis]\nassisted_by = "gpt"\nraters = "random"\n[pairs]'),
            "no test holds for assisted_by and raters = 'random': remove one of the two",
        ),
        (
            ("[pairs]", '[analysis]\nsequential = true\nraters = "random"\n[pairs]'),
            "no test holds for sequential = true and raters = 'random'",
        ),
        (
            ("[pairs]", '[analysis]\ncorrection = "bh"\nsequential = true\n[pairs]'),
            "no test holds for sequential = true and correction = 'bh'",
        ),
        (
            ("[pairs]", "[analysis]\nequivalence_margin = 0.5\n[pairs]"),
            "analysis.equivalence_margin: 0.5: input should be less than 0.5",
        ),
        (
            ("[pairs]", "[analysis]\nequivalence_margin = 0.05\nsequential = true\n[pairs]"),
            "no test holds for sequential = true and equivalence_margin",
        ),
    ],
)
def test_each_mistake_has_its_remedy(study, change, says):
    with pytest.raises(StudyError, match=re.escape(says)):
        study(GOOD.replace(*change))


@pytest.mark.parametrize(
    "value",
    [
        '"postgresql+psycopg://me:hunter2@db/x"',
        '"postgresql+psycopg://me:hun%20hunter2@db/x"',
        '"postgresql+psycopg://me@there:hunter2@db/x"',
        '"postgresql+psycopg://me:p@hunter2@db/x"',
        '"postgresql+psycopg://db/x?password=hunter2"',
        '"postgresql+psycopg://db/x?pass%77ord=hunter2"',
        '"postgresql+psycopg://db/x?sslpassword=hunter2"',
        '"postgresql+psycopg://db/x?pa%2573sword=hunter2"',
        '"postgresql+psycopg://me:hunter2@db:port/x"',
        '"me:hunter2@db/x"',
        '"hunter2"',
        '["postgresql+psycopg://me:hunter2@db/x"]',
        '{ url = "postgresql+psycopg://me:hunter2@db/x" }',
    ],
)
def test_a_password_in_the_databases_url_is_shown_nowhere(study, value):
    with pytest.raises(StudyError) as caught:
        study(GOOD.replace("seed = 3", f"seed = 3\ndatabase = {value}"))
    assert "database: " in str(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


JUDGES = """
[[judge]]
model = "gpt-4o-2024-11-20"
[[judge]]
model = "local"
base_url = "http://localhost:8000/v1"
orders = "one"
concurrency = 4
max_output_tokens = 128
usd_per_million_input_tokens = 1.5
usd_per_million_output_tokens = 2
"""


def test_a_judges_setting_written_with_its_default_leaves_the_hash(study):
    same = 'samples = 1\nstyle = "auto"\noutput = "auto"\nconcurrency = 64\n'
    first, second = JUDGES.split('[[judge]]\nmodel = "local"')
    explicit = f'{first}{same}[[judge]]\nmodel = "local"{second}'
    assert study(GOOD + explicit).hash == study(GOOD + JUDGES).hash


@pytest.mark.parametrize(
    "line",
    ['name = "the strict one"', "samples = 2", 'style = "chat"', 'output = "text"', "temperature = 0.5",
     'reasoning_effort = "low"', "max_output_tokens = 600"],
)  # fmt: skip
def test_a_judges_setting_that_is_used_counts(study, line):
    assert (
        study(GOOD + f'[[judge]]\nmodel = "m"\n{line}\n').hash
        != study(GOOD + '[[judge]]\nmodel = "m"\n').hash
    )


def test_a_reasoning_judge_may_say_more(study):
    judges = study(GOOD + '[[judge]]\nmodel = "gpt-5.4"\n[[judge]]\nmodel = "gpt-4o"\n').settings.judge
    assert [judge.max_output_tokens for judge in judges] == [8192, 512]


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (("", "samples = 2"), "2 judges are called m; give each its own name"),
        (('name = "x"', 'name = "x"\nsamples = 2'), "2 judges are called x"),
        (("samples = 3\ntemperature = 0",), "pays for the same answer again; remove one"),
        (('criteria = ["fluency", "fluency"]',), "names fluency twice"),
        (('name = " "',), "printable characters"),
        (('style = "chatty"',), "judge[1].style: 'chatty': input should be"),
        (("usd_per_million_input_tokens = inf",), "input should be a finite number"),
        (("usd_per_milion_input_tokens = 1",), "did you mean 'usd_per_million_input_tokens'?"),
        (("batch_factor = 0",), "is not a setting; remove it"),
    ],
)
def test_judges_that_cannot_be(study, tables, says):
    with pytest.raises(StudyError, match=re.escape(says)):
        study(GOOD + "".join(f'[[judge]]\nmodel = "m"\n{more}\n' for more in tables))


def test_no_folder_and_no_study(tmp_path):
    with pytest.raises(StudyError, match="there is no folder"):
        Study.open(tmp_path / "nowhere")
    with pytest.raises(StudyError, match=r"is not a study: it has no study.toml"):
        Study.open(tmp_path)


def test_the_template_of_new_is_a_study(study):
    text = TEMPLATE.format(
        name='"s"',
        seed=1,
        model='"bundled"',
        compute='"length"',
        scorer='"bundled"',
        new_tokens=8,
        prompt_tokens=8,
    )
    assert study(text).settings.judge[0].orders == "both"


def test_what_metrics_are_measured_counts_and_their_defaults_do_not(study):
    first = study(GOOD).hash
    assert study(GOOD + "[metrics]\nlevel = 0.95\n").hash == first
    assert study(GOOD + "[metrics]\nmauve_tokens = 64\n").hash != first


@pytest.mark.parametrize("again", ['["guard", "acs"]', '["acs(q=1)", "guard"]'])
def test_two_strategies_are_compared_once(study, again):
    """In whatever order and spelling: a mirrored entry would show every pair twice."""
    with pytest.raises(StudyError, match=r"pairs: .*acs\(q=1\).* are compared twice; remove one"):
        study(GOOD.replace('[["guard", "acs"]]', f'[["guard", "acs"], ["greedy", "acs"], {again}]'))


def test_a_baseline_is_one_of_the_strategies(study):
    assert study(GOOD + '[metrics]\nbaseline = "acs(q=1)"\n').settings.metrics.baseline == "acs(q=1)"
    with pytest.raises(StudyError, match=r"metrics.baseline names beam\(beams=5\), which generation"):
        study(GOOD + '[metrics]\nbaseline = "beam"\n')


@pytest.mark.parametrize(
    "line",
    ['compute = ["divrsity"]', "mauve_buckets = 1", "level = 95", 'diversity = "other"', "mauve_seeds = 0"],
)
def test_settings_of_metrics_that_cannot_be(study, line):
    with pytest.raises(StudyError, match=rf"metrics\.{line.split(' ')[0]}"):
        study(GOOD + f"[metrics]\n{line}\n")


def test_where_a_model_is_looked_for(study, tmp_path):
    opened = study(GOOD)
    (tmp_path / "here").mkdir()
    assert opened.locate_model("here") == str(tmp_path / "here")
    assert opened.locate_model("../models/x") == str(tmp_path.parent / "models/x")
    assert opened.locate_model("org/model") == "org/model"
    assert opened.locate_model("bundled").endswith("guard_eval/demo/model")


def test_runs_and_stop_strings_left_at_their_defaults_leave_the_hash(study):
    first = study(GOOD)
    plain = "[generation]\n"
    assert plain in GOOD
    written = GOOD.replace(plain, plain + "runs = 1\nstop = []\n")
    assert study(written).hash == first.hash
    several = study(GOOD.replace(plain, plain + 'runs = 3\nstop = ["é", "\\n", "é"]\n'))
    assert several.hash != first.hash
    assert several.settings.generation.stop == ["\n", "é"]
    assert [several.settings.runs_of(name) for name in ("guard", "top_k", "guard(select=sample)")] == [
        1,
        3,
        3,
    ]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("runs = 0", "generation.runs"),
        ('stop = [""]', "at least 1 character"),
        ('stop = ["\ufffd"]', "a broken character"),
        (f'stop = ["{"a" * 101}"]', "at most 100 characters"),
        ("stop = 5", "generation.stop"),
    ],
)
def test_runs_and_stop_strings_that_are_refused(study, written, says):
    with pytest.raises(StudyError, match=says):
        study(GOOD.replace("[generation]\n", f"[generation]\n{written}\n"))
