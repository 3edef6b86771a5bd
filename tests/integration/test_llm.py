"""Calls of models over real HTTP: aimock's servers of both protocols, and servers that misbehave."""

import json
import os
import re
import ssl
import subprocess
import time

import pytest
from conftest import BUILD
from hostile import Hostile, head, read_request
from model import Model

DRIVER = BUILD / "tests/tools/llm_driver"
TIMEOUT_S = 120

TOOLS = [{"name": "run_sql", "description": "Runs SQL.",
          "parameters": {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]}},
         {"name": "run_python", "description": "Runs Python.", "parameters": {"type": "object", "properties": {}}}]
PROVIDERS = ["openai", "anthropic"]


@pytest.fixture(scope="module")
def shared_model(tmp_path_factory):
    model = Model(tmp_path_factory.mktemp("model"), [{"match": {"userMessage": "anybody there?"}, "response": {"content": "Yes."}}])
    yield model
    model.stop()


@pytest.fixture
def model_with(shared_model):
    """The module's model, with these fixtures only."""
    def replace(fixtures):
        shared_model.reset()
        shared_model.add(*fixtures)
        return shared_model
    return replace


def settings_of(provider, url, **more):
    """Settings for a server of our own, with a key that must be seen nowhere."""
    if provider == "openai":
        return {"LLM_PROVIDER": "openai", "OPENAI_BASE_URL": url + "/v1", "OPENAI_API_KEY": Model.KEY, **more}
    return {"LLM_PROVIDER": "anthropic", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": Model.KEY, **more}


class Result:
    def __init__(self, events, stderr, status, seconds):
        self.events, self.stderr, self.status, self.seconds = events, stderr, status, seconds
        self.done = [e for e in events if e["event"] == "done"]
        self.retries = [e for e in events if e["event"] == "retry"]
        self.tokens = [e for e in events if e["event"] == "token"]
        self.stats = events[-1] if events and events[-1]["event"] == "stats" else None

    @property
    def reply(self):
        assert len(self.done) == 1 and "error" not in self.done[0], self.done
        return self.done[0]

    @property
    def error(self):
        assert len(self.done) == 1 and "error" in self.done[0], self.done
        return self.done[0]["error"]


def drive(settings, *calls, status=0):
    """Runs the calls; whatever comes of them, the key is in nothing that was said."""
    env = {k: v for k, v in os.environ.items() if not re.match(r"(RIDDLE|LLM|OPENAI|ANTHROPIC)_|.*_proxy$", k, re.I)}
    env.update({k: str(v) for k, v in settings.items()})
    begun = time.monotonic()
    child = subprocess.run([str(DRIVER)], input="".join(json.dumps(c) + "\n" for c in calls).encode(), env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
    seconds = time.monotonic() - begun
    assert Model.KEY.encode() not in child.stdout + child.stderr
    assert child.returncode == status, child.stderr.decode()
    return Result([json.loads(line) for line in child.stdout.splitlines()], child.stderr.decode(), child.returncode, seconds)


def ask(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


# ---- aimock: what works ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_text_streams(model_with, provider):
    text = "The three largest regions are north, south and east — 42 %."
    model = model_with([{"match": {"userMessage": "largest"}, "response": {"content": text, "usage": {
        "prompt_tokens": 1000, "completion_tokens": 200, "input_tokens": 1000, "output_tokens": 200}}, "chunkSize": 7}])
    result = drive(getattr(model, provider)(), ask("What are the largest regions?", system="Be brief."))
    assert result.reply["text"] == text
    assert "".join(t["text"] for t in result.tokens) == text and len(result.tokens) >= 8
    assert result.reply["stop"] == "end" and result.reply["calls"] == [] and result.reply["attempts"] == 1
    assert (result.reply["input_tokens"], result.reply["output_tokens"]) == (1000, 200)
    # gpt-6-luna: 0.10 and 0.50 dollars a million; claude-sonnet-5-5: 2 and 10
    assert result.reply["cost_usd"] == pytest.approx(0.0002 if provider == "openai" else 0.004)
    assert 0 < result.reply["first_token_us"] <= result.reply["total_us"]
    assert result.stats["calls"] == 1 and result.stats["failures"] == 0 and result.stats["input_tokens"] == 1000
    assert result.stats["cost_usd"] == pytest.approx(result.reply["cost_usd"])


def test_unknown_price(model_with):
    model = model_with([{"match": {}, "response": {"content": "hi"}}])
    result = drive(model.openai(OPENAI_MODEL="llama3.1:8b"), ask("hello"))
    assert result.reply["output_tokens"] > 0 and result.reply["cost_usd"] == -1
    assert model.requests()[0]["body"]["model"] == "llama3.1:8b"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tools_and_turns(model_with, provider):
    """Two calls at once, their answers sent back, the reply from them: what an agent does."""
    model = model_with([
        {"match": {"userMessage": "revenue", "hasToolResult": False},
         "response": {"content": "Let me look.", "toolCalls": [
             {"id": "call_1", "name": "run_sql", "arguments": {"sql": "SELECT sum(total) FROM orders"}},
             {"id": "call_2", "name": "run_python", "arguments": {}}]}},
        {"match": {"userMessage": "revenue", "hasToolResult": True}, "response": {"content": "It is 60.75."}},
    ])
    settings = getattr(model, provider)()
    first = drive(settings, ask("What is the revenue?", tools=TOOLS)).reply
    assert first["stop"] == "tools" and first["text"] == "Let me look."
    assert [(c["id"], c["name"]) for c in first["calls"]] == [("call_1", "run_sql"), ("call_2", "run_python")]
    assert json.loads(first["calls"][0]["arguments"]) == {"sql": "SELECT sum(total) FROM orders"}
    assert json.loads(first["calls"][1]["arguments"]) == {}

    second = drive(settings, {"system": "You answer from data.", "tools": TOOLS, "tool_choice": "none", "messages": [
        {"role": "user", "content": "What is the revenue?"},
        {"role": "assistant", "content": first["text"], "calls": first["calls"]},
        {"role": "tool", "tool_call_id": "call_1", "content": "[[60.75]]"},
        {"role": "tool", "tool_call_id": "call_2", "content": "boom", "is_error": True}]}).reply
    assert second["text"] == "It is 60.75." and second["stop"] == "end"

    # What the server understood of it.
    asked = model.requests()[-1]["body"]
    roles = [m["role"] for m in asked["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert [c["id"] for c in asked["messages"][2]["tool_calls"]] == ["call_1", "call_2"]
    assert asked["messages"][3]["tool_call_id"] == "call_1"
    assert [t["function"]["name"] for t in asked["tools"]] == ["run_sql", "run_python"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stops(model_with, provider):
    reason = {"openai": {"length": "length", "refusal": "content_filter"},
              "anthropic": {"length": "max_tokens", "refusal": "refusal"}}[provider]
    model = model_with([{"match": {"userMessage": stop}, "response": {"content": "half a sen", "finishReason": reason[stop]}}
                         for stop in reason])
    for stop in reason:
        assert drive(getattr(model, provider)(), ask(stop)).reply["stop"] == stop


def test_many_at_once(model_with):
    """No cross-talk: each call gets its own answer."""
    n = 30
    model = model_with([{"match": {"userMessage": f"number {i}."}, "response": {"content": f"answer {i}. " * 20}, "chunkSize": 5,
                          "latency": 1} for i in range(n)])
    result = drive(model.openai(), {"together": [ask(f"number {i}.") for i in range(n)]})
    assert len(result.done) == n
    for done in result.done:
        want = f"answer {done['call']}. " * 20
        assert done["text"] == want
        assert "".join(t["text"] for t in result.tokens if t["call"] == done["call"]) == want


def test_connection_is_used_again():
    def answer(connection, request, n):
        body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        while request:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body)
            time.sleep(0.05)  # the end of the body comes after the end of the stream
            connection.sendall(b"\r\n0\r\n\r\n")
            request = read_request(connection)
            server.requests.append(request)

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url), ask("1"), ask("2"), ask("3"))
        assert [d["text"] for d in result.done] == ["hi"] * 3
        assert len(server.threads) - 1 == 1, "each call made a connection of its own"


def test_cancel_from_within(model_with):
    model = model_with([{"match": {"userMessage": "long"}, "response": {"content": "word " * 2000}, "chunkSize": 5, "latency": 2},
                         {"match": {"userMessage": "short"}, "response": {"content": "ok"}}])
    result = drive(model.openai(), ask("long", cancel_at=3), ask("short"))
    names = [e["event"] for e in result.events]
    assert names[:5] == ["ready", "token", "token", "token", "cancelled"], names[:8]
    assert [d["text"] for d in result.done] == ["ok"]
    assert result.seconds < 10


# ---- aimock: what fails ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rate_limit_is_waited_for(model_with, provider):
    model = model_with([
        {"match": {"userMessage": "hello", "sequenceIndex": 0}, "response": {
            "error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}},
        {"match": {"userMessage": "hello"}, "response": {"content": "Hi."}}])
    result = drive(getattr(model, provider)(), ask("hello"))
    assert result.reply["text"] == "Hi." and result.reply["attempts"] == 2
    assert [r["wait_ms"] for r in result.retries] == [1000]
    assert result.retries[0]["why"] == {"type": "LLM_RATE_LIMITED",
                                        "message": f"{model.url} answers that the limit is reached (HTTP 429): slow down"}
    assert result.done[0]["at_us"] - result.retries[0]["at_us"] >= 1_000_000
    assert result.stats["retries"] == 1


def test_rate_limit_beyond_the_deadline(model_with):
    model = model_with([{"match": {}, "response": {"error": {"message": "slow down"}, "status": 429, "retryAfter": 60}}])
    result = drive(model.openai(), ask("hello", timeout_ms=5000))
    assert result.error == {"type": "LLM_RATE_LIMITED",
                            "message": f"{model.url} answers that the limit is reached (HTTP 429): slow down; "
                                       "it asks to wait 60 s, more than is left of this call"}
    assert result.done[0]["status"] == 429 and result.retries == [] and result.seconds < 4


def test_no_quota_is_not_waited_for(model_with):
    model = model_with([{"match": {}, "response": {"error": {"message": "no quota", "type": "insufficient_quota",
                                                              "code": "insufficient_quota"}, "status": 429}}])
    result = drive(model.openai(), ask("hello"))
    assert result.error["type"] == "LLM_RATE_LIMITED" and result.retries == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_server_errors_pass(model_with, provider):
    model = model_with([{"match": {}, "response": {"content": "Hi."}}])
    model.fail_once(500, "oops")
    result = drive(getattr(model, provider)(), ask("hello"))
    assert result.reply["text"] == "Hi." and result.reply["attempts"] == 2
    assert 375 <= result.retries[0]["wait_ms"] <= 625
    assert result.retries[0]["why"]["type"] == "LLM_UNAVAILABLE" and "HTTP 500" in result.retries[0]["why"]["message"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("chaos,kind,says", [
    ({"dropRate": 1}, "LLM_UNAVAILABLE", r"failed \(HTTP 500\)"),
    ({"rateLimitRate": 1}, "LLM_RATE_LIMITED", r"HTTP 429"),
    ({"malformedRate": 1}, "LLM_BAD_RESPONSE", r"the model's answer cannot be read: invalid JSON at line 1, column \d+: "),
    ({"disconnectRate": 1}, "LLM_UNAVAILABLE", r"closed the connection without an answer"),
], ids=["drop", "limit", "malformed", "disconnect"])
def test_chaos(model_with, provider, chaos, kind, says):
    model = model_with([{"match": {}, "response": {"content": "Hi."}}])
    settings = getattr(model, provider)(LLM_MAX_RETRIES=1)
    model.chaos(**chaos)
    result = drive(settings, ask("hello"))
    assert result.error["type"] == kind and re.search(says, result.error["message"]), result.error
    assert len(result.retries) == (0 if kind == "LLM_BAD_RESPONSE" else 1)
    model.chaos()
    assert drive(settings, ask("hello")).reply["text"] == "Hi."


@pytest.mark.parametrize("provider", PROVIDERS)
def test_cut_stream_keeps_its_text(model_with, provider):
    """After a token there is no second try: what was said stands."""
    model = model_with([{"match": {}, "response": {"content": "one two three four five six"}, "chunkSize": 4, "latency": 20,
                          "truncateAfterChunks": 4 if provider == "openai" else 6}])
    result = drive(getattr(model, provider)(), ask("hello"))
    assert result.error["type"] == "LLM_UNAVAILABLE" and result.done[0]["status"] == 503
    assert "cut off" in result.error["message"] or "broke" in result.error["message"], result.error
    assert result.retries == [] and "".join(t["text"] for t in result.tokens).startswith("one ")


def test_latency_is_bounded(model_with):
    model = model_with([{"match": {}, "response": {"content": "Hi."}}])
    model.chaos(latencyMs=10000)
    result = drive(model.openai(), ask("hello", timeout_ms=1000))
    assert result.error == {"type": "LLM_TIMEOUT", "message": f"{model.url} did not answer in time"}
    assert result.done[0]["status"] == 504 and result.seconds < 5


# ---- servers of our own ------------------------------------------------------------------------------------------------

CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def always(data):
    return lambda connection, request, n: connection.sendall(data)


@pytest.mark.parametrize("answer,kind,message", [
    (head("401 Unauthorized", "application/json") + b'{"error":{"message":"Incorrect API key provided: KEY"}}',
     "LLM_REJECTED", "@ does not accept the key (HTTP 401); check OPENAI_API_KEY"),
    (head("403 Forbidden", "text/plain") + b"no KEY for you", "LLM_REJECTED",
     "@ does not allow this with the key (HTTP 403); check OPENAI_API_KEY: no [key] for you"),
    (head("400 Bad Request", "application/json") + b'{"error":{"message":"no such thing as KEY"}}',
     "LLM_REJECTED", "@ refuses the request (HTTP 400): no such thing as [key]"),
    (head("404 Not Found", "text/html") + b"<html>not here</html>", "LLM_REJECTED",
     "@ has no such model or path (HTTP 404); check OPENAI_MODEL ('gpt-6-luna') and OPENAI_BASE_URL"),
    (head("302 Found", "text/html", "Location: http://127.0.0.1:1/"), "LLM_REJECTED",
     "@ redirects (HTTP 302), which is not followed; check OPENAI_BASE_URL"),
    (head(content_type="text/html; charset=utf-8") + b"<html>log in</html>", "LLM_BAD_RESPONSE",
     "@ answers with 'text/html' instead of an event stream; check OPENAI_BASE_URL"),
    (head(content_type="application/json") + b'{"object":"list","data":[]}', "LLM_BAD_RESPONSE",
     "the model's server sent JSON that is no completion"),
    (head(content_type="application/json") + b'{"choices":[', "LLM_BAD_RESPONSE",
     "the model's answer cannot be read: invalid JSON at line 1, column 12: ']' expected near end of file"),
    (head() + b"data: {broken\n\n", "LLM_BAD_RESPONSE",
     "the model's server sent an event that cannot be read: invalid JSON at line 1, column 7: string or '}' expected near 'broken'"),
    (head() + b'data: {"error":{"message":"KEY failed","type":"invalid_request_error"}}\n\n', "LLM_REJECTED",
     "the model's server reports an error (invalid_request_error): [key] failed"),
    (b"SSH-2.0-OpenSSH_9.2p1\r\n", "LLM_BAD_RESPONSE", "the request to @ failed: Received HTTP/0.9 when not allowed"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\nzzzz\r\n", "LLM_UNAVAILABLE",
     "the connection to @ broke: "),  # and libcurl's words, which change
], ids=["401", "403", "400", "404", "302", "html", "other-json", "half-json", "broken-event", "error-event", "no-http", "bad-chunks"])
def test_bad_answers(answer, kind, message):
    with Hostile(always(answer.replace(b"KEY", Model.KEY.encode()))) as server:
        result = drive(settings_of("openai", server.url, LLM_MAX_RETRIES=0), ask("hello"))
        assert result.error["type"] == kind, result.error
        said, expected = result.error["message"], message.replace("@", server.url)
    assert said.startswith(expected) if expected.endswith(": ") else said == expected


@pytest.mark.parametrize("provider,body,message", [
    ("openai", b"", "the answer of @ is empty"),
    ("openai", b": nothing to say\n\n", "the answer of @ is empty"),
    ("openai", CHUNK[:-20], "the model's stream was cut off in the middle of an event"),
    ("openai", CHUNK + CHUNK[:30], "the model's stream was cut off in the middle of an event"),
    ("openai", CHUNK, "the model's stream was cut off before its end"),
    ("anthropic", b'event: message_start\ndata: {"type":"message_start","message":{}}\n\nevent: content_bl',
     "the model's stream was cut off in the middle of an event"),
    ("anthropic", b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
     "the model's server reports an error (overloaded_error): Overloaded"),
], ids=["nothing", "comment", "half-event", "event-and-a-half", "no-end", "half-event-named", "overloaded"])
def test_cut_and_retried(provider, body, message):
    """What was cut before a token is tried again, what was cut later is not."""
    with Hostile(always(head() + body)) as server:
        result = drive(settings_of(provider, server.url, LLM_MAX_RETRIES=1), ask("hello"))
        assert result.error == {"type": "LLM_UNAVAILABLE", "message": message.replace("@", server.url)}
        assert len(server.requests) == (1 if result.tokens else 2)


def test_finished_but_not_closed():
    """A server that says [DONE] and then keeps the connection open has said all."""
    def answer(connection, request, n):
        connection.sendall(head() + CHUNK + END)
        server.stopping.wait(60)

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url), ask("hello", timeout_ms=20000), ask("again", timeout_ms=20000))
        assert [d["text"] for d in result.done] == ["word ", "word "] and result.seconds < 10


def test_slow_drip():
    """A byte now and then does not keep a call alive past its time."""
    def answer(connection, request, n):
        connection.sendall(head())
        for i in range(10000):
            connection.sendall(CHUNK[i % len(CHUNK):][:1])
            if server.stopping.wait(0.02):
                return

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url), ask("hello", timeout_ms=1500))
        assert result.error == {"type": "LLM_TIMEOUT", "message": f"{server.url} did not finish its answer in time"}
        assert result.seconds < 6


@pytest.mark.parametrize("piece,kind,says", [
    (CHUNK.replace(b"word", b"word" * 100) * 20, "LLM_BAD_RESPONSE", "the text of the model's reply is larger than the limit of 1048576 bytes"),
    (b": ping\n\n" * 8192, "LLM_BAD_RESPONSE", "larger than its limit: 134217728 bytes of body"),
    (b"data: " + b"x" * 65536, "LLM_BAD_RESPONSE", "an event of the model's stream is larger than the limit of 4194304 bytes"),
    (b"data: x\n" * 8192, "LLM_BAD_RESPONSE", "an event of the model's stream is larger than the limit of 4194304 bytes"),
], ids=["text", "comments", "line", "event"])
def test_endless(piece, kind, says):
    def answer(connection, request, n):
        connection.sendall(head())
        while not server.stopping.is_set():
            connection.sendall(piece)

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url, LLM_MAX_RETRIES=0), ask("hello", timeout_ms=60000))
        assert result.error["type"] == kind and result.error["message"].endswith(says), result.error


