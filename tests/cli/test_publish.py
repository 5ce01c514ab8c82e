"""A published study: complete, the same every time, computed again by others, and naming nobody."""

import csv
import hashlib
import io
import json
import re
import struct
import zlib
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from fake_openai import REASONS, FakeOpenAI

from guard_eval.cli.commands import publish, report
from guard_eval.cli.publication.dataset import published_rows
from guard_eval.cli.publication.leaks import LeakFinder
from guard_eval.errors import StudyError
from guard_eval.records import Pair
from guard_eval.store import Store
from guard_eval.study.folder import Study
from judge.run import run_judge

TOML = """
name = "Tales"
question = "Which is better?"
seed = 3
{top}
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
{recruitment}
[publication]
authors = ["Zoë Author"]
"""
CODE = "C0FFEE42"
RECRUITMENT = f"""[annotation.recruitment]
prolific = true
prolific_study = "61a2b3c4d5e6f708192a3b4c"
[annotation.recruitment.codes]
completed = "{CODE}"
"""
PEOPLE = ("Quentin Überall", "marge", "P-1")
PROLIFIC = "5f3c9a1b2d4e6f708192a3b4"


def make(folder, *, top="", recruitment=RECRUITMENT, prompt="Once upon a time", names=PEOPLE, order=None):
    """Make a study whose people have rated 12 pairs; `order` is the one in which they were invited."""
    folder.mkdir()
    (folder / "study.toml").write_text(TOML.format(top=top, recruitment=recruitment), encoding="utf-8")
    study = Study.open(folder)
    with Store.open(f"sqlite:///{folder / 'study.db'}", study_hash=study.hash, create=True) as store:
        store.add_pairs(
            [
                Pair(
                    id=Pair.make_id("guard", "greedy", f"a{n}", f"b{n}"),
                    dataset="tales",
                    prompt_id=f"p{n}",
                    prompt=f"{prompt} {n}",
                    method_a="guard",
                    method_b="greedy",
                    continuation_a=f"a{n}",
                    continuation_b=f"b{n}",
                    text_a=f"=1+{n} Write to info@example.org at 10.1.2.3, said Anna, 42 years old.",
                    text_b=f"\n- The {n} end.",
                    position=n,
                )
                for n in range(12)
            ]
        )
        raters = {name: store.invite(name)[0] for name in (order or names)}
        for number, name in enumerate(names):  # whoever was invited first, they answer alike
            for blind in store.hand_out(raters[name], study.plan, limit=12):
                store.save(
                    blind.presentation,
                    {"fluency": "AB"[zlib.crc32(f"{number}{blind.prompt}".encode()) % 2]},
                    rater=raters[name],
                    seconds=7.25,
                )
    return study


@pytest.fixture
def opened(tmp_path):
    study = make(tmp_path / "study")
    with Store.open(study.database, study_hash=study.hash) as store:
        yield study, store


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_honest_study_is_published_and_the_same_again(tmp_path):
    study = make(tmp_path / "study")
    sizes = publish(study, tmp_path / "out")
    made = files_of(tmp_path / "out")
    assert {name: len(data) for name, data in made.items()} == sizes
    assert {
        "README.md",
        "croissant.json",
        "CITATION.cff",
        "LICENSE",
        "study.toml",
        "report/index.html",
    } <= set(made)
    publish(study, tmp_path / "again")
    publish(study, tmp_path / "out")  # in place of what it made
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out") == made
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "out", "study"]
    for line in made["SHA256SUMS"].decode().splitlines():
        found, name = line.split("  ")
        assert hashlib.sha256(made[name]).hexdigest() == found
    everything = b"\n".join(made.values()).decode("utf-8", "replace").casefold()
    for secret in (*PEOPLE[:2], CODE, "7.25"):
        assert secret.casefold() not in everything


