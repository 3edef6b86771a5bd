"""A server with two owners, and one of them at work."""

import sys
from pathlib import Path

import pytest

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "integration"))
from attack import Neighbour, serve  # noqa: E402


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("attacked")) as server:
        yield server


@pytest.fixture
def bob(server):
    with Neighbour(server) as bob:
        yield bob
