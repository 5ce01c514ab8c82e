"""Commands that results and messages propose: complete, and of use where they are proposed."""

import ast
import re
import shlex
from pathlib import Path

import pytest
from command_line import run_here
from own_strategies import forget_own_strategies
from rating import invite_people, save_choice

from guard_eval import proposals
from guard_eval.cli.commands import COMMANDS
from guard_eval.generation.strategies import own
from guard_eval.store import Store, handout
from guard_eval.study import Study
from guard_eval.study.folder import RECORD

ROOT = Path(__file__).parents[2]
PACKAGES = ("guard_eval", "annotation_app", "judge", "analysis")
OF_STUDIES = set(COMMANDS) - {"new", "demo", "try", "replicate", "power", "check"}

MINE = """
from dataclasses import dataclass
from guard_eval.generation.strategies import Sampler, apply_step

@dataclass(frozen=True, kw_only=True)
class Mine(Sampler):
    a: float = 0.2

@apply_step.register
def mine(strategy: Mine, logits, context):
    return logits * strategy.a
"""


@pytest.fixture
def run_anew(tmp_path, monkeypatch, capsys):
    """Run a command as in a new process, which knows no strategies of one's own."""

    def run(*arguments):
        with monkeypatch.context() as patch:
            forget_own_strategies(patch)
            return run_here(patch, capsys, tmp_path, *arguments)

    yield run
    proposals.code_files.clear()


@pytest.fixture
def own_study(study, run_anew):
    """A paired study in a folder with a blank, with a strategy of its user's own."""
    folder = study.rename(study.parent / "my study")
    text = (folder / "study.toml").read_text()
    text = re.sub(r"(?m)^strategies = .*$", 'strategies = ["greedy", "mine"]', text)
    text = text.replace('["guard", "acs"]', '["greedy", "mine(a=0.2)"]')
    (folder / "study.toml").write_text(text)
    (folder.parent / "my.py").write_text(MINE)
    for command in ("generate", "pair"):
        ran = run_anew(command, "my study", "--code", "my.py")
        assert ran.code == 0, ran
    return folder


def next_commands(ran):
    assert ran.code == 0, ran
    return re.findall(r"(?m)^(?:Next|  or): (.*)$", ran.out)


@pytest.mark.slow
def test_proposed_command_repeats_code_and_set_options(own_study, run_anew):
    ran = run_anew("generate", "my study", "--code", "my.py", "--set", "seed=5")
    proposed = next_commands(ran)
    assert proposed == [
        "guard-eval measure 'my study' --set seed=5 --code my.py",
        "guard-eval pair 'my study' --set seed=5 --code my.py",
    ]
    assert run_anew(*shlex.split(proposed[1])[1:]).code == 0


@pytest.mark.slow
def test_commands_after_pair_need_no_code_option(own_study, run_anew):
    declared = {name for name in OF_STUDIES if name.split()[0] not in {"generate", "judge", "annotate"}}
    arguments = {
        "raters add": ["Ann"],
        "raters links": ["Ann", "--output", "links.csv"],
        "backup": ["copy.db"],
        "publish": ["out"],
        "measure": ["--dry-run"],
    }
    arguments |= {name: ["Ann", "--reason", "x"] for name in ("raters exclude", "raters include")}
    arguments |= {name: ["Ann"] for name in ("raters assign", "raters revoke")}
    arguments |= {"raters erase": ["Ann", "--yes"]}
    last = "raters erase"
    order = ["raters add", *sorted(declared - {"raters add", last}), last]
    messages = {}
    for name in order:
        ran = run_anew(*name.split(), "my study", *arguments.get(name, ()))
        if ran.code:
            messages[name] = ran.refused()
    assert set(messages) == {"report", "publish"}, messages  # nothing was rated
    assert not [text for text in messages.values() if "strategy" in text or "--code" in text]


@pytest.mark.slow
def test_generate_needs_the_file_of_custom_strategies(own_study, run_anew):
    change = ("--set", "generation.max_new_tokens=7")
    refused = run_anew("generate", "my study", *change).refused()
    assert "your own strategy mine(a=0.2) is not loaded" in refused
    assert "--code FILE.py" in refused
    assert next_commands(run_anew("status", "my study", *change))[0] == (
        "guard-eval generate 'my study' --dry-run --set generation.max_new_tokens=7 --code FILE.py"
    )
    assert run_anew("generate", "my study", *change, "--code", "my.py").code == 0
    assert "unknown strategy 'mines'" in run_anew("status", "my study", "--set", "metrics.baseline=mines").out


