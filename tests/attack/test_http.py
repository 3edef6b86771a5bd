"""Requests that are hard to take and answers that are hard to write: large bodies and large events cost their owner time, not others."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from api import metric, refused, watching
from attack import ALICE, BOB, SANITIZED, long_turns
from server import wait_until
from test_control import FRAMES

MB = 1 << 10  # of kB


def body_with(values):
    return '{"dataset_id":"shop","query_type":"sql","sql":"SELECT 1","more":[' + "0," * (values - 1) + "0]}"


def send(server, body):
    return server.plain_call("POST", "/runs", body, {"Content-Type": "application/json"}, key=ALICE)


def test_bodies_of_many_values(server, bob):
    """Eight megabytes of text would be 200 MB of values, kept as long as the run."""
    body, before, turns = body_with(3900000), server.status_kb("VmRSS"), long_turns(server)
    with ThreadPoolExecutor(6) as clients:
        answers = list(clients.map(lambda _: send(server, body), range(12)))
    assert {a.status for a in answers} == {413}
    assert "values" in refused(server.call("POST", "/runs", body, {"Content-Type": "application/json"}, key=ALICE), 413, "TOO_LARGE")
    assert server.status_kb("VmHWM") - before < (600 if SANITIZED else 150) * MB
    assert long_turns(server) == turns


def test_bodies_that_never_end(server, bob):
    """All but a byte of a hundred: 64 MB of them are held, and the others are refused."""
    size, before, ends = 8 << 20, server.status_kb("VmRSS"), []
    head = (f"POST /runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {size}\r\n\r\n").encode()
    try:
        for _ in range(30):
            ends.append(socket.create_connection(("127.0.0.1", server.port)))
            ends[-1].settimeout(20)
            try:
                ends[-1].sendall(head + b" " * (size - 1))
            except OSError:
                pass  # refused before all of it was sent
        answered = [s for s in ends[10:] if s.recv(12).endswith(b"503")]
        assert len(answered) == 20
        assert server.status_kb("VmRSS") - before < (400 if SANITIZED else 150) * MB
    finally:
        for s in ends:
            s.close()
    wait_until(lambda: send(server, body_with(150000)).status == 200, "she is served again")


def test_a_large_body_is_parsed_beside_the_loop(server, bob):
    turns = long_turns(server)
    answer = send(server, body_with(150000))
    assert answer.status == 200 and json.loads(answer.body)["status"] == "succeeded"
    wrong = server.call("POST", "/runs", body_with(150000).replace('"sql":"SELECT 1"', '"sql":7'), {"Content-Type": "application/json"}, key=ALICE)
    assert wrong.status == 422 and wrong.json["detail"][0]["loc"] == ["body", "sql"]
    assert long_turns(server) == turns


def test_clients_that_leave_while_their_body_is_parsed(server, bob):
    body = body_with(150000).encode()
    head = (f"POST /runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(head + body)
    wait_until(lambda: metric(server, "riddle_http_requests_in_flight", BOB) <= 2, "nothing is left of them")


@pytest.mark.parametrize("width, rows", [(60000, 1), (150, 1000)])
def test_a_large_event_is_written_beside_the_loop(server, bob, width, rows):
    """… and comes before those that were sent after it."""
    code = FRAMES + (f"say(frame('result', {{'verdict': 'ok', 'exec_time_ms': 1, 'columns': ['c'] * {width}, 'types': ['I'] * {width}, "
                     f"'rows': [[0] * {width}] * {rows}, 'row_count': {rows}, 'truncated': False}}))\ntime.sleep(30)")
    body = {"dataset_id": "shop", "query_type": "python", "python_code": code, "python_policy": "open", "max_rows": rows}
    turns = long_turns(server)
    with watching(server, body, key=ALICE) as watched:
        events = list(watched.events)
    assert [name for name, _ in events if name not in ("status", "step")] == ["result", "done"]
    result = next(data for name, data in events if name == "result")["result"]
    assert (len(result["columns"]), len(result["rows"])) == (width, rows)
    assert long_turns(server) == turns
