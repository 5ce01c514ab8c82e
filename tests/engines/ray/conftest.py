"""What the tests of Ray have in common."""

import importlib.util
from dataclasses import dataclass

import pytest
from ray_cluster import texts_of, write_study

from guard_eval.study.folder import Study


@pytest.fixture(scope="session", autouse=True)
def _ray_is_there():
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed; run: pip install 'guard-eval[ray]'")


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "many")


@dataclass
class OneMachine:
    """A study whose texts one process has written."""

    study: Study
    texts: list


@pytest.fixture(scope="session")
def one_machine(tmp_path_factory):
    """The same study by the engine of one machine: its texts, sorted."""
    from guard_eval.engines.command import generate

    study = write_study(tmp_path_factory.mktemp("one") / "many")
    generate(study)
    return OneMachine(study, texts_of(study))