def test_endless_headers():
    def answer(connection, request, n):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not server.stopping.is_set():
            connection.sendall(b"X-Filler: " + b"x" * 1000 + b"\r\n")

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url, LLM_MAX_RETRIES=0), ask("hello", timeout_ms=30000))
        assert result.error["type"] == "LLM_BAD_RESPONSE" and "262144 bytes of headers" in result.error["message"], result.error


def test_endless_error():
    """Of an error's body as much is read as is needed."""
    def answer(connection, request, n):
        connection.sendall(head("500 Oops", "text/plain"))
        while not server.stopping.is_set():
            connection.sendall(b"sorry " * 1000)

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url, LLM_MAX_RETRIES=0), ask("hello", timeout_ms=30000))
        assert result.error["type"] == "LLM_UNAVAILABLE" and "(HTTP 500): sorry" in result.error["message"], result.error


def test_answer_in_one_piece():
    """Some servers do not stream, whatever they are asked."""
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": "All at once.", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "run_sql", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}}).encode()
    with Hostile(always(head(content_type="application/json; charset=utf-8") + body)) as server:
        reply = drive(settings_of("openai", server.url), ask("hello")).reply
        assert reply["text"] == "All at once." and reply["stop"] == "tools" and reply["input_tokens"] == 3
    body = json.dumps({"type": "message", "content": [{"type": "text", "text": "All at once."}], "stop_reason": "end_turn"}).encode()
    with Hostile(always(head(content_type="application/json") + body)) as server:
        assert drive(settings_of("anthropic", server.url), ask("hello")).reply["text"] == "All at once."


