"""What study.toml may not say: each mistake is named once, with its place, its value and the remedy."""

import re
import traceback

import pytest
from refusals import expect_refusal

from guard_eval.errors import StudyError

A_OR_B = 'title="A", definition="d"'

THREE = "generation.strategies=['guard', 'acs', 'greedy']"
HUMAN = "pairs.human_pairs=2"

TABLES = [
    ("seed='3'", "seed: '3': input should be a valid integer"),
    ("model.nam=x", "model.nam: is not a setting; did you mean 'name'?"),
    (f"criteria.x={{{A_OR_B}, titl='X'}}", "criteria.x.titl: is not a setting; did you mean 'title'?"),
    ("judge=[{model='m', usd_per_milion_tokens=[1, 2]}]", "did you mean 'usd_per_million_tokens'?"),
    ("judge=[{model='m', headers={Cookie='x'}}]", "judge[1].headers: 'Cookie' cannot be set here"),
    (
        "model.device=tpu",
        "model.device: 'tpu': input should be 'auto', 'cpu', 'cuda', 'balanced', 'balanced_low_0' or",
    ),
    (
        "model.device={model = 1.5}",
        "model.device.model: 1.5: input should be a valid integer, or a valid string",
    ),
    (
        "model.device=3",
        "'balanced_low_0' or 'sequential', or a valid string, or a table, such as {key = value}",
    ),
    ("generation.batch_size=true", "generation.batch_size: True: input should be a valid integer, or 'auto'"),
    ("generation.strategies=['greedy', 'acs', 'acs(q=1)']", "these names occur twice: acs(q=1)"),
    ("generation.strategies=['guard', 'topk']", "strategies[2]: 'topk': unknown strategy 'topk': did you"),
    ("generation.stop=['']", "generation.stop[1]: '': string should have at least 1 character"),
    ("seed=0xffffffffffffffffff", "seed: 4722366482869645213695: input should be less than"),
    ("metrics.baseline=beam", "metrics.baseline names beam(beams=5), which is not in generation.strategies"),
    (
        "pairs.compare=[['guard', 'acs(q=2)']]",
        "which is not in generation.strategies: did you mean 'acs(q=1)'?",
    ),
    (
        "pairs.compare=[['guard', 'guard']]",
        "pairs.compare[1]: ['guard', 'guard']: these names occur twice: guard",
    ),
    (
        "pairs.compare=[['guard', 'acs'], ['acs(q=1)', 'guard']]",
        "these names occur twice: acs(q=1) with guard",
    ),
    (
        f"{THREE}\npairs.design=rounds\npairs.compare=[['guard', 'acs'], ['guard', 'greedy']]",
        'with every other; write pairs.compare = [["acs(q=1)", "greedy", "guard"]]',
    ),
    (
        f"{THREE}\npairs.design=candidate\npairs.compare=[['guard', 'acs', 'greedy']]",
        "candidate needs one system in each couple of pairs.compare; remove the others",
    ),
    *(
        (
            f"pairs.design=rounds\n{assignment}",
            f"{assignment.split('=')[0]} cannot be combined with the test of pairs",
        )
        for assignment in ("analysis.sequential=true", "analysis.margin=0.1", "analysis.raters=random", HUMAN)
    ),
    ("pairs.design=round", "pairs.design: 'round': input should be 'fixed', 'rounds' or 'candidate'"),
    ("pairs.rounds=1", "pairs.rounds: 1: input should be greater than or equal to 2"),
    ("generation.strategies=['guard', 'acs', 'contrastive_decoding']", "smaller model: set model.amateur"),
    ("analysis.assisted_by=gpt\npairs.human_pairs=2", "assisted_by names gpt, which is not in [[judge]]"),
    (
        "analysis.assisted_by=a\njudge=[{model='a'}]",
        "needs pairs that people do not rate; set pairs.human_pairs",
    ),
    (
        "annotation.raters_per_pair=10_000_000",
        "raters_per_pair: 10000000: input should be less than or equal",
    ),
    ("generation.runs=1_000_000", "generation.runs: 1000000: input should be less than or equal to 1000"),
    ("generation.max_new_tokens=10_000_000", "max_new_tokens: 10000000: input should be less than or equal"),
    (
        "generation.batch_size=10_000_000",
        "batch_size: 10000000: input should be less than or equal to 100000",
    ),
    ("metrics.mauve_seeds=1_000_000", "metrics.mauve_seeds: 1000000: input should be less than or equal"),
    ("metrics.bertscore_layer=1_000_000", "bertscore_layer: 1000000: input should be less than or equal"),
    ("pairs.human_pairs=100_000_000", "pairs.human_pairs: 100000000: input should be less than or equal to"),
    ("metrics.level=nan", "metrics.level: nan: input should be a finite number"),
    (
        "system=[{name='sysb', strategy='top_k(k=5)'}, {name='sysc', strategy='top_k( k = 5 )'}]",
        "sysb and sysc are both top_k(k=5) of bundled; remove one",
    ),
    ("analysis.panel=median", "analysis.panel: 'median': input should be 'majority' or 'mean'"),
    (
        "analysis.composite={coherence=1, fluency=-1}",
        "analysis.composite.fluency: -1: input should be greater",
    ),
    ("analysis.composite={coherence=1, toxicity=1}", "analysis.composite names toxicity, which is not in"),
    ("analysis.composite={coherence=1e308, fluency=1}", "analysis.composite.coherence: 1e+308: input should"),
    (
        "analysis.panel=mean\njudge=[{model='a'}]",
        "analysis.panel needs two judges; add another table [[judge",
    ),
    ("analysis.by=['genre', 'genre']", "analysis.by: ['genre', 'genre']: these names occur twice: genre"),
    ("analysis={by=['genre'], weights='precision'}", "analysis: the test of by gives every pair the same"),
    ("seed=-1", "seed: -1: input should be greater than or equal to 0"),
    *(
        (f"{key}=' '", f"{key}: ' ': the text is empty; write words")
        for key in ("name", "question", "texts", "license")
    ),
    ("name='a\u202e'", "name: 'a\\u202e': the text has a character that cannot be printed"),
]

