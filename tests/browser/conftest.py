"""One Chromium with one page and one server for all tests; the page forgets between them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from api import generate_sets  # noqa: E402
from chromium import Chromium  # noqa: E402
from server import Server  # noqa: E402


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"), RATE_LIMIT_MAX=0)
    generate_sets(server)
    with server:
        yield server


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="session")
def tab(browser):
    return browser.page()


@pytest.fixture
def blank(tab):
    """A page before it is opened."""
    tab.forget()
    return tab


@pytest.fixture
def page(blank, server):
    blank.open(f"http://127.0.0.1:{server.port}/")
    blank.wait("document.getElementById('start') && document.querySelectorAll('#sets [data-id]').length >= 4")
    return blank