def test_settings_that_change_nothing_are_left_out_and_the_hash_stays(tmp_path):
    top = 'database = "sqlite:///{}" # here'.format(tmp_path / "study" / "study.db")
    study = make(tmp_path / "study", top=top)
    publish(study, tmp_path / "out")
    text = (tmp_path / "out" / "study.toml").read_text(encoding="utf-8")
    assert "# annotation.recruitment.codes.completed: left out" in text
    assert str(tmp_path) not in text
    assert CODE not in text
    assert Study.open(tmp_path / "out").hash == study.hash
    assert study.hash in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_a_setting_that_cannot_be_left_out_line_by_line_is_refused(tmp_path):
    recruitment = f'recruitment = {{ prolific = true, codes = {{ completed = "{CODE}" }} }}'
    study = make(tmp_path / "study", recruitment=recruitment)
    with pytest.raises(StudyError, match=r"recruitment\.codes .*line of its own"):
        publish(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_anybody_computes_the_same_shares(tmp_path):
    study = make(tmp_path / "study")
    publish(study, tmp_path / "out")
    report(tmp_path / "out" / "verdicts.csv", tmp_path / "theirs")
    report(study, tmp_path / "ours")
    tables = [
        (rows_of(folder / "csv" / "win_shares.csv"))
        for folder in (tmp_path / "theirs", tmp_path / "ours", tmp_path / "out" / "report")
    ]
    for mine, theirs in zip(*tables[1:], strict=True):
        assert mine == theirs
    for mine, theirs in zip(*tables[:2], strict=True):
        for name in ("share", "low", "high", "p", "p_adjusted"):
            assert mine.get(name) == theirs.get(name), name
    # by hand: guard's share is the mean over pairs of the raters who preferred it
    rows = rows_of(tmp_path / "out" / "verdicts.csv")
    assert len(rows) == 36
    by_hand = sum(row["verdict"] == "guard" for row in rows) / 36
    assert any(
        abs(float(value) - by_hand) < 1e-9
        for value in tables[0][0].values()
        if re.fullmatch(r"0\.\d+", value)
    )


def test_numbers_of_raters_follow_neither_names_nor_arrival(opened):
    _, store = opened
    rows = store.tidy()
    others = dict(zip(PEOPLE, ("zoe", "ann", "mia"), strict=True))
    renamed = [replace(row, rater=others[row.rater], presentation=999 - row.presentation) for row in rows]
    made = published_rows(store, rows, (), seed=3).verdicts
    assert published_rows(store, renamed[::-1], (), seed=3).verdicts == made
    assert {row.rater for row in made} == {"rater-1", "rater-2", "rater-3"}


def test_a_rater_called_like_a_number_is_not_taken_for_another(tmp_path):
    study = make(tmp_path / "study", names=("rater-1", "rater-2", "rater-3"))
    publish(study, tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "verdicts.csv")
    assert {row["rater"] for row in rows} == {"xrater-1", "xrater-2", "xrater-3"}


def plant_comment(study, store, text):
    rater = store.rater(PEOPLE[1], "person")
    shown = next(row.presentation for row in store.tidy() if row.rater == rater.name)
    store.note(rater, "comment", text, presentation=shown)


PLANTED = {
    "# token hf_ABCDEFGHIJKLMNOPQRSTUVWX": "an API key or a password, 'hf_A…'",
    '# api_key = "abcdefgh12345"': "an API key or a password, 'api_…'",
    "# mail me: owner@uni.example": "an e-mail address, 'owner@uni.example'",
    "# models are in /home/owner/models": "the path of a person's folder, '/home/owner'",
    "# judge at 192.168.7.9": "an IP address, '192.168.7.9'",
    "# judge at http://gpu7:8000/v1": "the address of a server, 'gpu7'",
    f"# {PROLIFIC} rated twice": f"what looks like a Prolific id, '{PROLIFIC}'",
    "# thanks to Marge": "a rater's name, 'marge'",
    f"# {CODE} is for the end": f"a completion code, '{CODE.lower()}'",
}


def test_what_is_planted_is_found_with_its_place(tmp_path):
    prompt = f"Ask {PEOPLE[0].upper()}, key sk-proj-abcdef1234567890abcd, https://x.org/?invite=abc"
    study = make(tmp_path / "study", top="\n".join(PLANTED), prompt=prompt)
    with pytest.raises(StudyError) as refused:
        publish(study, tmp_path / "out")
    lines = str(refused.value).splitlines()
    assert lines[0].startswith("12 things")
    for number, what in enumerate(PLANTED.values(), start=5):
        (line,) = [
            line for line in lines if what.replace("'hf_A…'", "hf_A…").replace("'api_…'", "api_…") in line
        ]
        assert re.match(rf"  study.toml, line {number}( and|:)", line)
        assert line.endswith(f"remove it from {study.folder / 'study.toml'}")
    for what in (
        "a rater's name, 'quentin überall'",
        "an API key or a password, sk-p…",
        "an invite or a participant's link",
    ):
        (line,) = [line for line in lines if what in line]
        assert line.startswith("  pairs.jsonl, row 1, prompt and ")
    assert "sk-proj-abcdef" not in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study"]


def test_a_living_invite_is_found_by_what_it_opens(tmp_path):
    study = make(tmp_path / "study")
    with Store.open(study.database, study_hash=study.hash) as store:
        token = store.invite("late")[1]
        other = hashlib.sha256(b"").hexdigest()[:43]
        finder = LeakFinder(study, store)
        data = json.dumps({"prompt": f"see {token}", "text_a": f"see {other}"}).encode()
        (leak,) = finder.search({"pairs.jsonl": data})
    assert (leak.column, leak.value) == ("prompt", token)


def test_keys_of_the_environment_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "plain-words-as-a-key")
    study = make(tmp_path / "study", prompt="Say plain-words-as-a-key twice")
    with pytest.raises(StudyError, match="API key"):
        publish(study, tmp_path / "out")


