"""`guard-eval annotate` before its server starts: what it says, and for whom it makes a link."""

import re
import shutil

import pytest
import typer

from guard_eval.cli import annotate
from guard_eval.cli.administration import raters
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command with a server that is ready and ends at once; return what was printed."""

    def serve(folder, *, on_ready, **_options):
        on_ready("http://127.0.0.1:8501")
        return 0

    monkeypatch.setattr(annotate, "serve", serve)

    def command(folder, **options):
        with pytest.raises(typer.Exit):
            annotate.command(folder, **options)
        return capsys.readouterr().out

    return command


def test_a_known_rater_gets_a_new_link(study, run):
    built = study()
    out = run(built.folder, invite="ann")
    (token,) = re.findall(r"ann: http://127\.0\.0\.1:8501/\?invite=(\S+)", out)
    with built.open() as store:
        assert store.sign_in(token).name == "ann"
        assert store.sign_in(built.tokens["ann"]) is None
    assert "3 pairs, 2 people each, 1 invited" in out
    assert "Note:" not in out


def test_a_study_without_pairs_is_not_served(study, run):
    with pytest.raises(StudyError, match="has no pairs yet; run: guard-eval pair"):
        annotate.command(study(0).folder)


def test_what_the_owner_should_know_first(study, run, monkeypatch):
    built = study(raters=())
    assert "guard-eval raters" in run(built.folder)
    with built.open() as store:
        rater, _ = store.invite("ann")
    from guard_eval.store import Store
    from guard_eval.study.folder import Study

    before = Study.open(built.folder)
    with Store.open(before.database, study_hash=before.hash) as store:
        (shown,) = store.hand_out(rater, before.plan)
        store.save(shown.presentation, {"fluency": "A", "coherence": "A"}, rater=rater)
    path = built.folder / "study.toml"
    text = path.read_text(encoding="utf-8").replace("seed = ", "seed = 1")
    path.write_text(f"{text}gold_every = 5\n[annotation.recruitment]\nprolific = true\n", encoding="utf-8")
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(10**9, 10**9, 50 * 2**20)
    )
    out = run(built.folder)
    assert "study.toml is not what it was when the first verdict came" in out
    assert f"guard-eval gold {built.folder} FILE" in out
    assert "annotation.pairs_per_rater sets a limit" in out
    assert "2 places open for people who come without an invite" in out
    assert ("the disk has 50 MiB left" in out) is before.database.startswith("sqlite")


def test_a_reworded_criterion_is_named_once_there_are_verdicts_on_it(study, run):
    from guard_eval.store import Store
    from guard_eval.study.folder import Study

    table = '[criteria.wit]\ntitle = "Wit"\ndefinition = "How witty."\n'
    built = study(criteria=("wit", "fluency"), more=table)
    path = built.folder / "study.toml"

    def reword(old, new):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        return run(built.folder)

    assert "worded differently" not in run(built.folder)
    assert "worded differently" not in reword("How witty", "How funny")
    opened = Study.open(built.folder)
    with Store.open(opened.database) as store:
        rater, _ = store.invite("bob")
        (shown,) = store.hand_out(rater, opened.plan)
        store.save(shown.presentation, {"wit": "A", "fluency": "A"}, rater=rater)
    out = reword("How funny", "How silly")
    assert "'wit' was asked as 'Wit: How funny.', and is now 'Wit: How silly.'" in " ".join(out.split())
    assert "worded differently" not in reword("How silly", "How funny")


def test_links_lead_to_where_the_app_was_served_last(study, run, monkeypatch, capsys):
    built = study(raters=())
    monkeypatch.setattr(
        annotate, "serve", lambda _folder, *, on_ready, **_rest: on_ready("http://127.0.0.1:9123") or 0
    )
    raters.command(built.folder, raters.Action.add, ["ann"])
    assert "ann: http://localhost:8501/?invite=" in capsys.readouterr().out
    with pytest.raises(typer.Exit):
        annotate.command(built.folder, port=9123)
    assert "TLS" not in capsys.readouterr().out
    raters.command(built.folder, raters.Action.add, ["ben"])
    assert "ben: http://127.0.0.1:9123/?invite=" in capsys.readouterr().out
    raters.command(built.folder, raters.Action.add, ["cas"], url="https://rate.example.org/")
    assert "cas: https://rate.example.org/?invite=" in capsys.readouterr().out


def test_who_serves_a_network_reads_how_raters_reach_it_and_that_tls_is_missing(study, monkeypatch, capsys):
    built = study()
    monkeypatch.setattr(
        annotate, "serve", lambda _folder, *, on_ready, **_rest: on_ready("http://127.0.0.1:9123") or 0
    )
    with pytest.raises(typer.Exit):
        annotate.command(built.folder, address="0.0.0.0", port=9123)
    out = " ".join(capsys.readouterr().out.split())
    (found,) = re.findall(r"Other machines of the network reach it at (\S+)\. There is NO TLS", out)
    assert found.endswith(":9123")
    assert "127.0.0.1" not in found
    assert "0.0.0.0" not in found
    with pytest.raises(typer.Exit):
        annotate.command(built.folder, address="0.0.0.0", port=9123, proxy="127.0.0.1")
    assert "NO TLS" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.5", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(address, local):
    assert annotate.is_local(address) is local
