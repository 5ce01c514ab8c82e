"""`guard-eval prolific` with a real local server, which answers as Prolific's reference says, or fails."""

import json
import socket
import stat
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest
from local_server import LocalServer

from guard_eval.cli.administration import prolific as administration
from guard_eval.cli.administration import prolific_api
from guard_eval.cli.administration.prolific_api import NoAnswerError, Prolific, ProlificSubmission
from guard_eval.errors import StudyError
from guard_eval.store import Store
from guard_eval.study.folder import Study

PAGE = 2
SECRET = "tok-1234567890-SECRET"

SETTINGS = """
[model]
name = "bundled"
[generation]
strategies = ["guard", "acs"]
[pairs]
compare = [["guard", "acs"]]
[annotation]
raters_per_pair = 2
pairs_per_rater = 2
[annotation.recruitment]
prolific = true
prolific_study = "64study"
[annotation.recruitment.codes]
completed = "DONE1"
no_place = "OUT1"
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake = None

    def log_message(self, *_):
        pass

    def answer(self, status, body, **headers):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.respond()

    def do_POST(self):
        self.respond()

    def respond(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        where = urlsplit(self.path)
        query = {key: value[0] for key, value in parse_qs(where.query).items()}
        self.fake.calls.append((self.command, where.path, query, body, dict(self.headers)))
        if self.headers.get("Authorization") != f"Token {SECRET}":
            self.answer(401, {"error": {"detail": "Invalid token."}})
        elif self.fake.faults:
            fault = self.fake.faults.pop(0)
            if fault is None:
                self.drop()
            else:
                self.answer(*fault[:2], **(fault[2] if len(fault) > 2 else {}))
        elif self.command == "POST":
            self.change(where.path, body)
        else:
            self.send_list(where.path, query)

    def drop(self):
        """Break the connection without an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def change(self, path, body):
        fake = self.fake
        if path == "/api/v1/studies/":
            fake.studies.append({"id": f"64made{len(fake.studies)}", "status": "UNPUBLISHED", **body})
            if fake.loses_answers:
                self.drop()
            else:
                self.answer(201, fake.studies[-1])
            return
        number = path.split("/")[4]
        if number in fake.refused:
            self.answer(400, {"error": {"detail": "not now"}})
        elif number in fake.submissions:
            fake.submissions[number][1] = "APPROVED"
            self.answer(200, {"id": number, "status": "APPROVED"})
        else:
            self.answer(404, {"error": {"detail": "Not found."}})

    def send_list(self, path, query):
        rows = self.fake.studies
        if path == "/api/v1/submissions/":
            rows = [
                {"id": number, "participant_id": person, "status": status}
                for number, (person, status) in self.fake.submissions.items()
                if query["study"] == "64study"
            ]
        first = (int(query["page"]) - 1) * PAGE
        link = {"href": "https://elsewhere.example/steal" if first + PAGE < len(rows) else None}
        self.answer(
            200,
            {"results": rows[first : first + PAGE], "_links": {"next": link}, "meta": {"count": len(rows)}},
        )


class FakeProlific(LocalServer):
    """Prolific's studies and submissions; `faults` are answers given first, in place of the right ones."""

    def __init__(self):
        self.submissions = {}  # id -> [participant, status]
        self.studies, self.calls, self.faults = [], [], []
        self.loses_answers, self.refused = False, set()
        self.serve(type("Handler", (_Handler,), {"fake": self}))
        self.url = self.url.removesuffix("/v1")

    def posts(self):
        return [(path, body) for method, path, _, body, _ in self.calls if method == "POST"]


@pytest.fixture
def server(monkeypatch):
    fake = FakeProlific()
    monkeypatch.setattr(prolific_api, "SERVER", fake.url)
    monkeypatch.setattr(prolific_api.time, "sleep", lambda _: None)
    yield fake
    fake.close()


@pytest.fixture
def client(server):
    return Prolific(SECRET)