def test_comments_are_published_only_by_name_and_are_searched(tmp_path, opened):
    study, store = opened
    plant_comment(study, store, "the second is much more fluent")
    publish(study, tmp_path / "out")
    assert b"much more fluent" not in b"".join(files_of(tmp_path / "out").values())
    publish(study, tmp_path / "with", include=["comments"])
    (row,) = map(json.loads, (tmp_path / "with" / "comments.jsonl").read_text(encoding="utf-8").splitlines())
    assert row["text"] == "the second is much more fluent"
    verdicts = rows_of(tmp_path / "with" / "verdicts.csv")
    (same,) = [one for one in verdicts if one["presentation"] == str(row["presentation"])]
    assert (same["rater"], same["pair_id"]) == (row["rater"], row["pair_id"])
    plant_comment(study, store, "pay me at marge@mail.example please")
    with pytest.raises(StudyError, match=r"comments.jsonl.* e-mail(.|\n)*leave --include comments out"):
        publish(study, tmp_path / "bad", include=["comments"])


def test_rationales_of_a_judge_are_published_by_name_and_searched(tmp_path, run):
    server = FakeOpenAI()
    lines = f'model = "j"\nbase_url = "{server.url}"\noutput = "text"\nrationale = true\n'
    study = make(
        tmp_path / "study", recruitment=f"[[judge]]\n{lines}criteria = ['fluency']\n", names=("Ann", "Bo")
    )
    with Store.open(study.database) as store:
        run_judge(store, study.settings.judge[0], seed=study.settings.seed, environ={})
    server.close()
    assert run("publish", "study", "out", "--include", "rationales").code == 0
    rows = [json.loads(line) for line in (tmp_path / "out" / "rationales.jsonl").read_text().splitlines()]
    assert {(row["rater"], row["text"]) for row in rows} == {("j", REASONS)}
    judged = [row for row in rows_of(tmp_path / "out" / "verdicts.csv") if row["rater"] == "j"]
    assert sorted((row["presentation"], row["pair_id"]) for row in judged) == sorted(
        (str(row["presentation"]), row["pair_id"]) for row in rows
    )
    with Store.open(study.database, study_hash=study.hash) as store:
        store.invite("Better")  # a word of every rationale
    refused = run("publish", "study", "bad", "--include", "rationales").refused()
    assert "rationales.jsonl, row 1, text and " in refused
    assert "'better'; leave --include rationales out" in refused
    assert not (tmp_path / "bad").exists()


def test_what_raters_wrote_is_found_elsewhere(opened):
    study, store = opened
    plant_comment(study, store, "I grew up on the Isle of Man")
    store.note(store.rater("marge", "person"), "background", json.dumps({"more": "taught Welsh for years"}))
    store.note(store.rater("marge", "person"), "arrival", json.dumps({"source": "prolific", "id": PROLIFIC}))
    found = LeakFinder(study, store).search(
        {
            "rationales.jsonl": json.dumps({"text": f"{PROLIFIC} would agree; a source, prolific"}).encode(),
            "report/report.json": json.dumps({"a": [{"taught welsh FOR years": 1}]}).encode(),
            "report/report.md": b"one\ni grew  up on the isle of man\\.",
        }
    )
    places = {(leak.file, leak.row, leak.column, leak.what) for leak in found}
    assert (
        "report/report.json",
        None,
        "a[0].taught welsh FOR years",
        "a rater's answer on themselves",
    ) in places
    assert ("report/report.md", 2, "", "a rater's comment") in places
    assert ("rationales.jsonl", None, "text", "how a rater came") in places


