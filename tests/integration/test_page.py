"""How the page is served; tests/browser has what it does."""

import gzip
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import ROOT

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_root_is_a_page_for_browsers_and_json_for_programs(shared):
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        answer = shared.get("/", headers=headers)
        assert answer.status == 200 and answer.headers["content-type"] == "application/json"
        assert (answer.json["status"], answer.json["ui"], answer.json["docs"]) == ("ok", "/ui", "/docs")
        for path in answer.json["endpoints"].values():
            assert shared.call("OPTIONS", path).status in (200, 204), path
    page = shared.get("/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.body == shared.get("/ui").body == shared.get("/t/any-thread", headers=BROWSER).body


def test_both_forms_of_the_root_are_told_apart_by_caches(shared):
    def vary(headers):
        connection = shared.connect()
        try:
            connection.request("GET", "/", headers=headers)
            response = connection.getresponse()
            response.read()
            return [name.strip() for line in response.headers.get_all("Vary") for name in line.split(",")]
        finally:
            connection.close()
    assert "Accept" in vary({}) and {"Accept", "Accept-Encoding"} <= set(vary(BROWSER))


def files_of(shared):
    return re.findall(r'<(?:script|link)[^>]*(?:src|href)="(?!data:)([^"]+)"', shared.get("/ui").body.decode())


def test_page_is_small_and_its_own(shared):
    """What is loaded before a chart or an editor is needed."""
    total = len(shared.get("/ui", headers={"Accept-Encoding": "gzip"}).body)
    todo, seen, text = files_of(shared), set(), ""
    named = [re.sub(r"-[0-9A-Z]{8}", "", path) for path in todo]
    assert (named[0], named[-1]) == ("/ui/app.css", "/ui/app.js") and set(named[1:-1]) <= {"/ui/chunk.js"}
    for path in todo:
        seen.add(path)
        packed, plain = shared.get(path, headers={"Accept-Encoding": "gzip"}), shared.get(path)
        kind = "text/css" if path.endswith(".css") else "text/javascript"
        assert (plain.status, plain.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(packed.body) == plain.body
        total += len(packed.body)
        text += plain.body.decode()
        needed = {f"/ui/{name}" for name in re.findall(r'(?:from|import)"\./([\w-]+\.js)"', plain.body.decode())}
        assert needed <= set(todo), "a script that is not asked for together with the page"
    assert total <= 200_000
    assert not re.search(r"\beval\(|new Function|document\.write", text)


def test_types_of_the_page_are_those_of_the_server(shared, tmp_path):
    """A request to a path that the server does not have, or a body that it does not take, is an error of the type check."""
    described = tmp_path / "openapi.json"
    described.write_bytes(shared.get("/openapi.json").body)
    checked = subprocess.run([ROOT / "scripts/check-page-types", described], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_policy_of_the_page(shared):
    for path in ("/", "/ui"):
        headers = shared.get(path, headers=BROWSER).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy == {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "data: blob: 'self'",
                          "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
        assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "no-referrer")


def test_unchanged_files_are_not_sent_again(shared):
    for path in ["/ui", *files_of(shared)]:
        first = shared.get(path)
        again = shared.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        assert first.headers["cache-control"] == ("no-cache" if path == "/ui" else "public, max-age=31536000, immutable")


@pytest.mark.parametrize("path", ["/ui/", "/ui/nothing.js", "/ui/../index.html", "/ui/%2e%2e/README.md"])
def test_there_is_nothing_else(shared, path):
    answer = shared.get(path)
    assert answer.status in (400, 404) or answer.body == shared.get("/ui").body


def test_settings_in_force_without_texts_and_secrets(shared):
    settings = {s["name"]: s for s in shared.get("/settings").json["settings"]}
    assert settings["RATE_LIMIT_MAX"]["kind"] == "integer" and isinstance(settings["RATE_LIMIT_MAX"]["value"], int)
    assert all(s["value"] is None and s["is_set"] in (True, False) for s in settings.values() if s["kind"] in ("text", "secret"))
    assert settings["RIDDLE_API_KEYS"]["kind"] == "secret" and settings["DATASETS_DIR"]["is_set"] is True
    assert str(shared.datasets).encode() not in shared.get("/settings").body


def test_checks_of_the_machine_are_served(shared):
    """As riddle doctor makes them, without paths of the machine; one child serves all who ask."""
    with ThreadPoolExecutor(4) as clients:
        answers = [a.json for a in clients.map(lambda _: shared.get("/doctor"), range(4))]
    assert all(a == answers[0] for a in answers) and answers[0]["status"] in ("pass", "caution"), answers
    checks = {c["name"]: c for c in answers[0]["checks"]}
    assert checks["seccomp"] == {"name": "seccomp", "status": "pass"} and "jail as a whole" in checks
    assert str(shared.directory) not in json.dumps([c for c in answers[0]["checks"] if c["status"] == "pass"])
