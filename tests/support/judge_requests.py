"""A judge's requests, as they are made, and a response to one."""

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
    """Return the body as bytes, as it is sent."""
    return RequestBuilder(judge, seed=seed).build(question, choose_first_form(judge), max_output_tokens=512)


def completion_body(content):
    """Return a whole response of chat completions, as bytes."""
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()


def spent_by(store):
    """Return what the only judge has taken."""
    with store.read() as db:
        return usage.read_spending(db)[0]


def judged_in(store):
    """Return how many presentations have verdicts."""
    return len({row.presentation for row in unblind.read_tidy_rows(store)})


def end_leases(store):
    """Let the lease of a killed run end now, and not in half a minute."""
    with store.write() as (db, _):
        query("UPDATE request SET leased_until = :now")(db, now=datetime(2020, 1, 1, tzinfo=UTC))