def test_names_are_found_however_a_file_writes_them(opened):
    study, store = opened
    files = {
        "a.tex": rb"seen by Quentin \"{U}berall",
        "b.html": b"<p>Quentin &#220;berall</p>",
        "c.csv": "n,x\n1,'=Quentin  ÜBERALL\n".encode(),
        "d.json": rb'{"x": "Quentin \u00dcberall"}',
        "by marge/e.svg": b"<svg/>",
        "f.png": b"\x89PNG\r\n\x1a\n" + _chunk(b"tEXt", b"Author\x00marge") + _chunk(b"IEND", b""),
        "g.png": b"\x89PNG\r\n\x1a\n" + _chunk(b"zTXt", b"Author\x00\x00" + zlib.compress(b"by Marge")),
        "h.pdf": b"%PDF\n<< /Author (marge) >>",
        "i.txt": "Quentin \N{ZERO WIDTH SPACE}U\u0308berall".encode(),
    }
    assert {leak.file for leak in LeakFinder(study, store).search(files)} == set(files)
    harmless = {
        "a.txt": b"margerine, demarge, Quentin Ubera",
        "b.txt": b"Quentin",
        "pairs.jsonl": b'{"prompt": "P-1"}',
    }
    assert LeakFinder(study, store).search(harmless) == []


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("Quentin Überall", "quentin.überall"),
        ("Quentin Überall", "Überall, Quentin"),
        ("Quentin Überall", "QuentinÜberall"),
        ("Quentin Überall", "ask Quentin\nÜberall"),
        ("Quentin Überall", "https://x.example/?who=Quentin%20%C3%9Cberall"),
        ("Quentin Überall", "Quentin &Uuml;berall"),
        ("O'Brien", "O\u2019Brien"),
        ("李伟", "我是李伟的朋友"),
        ("김철수", "김철수는 말했다"),
    ],
)
def test_a_name_is_found_however_somebody_writes_it(tmp_path, name, written):
    study = make(tmp_path / "study", names=(name,))
    files = {
        "README.md": written.encode(),
        "comments.jsonl": json.dumps({"text": written}).encode(),
        "pairs.jsonl": json.dumps({"prompt": written}).encode(),
    }
    with Store.open(study.database, study_hash=study.hash) as store:
        found = LeakFinder(study, store).search(files)
        shown = {leak.value for leak in found}
        assert {leak.file for leak in found} == set(files)
        assert LeakFinder(study, store, allow=shown).search(files) == []  # as the message shows it


def test_a_name_of_two_letters_is_searched_in_what_raters_wrote(tmp_path):
    study = make(tmp_path / "study", names=("Li", "x"))
    with Store.open(study.database, study_hash=study.hash) as store:
        finder = LeakFinder(study, store)
        (leak,) = finder.search({"comments.jsonl": b'{"text": "x: I, Li, prefer A"}'})
        assert leak.value == "li"
        assert finder.search({"pairs.jsonl": b'{"prompt": "li"}', "README.md": b"li x"}) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("m\N{CYRILLIC SMALL LETTER A}rge said B", "m\N{CYRILLIC SMALL LETTER A}rge"),
        ("m\N{GREEK SMALL LETTER ALPHA}rge said B", "m\N{GREEK SMALL LETTER ALPHA}rge"),
        ("Quentin told me to press A", "quentin"),
        ("to ann\N{FULLWIDTH COMMERCIAL AT}mail.example", "ann@mail.example"),
        ("to ann@ma\N{ZERO WIDTH SPACE}il.example", "ann@mail.example"),
        ("to ann (at) mail.example", "ann (at) mail.example"),
        ("call +49 170 1234567.", "+49 170 1234567"),
        ("call 0170/1234567", "0170/1234567"),
        ("call (555) 123-4567 please", "(555) 123-4567"),
        (f"{PROLIFIC.upper()} is me", PROLIFIC.upper()),
        ("from 2001:db8:85a3::8a2e:370:7334", "2001:db8:85a3::8a2e:370:7334"),
        ("on 31.12.1999 and 01.02.2023 at 12:30:45 about 100 000 000, 0.123456789 or 1990-2000", None),
        ("the person that I rate, a woman, overall", None),
    ],
)
def test_what_a_comment_says_of_people(opened, text, found):
    finder = LeakFinder(*opened, comments=True)
    leaks = finder.search({"comments.jsonl": json.dumps({"text": text}).encode()})
    assert [leak.value for leak in leaks] == ([] if found is None else [found])


