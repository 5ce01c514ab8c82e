"""What study.toml may not say: each mistake is named once, with its place, its value and the remedy."""

import re
import traceback

import pytest

from guard_eval.errors import StudyError

TWO_JUDGES = 'judge=[{model="a"}, {model="b"}]'
FACTS_JUDGE = 'judge=[{model="m", criteria=["factuality"]}]'
A_OR_B = 'title="A", definition="d"'

TABLES = [
    ("seed='3'", "seed: '3': input should be a valid integer"),
    ("model.nam=x", "model.nam: is not a setting; did you mean 'name'?"),
    ("panel={membres=['a'], rule='mean'}", "panel.membres: is not a setting; did you mean 'members'?"),
    ("criteria.x={titl='X'}", "criteria.x.titl: is not a setting; did you mean 'title'?"),
    ("criteria.a={fr={}}", "criteria.a.fr: is not a setting"),
    ("annotation.pages.consnt=true", "is not a setting; did you mean 'consent'?"),
    ("judge=[{model='m', usd_per_milion_input_tokens=1}]", "did you mean 'usd_per_million_input_tokens'?"),
    (
        "judge=[{model='m', headers={Cookie='x'}}]",
        "judge[1].headers: the header 'Cookie' looks like a secret",
    ),
    ("model.device=tpu", "model.device: 'tpu': no device that is supported; write auto, cpu, cuda"),
    ("model.device_map=3", "model.device_map: 3: input should be a valid string, or a valid dictionary"),
    ("model={name='m', device='cuda', device_map='auto'}", "both say where the model lies; remove one"),
    ("generation.batch_size=true", "generation.batch_size: True: input should be a valid integer, or 'auto'"),
    ("generation.batch_size=big", "generation.batch_size: 'big': input should be"),
    ("generation.strategies=['greedy', 'acs', 'acs(q=1)']", "names acs(q=1) twice"),
    (
        "generation.strategies=['greedy', 'topk']",
        "strategies[2]: 'topk': unknown strategy 'topk': did you mean",
    ),
    ("generation.runs=0", "generation.runs: 0: input should be greater than or equal to 1"),
    ("generation.stop=['']", "generation.stop[1]: '': string should have at least 1 character"),
    ("generation.stop=['\ufffd']", "no text ends before a broken character"),
    (f"generation.stop=['{'a' * 101}']", "at most 100 characters"),
    ("generation.stop=5", "generation.stop: 5: "),
    ("metrics.compute=['divrsity']", "metrics.compute[1]: 'divrsity': "),
    ("metrics.mauve_buckets=0", "mauve_buckets: 0: input should be greater than or equal to 2, or 'auto'"),
    ("metrics.level=95", "metrics.level: 95: "),
    ("metrics.baseline=beam", "metrics.baseline names beam(beams=5), which generation.strategies does not"),
    (
        "pairs.compare=[['guard', 'top_k']]",
        "pairs.compare names top_k(k=50), which generation.strategies does",
    ),
    ("pairs.compare=[['guard', 'guard']]", "pairs: guard is compared with itself; name two strategies"),
    ("pairs.compare=[['guard', 'acs'], ['acs(q=1)', 'guard']]", "acs(q=1) and guard are compared 2 times"),
    ("pairs.run=2", "pairs.run = 2, and generation.runs = 1; lower the one, or raise the other"),
    ("pairs.best_of_runs=diversity", "chooses among several runs; raise generation.runs"),
    ("generation.strategies=['guard', 'acs', 'contrastive_decoding']", "name it as model.amateur"),
    ("analysis.equivalence_margin=0.5", "analysis.equivalence_margin: 0.5: input should be less than 0.5"),
    ("publication.license=free for all", "no SPDX identifier; write one such as CC-BY-4.0"),
    ("panel.rule=mean", "[panel] needs two judges or more, and study.toml has 0; add a [[judge]], or remove"),
    ("panel.rule=median", "panel.rule: 'median': input should be 'majority' or 'mean'"),
    ("composite={coherence=1, fluency=-1}", "composite: the weight of fluency is -1; give a number above 0"),
    ("composite={coherence=1, toxicity=1}", "neither people nor any judge is asked all of these; name some"),
]

