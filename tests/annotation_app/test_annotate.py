"""The command `annotate`: refusals, warnings and links."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from factories import edit_settings
from refusals import expect_refusal

from annotation_app import annotate as annotating
from annotation_app import server
from annotation_app.annotate import annotate
from guard_eval import progress
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.store import Store, handout, raters, settings, verdicts
from guard_eval.study import Study

pytestmark = pytest.mark.slow


class RecordingReporter(list):
    """A reporter that collects all printed lines."""

    show_notice = warn = list.append

    def show_result(self, result, *, clear_screen=False):
        self.extend(result.lines)


@pytest.fixture
def run(monkeypatch):
    """Run `annotate` with a server that ends at once; return the printed lines."""
    monkeypatch.setattr(server, "run_server", lambda _socket: None)

    def command(folder, *, quiet=False, **options):
        command.printed = listener = RecordingReporter()
        if quiet:
            listener.show_notice = lambda text: None
        with progress.use_reporter(listener):
            command.url = annotate(Study.open(folder), **{"port": 0, **options}).url
        return "\n".join(listener)

    return command


def save_first_verdict(built, rater, *criteria):
    """Save a rater's first verdict with the present settings of the study."""
    study = Study.open(built.folder)
    with Store.open(study.database, declared=study.declared) as store:
        (presentation,) = handout.claim_pairs(store, rater, study.hand_out_plan)
        verdicts.save_verdict(store, presentation.presentation, dict.fromkeys(criteria, "A"), rater=rater)


def test_raters_add_renews_a_link(study, run):
    built = study(slots=1)
    assert "pairs: 3, people for each: 1, invited: 1" in run(built.folder)
    assert "pairs: 3, people for each: 1, invited: 2" in run(built.folder, invite="ben")
    printed = run(built.folder, quiet=True, invite="ann")  # the link is printed all the same
    (token,) = re.findall(rf"ann: {run.url}/\?invite=(\S+)", printed)
    with built.open() as store:
        assert raters.find_rater_by_token(store, token).name == "ann"
        assert raters.find_rater_by_token(store, built.tokens["ann"]) is None


def test_revoked_rater_gets_no_link_and_nothing_is_served(study, run):
    built = study(slots=1)
    with built.open() as store:
        raters.decide_about_rater(store, "ann", "revoke", by="owner")
    with expect_refusal("invite the person under another name"):
        run(built.folder, invite="ann")
    assert "Serving" not in str(run.printed)
    assert "Serving" in run(built.folder, invite="ann 2")


@pytest.mark.parametrize("number", [0, 1], ids=["no pairs", "full output"])
def test_a_failed_start_of_the_server_keeps_the_old_link(study, run, monkeypatch, number):
    def fail(*_args, **_options):
        raise OSError("No space left on device")

    built = study(number)
    monkeypatch.setattr(RecordingReporter, "show_result", fail)
    with pytest.raises((StudyError, OSError)):
        run(built.folder, invite="ann")
    with built.open() as store:
        assert raters.find_rater_by_token(store, built.tokens["ann"]).name == "ann"


def test_annotate_warns_about_the_unchanged_consent_text(study, run, tmp_path):
    pages = "[annotation.pages]\nconsent = true\n"
    assert "write your own [consent] in the file that wording" in run(study(more=pages).folder)
    own_file = tmp_path / "study" / "own.toml"
    own_file.write_text('[consent]\nlead = "University X, 20 minutes, x@example.org"\n', encoding="utf-8")
    edit_settings(tmp_path / "study", "[annotation.pages]", 'wording = "own.toml"\n[annotation.pages]')
    assert "stock text" not in run(tmp_path / "study")


def test_annotate_warns_of_changed_settings_and_missing_gold(study, run):
    built = study(raters=())
    with built.open() as store:
        rater, _ = raters.invite_rater(store, "ann")
    save_first_verdict(built, rater, "fluency", "coherence")
    edit_settings(built.folder, "seed = ", "seed = 1")
    lease = "lease_minutes = 30\n"
    edit_settings(built.folder, lease, f"{lease}gold_every = 5\n[annotation.recruitment]\nprolific = true\n")
    said = run(built.folder)
    assert "settings changed after the first verdict: annotation.gold_every from null to 5" in said
    assert "write a file of gold pairs, set annotation.gold to it" in said
    assert "2 more people can come without an invite" in said


