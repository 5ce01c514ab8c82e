"""The form of a request: the interface, the format of the answer, and the parts that are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast, get_args

from guard_eval.records import record
from guard_eval.reporting.words import join_with_and
from guard_eval.servers.failures import Change, Omittable

Interface = Literal["chat", "responses"]
Output = Literal["json_schema", "text"]
"""The format of the answer: JSON by a schema in the request, or a verdict block in plain text."""

Limit = Literal["max_tokens", "max_completion_tokens"]
"""The name of the token limit in chat completions. Only the second, newer name also limits reasoning."""

PATHS: Mapping[str, str] = {"chat": "/chat/completions", "responses": "/responses"}
"""The path of each interface, below the server's address."""

OMITTABLE = get_args(Omittable)


@record
class Form:
    """The form of a request. Servers differ in the forms that they accept.

    Attributes:
        interface: Chat completions or responses.
        output: The format of the answer.
        limit: The name of the token limit in chat completions.
        without: The parts that are left out because the server refuses them, in alphabetical order.
    """

    interface: Interface = "chat"
    output: Output = "json_schema"
    limit: Limit = "max_tokens"
    without: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the form in one word: interface, output, name of the token limit, and left-out parts.

        >>> Form(without=("seed",)).name
        'chat/json_schema/max_tokens/seed'
        """
        return "/".join((self.interface, self.output, self.limit, *self.without))

    @classmethod
    def parse(cls, name: str) -> Form:
        """Return the form with this name.

        >>> Form.parse("responses/text/max_tokens/seed").without
        ('seed',)
        """
        interface, output, limit, *without = name.split("/")
        return cls(
            interface=cast("Interface", interface),
            output=cast("Output", output),
            limit=cast("Limit", limit),
            without=tuple(without),
        )

    def describe(self) -> str:
        """Describe the format of answers, and the parts of requests that are left out.

        >>> Form(output="text", without=("seed", "system")).describe()
        'answers in plain text, without seed and system message'
        """
        output = "a JSON schema" if self.output == "json_schema" else "plain text"
        names = ["system message" if name == "system" else name for name in self.without]
        dropped = f", without {join_with_and(names)}" if names else ""
        return f"answers in {output}{dropped}"

    def omit_parts(self, *names: str) -> Form:
        """Return the form without these parts of a request."""
        return replace(self, without=tuple(sorted({*self.without, *names})))

    def apply_change(self, change: Change) -> Form:
        """Return the form with one change. A change that does not concern the form returns the same form."""
        if change == "responses":
            return replace(self, interface="responses")
        if change == "limit" and self.interface == "chat":
            is_old = self.limit == "max_tokens"
            return replace(self, limit="max_completion_tokens" if is_old else "max_tokens")
        if change == "output":
            return replace(self, output="text")
        return self.omit_parts(change) if change in OMITTABLE else self
