"""The annotation benchmark's client can rate on the real page."""

import asyncio
import importlib
from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed")

pytestmark = pytest.mark.slow


def test_client_rates_a_whole_study_on_the_real_page(monkeypatch, tmp_path):
    """Fails when the page changes and `annotation_client.py` does not."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")  # no package
    client = importlib.import_module("annotation_client")

    async def rate_all(study, url):
        rater = client.Rater(study, "rater-000", url)
        await rater.enter()
        assert [await rater.rate() for _ in range(4)] == [True, True, True, False]
        await client.leave([rater])
        return rater.ratings

    with client.serve(tmp_path, raters=1, overlap=1, pairs=4) as (study, server):
        ratings = asyncio.run(rate_all(study, server.url))
        assert server.count_defects() == 0
    assert len(ratings) == 4 * len(client.CRITERIA)
    assert study.count_wrong(ratings) == 0
    name, pair, criterion, verdict = ratings[0]
    assert study.count_wrong(ratings[1:]) == study.count_wrong([*ratings, ratings[0]]) == 1
    other = "tie" if verdict != "tie" else client.METHODS["a"]
    assert study.count_wrong([(name, pair, criterion, other), *ratings[1:]]) == 2
