"""A judge's requests, as they are made, and a response to one."""

import json

from judge.questions import Asker


def request(judge, question, seed=1):
    """Return the body of a request in the judge's first form."""
    return json.loads(sent(judge, question, seed))


def sent(judge, question, seed=1):
    """Return the body as bytes, as it is sent."""
    return Asker(judge, seed=seed).build(question)


def completion_body(content):
    """Return a whole response of chat completions, as bytes."""
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()