GUARANTEES = [
    ("assisted_by='a'", "raters='random'"),
    *(("sequential=true", other) for other in ("raters='random'", "correction='bh'", "assisted_by='a'")),
    ("sequential=true", "margin=0.1"),
]

JUDGES = [
    ("model='m'}, {model='m', samples=2", "these names occur twice: m; write each once"),
    ("name='x', model='m'}, {model='x'", "these names occur twice: x"),
    ("model='m', criteria=['fluency', 'Wit']", "criteria[2]: 'Wit': unknown criterion 'Wit': did you"),
    (r'model="m", name="a\u001b[31m"', r"judge[1].name: 'a\x1b[31m': the text has a character that cannot"),
    (r'model="m", name="a\u202e"', "the text has a character that cannot be printed; remove this character"),
    (f"model='m', name='{'m' * 101}'", "judge[1].name: "),
    ("model='m', temperature='hot'", "judge[1].temperature: 'hot': "),
    ("model='m', timeout=inf", "judge[1].timeout: inf: "),
    ("model='m', usd_per_million_tokens=[1, inf]", "tokens[2]: inf: input should be a finite number"),
    (
        "model='m', usd_per_million_tokens=[-1, 1]",
        "tokens[1]: -1: input should be greater than or equal to 0",
    ),
    (
        "model='m', usd_per_million_tokens=2",
        "usd_per_million_tokens: 2: input should be a list in square brackets",
    ),
    ("model='m', usd_per_million_tokens=[2]", "tokens: [2]: list should have at least 2 items"),
]

CRITERIA = [
    ("annotation.criteria=['wti']", "criteria[1]: 'wti': unknown criterion 'wti': did you mean 'wit'?"),
    ("annotation.criteria=['wit', 'wit']", "these names occur twice: wit"),
    ("criteria.a={title='A'}", "criteria.a.definition: is missing; add it"),
    *(
        (f"criteria.a={{title='{title}', definition='d'}}", "title: ")
        for title in ("", "A: b", "1. A", "A" * 61)
    ),
    *(
        (f"criteria.a={{title='A', definition='{definition}'}}", "definition: ")
        for definition in (" ", "d" * 1001)
    ),
    *(
        (
            f'criteria.a={{title="A{written}", definition="d"}}',
            f"title: 'A{printed}': the text has a character that cannot be printed",
        )
        for written, printed in ((r"\u202e", r"\u202e"), (r"\u001b[31m", r"\x1b[31m"))
    ),
    (f"criteria={{'A b'={{{A_OR_B}}}}}", "criteria.A b: 'A b': string should match pattern"),
    (f"criteria={{{'a' * 41}={{{A_OR_B}}}}}", "string should match pattern '^[a-z][a-z0-9_]{0,39}$'"),
    (f"criteria={{rationale={{{A_OR_B}}}}}", "criteria: these names occur twice: rationale"),
    (f"criteria.w_it={{{A_OR_B}}}", "criteria: these names occur twice: wit"),
]