@pytest.mark.slow
@pytest.mark.parametrize("content", ["{", "[]", '{"mine": 3}', '{"mine": {"text": "../x", "drawn": true}}'])
def test_a_broken_record_of_strategies_is_refused(own_study, run_anew, content):
    (own_study / RECORD).write_text(content)
    refused = run_anew("raters", "list", "my study").refused()
    assert f"cannot use my study/{RECORD}" in refused
    assert "remove this file" in refused


def test_recorded_strategies_declare_what_their_file_does(own_study, monkeypatch, load_own_strategies):
    with monkeypatch.context() as patch:
        patch.setattr(own, "recorded", {})
        recalled = Study.open(own_study).declared
    load_own_strategies(MINE)
    assert Study.open(own_study).declared == recalled


def test_messages_of_the_store_name_the_study(run, paired):
    paired.rename(paired.parent / "a study")
    refused = run("raters", "revoke", "a study", "Eve", "--set", "seed=5").refused()
    assert refused.endswith("list them with: guard-eval raters list 'a study' --set seed=5\n")
    (paired.parent / "a study" / "study.db").unlink()
    assert "run: guard-eval pair 'a study'\n" in run("raters", "list", "a study").refused()


def test_a_folder_is_never_taken_for_an_option():
    assert proposals.format_study_command("status", "-x") == "guard-eval status ./-x"


def literals(path):
    """Yield the texts of a module that are no docstrings; of an f-string the parts that are constant."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstrings |= {id(line.value) for line in node.body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_every_command_in_a_message_exists_and_is_complete():
    """A command on a study names STUDY, for which `insert_study_into_commands` puts the folder."""
    command = re.compile(r"(?:run|with|them|by|verdicts|again): guard-eval (\S+)((?: \S+)*)")
    names = {name.split()[0] for name in COMMANDS}
    seen = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for text in literals(path):
                for name, arguments in command.findall(text):
                    seen.append(name)
                    assert name.strip(",.;") in names, (path, text)
                    if name in {command_name.split()[0] for command_name in OF_STUDIES}:
                        assert re.match(r"( [a-z]+)? STUDY\b", arguments), (path, text)
    assert {"pair", "raters"} <= set(seen)


@pytest.mark.slow
def test_status_proposes_a_report_when_all_ratings_are_in(run, paired):
    """At one rating of six the report waits; a sequential test may be looked at whenever one likes."""
    study = Study.open(paired)
    with Store.open(study.database) as store:
        ann, ben = invite_people(store, "Ann", "Ben")
        save_choice(store, ann, handout.claim_pairs(store, ann, study.hand_out_plan)[0])
    ran = run("status", "small")
    assert "– report         waits for 5 ratings" in ran.out
    assert not any("report" in command for command in next_commands(ran))
    early = next_commands(run("status", "small", "--set", "analysis.sequential=true"))
    assert early[0] == "guard-eval report small --set analysis.sequential=true"
    assert next_commands(run("export", "small")) == ["guard-eval status small"]
    with Store.open(study.database) as store:
        for rater in (ann, ben):
            while batch := handout.claim_pairs(store, rater, study.hand_out_plan):
                save_choice(store, rater, batch[0])
    assert "guard-eval report small" in next_commands(run("status", "small"))


def test_mistakes_in_study_toml_get_specific_remedies(run, study):
    (study / "study.toml").write_text((study / "study.toml").read_text().replace("seed = 5", 'seed = "x"'))
    refused = run("raters", "list", "small").refused()
    assert "seed: 'x': input should be a valid integer" in refused
    assert "--help" not in refused
    assert "`guard-eval COMMAND --help`" in run("new", "x", "--nonsense").refused()


@pytest.mark.slow
def test_greedy_can_be_deleted_from_a_new_study(run, tmp_path):
    assert run("new", "s").code == 0
    text = (tmp_path / "s" / "study.toml").read_text()
    text = text.replace('strategies = ["greedy", ', 'strategies = ["guard", "acs(q=1)"] # ').replace(
        "max_new_tokens = 128", "max_new_tokens = 8"
    )
    (tmp_path / "s" / "study.toml").write_text(text)
    assert run("generate", "s").code == 0
    assert run("measure", "s", "--metrics", "length").code == 0
    differences = tmp_path / "s" / "metrics" / "differences.csv"
    assert len(differences.read_text().splitlines()) == 1  # its heading