def test_refused_parameters_are_left_out():
    """Each server refuses in its own words; what it refuses is left out, and remembered once that worked."""
    complaints = [{"error": {"message": "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."}},
                  {"error": {"message": "max_completion_tokens is too large: 4096"}},
                  {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"],
                                                              "msg": "Extra inputs are not permitted"}]}}]

    def answer(connection, request, n):
        if n < len(complaints):
            connection.sendall(head("422 Unprocessable Entity", "application/json") + json.dumps(complaints[n]).encode())
        else:
            connection.sendall(head() + CHUNK + END)

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url, OPENAI_MODEL="other"), ask("hello"), ask("again"))
        assert [d["text"] for d in result.done] == ["word ", "word "] and result.retries == []
        assert [d["attempts"] for d in result.done] == [4, 1]
        sent = [set(json.loads(r.partition(b"\r\n\r\n")[2])) for r in server.requests]
        base = {"model", "messages", "stream"}
        assert sent == [base | {"stream_options", "max_tokens"}, base | {"stream_options", "max_completion_tokens"},
                        base | {"stream_options"}, base, base]


def test_refusal_that_stays():
    with Hostile(always(head("400 Bad Request", "application/json") + b'{"error":{"message":"stream_options is forbidden"}}')) as server:
        result = drive(settings_of("openai", server.url), ask("hello"))
        assert result.error["type"] == "LLM_REJECTED" and len(server.requests) == 2


