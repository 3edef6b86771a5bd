"""How the page is served; tests/browser has what it does."""

import re

import pytest

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
    assert page.body == shared.get("/ui").body == shared.get("/ui/ui.html").body


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


def test_page_asks_nobody_else(shared):
    text = shared.get("/ui").body.decode()
    files = re.findall(r'<(?:script|link)[^>]*(?:src|href)="(?!data:)([^"]+)"', text)
    assert files == ["/ui/ui.css", "/ui/ui.js", "/ui/ui.words.js"]
    for path, kind in zip(files, ("text/css", "text/javascript", "text/javascript")):
        file = shared.get(path)
        assert (file.status, file.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        text += file.body.decode()
    assert set(re.findall(r"https?://[^'\"\s)]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\sstyle=|\son\w+=\"", text)


def test_policy_of_the_page(shared):
    for path in ("/", "/ui"):
        headers = shared.get(path, headers=BROWSER).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy == {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "data: blob: 'self'",
                          "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
        assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "no-referrer")


@pytest.mark.parametrize("path", ["/ui", "/ui/ui.css", "/ui/ui.js"])
def test_unchanged_files_are_not_sent_again(shared, path):
    first = shared.get(path)
    again = shared.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body, first.headers["cache-control"]) == (304, b"", "no-cache")


@pytest.mark.parametrize("path", ["/ui/", "/ui/nothing.js", "/ui/../ui.js", "/ui/%2e%2e/README.md"])
def test_there_is_nothing_else(shared, path):
    answer = shared.get(path)
    assert answer.status in (400, 404) or answer.body == shared.get("/ui").body