def test_annotate_warns_of_shipped_practice_pairs_for_other_texts(study, run):
    built = study()
    path = built.folder / "study.toml"
    text = path.read_text(encoding="utf-8").replace("seed = ", 'texts = "summaries"\nseed = ', 1)
    pages = 'wording = "own.toml"\n[annotation.pages]\npractice = true\n'
    pair = "[[practice.pairs]]\nname = 'p'\nprompt = 'p'\na = 'a'\nb = 'b'\n"
    answers = "expected = {fluency = 'A'}\nbecause = {fluency = 'so'}\n"
    for words, warns in (("", True), ("[practice]\nbutton = 'Try it'\n", True), (pair + answers, False)):
        (built.folder / "own.toml").write_text(words, encoding="utf-8")
        path.write_text(text + pages, encoding="utf-8")
        assert ("the practice pairs are continuations of stories" in run(built.folder)) == warns


def test_annotate_names_criteria_reworded_after_verdicts(study, run):
    table = '[criteria.wit]\ntitle = "Wit"\ndefinition = "How witty."\n'
    built = study(criteria=("wit", "fluency"), more=table)
    edit_settings(built.folder, "How witty", "How silly")
    assert "worded differently" not in run(built.folder)
    with built.open() as store:
        rater, _ = raters.invite_rater(store, "bob")
    save_first_verdict(built, rater, "wit", "fluency")
    edit_settings(built.folder, "How silly", "How witty")
    assert "'wit' was asked as 'Wit: How silly.', and is now 'Wit: How witty.'" in run(built.folder)


def test_annotate_warns_that_old_links_have_another_port(study, run):
    built = study()
    said = run(built.folder)
    assert f"Links that begin with http://127.0.0.1:8501 work if they begin with {run.url} instead." in said
    assert "Links that begin" not in run(study(raters=()).folder, invite="ann")  # her link is the one printed
    with built.open() as store:
        assert settings.read_setting(store, settings.APP_ADDRESS) == run.url
    assert "Links that begin" not in run(built.folder, port=int(run.url.rpartition(":")[2]))


def test_annotate_warns_that_a_network_has_no_encryption(study, run):
    said = run(study().folder, address="0.0.0.0")
    assert "There is NO TLS" in said
    assert urlsplit(run.url).hostname not in {"127.0.0.1", "0.0.0.0"}
    assert "TLS" not in run(study().folder)
    addresses = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "10.0.0.5")
    assert [annotating.is_local_address(address) for address in addresses] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    ("number", "options", "message"),
    [
        (0, {}, "has no pairs yet; run: guard-eval pair"),
        (1, {"port": 70000}, "port 70000 does not exist; choose one from 1024 to 65535"),
        (1, {"address": "192.0.2.1"}, "192.0.2.1.*choose an address of this machine"),
        (1, {"address": "not an address"}, "not an address.*choose an address of this machine"),
    ],
)
def test_annotate_refuses_unusable_ports_and_studies(study, run, number, options, message):
    with expect_refusal(message):
        run(study(number).folder, **options)


def test_annotate_serves_on_the_opened_socket(study, serve, run):
    """No other program can take the port before it is served. A port in use is named in the message."""
    port = urlsplit(serve().url).port
    with expect_refusal(rf"127.0.0.1, port {port}: .*in use.*Perhaps this study is already served"):
        run(study().folder, port=port)


@pytest.mark.parametrize(
    ("package", "extra", "more"),
    [("streamlit", "annotate", ""), ("authlib", "oidc", "[annotation.recruitment]\noidc = true\n")],
)
def test_a_missing_package_is_named_with_its_extra(study, monkeypatch, package, extra, more):
    built = Study.open(study(more=more).folder)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingExtraError, match=rf"pip install -e '.*\[{extra}\]'"):
        annotate(built, port=0)


def test_the_app_imports_no_heavy_library(study):
    """A new process runs the page up to a saved verdict; then its loaded modules are compared."""
    built = study()
    code = f"""
import json, sys
from annotation_app import server, state
from app_pages import open_page, press_button, save_choices
from guard_eval.study import Study
state.serve_study(Study.open({str(built.folder)!r}))
page = save_choices(press_button(open_page({built.tokens["ann"]!r}), "start"), "A", "A")
assert not page.exception
heavy = ["torch", "transformers", "scipy", "statsmodels", "pandas", "matplotlib", "analysis", "judge"]
print(json.dumps([name for name in heavy if name in sys.modules]))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert len(built.stored()) == 2