def body_of(request):
    return json.loads(request.partition(b"\r\n\r\n")[2])


RESPONSE = (b'data: {"type":"response.output_text.delta","output_index":0,"delta":"Hi."}\n\n'
            b'data: {"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":9,"output_tokens":2}}}\n\n')


def test_responses_api_where_a_server_asks_for_it():
    """A model that takes tools only by the Responses API: one refusal, then it is known."""
    def answer(connection, request, n):
        if b"POST /v1/responses" in request:
            connection.sendall(head() + RESPONSE)
        else:
            connection.sendall(head("400 Bad Request", "application/json") + json.dumps({"error": {"message": "Function tools with "
                "reasoning_effort are not supported for gpt-7 in /v1/chat/completions. To use function tools, use /v1/responses or set "
                "reasoning_effort to 'none'."}}).encode())

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url, OPENAI_MODEL="gpt-7"), ask("hello", tools=TOOLS), ask("again", tools=TOOLS))
        assert [d["text"] for d in result.done] == ["Hi.", "Hi."] and [d["attempts"] for d in result.done] == [2, 1]
        assert body_of(server.requests[1])["store"] is False and "messages" not in body_of(server.requests[1])


def test_responses_api_that_a_server_lacks():
    def answer(connection, request, n):
        if b"POST /v1/responses" in request:
            connection.sendall(head("404 Not Found", "application/json") + b'{"detail":"Not Found"}')
        elif body_of(request).get("reasoning_effort") == "none":
            connection.sendall(head() + CHUNK + END)
        else:
            connection.sendall(head("400 Bad Request", "application/json") + b'{"error":{"message":"use /v1/responses"}}')

    with Hostile(answer) as server:
        result = drive(settings_of("openai", server.url, OPENAI_MODEL="gpt-7"), ask("hello", tools=TOOLS), ask("again", tools=TOOLS))
        assert [d["text"] for d in result.done] == ["word ", "word "] and [d["attempts"] for d in result.done] == [3, 1]