COUPLES = [
    (
        (TWO_JUDGES, "panel={rule='mean', members=['a', 'c']}"),
        "panel.members names c, which [[judge]] does not",
    ),
    ((TWO_JUDGES, "panel={rule='mean', members=['a', 'a']}"), "panel.members: ['a', 'a']: names a twice"),
    ((FACTS_JUDGE, "composite={coherence=1, factuality=1}"), "neither people nor any judge is asked all of"),
    (
        ("analysis.assisted_by=gpt",),
        "assisted_by names gpt, which [[judge]] does not; add it, or choose from: none",
    ),
    (("analysis.assisted_by=a", TWO_JUDGES), "needs pairs that people do not rate; set pairs.human_pairs"),
    (
        ("analysis.assisted_by=a", "analysis.raters=random"),
        "no test holds for assisted_by with raters = 'random'",
    ),
    (("analysis.sequential=true", "analysis.raters=random"), "for sequential = true with raters = 'random'"),
    (("analysis.sequential=true", "analysis.correction=bh"), "for sequential = true with correction = 'bh'"),
    (
        ("analysis.sequential=true", "analysis.equivalence_margin=0.1"),
        "sequential = true with equivalence_margin",
    ),
]

JUDGES = [
    ("judge=[{model='m'}, {model='m', samples=2}]", "2 judges are called m; give each its own name"),
    ("judge=[{name='x', model='m'}, {model='x'}]", "2 judges are called x"),
    ("judge=[{model='m', samples=3, temperature=0}]", "pays for the same answer again; remove one"),
    ("judge=[{model='m', criteria=['fluency', 'fluency']}]", "names fluency twice"),
    (
        "judge=[{model='m', criteria=['fluency', 'Wit']}]",
        "criteria[2]: 'Wit': unknown criterion 'Wit': did you",
    ),
    ("judge=[{model='m', name=' '}]", "a judge's name has 1 to 100 printable characters"),
    (r'judge=[{model="m", name="a\u001b[31m"}]', "judge[1].name: 'a\\x1b[31m': a judge's name has"),
    (r'judge=[{model="m", name="a\u202e"}]', "a judge's name has 1 to 100 printable characters"),
    ("judge=[{model='m', style='chatty'}]", "judge[1].style: 'chatty': input should be"),
    ("judge=[{model='m', top_p=0}]", "judge[1].top_p: 0: input should be greater than 0"),
    (
        "judge=[{model='m', temperature=3}]",
        "judge[1].temperature: 3: input should be less than or equal to 2",
    ),
    ("judge=[{model='m', temperature='hot'}]", "judge[1].temperature: 'hot': "),
    ("judge=[{model='m', usd_per_million_input_tokens=inf}]", "input should be a finite number"),
]

CRITERIA = [
    (
        "annotation.criteria=['wti']",
        "annotation.criteria[1]: 'wti': unknown criterion 'wti': did you mean 'wit'?",
    ),
    ("annotation.criteria=['wit', 'wit']", "names wit twice"),
    ("criteria.a={title='A'}", "criteria.a.definition: is missing; add it"),
    ("criteria.a={title='', definition='d'}", "criteria.a.title: '': a title has 1 to 60 characters"),
    ("criteria.a={title='A: b', definition='d'}", "begins with a letter and has no colon"),
    ("criteria.a={title='1. A', definition='d'}", "begins with a letter and has no colon"),
    ('criteria.a={title="A\\u202e", definition="d"}', "the character '\\u202e' cannot be printed"),
    ('criteria.a={title="A\\u001b[31m", definition="d"}', "the character '\\x1b' cannot be printed"),
    (f"criteria.a={{title='A', definition='{'d' * 1001}'}}", "write 1 to 1000 characters"),
    (f"criteria={{'A b'={{{A_OR_B}}}}}", "criteria.A b: 'A b': a criterion's name has up to 40 of a to z"),
    (f"criteria={{{'a' * 41}={{{A_OR_B}}}}}", "a criterion's name has up to 40 of a to z"),
    (f"criteria={{rationale={{{A_OR_B}}}}}", "neither rationale nor composite"),
    ("criteria.a={title='fluency', definition='d'}", "'a' and 'fluency' are both called 'fluency'"),
    (f"criteria.w_it={{{A_OR_B}}}", "'w_it' and 'wit' are both called"),
    ("criteria.a=3", "criteria.a: 3: input should be a valid dictionary"),
]

