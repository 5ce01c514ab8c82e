"""Where the labels of points stand, so that they cover neither each other nor other points."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.float64]


def label_places(places: Pixels, sizes: Pixels, bounds: Pixels) -> Pixels:
    """Return for each point how far right of and above it the middle of its label stands, `[points, 2]`.

    Label by label the cheapest of the places around the point is taken, three times over, so that the first
    make room for the last.

    Args:
        places: The points, in pixels, `[points, 2]`.
        sizes: Width and height of their labels, `[points, 2]`.
        bounds: Lower left and upper right corner of the axes, `[2, 2]`.
    """
    angles = math.pi / 4 + np.arange(16) * math.pi / 8
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    reaches = np.repeat((6, 11, 18, 27, 38, 52, 70), len(around))
    moves = np.full(places.shape, np.nan)
    for _, here in itertools.product(range(3), range(len(places))):
        others = np.arange(len(places)) != here
        choices = np.tile(around, (7, 1)) * (reaches[:, None] + sizes[here] / 2)
        boxes = _boxes(places[here] + choices, sizes[here])
        outside = np.maximum(0, bounds[0] - boxes[:, 0]) + np.maximum(0, boxes[:, 1] - bounds[1])
        hidden = _covered(boxes, _boxes((places + moves)[others], sizes[others]))
        costs = _confusion(places[here], choices, boxes, places[others])
        moves[here] = choices[int(np.argmin(costs + 100 * hidden + 50 * outside.sum(1) + 2 * reaches))]
    return moves


def _confusion(place: Pixels, moves: Pixels, boxes: Pixels, others: Pixels) -> Pixels:
    """Return how much a label in each place hides other points, or is taken for theirs, `[moves]`."""
    way = place + moves[:, None] * np.linspace(0, 1, 9)[:, None]
    crossed = (np.linalg.norm(way[:, :, None] - others, axis=-1) < 5).sum((1, 2))
    gaps = np.linalg.norm(others - place - moves[:, None], axis=-1)
    nearer = np.maximum(0, np.linalg.norm(moves, axis=-1)[:, None] + 12 - gaps).sum(1)
    hidden = _covered(boxes, _boxes(others, np.full(others.shape, 10.0)))
    return np.asarray(10 * hidden + 40 * crossed + 2 * nearer)


def _boxes(middles: Pixels, sizes: Pixels) -> Pixels:
    """Return lower left and upper right corners, `[…, 2, 2]`."""
    return np.stack([middles - sizes / 2, middles + sizes / 2], axis=-2)


def _covered(boxes: Pixels, others: Pixels) -> Pixels:
    """Return the areas `[m]` that boxes `[m, 2, 2]` share with others `[n, 2, 2]`; unplaced ones are NaN."""
    sides = np.minimum(boxes[:, None, 1], others[:, 1]) - np.maximum(boxes[:, None, 0], others[:, 0])
    return np.asarray(np.nan_to_num(np.maximum(0, sides)).prod(axis=-1).sum(axis=-1))