def test_todays_models_are_asked_in_their_way():
    """Nothing that the newest models refuse is sent in the first place."""
    with Hostile(always(head() + CHUNK + END)) as server:
        drive(settings_of("openai", server.url), ask("hello", tools=TOOLS))
        asked = body_of(server.requests[0])
        assert asked["model"] == "gpt-6-luna" and asked["reasoning_effort"] == "none" and asked["max_completion_tokens"] == 32000
        assert "temperature" not in asked and "max_tokens" not in asked
        drive(settings_of("openai", server.url, OPENAI_MODEL="llama3.1:8b", LLM_EFFORT="low"), ask("hello", tools=TOOLS))
        asked = body_of(server.requests[1])
        assert asked["max_tokens"] == 16000 and asked["reasoning_effort"] == "low" and "temperature" not in asked
        drive(settings_of("anthropic", server.url, LLM_MAX_TOKENS=777), ask("hello"))
        asked = body_of(server.requests[2])
        assert asked["model"] == "claude-sonnet-5-5" and asked["max_tokens"] == 777 and "temperature" not in asked
        assert asked["thinking"] == {"type": "adaptive", "display": "summarized"} and asked["cache_control"] == {"type": "ephemeral"}


def test_azure():
    with Hostile(always(head() + CHUNK + END)) as server:
        drive({"LLM_PROVIDER": "openai", "OPENAI_API_KEY": Model.KEY,
               "OPENAI_BASE_URL": server.url + "/openai/deployments/mine?api-version=2025-04-01-preview"}, ask("hello"))
        line, *headers = server.requests[0].partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
        assert line == "post /openai/deployments/mine/chat/completions?api-version=2025-04-01-preview http/1.1"
        assert f"api-key: {Model.KEY}".lower() in headers and not any(h.startswith("authorization") for h in headers)
        assert any(h.startswith("user-agent: riddle/") for h in headers)


