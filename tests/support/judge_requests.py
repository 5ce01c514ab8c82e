"""A judge's requests, and a response to a request."""

import json
from datetime import UTC, datetime

from guard_eval.store import unblind
from guard_eval.store.judging import usage
from guard_eval.store.sql.schema import query
from judge.prompts.forms import choose_first_form
from judge.questions import RequestBuilder


def request(judge, question, seed=1):
    """Return the body of a request in the judge's first form."""
    return json.loads(sent(judge, question, seed))


def sent(judge, question, seed=1):
    """Return the body of the request as bytes, as a judge sends it."""
    return RequestBuilder(judge, seed=seed).build_body(
        question, choose_first_form(judge), max_output_tokens=512
    )


def completion_body(content):
    """Return a complete response of chat completions, as bytes."""
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()


def spent_by(store):
    """Return the spending of the only judge."""
    with store.read() as db:
        return usage.read_spending(db)[0]


def judged_in(store):
    """Return the number of presentations with verdicts."""
    return len({row.presentation for row in unblind.read_tidy_rows(store)})


def end_leases(store):
    """End the lease of a killed run immediately, instead of after half a minute."""
    with store.write() as (db, _):
        query("UPDATE request SET leased_until = :now")(db, now=datetime(2020, 1, 1, tzinfo=UTC))