def test_a_name_that_is_a_column_or_a_method_is_let_through_as_the_message_says(tmp_path):
    study = make(tmp_path / "study", names=("Rater", "Guard", "the"))
    with pytest.raises(StudyError) as refused:
        publish(study, tmp_path / "out")
    words = re.findall(r"'(\w+)'; .*?--allow (\w+)$", str(refused.value), re.MULTILINE)
    assert {("rater", "rater"), ("guard", "guard")} <= set(words)
    publish(study, tmp_path / "out", allow=["rater", "guard", "the"])
    assert (tmp_path / "out" / "README.md").is_file()


def test_the_owners_folders_are_found(opened):
    study, store = opened
    text = f"models in {study.folder.resolve()}/models, data in /scratch/{Path.home().name}/data"
    found = LeakFinder(study, store).search({"study.toml": text.encode()})
    assert {str(study.folder.resolve()).casefold(), f"/{Path.home().name}".casefold()} <= {
        leak.value for leak in found
    }


def test_text_and_metadata_of_a_pdf_are_searched(opened):
    matplotlib = pytest.importorskip("matplotlib.pyplot")
    study, store = opened
    for form, (title, author) in product((3, 42), [(PEOPLE[0], "none"), ("none", PEOPLE[0])]):
        with matplotlib.rc_context({"pdf.fonttype": form}):
            figure = matplotlib.figure(figsize=(1, 1))
            figure.suptitle(f"by {title}")
            data = io.BytesIO()
            figure.savefig(data, format="pdf", metadata={"Author": author})
            matplotlib.close(figure)
        (leak,) = LeakFinder(study, store).search({"report/shares.pdf": data.getvalue()})
        assert leak.value == PEOPLE[0].casefold()


def _chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def test_a_name_in_a_story_is_let_through_by_the_word(tmp_path):
    study = make(tmp_path / "study", prompt="Marge sang")
    with pytest.raises(StudyError, match=r"'marge'(.|\n)*--allow WORD"):
        publish(study, tmp_path / "out")
    publish(study, tmp_path / "out", allow=["Marge"])
    assert (tmp_path / "out" / "README.md").is_file()


def test_nothing_else_is_overwritten(tmp_path):
    study = make(tmp_path / "study")
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious.txt").write_text("mine")
    with pytest.raises(StudyError, match="did not make it"):
        publish(study, other)
    with pytest.raises(StudyError, match="did not make it"):
        publish(study, study.folder)
    sums = hashlib.sha256(b"mine").hexdigest()
    (other / "SHA256SUMS").write_text(f"{sums}  precious.txt\n")  # somebody else's, and true
    with pytest.raises(StudyError, match="did not make it"):
        publish(study, other)
    publish(study, tmp_path / "out")
    (tmp_path / "out" / "CITATION.cff").write_text("filled in")
    with pytest.raises(StudyError, match=r"CITATION.cff was changed since"):
        publish(study, tmp_path / "out")
    assert (tmp_path / "out" / "CITATION.cff").read_text() == "filled in"
    assert (other / "precious.txt").read_text() == "mine"
    (tmp_path / "link").symlink_to(other)
    with pytest.raises(StudyError, match="is no folder"):
        publish(study, tmp_path / "link")


def test_what_a_killed_process_left_is_taken_up(tmp_path):
    """It was killed between the two moves: what was published before lies beside, and comes back."""
    study = make(tmp_path / "study", names=("ann",))
    out, around = tmp_path / "out", tmp_path / ".out.partial"
    publish(study, out)
    made = files_of(out)
    (around / "new").mkdir(parents=True)
    (around / "new" / "verdicts.csv").write_text("half")
    out.rename(around / "before")
    with Store.open(study.database) as store:
        store.invite("tales")  # a word of the report: this is refused
    with pytest.raises(StudyError, match="tales"):
        publish(study, out)
    assert files_of(out) == made
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "study"]