def test_what_a_server_needs_back_goes_to_no_other():
    stream = (b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm","tool_calls":[{"index":0,"id":"a","extra_content":{"google":'
              b'{"thought_signature":"s"}},"function":{"name":"run_sql","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n')
    with Hostile(always(head() + stream)) as server, Hostile(always(head() + CHUNK + END)) as other:
        settings = settings_of("openai", server.url, OPENAI_MODEL="m")
        first = drive(settings, ask("hello", tools=TOOLS)).reply
        assert first["thinking"] == "hm"
        second = {"tools": TOOLS, "messages": [{"role": "user", "content": "hello"},
                                               {"role": "assistant", "calls": first["calls"], "kept": first["kept"]},
                                               {"role": "tool", "tool_call_id": "a", "content": "1"}]}
        drive(settings, second)
        sent = body_of(server.requests[1])["messages"][1]
        assert sent["reasoning_content"] == "hm" and sent["tool_calls"][0]["extra_content"]["google"]["thought_signature"] == "s"
        drive(settings_of("openai", other.url, OPENAI_MODEL="m"), second)
        sent = body_of(other.requests[0])["messages"][1]
        assert set(sent) == {"role", "content", "tool_calls"} and set(sent["tool_calls"][0]) == {"id", "type", "function"}


@pytest.mark.parametrize("headers,status,attempts,waits", [
    (["retry-after-ms: 30"], "429 Too Many", 2, [30]), (["Retry-After: 9", "retry-after-ms: 20"], "503 No", 2, [20]),
    (["x-should-retry: false"], "500 No", 1, []), (["x-should-retry: true", "retry-after-ms: 1"], "418 No", 2, [1]),
    (["retry-after-ms: 1"], "409 Conflict", 2, [1])], ids=["ms", "ms-wins", "no", "yes", "409"])
