"""Holm's correction of many families at once, for simulated studies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def holms(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's adjustment within each family, [families, tests]; NaN is a test that was not made."""
    order = np.argsort(p_values, axis=1)
    stepped = np.take_along_axis(p_values, order, axis=1) * np.arange(p_values.shape[1], 0, -1)
    adjusted = np.fmin(1.0, np.maximum.accumulate(stepped, axis=1))
    adjusted[np.isnan(stepped)] = np.nan
    out = np.empty_like(adjusted)
    np.put_along_axis(out, order, adjusted, axis=1)
    return out
