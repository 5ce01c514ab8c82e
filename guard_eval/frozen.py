"""The decorator `record`, for classes that only hold values. Fields have names and never change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots. Callers must give the fields by name."""
    return dataclass(frozen=True, kw_only=True, slots=True)(cls)