def test_when_to_try_again(headers, status, attempts, waits):
    with Hostile(always(head(status, "application/json", *headers) + b'{"error":{"message":"no"}}')) as server:
        result = drive(settings_of("openai", server.url, LLM_MAX_RETRIES=1), ask("hello"))
        assert len(server.requests) == attempts and [r["wait_ms"] for r in result.retries] == waits and result.error


def test_call_that_groq_could_not_read():
    def refusal(generation):
        return head("400 Bad Request", "application/json") + json.dumps({"error": {
            "message": "Failed to call a function. Please adjust your prompt.", "type": "invalid_request_error", "code": "tool_use_failed",
            "failed_generation": generation}}).encode()
    with Hostile(always(refusal("<function=run_sql>{\"sql\": \"SELECT 1\"}</function>"))) as server:
        reply = drive(settings_of("openai", server.url), ask("hello", tools=TOOLS)).reply
        assert [(c["name"], c["arguments"]) for c in reply["calls"]] == [("run_sql", '{"sql":"SELECT 1"}')] and reply["stop"] == "tools"
    with Hostile(always(refusal("<function=run_sql>{{{"))) as server:
        reply = drive(settings_of("openai", server.url), ask("hello", tools=TOOLS)).reply
        assert reply["stop"] == "bad_call" and reply["text"] == "<function=run_sql>{{{" and len(server.requests) == 1


def test_request_that_is_too_long():
    with Hostile(always(head("400 Bad Request", "application/json") + b'{"error":{"message":"This model\'s maximum context length is 8192 '
                        b'tokens.","code":"context_length_exceeded"}}')) as server:
        reply = drive(settings_of("openai", server.url), ask("hello")).reply
        assert reply["stop"] == "overflow" and "8192" in reply["text"]


def test_text_that_is_no_answer():
    with Hostile(always(head(content_type="text/plain") + b"method=POST pathname=/v1")) as server:
        assert "method=POST" in drive(settings_of("openai", server.url), ask("hello")).error["message"]


def test_nobody_there():
    result = drive(settings_of("openai", "http://127.0.0.1:9", LLM_MAX_RETRIES=1), ask("hello"))
    assert result.error["type"] == "LLM_UNAVAILABLE" and len(result.retries) == 1
    assert result.error["message"].startswith("cannot connect to http://127.0.0.1:9: ")


def test_no_such_name():
    result = drive(settings_of("openai", "http://no-such-host.invalid", LLM_MAX_RETRIES=0), ask("hello", timeout_ms=20000))
    assert result.error["type"] in ("LLM_UNAVAILABLE", "LLM_TIMEOUT")