@pytest.fixture
def study(tmp_path):
    """Four pairs, twice each, two for every rater: work for four."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "study.toml").write_text('name = "s"\nseed = 1\n' + SETTINGS)
    return Study.open(tmp_path / "s")


@pytest.fixture
def store(study, make_pairs):
    with Store.open(study.database, study_hash=study.hash, create=True) as opened:
        opened.add_pairs(make_pairs(4))
        yield opened


@pytest.fixture
def prolific(run):
    return lambda *arguments, **more: run("prolific", "s", *arguments, PROLIFIC_TOKEN=SECRET, **more)


def comes(store, study, number):
    found = store.enrol(number, "prolific", study.plan, browsers=[number])
    assert found.rater is not None, found.refusal
    return found.rater


def rate(store, study, rater, times):
    for _ in range(times):
        (given,) = store.hand_out(rater, study.plan)
        store.save(given.presentation, {"fluency": "A"}, rater=rater)


def finish(store, study, number):
    rater = comes(store, study, number)
    rate(store, study, rater, 2)
    store.note(rater, "finished", '{"rated": 2}')
    return rater


def test_submissions_are_read_page_by_page_and_links_are_not_followed(server, client):
    server.submissions = {f"s{n}": [f"p{n}", "ACTIVE"] for n in range(5)}
    assert [each.participant for each in client.submissions("64study")] == ["p0", "p1", "p2", "p3", "p4"]
    assert [query["page"] for _, _, query, _, _ in server.calls] == ["1", "2", "3"]


def test_the_token_goes_as_documented_and_netrc_does_not_replace_it(server, client, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login x password y\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    client.submissions("64study")
    assert server.calls[0][4]["Authorization"] == f"Token {SECRET}"


@pytest.mark.parametrize("status", ["TIMED-OUT", "TIMED_OUT", "timed-out"])
def test_a_status_is_read_however_it_is_written(server, client, status):
    server.submissions = {"s1": ["p1", status]}
    assert client.submissions("64study") == [ProlificSubmission("s1", "p1", "TIMED OUT")]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ((401, {}), "PROLIFIC_TOKEN is not accepted"),
        ((403, {}), "may not do this"),
        ((404, {}), "check prolific_study"),
        ((400, {"error": {"detail": f"bad {SECRET}"}}), r"bad \*\*\*"),
        ((200, b'{"results": [{"id": "s1", "par'), "not a JSON object"),
        ((200, b"<html>maintenance</html>"), "not a JSON object"),
        ((200, {"results": {"id": 1}}), "no list of results"),
        ((200, {"results": [{"id": "s1", "status": "ACTIVE"}]}), "without id, participant or status"),
        ((200, {"results": [{"id": "../x", "participant_id": "p", "status": "ACTIVE"}]}), "without id"),
        ((200, {"results": [], "meta": {"count": 3}}), "says 3 rows"),
        ((302, b"", {"Location": "http://127.0.0.1:9/steal"}), "answered 302"),
    ],
)
def test_what_cannot_be_used_is_an_error_without_the_token(server, client, fault, message):
    server.faults = [fault]
    with pytest.raises(StudyError, match=message) as caught:
        client.submissions("64study")
    assert SECRET not in str(caught.value)
    assert len(server.calls) == 1


def test_a_busy_or_failing_server_is_tried_again_and_waited_for(server, client, monkeypatch):
    waits = []
    monkeypatch.setattr(prolific_api.time, "sleep", waits.append)
    server.submissions = {"s1": ["p1", "ACTIVE"]}
    server.faults = [(429, {}, {"Retry_After": "17"}), (503, b""), None, (429, {}, {"Retry_After": "99999"})]
    assert len(client.submissions("64study")) == 1
    assert waits == [17, 2, 4, 120]
    server.faults = [(500, b"")] * 5
    with pytest.raises(NoAnswerError, match="tried 5 times"):
        client.submissions("64study")


def test_a_server_that_drips_is_left(server, client, monkeypatch):
    monkeypatch.setattr(prolific_api, "BODY_SECONDS", -1.0)
    server.submissions = {"s1": ["p1", "ACTIVE"]}
    with pytest.raises(NoAnswerError, match="no answer"):
        client.submissions("64study")


def test_a_list_that_repeats_a_page_is_not_taken_for_complete(server, client):
    row = {"id": "s1", "participant_id": "p1", "status": "ACTIVE"}
    server.faults = [(200, {"results": [row], "_links": {"next": {"href": "x"}}})] * 50
    with pytest.raises(StudyError, match="repeats a page"):
        client.submissions("64study")
    assert len(server.calls) == 2
    assert [(query["offset"], query["limit"]) for _, _, query, _, _ in server.calls] == [
        ("0", "100"),
        ("100", "100"),
    ]


@pytest.mark.parametrize(
    "more",
    [{"meta": {"count": 1}}, {"_links": {"next": None}}, {"_links": {"next": None}, "meta": {"count": 0}}],
)
def test_a_list_on_one_page_is_complete_however_its_end_is_marked(server, client, more):
    row = {"id": "s1", "participant_id": "p1", "status": "ACTIVE"}
    server.faults = [(200, {"results": [row], **more})]
    assert client.submissions("64study") == [ProlificSubmission("s1", "p1", "ACTIVE")]
    assert len(server.calls) == 1


def test_create_makes_a_draft_with_our_address_codes_and_places(server, study, store, prolific):
    text = (study.folder / "study.toml").read_text()
    store.close()
    (study.folder / "study.toml").write_text(text.replace('prolific_study = "64study"\n', ""))
    made = prolific("create", "--url", "https://rate.example.org/", "--minutes", "12", "--reward", "2.50")
    assert made.code == 0, made
    assert 'prolific_study = "64made0"' in made.out
    ((path, body),) = server.posts()
    assert path == "/api/v1/studies/"
    assert body["external_study_url"] == (
        "https://rate.example.org/?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}"
        "&SESSION_ID={{%SESSION_ID%}}"
    )
    review = [{"action": "MANUALLY_REVIEW"}]
    assert body["completion_codes"] == [
        {"code": "DONE1", "code_type": "COMPLETED", "actions": review},
        {"code": "OUT1", "code_type": "OTHER", "actions": review},
    ]
    assert (body["total_available_places"], body["reward"], body["estimated_completion_time"]) == (4, 250, 12)

    again = prolific("create", "--url", "https://rate.example.org", "--minutes", "12", "--reward", "2.50")
    assert (again.code, len(server.posts())) == (0, 1)
    assert "already made: 64made0" in again.out


def test_a_lost_answer_makes_no_second_study(server, study, store, prolific):
    store.close()
    text = (study.folder / "study.toml").read_text()
    (study.folder / "study.toml").write_text(text.replace('prolific_study = "64study"\n', ""))
    server.loses_answers = True
    made = prolific("create", "--url", "https://rate.example.org", "--minutes", "12", "--reward", "2.50")
    assert (made.code, len(server.studies)) == (0, 1), made
    assert "64made0" in made.out


def test_a_dry_run_sends_nothing_and_shows_no_token(server, study, store, prolific):
    finish(store, study, "p1")
    server.submissions = {"s1": ["p1", "AWAITING REVIEW"], "s2": ["p2", "RETURNED"]}
    comes(store, study, "p2")
    store.close()
    for action in ("sync", "approve"):
        ran = prolific(action, "--dry-run")
        assert ran.code == 0, ran
        assert SECRET not in ran.out + ran.err
    assert "POST /api/v1/submissions/s1/transition/" in ran.out
    assert server.posts() == []
    with Store.open(study.database) as opened:
        assert not any(who.revoked for who in opened.raters())


def test_who_returned_frees_the_pair_and_keeps_its_verdicts(server, study, store, prolific):
    left, stays, timed_out = (comes(store, study, number) for number in ("p1", "p2", "p3"))
    rate(store, study, left, 1)
    for rater in (left, stays, timed_out):
        store.hand_out(rater, study.plan)
    # 8 showings, 1 rated; 1, 2 and 2 of the other 7 are these three's, so 2 are free: one place
    assert store.open_places(study.plan) == 1
    server.submissions = {
        "s1": ["p1", "RETURNED"],
        "s2": ["p2", "ACTIVE"],
        "s3": ["p3", "TIMED-OUT"],
        "s4": ["p4", "SOMETHING NEW"],
    }
    ran = prolific("sync")
    assert ran.code == 0, ran
    found = {who.external_id: (who.revoked, who.excluded, who.rated) for who in store.raters()}
    assert found == {"p1": (True, False, 1), "p2": (False, False, 0), "p3": (True, False, 0)}
    # p2 needs 2 of the 7; with the other 5 two people can rate two pairs and one more a single one
    assert store.open_places(study.plan) == 3
    assert len(store.tidy()) == 1
    assert "0 to change" in prolific("sync").out


def test_an_invented_id_is_excluded_and_can_come_back(server, study, store, prolific):
    finish(store, study, "invented")
    finish(store, study, "p2")
    server.submissions = {"s2": ["p2", "AWAITING REVIEW"]}
    assert "unknown to Prolific" in prolific("sync").out
    assert {who.external_id for who in store.raters() if who.excluded} == {"invented"}
    assert {row.rater for row in store.tidy()} == {"P-2"}
    store.include("P-1", "it was a test of ours", "owner")
    assert {row.rater for row in store.tidy()} == {"P-1", "P-2"}


def test_what_the_owner_decided_is_not_undone_by_the_next_sync(server, study, store, prolific):
    finish(store, study, "ours")
    server.submissions = {"s2": ["p2", "ACTIVE"]}
    prolific("sync")
    store.include("P-1", "it was a test of ours", "owner")
    assert "0 to change" in prolific("sync").out
    assert not any(who.excluded for who in store.raters())


def test_a_watch_outlives_a_list_that_changed_while_it_was_read(server, study, store, prolific, monkeypatch):
    comes(store, study, "p1")
    server.submissions = {"s1": ["p1", "ACTIVE"]}

    def rounds():
        # one row too few, then nobody, then an answer that no program could use
        yield (200, {"results": [], "meta": {"count": 3}})
        yield (200, {"results": [], "meta": {"count": 0}})
        yield (401, {})
        server.submissions["s1"][1] = "RETURNED"
        yield None

    faults = rounds()

    def sleep(_):
        assert not server.faults
        fault = next(faults, "end")
        if fault == "end":
            raise KeyboardInterrupt
        server.faults = [fault] if fault else []

    monkeypatch.setattr(administration.time, "sleep", sleep)
    ran = prolific("sync", "--watch")
    assert ran.code == 0, ran
    assert (ran.out + ran.err).count("warning: ") == 3
    assert [who.revoked for who in store.raters()] == [True]


def test_a_watch_that_never_worked_ends(server, study, store, prolific):
    server.faults = [(401, {})]
    assert "PROLIFIC_TOKEN is not accepted" in prolific("sync", "--watch").refused()


def test_who_came_a_moment_ago_may_not_be_listed_yet(server, study, store, prolific, monkeypatch):
    store.note(comes(store, study, "new"), "arrival", json.dumps({"source": "prolific", "study": "64study"}))
    server.submissions = {"s2": ["another", "ACTIVE"]}
    assert "0 to change" in prolific("sync").out
    monkeypatch.setattr(administration, "SETTLED", timedelta(0))
    assert "unknown to Prolific" in prolific("sync").out


def test_who_came_from_another_study_is_left_alone_and_named(server, study, store, prolific, monkeypatch):
    monkeypatch.setattr(administration, "SETTLED", timedelta(0))
    for number, where in (("old", "63before"), ("new", "64study"), ("invented", "64study")):
        rater = comes(store, study, number)
        store.note(rater, "arrival", json.dumps({"source": "prolific", "study": where}))
    server.submissions = {"s2": ["new", "ACTIVE"]}
    ran = prolific("sync")
    assert {who.external_id for who in store.raters() if who.excluded} == {"invented"}
    assert "left as they are: P-1\n" in ran.out


def test_one_refused_approval_keeps_no_other_from_its_payment(server, study, store, prolific):
    finish(store, study, "p1")
    finish(store, study, "p2")
    server.submissions = {"s1": ["p1", "AWAITING REVIEW"], "s2": ["p2", "AWAITING REVIEW"]}
    server.refused = {"s1"}
    ran = prolific("approve", "--bonus", "1")
    assert server.submissions["s2"][1] == "APPROVED"
    assert "answered 400" in " ".join(ran.out.split())
    assert (study.folder / "prolific_bonus-1.csv").read_text() == "p2,1.00\n"


def test_an_empty_list_excludes_nobody(server, study, store, prolific):
    comes(store, study, "p1")
    assert "check prolific_study" in prolific("sync").refused()
    server.submissions = {"s1": ["p1", "ACTIVE"], "s2": ["p2", "ACTIVE"], "s3": ["p3", "ACTIVE"]}
    server.faults = [
        (200, {"results": [{"id": "s9", "participant_id": "x", "status": "ACTIVE"}], "meta": {"count": 9}})
    ]
    prolific("sync").refused()
    assert not any(who.excluded for who in store.raters())


def test_approve_pays_who_finished_here_and_nobody_else(server, study, store, prolific):
    finish(store, study, "p1")
    rate(store, study, comes(store, study, "p2"), 1)
    bad = finish(store, study, "p3")
    store.exclude(bad.name, "clicked at random", "owner")
    server.submissions = {
        "s1": ["p1", "AWAITING REVIEW"],
        "s2": ["p2", "AWAITING REVIEW"],
        "s3": ["p3", "AWAITING REVIEW"],
        "s4": ["p4", "AWAITING REVIEW"],
        "s5": ["p1x", "RETURNED"],
    }
    ran = prolific("approve", "--bonus", "0.75")
    assert ran.code == 0, ran
    assert server.posts() == [("/api/v1/submissions/s1/transition/", {"action": "APPROVE"})]
    for reason in ("1 pair rated", "excluded", "no rater came here"):
        assert reason in ran.out
    bonus = study.folder / "prolific_bonus-1.csv"
    assert bonus.read_text() == "p1,0.75\n"
    assert stat.S_IMODE(bonus.stat().st_mode) == 0o600

    finish(store, study, "p5")
    server.submissions["s6"] = ["p5", "AWAITING REVIEW"]
    prolific("approve", "--bonus", "0.75")
    assert len(server.posts()) == 2
    # nobody is in two files
    assert (study.folder / "prolific_bonus-2.csv").read_text() == "p5,0.75\n"
    assert bonus.read_text() == "p1,0.75\n"
    assert "every rater is in an earlier file" in prolific("approve", "--bonus", "0.75").out
    assert len(list(study.folder.glob("prolific_bonus*"))) == 2


def test_one_participant_is_paid_once_and_who_was_late_is_named(server, study, store, prolific):
    finish(store, study, "p1")
    finish(store, study, "p2")
    server.submissions = {
        "s1": ["p1", "AWAITING REVIEW"],
        "s2": ["p1", "APPROVED"],
        "s3": ["p2", "TIMED OUT"],
        "s4": ["p3", "TIMED OUT"],
    }
    ran = prolific("approve")
    assert server.posts() == []
    assert "approved in another submission" in " ".join(ran.out.split())
    assert "P-2" in ran.out
    assert "too late" in " ".join(ran.out.split())


def test_a_bonus_file_that_was_removed_is_no_reason_to_fail(server, study, store, prolific):
    for number in ("p1", "p2", "p3"):
        finish(store, study, number)
        server.submissions[f"s-{number}"] = [number, "AWAITING REVIEW"]
        if number != "p3":
            prolific("approve", "--bonus", "1")
    first, second = (study.folder / f"prolific_bonus-{number}.csv" for number in (1, 2))
    first.unlink()
    assert prolific("approve", "--bonus", "1").code == 0
    assert second.read_text() == "p2,1.00\n"
    assert "p3,1.00\n" in first.read_text()


def test_an_approval_whose_answer_is_lost_is_sent_again(server, client):
    server.submissions = {"s1": ["p1", "AWAITING REVIEW"]}
    server.faults = [None, (502, b"")]
    client.approve("s1")
    assert server.submissions["s1"][1] == "APPROVED"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "--url", "http://rate.example.org", "--minutes", "3", "--reward", "1"), "names a study"),
        (("approve", "--bonus", "a lot"), "no amount of money"),
        (("approve", "--bonus", "-1"), "no amount of money"),
        (("approve", "--bonus", "0.005"), "no amount of money"),
        (("approve", "--bonus", "NaN"), "no amount of money"),
    ],
)
@pytest.mark.usefixtures("server", "study", "store")
def test_bad_input_is_named(prolific, arguments, message):
    assert message in prolific(*arguments).refused()


@pytest.mark.parametrize("address", ["http://rate.example.org", "https://localhost:8501", "rate.example.org"])
@pytest.mark.usefixtures("store")
def test_an_address_that_participants_cannot_reach_is_refused(study, prolific, address):
    text = (study.folder / "study.toml").read_text()
    (study.folder / "study.toml").write_text(text.replace('prolific_study = "64study"\n', ""))
    ran = prolific("create", "--url", address, "--minutes", "3", "--reward", "1", "--dry-run")
    assert "cannot reach the app" in ran.refused()


@pytest.mark.parametrize("token", ["", "  ", "a b", "x\n", "é"])
@pytest.mark.usefixtures("store")
def test_a_missing_or_broken_token_is_named_and_not_shown(server, run, token):
    ran = run("prolific", "s", "sync", PROLIFIC_TOKEN=token)
    assert "PROLIFIC_TOKEN" in ran.refused()
    assert not token.strip() or token not in ran.err
    assert server.calls == []
