"""A judge's requests about a pair, as `RequestBuilder` makes them, and a response to one."""

import json

from guard_eval.store import Showing
from judge.failures import SAMPLES
from judge.request import RequestBuilder


def request(judge, blind, seed, *, shape=None, sample=0, purpose="study"):
    """Return the body of a request: in the judge's first shape, unless another is given."""
    return json.loads(_made(judge, blind, seed, shape=shape, sample=sample, purpose=purpose).body)


def sent(judge, blind, seed):
    """Return the body as bytes, as it is sent."""
    return _made(judge, blind, seed).body


def request_key(judge, blind, seed, *, sample=0, purpose="study"):
    return _made(judge, blind, seed, sample=sample, purpose=purpose).key


def _made(judge, blind, seed, *, shape=None, sample=0, purpose="study"):
    builder = RequestBuilder(judge, seed=seed)
    builder.shape = shape or builder.shape
    showing = Showing(blind=blind, sample=sample // SAMPLES, purpose=purpose)
    return builder.build(showing, again=sample % SAMPLES)


def completion_body(content):
    """Return a whole response of the chat dialect, as bytes."""
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()