ANNOTATION = [
    ("annotation.language=fr", "annotation.language: 'fr': input should be 'en' or 'de'"),
    ("annotation.pages.check='yes'", "pages.check: 'yes': input should be a valid boolean"),
    ("annotation.gold_every=0", "gold_every: 0: input should be greater than or equal"),
    ("annotation.recruitment.completion_url=x", "completion_url: 'x': a web address begins with https://"),
    ("annotation.recruitment.codes.completed=a b", "codes.completed: 'a b': a code has up to 64 letters"),
    ("annotation.recruitment.codes={completed='A', declined='A'}", "two endings have the same code"),
    ("annotation.recruitment.prolific_study=s", "prolific = true is not; add it"),
]


@pytest.mark.parametrize(("assignments", "says"), [*TABLES, *COUPLES, *JUDGES, *CRITERIA, *ANNOTATION])
def test_each_mistake_is_named_with_its_remedy(study, assignments, says):
    with pytest.raises(StudyError) as error:
        study(*([assignments] if isinstance(assignments, str) else assignments))
    assert says in str(error.value)


def test_all_problems_are_said_at_once_and_each_once(study):
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
rationale = 4
"""
    with pytest.raises(StudyError) as error:
        study(text=bad)
    head, *lines = str(error.value).split("\n  ")
    assert head.endswith("study.toml has 10 problems:")
    assert sorted(re.split(r": |\[\d\]", line)[0] for line in lines) == [
        *("annotation.criteria", "generation.batch_size", "generation.strategies", "generation.strategies"),
        *("judge", "judge", "model.nam", "model.name", "pairs", "seed"),
    ]


def test_contradictions_between_tables_are_named_at_once(study):
    with pytest.raises(StudyError) as error:
        study("pairs.compare=[['guard', 'top_k']]", "pairs.run=2", "composite={wit=1, fluency=1}")
    assert [line.split(" ")[0] for line in str(error.value).split("\n  ")[1:]] == [
        "pairs.compare", "pairs.run", "composite"
    ]  # fmt: skip


def test_however_many_names_are_unknown_all_are_named(study):
    names = [f"top_k(k={number})" for number in range(1, 41)]
    with pytest.raises(StudyError) as error:
        study(f"pairs.compare={[['guard', name] for name in names]}")
    assert [name for name in names if f"pairs.compare names {name}," not in str(error.value)] == []


def test_a_wrong_definition_is_no_unknown_criterion(study):
    with pytest.raises(StudyError, match="has 1 problem:"):
        study("criteria.a={title=3, definition='d'}", "annotation.criteria=['a']")


@pytest.mark.parametrize(
    "value",
    [
        '"postgresql+psycopg://me:hunter2@db/x"',
        '"postgresql+psycopg://me:hun%20hunter2@db/x"',
        '"postgresql+psycopg://me@there:hunter2@db/x"',
        '"postgresql+psycopg://me:p@hunter2@db/x"',
        '"postgresql+psycopg://db/x?password=hunter2"',
        '"postgresql+psycopg://db/x?pass%77ord=hunter2"',
        '"postgresql+psycopg://db/x?pa%2573sword=hunter2"',
        '"postgresql+psycopg://db/x?sslpassword=hunter2"',
        '"postgresql+psycopg://me:hunter2@db:port/x"',
        '"me:hunter2@db/x"',
        '"hunter2"',
        '["postgresql+psycopg://me:hunter2@db/x"]',
        '{ url = "postgresql+psycopg://me:hunter2@db/x" }',
    ],
)
def test_a_password_in_the_databases_url_is_shown_nowhere(study, value):
    with pytest.raises(StudyError) as caught:
        study(f"database={value}")
    assert "database: " in str(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_an_unreadable_file_and_no_study(study, tmp_path):
    with pytest.raises(StudyError, match="is not valid TOML"):
        study(text="seed =")
    with pytest.raises(StudyError, match="no text in UTF-8"):
        study(study__toml=b"name = '\xff'")
