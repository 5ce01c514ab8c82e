"""Expect that a program refuses bad input."""

from contextlib import contextmanager

import pytest

from guard_eval.errors import StudyError


@contextmanager
def expect_refusal(says):
    """Expect an error for the user, with a printable message that matches a pattern."""
    with pytest.raises(StudyError, match=says) as caught:
        yield caught
    assert str(caught.value).replace("\n", "").isprintable()
