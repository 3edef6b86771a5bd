"""The server as HTTP clients meet it: what it answers, whom it answers, what it writes down, and how it stops."""

import gzip
import http.client
import json
import re
import signal
import socket

import pytest
from api import (FOREVER_PYTHON, QUICK, Background, fails_to_start, make_set, metric, refused, run_body, say, wait_for_metric,
                 wait_until_settled, watching)
from server import Server, wait_until

KEY_A, KEY_B = "keyaaaaaaaaaaaaa", "keybbbbbbbbbbbbb"
JSON_TYPE = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """One with keys, a page elsewhere that may use it, and a log in JSON; the default key is a's."""
    server = Server(tmp_path_factory.mktemp("keyed"), **QUICK, RIDDLE_API_KEYS=f"a:{KEY_A},b:{KEY_B}",
                    CORS_ORIGINS="https://app.example", LOG_FORMAT="json")
    make_set(server)
    server.key = KEY_A
    with server:
        yield server


# ---- methods and paths ----


def test_health(shared):
    answer = shared.get("/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/healthz", "/datasets", "/openapi.json", "/docs", "/docs/assets/swagger-ui.css"])
def test_head_is_get_without_a_body(shared, path):
    got, head = shared.get(path), shared.call("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) == len(got.body) > 0
    assert head.headers["content-type"] == got.headers["content-type"]


@pytest.mark.parametrize("path, allow", [
    ("/runs", "GET, HEAD, POST, OPTIONS"),
    ("/runs/x", "GET, HEAD, DELETE, OPTIONS"),
    ("/healthz", "GET, HEAD, OPTIONS"),
    ("/plans/compile", "POST, OPTIONS"),
])
def test_options_and_405_name_what_is_allowed(shared, path, allow):
    options = shared.call("OPTIONS", path)
    assert (options.status, options.body, options.headers["allow"]) == (204, b"", allow)
    answer = shared.call("PUT", path, "{}", JSON_TYPE)
    assert refused(answer, 405, "METHOD_NOT_ALLOWED") == f"'PUT' is not allowed on '{path}'; allowed are {allow}"
    assert answer.headers["allow"] == allow


def test_unknown_method(shared):
    answer = shared.call("BREW", "/runs")
    assert refused(answer, 405, "METHOD_NOT_ALLOWED").startswith("'this method' is not allowed on '/runs'")


@pytest.mark.parametrize("path, hint", [
    ("/run", "there is no '/run'; did you mean '/runs'?"),
    ("/dataset", "there is no '/dataset'; did you mean '/datasets'?"),
    ("/completely/elsewhere", "there is no '/completely/elsewhere'; the API is described at /openapi.json"),
])
def test_unknown_paths_have_a_hint(shared, path, hint):
    assert refused(shared.get(path), 404, "NOT_FOUND") == hint


# ---- what is too much, or of the wrong kind ----


def head_of(path, *lines, method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def status_line(answer):
    return answer.split(b"\r\n", 1)[0].decode()


def body_of(answer):
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def test_length_required(shared):
    answer = say(shared, head_of("/runs", "Content-Type: application/json", "Connection: close"))
    assert status_line(answer) == "HTTP/1.1 411 Length Required"
    assert body_of(answer)["error"] == {"type": "LENGTH_REQUIRED",
                                        "message": "a body is needed: send Content-Length or Transfer-Encoding: chunked"}


def test_body_too_large_is_refused_before_it_is_sent(shared):
    size = 8 * 1024 * 1024 + 1  # RUN_BODY_MAX of src/base/limits.h, and one more
    answer = say(shared, head_of("/runs", "Content-Type: application/json", f"Content-Length: {size}"), wait_for_end=False)
    assert status_line(answer).startswith("HTTP/1.1 413 ")
    assert body_of(answer)["error"] == {"type": "TOO_LARGE", "message": f"the body has {size} bytes; at most {size - 1} are allowed"}


def test_chunked_body_too_large(shared):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = head_of("/plans/compile", "Content-Type: application/json", "Transfer-Encoding: chunked", "Connection: close")
    answer = say(shared, head + chunk * 17 + b"0\r\n\r\n", wait_for_end=False)
    assert status_line(answer).startswith("HTTP/1.1 413 ")
    assert body_of(answer)["detail"] == "the body is larger than 1048576 bytes"


def test_url_too_long(shared):
    assert refused(shared.get("/runs?cursor=" + "x" * 8192), 414, "TOO_LARGE") == "the URL is longer than 8192 bytes"


def test_headers_too_long(shared):
    answer = shared.get("/healthz", headers={f"X-Filler-{i}": "y" * 1000 for i in range(17)})
    assert refused(answer, 431, "TOO_LARGE") == "the headers are longer than 16384 bytes"
    # Past what a connection may hold at all the words are others'.
    assert status_line(say(shared, head_of("/healthz", "X-Filler: " + "y" * 100000, method="GET"), wait_for_end=False)).startswith(
        "HTTP/1.1 431 ")


@pytest.mark.parametrize("headers, message", [
    ({"Content-Type": "text/plain"}, "the content type must be application/json, not 'text/plain'"),
    ({"Content-Type": "application/x-www-form-urlencoded"},
     "the content type must be application/json, not 'application/x-www-form-urlencoded'"),
    ({**JSON_TYPE, "Content-Encoding": "gzip"}, "a body with Content-Encoding 'gzip' is not supported"),
])
def test_media_types(shared, headers, message):
    answer = shared.call("POST", "/runs", json.dumps(run_body("ecommerce", "SELECT 1")), headers)
    assert refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE") == message


@pytest.mark.parametrize("lines, message", [
    # Since version 1.0 libmicrohttpd refuses some of these itself, in its own words or as malformed.
    (["Content-Length: 5", "Transfer-Encoding: chunked"], r"both (Content-Length and Transfer-Encoding|Transfer-Encoding and Content)"),
    (["Host: localhost"], "the request has more than one Host header"),
    (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], "Transfer-Encoding"),
    (["Transfer-Encoding: gzip"], "Transfer-Encoding|malformed"),
    (["Content-Length: 9223372036854775808"], "the Content-Length header is no number|malformed"),
    (["Content-Length: +4"], "malformed"),
    (["Content-Length: 2", "Content-Length: 3"], "more than one Content-Length header|malformed"),
    (["Content-Length : 4"], "blank|malformed"),
    (["X-Text: a\rTransfer-Encoding: chunked", "Content-Length: 0"], "control character|malformed"),
])
def test_two_readings_of_a_request(shared, lines, message):
    """One answer, at once, and then the connection ends: what follows is not taken for a request."""
    second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", shared.port), timeout=15) as s:
        s.sendall(head_of("/runs", *lines) + b"0\r\n\r\n" + second)
        answer = b""
        try:
            while piece := s.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    assert status_line(answer) == "HTTP/1.1 400 Bad Request" and answer.count(b"HTTP/1.1 ") == 1, answer
    assert re.search(message, answer.decode())


def test_chunks_of_http_1_0(shared):
    answer = say(shared, b"POST /runs HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                 b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert status_line(answer).endswith("400 Bad Request") and answer.count(b"\r\n\r\n") == 1 and b"HTTP/1.0 has no" in answer, answer


def test_request_without_a_host_and_with_many_parameters(shared):
    answer = say(shared, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert status_line(answer) == "HTTP/1.1 400 Bad Request" and answer.count(b"HTTP/1.1 ") == 1
    assert re.search(b"no Host header|malformed", answer)  # libmicrohttpd 1.0 refuses it itself
    assert shared.get("/runs?limit=3&" + "&".join(["a=1"] * 1990)).status == 200


@pytest.mark.parametrize("body, message", [
    ('{"dataset_id": "ecommerce",\n  "sql": }', "invalid JSON at line 2, column 10: "),
    ('{"dataset_id": "ecommerce", "dataset_id": "x"}', "invalid JSON at line 1, column 40: duplicate object key"),
    ("", "invalid JSON at line 1, column 1: the text is empty"),
    ("[" * 5000, "invalid JSON"),
    (b'{"dataset_id": "\xff"}', "invalid JSON at line 1, column "),
    ('{"dataset_id": "a"} {"b": 1}', "invalid JSON at line 1, column 21: "),
])
def test_bodies_that_are_no_json(shared, body, message):
    answer = shared.call("POST", "/runs", body, JSON_TYPE)
    assert refused(answer, 400, "INVALID_JSON").startswith(message)


def test_body_that_is_no_object(shared):
    assert refused(shared.post("/runs", [1]), 422, "VALIDATION_ERROR") == "the body must be an object, not an array"


# ---- connections ----


def test_keep_alive(shared):
    connection = shared.connect()
    connection.connect()
    socket_number = connection.sock.fileno()
    requests = [("GET", "/healthz", None, 200), ("POST", "/nowhere", "x" * 1000, 404), ("POST", "/runs", "no JSON", 400),
                ("PUT", "/runs", "{}", 405), ("GET", "/datasets", None, 200)]
    for method, path, body, status in requests:
        connection.request(method, path, body)
        response = connection.getresponse()
        response.read()
        assert (response.status, connection.sock and connection.sock.fileno()) == (status, socket_number)
    connection.close()


def test_pipelining(shared):
    two = head_of("/healthz", method="GET") + head_of("/nowhere", "Connection: close", method="GET")
    answer = say(shared, two, wait_for_end=False)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"404"]


def test_gzip_where_it_pays(shared):
    plain = shared.get("/openapi.json")
    packed = shared.get("/openapi.json", headers={"Accept-Encoding": "br, gzip"})
    assert packed.headers["content-encoding"] == "gzip" and "Accept-Encoding" in packed.headers["vary"]
    assert gzip.decompress(packed.body) == plain.body and len(packed.body) * 4 < len(plain.body)
    assert "content-encoding" not in shared.get("/openapi.json", headers={"Accept-Encoding": "gzip;q=0"}).headers
    assert "content-encoding" not in shared.get("/healthz", headers={"Accept-Encoding": "gzip"}).headers


def test_request_ids(shared):
    assert shared.get("/healthz", headers={"X-Request-Id": "my-id.7"}).headers["x-request-id"] == "my-id.7"
    made = [shared.get("/healthz").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1] and all(re.fullmatch(r"[0-9a-f]{16}", i) for i in made)
    for bad in ("a b", "x" * 65, 'a"b'):
        assert re.fullmatch(r"[0-9a-f]{16}", shared.get("/nowhere", headers={"X-Request-Id": bad}).headers["x-request-id"])


# ---- the documentation page ----


def test_docs_page_works_offline(shared):
    page = shared.get("/docs")
    assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    text = page.body.decode()
    files = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(files) == 3 and not re.search(r"https?://|<script>|\son\w+=", text)
    for path in files:
        file = shared.get(path)
        assert file.status == 200 and len(file.body) > 100, path
        assert file.headers["content-type"] == ("text/css; charset=utf-8" if path.endswith(".css") else "text/javascript; charset=utf-8")
    assert "url: '/openapi.json'" in shared.get("/docs/start.js").body.decode()


def test_pages_have_security_headers(shared):
    headers = shared.get("/docs").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'" and policy["object-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert "script-src" not in policy  # so nothing inline runs
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert shared.get("/healthz").headers["x-content-type-options"] == "nosniff"


def test_etag(shared):
    path = "/docs/assets/swagger-ui.css"
    first = shared.get(path)
    tag = first.headers["etag"]
    assert first.status == 200 and re.fullmatch(r'(W/)?"[^"]+"', tag)
    for value in (tag, f'"other", {tag}', "*"):
        again = shared.get(path, headers={"If-None-Match": value})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert shared.get(path, headers={"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize("path", ["../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fREADME.md", "nothing.css",
                                  "%00", ".hidden", "a%5c..%5cb"])
def test_only_the_files_of_the_page_are_served(shared, path):
    answer = say(shared, head_of(f"/docs/assets/{path}", "Connection: close", method="GET"))
    assert status_line(answer).split()[1] in ("400", "404") and b"root:" not in answer


# ---- who may ask ----


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_dns_rebinding(shared, host):
    for method, path in (("GET", "/datasets"), ("POST", "/runs"), ("GET", "/docs"), ("GET", "/healthz")):
        message = refused(shared.call(method, path, headers={"Host": host}), 403, "FORBIDDEN")
        assert message == f"host '{host.split(':')[0]}' is not one of this server's names; add it to RIDDLE_ALLOWED_HOSTS if it is"


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1", "[::1]:8000", "riddle.localhost", "192.168.1.7:80"])
def test_own_names(shared, host):
    assert shared.get("/datasets", headers={"Host": host}).status == 200


def test_no_host(shared):
    answer = say(shared, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert status_line(answer).split()[1] == "400" and b"no Host header" in answer


def test_pages_of_other_sites_may_not_post(shared):
    body = run_body("ecommerce", "SELECT 1 AS one")
    headers = {**JSON_TYPE, "Host": f"localhost:{shared.port}"}
    for origin in ("http://evil.example", "null", f"http://localhost:{shared.port + 1}", f"http://localhost.evil.example:{shared.port}"):
        answer = shared.call("POST", "/runs", json.dumps(body), {**headers, "Origin": origin})
        message = refused(answer, 403, "FORBIDDEN")
        assert message == f"pages of '{origin}' may not use this server; add the origin to CORS_ORIGINS if they may"
        assert "access-control-allow-origin" not in answer.headers
    for more in ({}, {"Origin": f"http://localhost:{shared.port}"}):
        assert shared.call("POST", "/runs", json.dumps(body), {**headers, **more}).json["result"]["rows"] == [[1]]


def test_pages_of_other_sites_may_link_but_not_embed(shared):
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert refused(shared.get("/datasets", headers=elsewhere), 403, "FORBIDDEN") == "pages of other sites may not use this server"
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert shared.get("/docs", headers=followed).status == 200
    assert refused(shared.get("/runs", headers=followed), 403, "FORBIDDEN")


def test_cors(keyed):
    origin = {"Origin": "https://app.example"}
    asked = keyed.call("OPTIONS", "/runs", headers={**origin, "Access-Control-Request-Method": "POST",
                                                    "Access-Control-Request-Headers": "authorization"}, key="none")
    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == "https://app.example"
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert asked.headers["access-control-allow-headers"] == "authorization"
    answer = keyed.get("/datasets", headers=origin)
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "Origin" in answer.headers["vary"] and "X-Request-Id" in answer.headers["access-control-expose-headers"]
    other = keyed.call("OPTIONS", "/runs", headers={"Origin": "https://other.example", "Access-Control-Request-Method": "POST"})
    refused(other, 403, "FORBIDDEN")
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("headers, message", [
    ({}, "a key is needed: 'Authorization: Bearer KEY'"),
    ({"Authorization": "Bearer wrongwrongwrongwrong"}, "the key is not known"),
    ({"Authorization": f"Basic {KEY_A}"}, "the Authorization header must be 'Bearer KEY'"),
    ({"X-API-Key": "wrongwrongwrongwrong"}, "the key is not known"),
])
def test_keys_are_needed(keyed, headers, message):
    connection = keyed.connect()
    for path in ("/datasets", "/metrics", "/runs", "/runs/x"):
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        assert (response.status, body["error"]) == (401, {"type": "UNAUTHORIZED", "message": message})
        assert response.getheader("WWW-Authenticate") == 'Bearer realm="riddle"'
    connection.close()


def test_what_needs_no_key(keyed):
    connection = keyed.connect()
    for path in ("/healthz", "/", "/openapi.json", "/docs", "/docs/start.js", "/docs/assets/swagger-ui.css"):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == 200, path
    connection.close()
    document = keyed.get("/openapi.json").json
    assert document["security"] == [{"key": []}] and document["paths"]["/healthz"]["get"]["security"] == []


def test_either_header_carries_the_key(keyed):
    connection = keyed.connect()
    connection.request("GET", "/datasets", headers={"X-API-Key": KEY_B})
    assert connection.getresponse().status == 200
    connection.close()
    assert keyed.get("/datasets", headers={"Authorization": f"bearer  {KEY_B}"}).status == 200


def test_owners_are_apart(keyed):
    run_id = keyed.sql("shop", "SELECT count(*) AS n FROM sales").json["run_id"]
    assert keyed.get(f"/runs/{run_id}").json["run_id"] == run_id
    assert refused(keyed.get(f"/runs/{run_id}", key=KEY_B), 404, "NOT_FOUND") == "Run not found"
    assert keyed.get(f"/runs/{run_id}/status", key=KEY_B).json == {"run_id": run_id, "status": "not_found"}
    assert refused(keyed.delete(f"/runs/{run_id}", key=KEY_B), 404, "NOT_FOUND") == "Run not found"
    assert run_id in [r["run_id"] for r in keyed.get("/runs").json["runs"]]
    assert run_id not in [r["run_id"] for r in keyed.get("/runs", key=KEY_B).json["runs"]]


def test_a_run_under_way_is_its_owners(keyed):
    with watching(keyed, run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60)) as mine:
        mine.executing()
        assert keyed.get(f"/runs/{mine.run_id}/status", key=KEY_B).json["status"] == "not_found"
        refused(keyed.delete(f"/runs/{mine.run_id}", key=KEY_B), 404, "NOT_FOUND")
        assert keyed.get(f"/runs/{mine.run_id}/status").json["status"] == "running"
        assert keyed.delete(f"/runs/{mine.run_id}").status == 202
        assert mine.until("result")["status"] == "cancelled"


def test_rate_limit(tmp_path):
    settings = {**QUICK, "RATE_LIMIT_MAX": 5, "RATE_LIMIT_WINDOW_MS": 3600000}
    with Server(tmp_path, **settings, RIDDLE_API_KEYS=f"a:{KEY_A},b:{KEY_B}") as server:
        assert [server.post("/chat", {"message": " "}, key=KEY_A).status for _ in range(5)] == [400] * 5
        limited = server.post("/chat/stream", {"message": " "}, key=KEY_A)
        message = refused(limited, 429, "RATE_LIMITED")
        seconds = int(limited.headers["retry-after"])
        assert 3000 < seconds <= 3600
        assert message == "Rate limit exceeded. Please wait and try again."
        assert server.post("/chat", {"message": " "}, key=KEY_B).status == 400
        assert [server.get("/datasets", key=KEY_A).status for _ in range(9)] == [200] * 9, "only messages are scarce"
        assert [server.get("/healthz", key=KEY_A).status for _ in range(9)] == [200] * 9
        # Who guesses keys is limited by address.
        guesses = [server.get("/datasets", key="guessguessguess" + str(i)).status for i in range(6)]
        assert guesses == [401] * 5 + [429]
        assert server.get("/datasets", key=KEY_B).status == 200


# ---- what is written down ----


def test_metrics(shared):
    before = metric(shared, "riddle_http_requests_total", route="/datasets", method="GET", status="200") or 0
    assert shared.get("/datasets").status == 200
    assert metric(shared, "riddle_http_requests_total", route="/datasets", method="GET", status="200") == before + 1
    runs = metric(shared, "riddle_runs_total", verdict="ok")
    assert shared.sql("ecommerce", "SELECT 1 AS one").json["status"] == "succeeded"
    assert metric(shared, "riddle_runs_total", verdict="ok") > runs

    answer = shared.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    kinds, series = {}, set()
    for line in answer.body.decode().splitlines():
        if kind := re.fullmatch(r"# TYPE (\w+) (counter|gauge|histogram)", line):
            assert kind[1] not in kinds
            kinds[kind[1]] = kind[2]
        elif not line.startswith("# HELP "):
            found = re.fullmatch(r'(\w+)(\{(?:\w+="[^"]*",?)+\})? [-+0-9.e]+|\w+\{.*\} \+Inf', line)
            assert found, line
            name = re.sub(r"_(bucket|sum|count)$", "", found[1]) if found[1] not in kinds else found[1]
            assert name in kinds, f"{line}: no TYPE before it"
            assert line.rpartition(" ")[0] not in series
            series.add(line.rpartition(" ")[0])
    wanted = {"riddle_http_requests_total": "counter", "riddle_http_request_seconds": "histogram", "riddle_run_seconds": "histogram",
              "riddle_kernels": "gauge", "riddle_queue_depth": "gauge", "riddle_runs_total": "counter",
              "riddle_store_operations_total": "counter"}
    assert {k: kinds.get(k) for k in wanted} == wanted


def test_access_log(keyed):
    answer = keyed.post("/runs?note=hidden-in-the-query", run_body("shop", "SELECT 'hidden-in-the-body' AS x"))
    assert answer.status == 200
    keyed.get("/datasets", key="hidden-wrong-key")
    missing = keyed.get("/nowhere", headers={"X-Request-Id": "follow-me"})
    assert missing.status == 404

    def lines():
        return [json.loads(line) for line in keyed.log.read_text().splitlines()]
    wait_until(lambda: any(line.get("request_id") == "follow-me" for line in lines()), "the request is in the log")
    text = keyed.log.read_text()
    for secret in (KEY_A, KEY_B, "hidden-"):
        assert secret not in text
    [line] = [line for line in lines() if line.get("request_id") == answer.headers["x-request-id"]]
    assert {k: line[k] for k in ("event", "method", "path", "status", "owner", "peer")} == {
        "event": "http", "method": "POST", "path": "/runs", "status": 200, "owner": "a", "peer": "127.0.0.1"}
    assert line["bytes"] == len(answer.body) and line["ms"] > 0
    [line] = [line for line in lines() if line.get("request_id") == "follow-me"]
    assert line["status"] == 404 and line["error"].startswith("there is no '/nowhere'")


def test_access_log_as_text(shared):
    request_id = shared.get("/datasets").headers["x-request-id"]
    wait_until(lambda: f"request_id={request_id}" in shared.log.read_text(), "the request is in the log")
    [line] = [line for line in shared.log.read_text().splitlines() if f"request_id={request_id}" in line]
    assert re.search(r"^time=\S+ level=info event=http method=GET path=/datasets status=200 ms=[\d.]+ owner=local bytes=\d+ "
                     r"peer=127\.0\.0\.1 request_id=", line)


# ---- starting and stopping ----


def test_it_does_not_bind_beyond_loopback_without_keys(tmp_path):
    server = Server(tmp_path, RIDDLE_HOST="0.0.0.0")
    status, said = fails_to_start(server)
    assert status == 1
    assert "RIDDLE_API_KEYS" in said and "RIDDLE_ALLOW_OPEN" in said and "0.0.0.0" in said


def test_beyond_loopback_with_keys(tmp_path):
    with Server(tmp_path, **QUICK, RIDDLE_HOST="0.0.0.0", RIDDLE_API_KEYS=f"a:{KEY_A}") as server:
        assert server.get("/datasets", key=KEY_A).status == 200


def test_a_short_key_is_refused_and_not_repeated(tmp_path):
    status, said = fails_to_start(Server(tmp_path, RIDDLE_API_KEYS="ann:short-secret"))
    assert status == 1 and "RIDDLE_API_KEYS: the key of 'ann' must have 16 to 512 characters" in said
    assert "short-secret" not in said


def test_port_in_use(tmp_path, shared):
    status, said = fails_to_start(Server(tmp_path), "--port", str(shared.port))
    assert status == 1 and f"{shared.port}" in said and "in use" in said


def begin_sleep(server, seconds):
    """A run that ends by itself, begun in the background; returns when it is being executed."""
    body = run_body("shop", python=f"import time\ntime.sleep({seconds})\nresult = 7", python_policy="open", timeout_seconds=60)
    call = Background(server.post, "/runs", body)
    wait_for_metric(server, 1, "riddle_kernels", state="running")
    return call


@pytest.fixture
def stoppable(tmp_path):
    server = Server(tmp_path, **QUICK)
    make_set(server)
    with server:
        wait_until_settled(server)
        yield server


def test_stop_lets_requests_finish(stoppable):
    call = begin_sleep(stoppable, 1)
    stoppable.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "event=http.stopping" in stoppable.log.read_text(), "the server is stopping")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", stoppable.port))
    answer = call.result()
    assert answer.json["status"] == "succeeded" and answer.json["result"]["rows"] == [[7]]
    assert answer.headers["connection"] == "close"
    assert stoppable.process.wait(timeout=30) == 0
    assert "event=server.stopped" in stoppable.log.read_text()
    with Server(stoppable.directory, **QUICK) as again:  # what was answered is kept
        assert again.get(f"/runs/{answer.json['run_id']}").json["status"] == "succeeded"


def test_a_second_signal_stops_at_once(stoppable):
    call = begin_sleep(stoppable, 50)
    stoppable.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "event=http.stopping" in stoppable.log.read_text(), "the server is stopping")
    stoppable.process.send_signal(signal.SIGTERM)
    assert stoppable.process.wait(timeout=20) == 0
    try:
        refused(call.result(), 503, "UNAVAILABLE")
    except (http.client.HTTPException, ConnectionError):
        pass  # cut, as was asked


def test_stop_fails_what_does_not_finish(tmp_path):
    server = Server(tmp_path, **QUICK, RIDDLE_STOP_TIMEOUT_SECONDS=1)
    make_set(server)
    with server:
        wait_until_settled(server)
        with watching(server, run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60)) as watched:
            watched.executing()
            call = Background(server.post, "/runs", run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60))
            wait_for_metric(server, 2, "riddle_kernels", state="running")
            server.process.send_signal(signal.SIGTERM)
            assert refused(call.result(), 503, "UNAVAILABLE") == "the server is stopping"
            assert watched.until("error")["message"] == "the server is stopping"
        assert server.process.wait(timeout=30) == 0
    assert "event=http.failing in_flight=2" in server.log.read_text()
