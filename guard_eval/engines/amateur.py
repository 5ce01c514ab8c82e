"""The smaller model that contrastive decoding sets against the one that writes."""

from __future__ import annotations

from typing import Any

from guard_eval.engines.loading import LoadedModel, load
from guard_eval.errors import StudyError


def load_amateur(
    expert: LoadedModel,
    location: str,
    *,
    name: str | None = None,
    revision: str = "main",
    dtype: str = "auto",
    device: str = "auto",
    device_map: str | dict[str, int | str] | None = None,
) -> LoadedModel:
    """Load the smaller model of contrastive decoding; see `load`.

    Raises:
        StudyError: As `load`, or its tokens are not the expert's.
    """
    amateur = load(location, name=name, revision=revision, dtype=dtype, device=device, device_map=device_map)
    mine, theirs = (_tokens(loaded.tokenizer) for loaded in (expert, amateur))
    if mine == theirs:
        return amateur
    if len(mine) != len(theirs):
        how = f"{len(mine)} and {len(theirs)} tokens"
    else:
        place = next(n for n, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
        how = f"token {place} is {mine[place][1]!r} in one and {theirs[place][1]!r} in the other"
    raise StudyError(
        f"the model {expert.name!r} and its amateur {amateur.name!r} do not share a vocabulary ({how}); "
        "name a smaller model of the same family as model.amateur"
    )


def _tokens(tokenizer: Any) -> list[tuple[int, str]]:  # noqa: ANN401
    return sorted((number, token) for token, number in tokenizer.get_vocab().items())
