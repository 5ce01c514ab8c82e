"""What the tests of metrics have in common."""

import pytest
import torch

from guard_eval.reporting import drawing


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def svg_alone(request, monkeypatch):
    """Save figures as SVG alone, where a test does not compare all formats."""
    if request.node.originalname != "test_the_same_bytes_again":
        monkeypatch.setattr(drawing, "as_pdf", lambda _: b"")
        monkeypatch.setattr(drawing, "as_png", lambda _, **__: b"")
