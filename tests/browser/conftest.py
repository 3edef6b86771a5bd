"""One browser and one server for all tests; the page forgets between them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from api import generate_sets  # noqa: E402
from driver import Browser  # noqa: E402
from server import Server  # noqa: E402


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"), RATE_LIMIT_MAX=0)
    generate_sets(server)
    with server:
        yield server


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def blank(browser, request):
    """A page before it is opened. A test is on a phone by its parameter `phone`, or by its mark."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    phone = parameters.get("phone", request.node.get_closest_marker("phone"))
    return browser.page("phone" if phone else "desktop")


@pytest.fixture
def page(blank, server):
    blank.open(f"http://127.0.0.1:{server.port}/")
    blank.wait("document.getElementById('start') && document.querySelectorAll('#sets [data-id]').length >= 4")
    return blank