SHAPES = [
    ("annotation.recruitment=prolific", "input should be a table with the keys prolific, oidc, codes"),
    ("annotation.recruitment.codes=A", "codes: 'A': input should be a table, such as {key = value}"),
    ("annotation.gold=5", "annotation.gold: 5: input should be the name of a file"),
    ("annotation.pages=true", "with the keys consent, background, practice, check"),
    ("criteria.a=b", "criteria.a: 'b': input should be a table with the keys title, definition"),
    ("analysis.by=dataset", "analysis.by: 'dataset': input should be a list in square brackets"),
    ("pairs.compare=['guard']", "compare[1]: 'guard': input should be a list in square brackets"),
    ("authors=Ada", "authors: 'Ada': input should be a list in square brackets"),
    ("judge=5", "judge: 5: input should be a list, whose tables begin with [[judge]]"),
    ("judge={model='m'}", "judge: input should be a list, whose tables begin with [[judge]]"),
    ("judge=[{model='m', usd_per_million_tokens=[1, 2, 3]}]", "list should have at most 2 items, not 3"),
]

ANNOTATION = [
    ("annotation.recruitment.codes.completed=a b", "codes.completed: 'a b': string should match pattern"),
    ("annotation.recruitment.codes.complete=A", "codes.complete: 'complete': input should be 'completed'"),
]


@pytest.mark.parametrize(
    ("assignments", "says"),
    [
        *TABLES,
        *CRITERIA,
        *ANNOTATION,
        *SHAPES,
        *((f"judge=[{{{tables}}}]", says) for tables, says in JUDGES),
        *((f"analysis={{{first}, {second}}}", "no valid test exists for") for first, second in GUARANTEES),
    ],
)
def test_each_mistake_is_named_with_its_remedy(study, assignments, says):
    with pytest.raises(StudyError) as error:
        study(*assignments.split("\n"))
    assert says in str(error.value)
    assert "has 1 problem:" in str(error.value)


def test_all_problems_are_listed_once(study):
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
        *("judge", "judge", "model.nam", "model.name", "pairs.compare", "seed"),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("annotation.criteria=['fluencyy']", "annotation.lease_minutes=-1"),
        ("pairs.compare=[['gaurd', 'guard']]", "pairs.per_dataset=-1"),
        ("metrics.baseline=greedi", "metrics.level=2"),
        ("judge=[{model='m', criteria=['flueny']}, {model='n', orders='bot'}]", "seed=x"),
        ("annotation.criteria=['wti']", "criteria.wit={title='W'}"),
    ],
)
def test_unknown_names_are_reported_beside_other_problems(study, first, second):
    with pytest.raises(StudyError) as error:
        study(first, second)
    message = str(error.value)
    assert "did you mean" in message
    assert f"\n  {second.partition('=')[0]}" in message


def test_contradictions_between_tables_are_named_at_once(study):
    with pytest.raises(StudyError) as error:
        study(
            "pairs.compare=[['guard', 'top_k']]",
            "metrics.baseline=beam",
            "analysis.composite={wit=1, toxicity=1}",
        )
    assert [line.split(" ")[0] for line in str(error.value).split("\n  ")[1:]] == [
        "pairs.compare", "metrics.baseline", "analysis.composite", "analysis.composite"
    ]  # fmt: skip


def test_a_wrong_definition_is_not_reported_as_unknown_criterion(study):
    with expect_refusal("has 1 problem:"):
        study("criteria.a={title=3, definition='d'}", "annotation.criteria=['a']")


@pytest.mark.parametrize(
    "value",
    [
        '"postgresql+psycopg://me:hunter2@db/x"',
        '"postgresql+psycopg://me@there:hunter2@db/x"',
        '"postgresql+psycopg://db/x?password=hunter2"',
        '"postgresql+psycopg://db/x?pa%2573sword=hunter2"',
        '"postgresql+psycopg://me:hunter2@db:port/x"',
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


def test_unreadable_study_toml_is_named(study):
    with expect_refusal("is not valid TOML"):
        study(text="seed =")
    with expect_refusal("not text in UTF-8"):
        study(study__toml=b"name = '\xff'")
