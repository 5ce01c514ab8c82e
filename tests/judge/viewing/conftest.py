"""One judged study for all tests of this folder."""

import pytest
from judged_study import judged_study


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    return judged_study(tmp_path_factory.mktemp("judged"))