def test_what_is_written_meanwhile_is_not_replaced_and_two_do_not_write_at_once(tmp_path, monkeypatch):
    study = make(tmp_path / "study", names=("ann",))
    out = tmp_path / "out"
    publish(study, out)
    search = LeakFinder.search

    def meanwhile(self, files):
        monkeypatch.setattr(LeakFinder, "search", search)
        with pytest.raises(StudyError, match="another guard-eval publish"):
            publish(study, out)
        (out / "notes.txt").write_text("mine")
        return search(self, files)

    monkeypatch.setattr(LeakFinder, "search", meanwhile)
    with pytest.raises(StudyError, match=r"notes\.txt was added since"):
        publish(study, out)
    assert (out / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "study"]


def test_a_folder_that_cannot_be_replaced_is_named(tmp_path, monkeypatch):
    study = make(tmp_path / "study", names=("ann",))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(StudyError, match=r"cannot replace \.: .*name a folder that does not exist yet"):
        publish(study, Path())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "study"]


def test_the_command_lists_and_refuses_without_writing(tmp_path, run):
    make(tmp_path / "study")
    ran = run("publish", "study", "out", "--dry-run")
    assert ran.code == 0
    assert "croissant.json" in ran.out
    assert "Nothing was written" in ran.out
    assert not (tmp_path / "out").exists()
    make(tmp_path / "bad", top="# marge")
    ran = run("publish", "bad", "out", "--dry-run")
    assert ran.code == 2
    assert "study.toml, line 5" in ran.err
    ran = run("publish", "study", "out", "--license", "my own words")
    assert ran.code == 2
    assert "SPDX" in ran.err


def test_the_card_names_the_licence_or_says_that_there_is_none(tmp_path):
    yaml = pytest.importorskip("yaml")
    study = make(tmp_path / "study")
    for named, on_hub in ((None, "unknown"), ("CC-BY-4.0", "cc-by-4.0"), ("CERN-OHL-S-2.0", "other")):
        publish(study, tmp_path / str(named), license=named)
        card = (tmp_path / str(named) / "README.md").read_text(encoding="utf-8")
        head = yaml.safe_load(card.split("---\n")[1])
        assert head["license"] == on_hub
        assert ("No licence was named" in card) == (named is None)
        cited = yaml.safe_load((tmp_path / str(named) / "CITATION.cff").read_text(encoding="utf-8"))
        assert cited.get("license") == named
        assert cited["authors"] == [{"name": "Zoë Author"}]
        picture = re.search(r"!\[[^]]*\]\((.*)\)", card)[1]
        assert (tmp_path / str(named) / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore")  # rdflib's own, of itself
def test_croissant_is_valid_and_its_records_are_the_rows(tmp_path):
    croissant = pytest.importorskip("mlcroissant")
    study = make(tmp_path / "study")
    publish(study, tmp_path / "out", license="CC-BY-4.0")
    found = croissant.Dataset(str(tmp_path / "out" / "croissant.json"))
    assert not found.metadata.issues.errors
    assert {issue for issue in found.metadata.issues.warnings if "datePublished" not in str(issue)} == set()
    rows = rows_of(tmp_path / "out" / "verdicts.csv")
    records = [
        {name.removeprefix("verdicts/"): _text(value) for name, value in one.items()}
        for one in found.records("verdicts")
    ]
    assert records == rows
    (first, *_), pairs = found.records("pairs"), 12
    assert _text(first["pairs/text_b"]).startswith("\n- The")
    assert sum(1 for _ in found.records("pairs")) == pairs


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.mark.filterwarnings("ignore")
def test_datasets_opens_each_table(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    study = make(tmp_path / "study")
    publish(study, tmp_path / "out")
    for name, rows in (("verdicts", 36), ("pairs", 12)):
        opened = datasets.load_dataset(
            str(tmp_path / "out"), name, split="train", cache_dir=str(tmp_path / "cache")
        )
        assert opened.num_rows == rows
    assert Path(tmp_path / "out" / "pairs.jsonl").is_file()
