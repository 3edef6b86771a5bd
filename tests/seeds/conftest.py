"""The systems whose clients work with Riddle, a file of cases each. One server a file; a case speaks as a client of that system does.

A file names settings of its own as SETTINGS = {"NAME": "value"}.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from api import generate_sets  # noqa: E402
from model import start_model  # noqa: E402, F401 (a fixture)
from server import Server  # noqa: E402


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    settings = {"RATE_LIMIT_MAX": 0, **getattr(request.module, "SETTINGS", {})}
    server = Server(tmp_path_factory.mktemp("server"), **settings)
    generate_sets(server)
    with server:
        yield server
