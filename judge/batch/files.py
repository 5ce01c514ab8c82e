"""Requests in parts that fit into one batch each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from judge.backend import JudgeRequest


def parts(
    lines: Iterable[tuple[JudgeRequest, bytes]], *, requests: int, size: int
) -> Iterator[list[tuple[JudgeRequest, bytes]]]:
    """Yield the lines in parts that fit into one batch each, at most so many and so many bytes."""
    part: list[tuple[JudgeRequest, bytes]] = []
    taken = 0
    for request, line in lines:
        if part and (len(part) == requests or taken + len(line) > size):
            yield part
            part, taken = [], 0
        part.append((request, line))
        taken += len(line)
    if part:
        yield part