# ---- TLS, proxies ------------------------------------------------------------------------------------------------------


def test_tls_garbage():
    with Hostile(always(b"\x15\x03\x01 this is no TLS\n" * 10), reads=False) as server:
        url = server.url.replace("http:", "https:")
        result = drive(settings_of("openai", url, LLM_MAX_RETRIES=0), ask("hello", timeout_ms=10000))
        assert result.error["type"] == "LLM_BAD_RESPONSE"
        assert result.error["message"].startswith(f"no TLS connection to {url}: "), result.error


@pytest.fixture
def tls(tmp_path):
    """A certificate for 127.0.0.1 that nobody has heard of, and a server that shows it."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    class Tls(Hostile):
        def _serve(self, connection, n):
            try:
                super()._serve(context.wrap_socket(connection, server_side=True), n)
            except OSError:
                connection.close()

    with Tls(always(head() + CHUNK + END)) as server:
        server.url = server.url.replace("http:", "https:")
        yield server, cert


@pytest.mark.parametrize("setting", ["SSL_CERT_FILE", "CURL_CA_BUNDLE"])
def test_trusted_certificates(tls, setting):
    server, cert = tls
    trust = {"SSL_CERT_FILE": "", "CURL_CA_BUNDLE": ""}
    result = drive(settings_of("openai", server.url, LLM_MAX_RETRIES=0, **trust), ask("hello"))
    assert result.error["type"] == "LLM_BAD_RESPONSE"
    assert result.error["message"].startswith(f"the certificate of {server.url} is not trusted (SSL_CERT_FILE"), result.error
    assert server.requests == [], "the request, and with it the key, was sent to a server that is not trusted"
    trust[setting] = str(cert)
    assert drive(settings_of("openai", server.url, **trust), ask("hello")).reply["text"] == "word "


def test_proxy():
    """A name that only the proxy knows; loopback is not asked of it."""
    with Hostile(always(head() + CHUNK + END)) as proxy, Hostile(always(head() + CHUNK + CHUNK + END)) as direct:
        result = drive(settings_of("openai", "http://model.invalid", http_proxy=proxy.url), ask("hello"))
        assert result.reply["text"] == "word "
        assert proxy.requests[0].startswith(b"POST http://model.invalid/v1/chat/completions HTTP/1.1\r\n")
        result = drive(settings_of("openai", direct.url, http_proxy=proxy.url), ask("hello"))
        assert result.reply["text"] == "word word " and len(proxy.requests) == 1


# ---- keys and speed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider,header", [("openai", b"Authorization: Bearer "), ("anthropic", b"x-api-key: ")])
def test_key_is_in_the_header_only(provider, header):
    with Hostile(always(head("500 Oops", "text/plain") + Model.KEY.encode())) as server:
        result = drive(settings_of(provider, server.url, LLM_MAX_RETRIES=1, LOG_LEVEL="debug"), ask("hello"))
        assert len(server.requests) == 2 and result.error["message"] == f"{server.url} failed (HTTP 500): [key]"
        for request in server.requests:
            assert request.count(Model.KEY.encode()) == 1
            assert header + Model.KEY.encode() + b"\r\n" in request


def test_no_key_no_header():
    with Hostile(always(head() + CHUNK + END)) as server:
        assert drive({"OPENAI_BASE_URL": server.url + "/v1/"}, ask("hello")).reply["text"] == "word "
        assert b"authorization" not in server.requests[0].lower()
        assert server.requests[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")


def test_first_token_is_passed_on_at_once():
    """From the moment that the server has sent it until it is told. The clocks are the same: CLOCK_MONOTONIC."""
    sent = []

    def answer(connection, request, n):
        connection.sendall(head())
        if server.stopping.wait(0.02):
            return
        sent.append(time.monotonic_ns() / 1000)
        connection.sendall(CHUNK)
        server.stopping.wait(0.02)
        connection.sendall(CHUNK + END)

    with Hostile(answer) as server:
        n = 40
        result = drive(settings_of("openai", server.url), *[ask("hello")] * n)
        assert len(result.done) == n and len(result.tokens) == 2 * n
        delays = sorted(t["at_us"] - at for t, at in zip(result.tokens[::2], sent))
        print(f"first token passed on after {delays[n // 2]:.0f} us (median), {delays[-1]:.0f} us (worst of {n})")
        assert delays[n // 2] < 3000
