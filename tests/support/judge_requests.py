"""Make a judge's requests and responses, and read what a judge stored."""

import json
from datetime import UTC, datetime

from guard_eval.store import unblind
from guard_eval.store.judging import usage
from guard_eval.store.schema import query
from judge.prompts.forms import choose_first_request_form
from judge.questions import RequestBuilder


def make_request(judge, question, seed=1):
    """Return the bytes of a request in the judge's first form."""
    return RequestBuilder(judge, seed=seed).build_request_body(
        question, choose_first_request_form(judge), max_output_tokens=512
    )


def make_completion_bytes(content):
    """Return a complete response of chat completions, as bytes."""
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()


def read_spending(store):
    """Return the spending of the only judge."""
    with store.begin_read() as db:
        return usage.read_spending(db)[0]


def count_judged_presentations(store):
    """Return the number of presentations with verdicts."""
    return len({row.presentation for row in unblind.read_tidy_rows(store)})


def end_leases(store):
    """End all leases now. The lease of a killed run would end after half a minute."""
    with store.begin_write() as (db, _):
        query("UPDATE request SET leased_until = :now")(db, now=datetime(1970, 1, 1, tzinfo=UTC))
