"""Variables of the systems' own `.env` files: honoured, or refused at start with what to set."""

import pytest
from server import Server

OPEN = {"RIDDLE_PRELOAD": ""}


def refusal(directory, **settings):
    with pytest.raises(AssertionError) as failed:
        Server(directory, **OPEN, **settings).start()
    return str(failed.value)


@pytest.mark.parametrize("name,value", [("SANDBOX_PROVIDER", "bogus"), ("SANDBOX_RUNTIME", "e2b"), ("REDIS_HOST", "localhost"),
                                        ("SESSION_BASE_DIR", "/tmp/x"), ("CPYTHON_BIN", "/usr/bin/python3"), ("LOG_LEVEL", "loud")])
def test_what_cannot_be_honoured_is_refused(tmp_path, name, value):
    assert name in refusal(tmp_path, **{name: value})


def test_names_of_pythons_log_levels_and_aliases(tmp_path):
    settings = {"LOG_LEVEL": "WARNING", "SESSION_TTL_S": 600, "SESSION_MAX_BYTES": 2000, "SANDBOX_TIMEOUT_S": 6}
    with Server(tmp_path, **OPEN, **settings) as server:
        body = (b'--b\r\nContent-Disposition: form-data; name="session_id"\r\n\r\ns1\r\n--b\r\nContent-Disposition: form-data; '
                b'name="files"; filename="big.txt"\r\n\r\n' + b"x" * 5000 + b"\r\n--b--\r\n")
        answer = server.call("POST", "/files/upload", body, {"Content-Type": "multipart/form-data; boundary=b"})
        assert answer.status == 413, answer.body


def test_rate_limit_of_messages_by_client_of_a_proxy(tmp_path):
    settings = {"RATE_LIMIT_MAX": 2, "RATE_LIMIT_WINDOW_MS": 3600000, "TRUSTED_PROXIES": "127.0.0.1"}
    with Server(tmp_path, **OPEN, **settings) as server:
        def say(client):
            headers = {"Content-Type": "application/json", "X-Forwarded-For": client}
            return server.call("POST", "/chat", '{"messages": []}', headers)

        assert [say("1.2.3.4").status for _ in range(2)] == [400, 400]
        limited = say("9.9.9.9, 1.2.3.4")
        assert (limited.status, limited.json["detail"]) == (429, "Rate limit exceeded. Please wait and try again.")
        assert 0 < int(limited.headers["retry-after"]) <= 3600
        assert say("5.6.7.8").status == 400
        assert [server.get("/datasets").status for _ in range(5)] == [200] * 5


def test_defaults_beside_variables_of_the_system(tmp_path):
    settings = {"SESSION_TTL_S": 600, "PYTHON_POLICY": "restricted"}
    with Server(tmp_path, **OPEN, **settings) as server:
        thread = server.post("/thread/new", {}).json["thread_id"]
        path = f"/thread/{thread}/message"
        refused = server.post(path, {"message": "PYTHON: import os\nos.getcwd()"}).json
        assert "Blocked import: os" in refused["code_runs"][0]["output"], refused
        assert "3.14" in server.post(path, {"message": "PYTHON: import math\nprint(round(math.pi, 2))"}).json["code_runs"][0]["output"]
        say = [server.post("/chat", {"messages": []}).status for _ in range(19)]
        assert say == [400] * 18 + [429]
