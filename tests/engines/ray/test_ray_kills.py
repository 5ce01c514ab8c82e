"""Workers and machines of a real cluster die in mid-run: no text lost, none doubled, all as one machine's."""

import pytest
from ray_cluster import kill, scores_of, texts_of, two_nodes, until, workers_of

from guard_eval.cli.generate import generate
from guard_eval.cli.measuring.job import MeasureOptions
from guard_eval.engines.ray import workers, writers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]  # of its own older names


@pytest.mark.usefixtures("_speaking")
def test_a_worker_and_then_a_machine_die(study, one_machine, monkeypatch, capsys):
    """Three workers on two machines of two CPUs; the machine that is left has no room for all of them.

    A worker of the second machine is killed when the first texts have come, the machine itself later on.
    Then the same cluster's remains read the texts: coherence and perplexity to the last bit of one machine's.
    """
    monkeypatch.setattr(workers, "PATIENCE", 2.0)
    monkeypatch.setattr(writers.Job, "rows", 8)  # twelve chunks
    plain, died = workers.tables, []
    with two_nodes() as (cluster, second):

        def tables(ray, pool, data):
            for number, table in enumerate(plain(ray, pool, data)):
                yield table
                if not died:
                    victim = until(lambda: workers_of(second))[0]
                    kill(victim)
                    died.append("worker")
                elif number == 4 and len(died) == 1:
                    cluster.remove_node(second, allow_graceful=False)
                    died.append("machine")

        monkeypatch.setattr(workers, "tables", tables)
        generate(study, engine="ray", address=cluster.address, workers=3)
        assert died == ["worker", "machine"]
        assert texts_of(study) == one_machine.texts
        assert "3 workers with 1 CPU each, on 2 machines" in capsys.readouterr().out
        measured = scores_of(study, MeasureOptions(engine="ray", address=cluster.address))
    assert measured == one_machine.scores
