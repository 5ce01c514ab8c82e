"""Prolific's API, as far as a study needs it: a draft study, its submissions, and their approval.

From Prolific's reference (docs.prolific.com/api-reference, read in November 2026): the header with the token;
the statuses of a submission; that a transition may be repeated; that each code of a study is unique and has
actions. The fields of a study's body, `reward` in hundredths, and the pages of a list (`limit`, `offset`,
`meta.count`, which may be missing or too small) are those of Prolific's own program
(github.com/prolific-oss/cli: the example of `study create`, client/pagination.go); the body of a transition
is that of Meta's Mephisto. Nothing here has been run against Prolific itself.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError

try:
    import requests
except ImportError:
    raise MissingExtraError("annotate", "requests") from None

SERVER = "https://api.prolific.com"
TOKEN = "PROLIFIC_TOKEN"  # noqa: S105 (the variable's name)
PAGE = 100
TRIES = 5
LONGEST_WAIT = 120.0
"""Seconds between two tries, at most, whatever the server wants."""

BODY_SECONDS = 60.0
BODY_BYTES = 32 * 2**20
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TRY_LATER = {500, 502, 503, 504}
_MEANINGS = {
    401: f"the token in {TOKEN} is not accepted; make one on Prolific under Settings, API tokens",
    403: "the token's owner may not do this; use a token of the study's workspace",
    404: "Prolific has no such study or submission; check prolific_study in study.toml",
}


class NoAnswerError(StudyError):
    """Prolific failed or was not reached; whether it carried the request out is unknown."""


@dataclass(frozen=True)
class ProlificSubmission:
    """What Prolific calls a submission: one participant's visit.

    Attributes:
        id: Prolific's id of the visit.
        participant: Prolific's id of the person.
        status: Such as `ACTIVE`, `AWAITING REVIEW`, `RETURNED`, `TIMED OUT`; others may come.
    """

    id: str
    participant: str
    status: str


class Prolific:
    """A connection with one token, which is sent to one server and appears in no message.

    Raises of its methods:
        StudyError: Prolific refuses, fails, or answers what cannot be read.
    """

    def __init__(self, token: str, *, server: str | None = None) -> None:
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise StudyError(f"{TOKEN} is empty or holds a character that no token has; set it again")
        self._server = server or SERVER
        self._token = token
        self._session = requests.Session()
        # as a function: a .netrc of this machine would replace a header
        self._session.auth = self._sign

    def submissions(self, study: str) -> list[ProlificSubmission]:
        """Return all submissions of a study, each once."""
        found = {}
        for row in self._rows("/api/v1/submissions/", {"study": _checked(study)}):
            parts = [row.get(key) for key in ("id", "participant_id", "status")]
            number, person, status = (part if isinstance(part, str) else "" for part in parts)
            if not (_ID.fullmatch(number) and person and status):
                raise StudyError(f"Prolific lists a submission without id, participant or status: {parts!a}")
            found[number] = ProlificSubmission(number, person, re.sub("[_-]", " ", status.upper()))
        return list(found.values())

    def find_study(self, internal_name: str) -> str | None:
        """Return the id of the study of that internal name; None if there is none."""
        rows = self._rows("/api/v1/studies/", {})
        return next(
            (_checked(str(row.get("id"))) for row in rows if row.get("internal_name") == internal_name), None
        )

    def create_study(self, body: dict[str, Any]) -> str:
        """Make a draft and return its id.

        Raises:
            NoAnswerError: It may have been made all the same.
        """
        number = self._call("POST", "/api/v1/studies/", body=body, repeat=False).get("id")
        if not isinstance(number, str) or not _ID.fullmatch(number):
            raise NoAnswerError(f"Prolific answered without the study's id: {number!a}")
        return number

    def approve(self, submission: str) -> None:
        """Approve a submission, which pays its participant; doing so twice is the same as once."""
        self._call(
            "POST", f"/api/v1/submissions/{_checked(submission)}/transition/", body={"action": "APPROVE"}
        )

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Token {self._token}"
        return request

    def _rows(self, path: str, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a list, page by page; the pages' own links are never followed."""
        seen: set[str] = set()
        for page in range(10_000):
            # in both ways in which clients ask for pages
            part = {"page": page + 1, "page_size": PAGE, "offset": page * PAGE, "limit": PAGE}
            body = self._call(
                "GET", path, query={**query, **{key: str(value) for key, value in part.items()}}
            )
            rows = body.get("results")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise StudyError(f"Prolific's answer to {path} has no list of results; try again")
            new = [row for row in rows if str(row.get("id")) not in seen]
            if rows and not new:
                raise StudyError(f"Prolific repeats a page of {path}, so the list is not complete; try again")
            seen.update(str(row.get("id")) for row in new)
            yield from new
            if not rows or not _has_next(body, len(seen)):
                break
        total = _number(body.get("meta"), "count")
        if total is not None and total > len(seen):
            raise StudyError(f"Prolific says {total} rows for {path} and gave {len(seen)}; try again")

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: dict[str, Any] | None = None,
        repeat: bool = True,
    ) -> dict[str, Any]:
        """Send a request, again where that is safe, and return the JSON object that comes back."""
        what = f"{method} {path}"
        for tried in range(1, TRIES + 1):
            wait = 2.0 ** (tried - 1)
            try:
                status, headers, text = self._send(method, path, query, body)
            except requests.RequestException as error:
                reason = f"{what}: no answer from {self._server} ({type(error).__name__})"
            else:
                if status in range(200, 300):
                    return _parsed(what, text)
                reason = f"{what}: Prolific answered {status}; {self._meaning(status, text)}"
                if status == 429:
                    wait = max(wait, _seconds(headers.get("Retry-After")))
                elif status not in _TRY_LATER:
                    raise StudyError(reason)
            # not carried out: 429; unknown: all others
            if not repeat and " answered 429;" not in reason:
                raise NoAnswerError(reason) from None
            if tried < TRIES:
                time.sleep(min(wait, LONGEST_WAIT))
        raise NoAnswerError(f"{reason}; tried {TRIES} times, try again later")

    def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, body: dict[str, Any] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        with self._session.request(
            method,
            self._server + path,
            params=query,
            json=body,
            timeout=(10, 30),
            allow_redirects=False,  # the token is for this server alone
            stream=True,
        ) as response:
            until = time.monotonic() + BODY_SECONDS
            text = b""
            for part in response.iter_content(65_536):
                text += part
                if len(text) > BODY_BYTES or time.monotonic() > until:
                    raise requests.exceptions.ContentDecodingError
            return response.status_code, response.headers, text

    def _meaning(self, status: int, text: bytes) -> str:
        if status in _MEANINGS:
            return _MEANINGS[status]
        # what it says of a body that it refuses; a server could send the token back
        detail = text.decode("utf-8", "replace").replace(self._token, "***")
        return f"it says {detail[:400]!a}"


def _has_next(body: Mapping[str, Any], seen: int) -> bool:
    """Return whether a list goes on: it says so, or says nothing and has not given as many as it counts."""
    links = body.get("_links")
    if not isinstance(links, dict) or "next" not in links:
        total = _number(body.get("meta"), "count")
        return total is None or total > seen
    following = links["next"]
    return bool(following.get("href") if isinstance(following, dict) else following)


def _number(table: object, key: str) -> int | None:
    value = table.get(key) if isinstance(table, dict) else None
    return value if isinstance(value, int) else None


def _parsed(what: str, text: bytes) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise NoAnswerError(f"{what}: Prolific's answer is not a JSON object; try again")
    return value


def _seconds(retry_after: str | None) -> float:
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:  # a date
        return LONGEST_WAIT


def _checked(number: str) -> str:
    if not _ID.fullmatch(number):
        raise StudyError(f"{number!a} is no id of Prolific's")
    return number
