"""The agent with a model over real HTTP: tools, recovery, and every way in which a model can fail; the thread goes on after each."""

import json
import random
import threading
import time

import pytest

from api import QUICK, metric, wait_for_metric
from scripted_model import Raw, ScriptedModel, calls, delta, stream_bytes, text
from server import Server, read_events
from test_chat import SALES, new_thread, say, stream, unanswered

SQL = "SELECT region, sum(amount) AS total FROM sales GROUP BY region ORDER BY total DESC"


@pytest.fixture(scope="module")
def model():
    m = ScriptedModel()
    yield m
    m.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory, model):
    directory = tmp_path_factory.mktemp("agent")
    (directory / "datasets" / "sales").mkdir(parents=True)
    (directory / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(directory, **QUICK, **model.settings, AGENT_TIMEOUT_SECONDS=20, LLM_TIMEOUT_SECONDS=3, LLM_MAX_RETRIES=1) as s:
        yield s
    assert "very-secret" not in s.log.read_text()


@pytest.fixture
def thread(server):
    return new_thread(server)


def usable(server, model, thread):
    model.says(text("Fine."))
    assert say(server, thread, "are you there?")["response"] == "Fine."


def tool_answers(model, i=-1):
    return [m for m in model.requests[i]["body"]["messages"] if m["role"] == "tool"]


def test_answer_in_words(server, model, thread):
    model.says(text("Hello", " there."))
    answer = say(server, thread, "hi")
    assert answer["response"] == "Hello there." and answer["status"] == "succeeded" and answer["openai_calls"] == 1
    assert answer["usage"]["input_tokens"] == 100 and answer["usage"]["output_tokens"] == 10 and answer["usage"]["cost_usd"] > 0
    request = model.requests[0]
    assert request["headers"]["Authorization"] == "Bearer sk-very-secret-0123"
    system, first = request["body"]["messages"]
    assert system["role"] == "system" and "sales" not in system["content"] and time.strftime("%Y-%m-%d", time.gmtime()) in system["content"]
    assert first["role"] == "user" and first["content"].startswith("<data>\n") and first["content"].endswith("\n</data>\n\nhi")
    assert "Table sales (4 rows)" in first["content"] and '"North"' in first["content"]
    assert {t["function"]["name"] for t in request["body"]["tools"]} == {"run_sql", "run_python", "describe_table", "find_values", "show_chart",
                                                                          "ask_person"}
    capsule = server.get(f"/runs/{answer['run_id']}").json
    assert capsule["usage_json"]["model"] == answer["model"] and capsule["query_mode"] == "chat"


def test_tools_are_used_and_their_results_told(server, model, thread):
    model.says(calls(("run_sql", {"sql": SQL}), ("run_python", {"code": "n = len(sales)\nn"}), ("describe_table", {"table": "sales"}),
                     ("list_files", {}), say="Let me look."),
               calls(("run_plan", {"plan": {"table": "sales", "select": [{"func": "max", "column": "amount", "alias": "most"}]}})),
               text("East leads with 45 of 105."))
    with stream(server, f"/thread/{thread}/message/stream", {"message": "which region leads?"}) as events:
        events = list(events)
    of = lambda kind: [data for name, data in events if name == kind]
    assert [e["name"] for e in of("tool_call")] == ["run_sql", "run_python", "describe_table", "list_files", "run_plan"]
    assert [e["language"] for e in of("code_run")] == ["sql", "python", "plan"]
    assert "".join(e["text"] for e in of("token")) == "Let me look.\n\nEast leads with 45 of 105."
    done = of("done")[0]
    assert done["response"] == "East leads with 45 of 105." and done["openai_calls"] == 3 and len(done["timings_ms"]["openai_per_call"]) == 3
    assert done["timings_ms"]["ttft"] >= done["timings_ms"]["ttft_saved"] >= 0
    assert done["result"]["rows"] == [[45]] and "flagged" not in done
    said = tool_answers(model, 1)
    assert [m["tool_call_id"] for m in said] == ["call_0", "call_1", "call_2", "call_3"]
    assert '["East",45]' in said[0]["content"] and "4" in said[1]["content"] and "- amount " in said[2]["content"]
    assert "/data/sales.csv" in said[3]["content"]
    usable(server, model, thread)


def test_history_and_variables_go_on(server, model, thread):
    model.says(calls(("run_python", {"code": "kept = 99"})), text("Done."))
    say(server, thread, "remember something")
    model.says(calls(("run_python", {"code": "print(kept)"})), text("It is 99."))
    answer = say(server, thread, "what was it?")
    assert answer["code_runs"][0]["output"] == "99\n"
    said = model.requests[0]["body"]["messages"]
    assert [m["role"] for m in said] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert said[1]["content"].endswith("</data>\n\nremember something") and said[5]["content"] == "what was it?"
    call = said[2]["tool_calls"][0]
    assert call["function"]["name"] == "run_python" and "kept = 99" in json.loads(call["function"]["arguments"])["code"]
    assert said[3]["tool_call_id"] == call["id"] and said[4]["content"] == "Done." and "[I ran" not in json.dumps(said)


def test_errors_go_back_and_the_model_recovers(server, model, thread):
    model.says(calls(("run_sql", {"sql": "SELECT nope FROM sales"})), calls(("run_sql", {"sql": "DROP TABLE sales"})),
               calls(("no_such_tool", {})), calls(("run_python", {"code": "1/0"})),
               calls(("run_plan", {"plan": {"table": "sales", "select": [{"func": "bogus", "column": "amount", "alias": "x"}]}})),
               calls(("run_sql", {"sql": "SELECT * FROM sales WHERE region = 'Nowhere'"})), calls(("run_sql", {"sql": SQL})),
               text("East has 45."))
    answer = say(server, thread, "try hard")
    assert answer["status"] == "succeeded" and answer["result"]["rows"][0] == ["East", 45] and answer["response"] == "East has 45."
    last = [m["content"] for m in tool_answers(model)]
    assert "nope" in last[0] and "SELECT" in last[1] and "no_such_tool" in last[2] and "run_sql" in last[2]
    assert "ZeroDivisionError" in last[3] and "bogus" in last[4] and "no rows" in last[5]


def test_figures_from_nowhere_are_flagged(server, model, thread):
    model.says(calls(("run_sql", {"sql": SQL})), text("East has 45, and profit was 98,765."))
    answer = say(server, thread, "which region leads?")
    assert [f["text"] for f in answer["flagged"]] == ["98,765"]


def test_code_in_words_is_run(server, model, thread):
    model.says(text("Here you go:\n```sql\nSELECT count(*) AS n FROM sales\n```"))
    answer = say(server, thread, "how many?")
    assert answer["result"]["rows"] == [[4]] and answer["details"]["query_mode"] == "sql" and "4" in answer["response"]
    model.says(text(json.dumps({"parsed": {"query_mode": "plan", "assistant_message": "ok", "plan": {
        "dataset_id": "sales", "table": "sales", "select": [{"func": "sum", "column": "amount", "alias": "s"}]}}})))
    assert say(server, thread, "sum?")["result"]["rows"] == [[105]]


@pytest.mark.parametrize("arguments", ['```json\n{"sql": "SELECT 1 AS one"}\n```', '{"sql": "SELECT 1 AS one",}', '"{\\"sql\\": \\"SELECT 1 AS one\\"}"',
                                       '"SELECT 1 AS one"'])
def test_arguments_are_coerced_where_the_meaning_is_certain(server, model, thread, arguments):
    model.says(calls(("run_sql", arguments)), text("One."))
    assert say(server, thread, "one?")["result"]["rows"] == [[1]]


def test_unreadable_arguments_lead_to_the_rescue(server, model, thread):
    def answer(body):
        return text("SELECT 7 AS seven") if not body.get("tools") else calls(("run_sql", "{{{{ not json"))
    model.says(answer)
    result = say(server, thread, "seven?")
    assert result["result"]["rows"] == [[7]] and result["openai_calls"] == 3
    assert "nothing else" in model.requests[-1]["body"]["messages"][0]["content"]


def test_draft_without_its_code_leads_to_the_rescue(server, model, thread):
    draft = {"query_mode": "plan", "assistant_message": "Here are the sales."}
    model.says(lambda body: text(json.dumps(draft)) if body.get("tools") else text("SELECT 9 AS nine"))
    answer = say(server, thread, "please vrint the zorp")
    assert answer["result"]["rows"] == [[9]] and answer["openai_calls"] == 2 and "query_mode" not in answer["response"]
    model.says(lambda body: text(json.dumps(draft)))
    assert unanswered(server, thread, "please vrint the zorp")["error"]["type"] == "LLM_UNAVAILABLE"
    usable(server, model, thread)


def test_rescue_that_fails_is_told(server, model, thread):
    model.says(lambda body: text("I like turtles.") if not body.get("tools") else calls(("run_sql", "{{{{")))
    failure = unanswered(server, thread, "please vrint the zorp")
    assert failure["status"] == "rejected" and failure["error"]["type"] == "LLM_UNAVAILABLE" and "SQL:" in failure["detail"]
    usable(server, model, thread)


def test_refusal(server, model, thread):
    model.says([delta(refusal="I can't help with that."), delta(finish="stop")])
    answer = say(server, thread, "do something bad")
    assert answer["status"] == "rejected" and "can't help" in answer["response"] and answer["result"]["error"]["type"] == "MODEL_REFUSAL"
    usable(server, model, thread)


def test_empty_answers(server, model, thread):
    model.says(text(), text("Now in words."))
    assert say(server, thread, "hm?")["response"] == "Now in words."
    model.says(text())
    assert "empty" in unanswered(server, thread, "vrint the zorp")["detail"]
    model.says(calls(("run_sql", {"sql": SQL})), text())
    answer = say(server, thread, "regions?")
    assert answer["status"] == "succeeded" and "45" in answer["response"]  # summed up without the model
    usable(server, model, thread)


def test_cut_answer_is_said_to_be_cut(server, model, thread):
    model.says(text("It is", finish="length"))
    answer = say(server, thread, "tell me")
    assert answer["response"].startswith("It is") and "token limit" in answer["response"] and answer["warning"]


def test_busy_model_is_tried_again(server, model, thread):
    busy = Raw(b'{"error": {"message": "slow down"}}', status=429, headers={"Retry-After": "0"}, content_type="application/json")
    model.says(busy, text("After all."))
    with stream(server, f"/thread/{thread}/message/stream", {"message": "hello"}) as events:
        events = list(events)
    assert events[-1][1]["response"] == "After all."
    assert any(name == "progress" and data["stage"] == "waiting" and "http" not in data["text"] for name, data in events)
    model.says(Raw(b"oops", status=500, content_type="text/plain"), text("Again."))
    assert say(server, thread, "hello")["response"] == "Again."


FAILURES = {
    "always 500": Raw(b"{}", status=500, content_type="application/json"),
    "always 429": Raw(b"{}", status=429, headers={"Retry-After": "0"}, content_type="application/json"),
    "401": Raw(b'{"error": {"message": "bad key sk-very-secret-0123"}}', status=401, content_type="application/json"),
    "malformed": Raw(b"data: {\"choices\": [{\"delta\": {\n\n"),
    "no events": Raw(b"", content_type="text/event-stream"),
    "wrong type": Raw(b"<html>hello</html>", content_type="text/html"),
    "error event": Raw(stream_bytes([{"error": {"message": "overloaded", "type": "server_error"}}], done=False)),
    "cut": Raw(b"data: {\"choi", cut=True),
    "binary": Raw(bytes(range(256)) * 50),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_failing_model_is_told_and_the_planner_helps(server, model, thread, kind):
    model.says(FAILURES[kind])
    failure = unanswered(server, thread, "please vrint the zorp")
    assert failure["error"]["type"].startswith("LLM_"), failure
    assert "very-secret" not in json.dumps(failure) and "127.0.0.1" not in json.dumps(failure)
    model.says(FAILURES[kind])
    answer = say(server, thread, "total amount by region")  # plain enough to need no model
    assert answer["status"] == "succeeded" and sorted(answer["result"]["rows"])[0] == ["East", 45] and "planner" in answer["warning"]
    usable(server, model, thread)


def test_stream_cut_after_words(server, model, thread):
    model.says(Raw(stream_bytes([delta("The answer is ")], done=False), cut=True))
    with stream(server, f"/thread/{thread}/message/stream", {"message": "what?"}) as events:
        events = list(events)
    names = [name for name, _ in events]
    assert names.count("token") == 1 and names[-1] == "error" and events[-1][1]["error"]["type"] == "LLM_UNAVAILABLE"
    usable(server, model, thread)


def test_failure_after_a_result_keeps_the_result(server, model, thread):
    model.says(calls(("run_sql", {"sql": SQL})), FAILURES["always 500"])
    answer = say(server, thread, "regions?")
    assert answer["status"] == "succeeded" and answer["result"]["rows"][0] == ["East", 45] and "could not finish" in answer["warning"]


def test_slow_model_times_out(server, model, thread):
    hold = threading.Event()
    model.says(Raw(b": wait\n\n", hold=hold))
    begun = time.monotonic()
    failure = unanswered(server, thread, "please vrint the zorp")
    hold.set()
    assert failure["error"]["type"] in ("LLM_TIMEOUT", "TIMEOUT") and time.monotonic() - begun < 15
    usable(server, model, thread)


def test_endless_tools_are_bounded(server, model, thread):
    model.says(calls(("run_sql", {"sql": "SELECT 1 AS one"})))
    answer = say(server, thread, "go on forever")
    assert answer["openai_calls"] == 10 and answer["status"] == "succeeded" and "AGENT_MAX_CALLS" in answer["warning"]
    assert model.requests[-1]["body"]["tool_choice"] == "none"


def test_stop_hangs_up_on_the_model(server, model, thread):
    hold = threading.Event()
    model.says(Raw(stream_bytes([delta("Thinking")], done=False), hold=hold))
    with stream(server, f"/thread/{thread}/message/stream", {"message": "slow"}) as events:
        for name, data in events:
            if name == "token":
                assert server.post(f"/thread/{thread}/stop", {}).json == {"thread_id": thread, "stopped": 1}
    assert name == "done" and data["status"] == "cancelled"
    hold.set()
    assert model.closed.wait(10)
    usable(server, model, thread)


def test_turn_goes_on_without_its_client_and_can_be_followed(server, model, thread):
    hold = threading.Event()
    model.says(Raw(stream_bytes([delta("Half of it")], done=False), hold=hold, rest=stream_bytes([delta(", and the rest.")])))
    with stream(server, f"/thread/{thread}/message/stream", {"message": "slow"}) as events:
        for name, _ in events:
            if name == "token":
                break
    connection = server.connect()
    connection.request("GET", f"/thread/{thread}/turn/stream", headers=server.headers())
    seen = []
    for name, data in read_events(connection.getresponse()):
        seen.append((name, data))
        hold.set()
    connection.close()
    assert seen[0][0] == "status" and seen[0][1]["stage"] == "following" and seen[0][1]["message"] == "slow"
    assert "".join(d["text"] for n, d in seen if n == "token") == "Half of it, and the rest."
    assert seen[-1][0] == "done" and seen[-1][1]["run_id"] == seen[0][1]["run_id"] and seen[-1][1]["status"] == "succeeded"
    assert server.get(f"/thread/{thread}/history").json["messages"][-1]["content"] == "Half of it, and the rest."


def test_figures_and_files_are_part_of_the_answer(server, model, thread):
    code = "import matplotlib.pyplot as plt\nplt.bar(['a'], [1]); plt.show()\nopen('/workspace/out.csv', 'w').write('x\\n1\\n')"
    model.says(calls(("run_python", {"code": code})), text("Drawn."))
    answer = say(server, thread, "draw")
    assert answer["images"][0]["png"].startswith("iVBOR") and [f["path"] for f in answer["files"]] == ["out.csv"]


def test_usage_is_counted(server, model, thread):
    before = metric(server, "riddle_llm_tokens_total", direction="in") or 0
    model.says(text("Hi."))
    say(server, thread, "hi")
    assert metric(server, "riddle_llm_tokens_total", direction="in") == before + 100


# ---- a model's server written by others ----

AIMOCK = [
    {"match": {"userMessage": "which region", "hasToolResult": False},
     "response": {"content": "Let me look.", "toolCalls": [{"id": "call_a", "name": "run_sql", "arguments": {"sql": SQL}},
                                                           {"id": "call_b", "name": "run_python", "arguments": {"code": "top = sales.amount.max()\ntop"}}]}},
    {"match": {"userMessage": "which region", "hasToolResult": True}, "response": {"content": "East leads with 45."}},
    {"match": {"userMessage": "remember", "hasToolResult": False},
     "response": {"toolCalls": [{"id": "call_c", "name": "run_python", "arguments": {"code": "print(top)"}}]}},
    {"match": {"userMessage": "remember", "hasToolResult": True}, "response": {"content": "It was 45."}},
    {"match": {"userMessage": "hello"}, "response": {"content": "Hi."}},
]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_both_protocols_by_aimock(start_model, tmp_path, provider):
    model = start_model(AIMOCK)
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(tmp_path, **QUICK, **getattr(model, provider)(), LLM_MAX_RETRIES=1) as server:
        thread = new_thread(server)
        with stream(server, f"/thread/{thread}/message/stream", {"message": "which region leads?"}) as events:
            events = list(events)
        names, done = [name for name, _ in events], events[-1][1]
        assert names.count("tool_call") == 2 and names.count("code_run") == 2 and names[-1] == "done"
        assert done["response"] == "East leads with 45." and done["openai_calls"] == 2 and "flagged" not in done
        answer = say(server, thread, "what did you remember?")
        assert answer["code_runs"][0]["output"] == "45\n" and answer["response"] == "It was 45."
        for chaos in ({"malformedRate": 1}, {"disconnectRate": 1}, {"rateLimitRate": 1}, {"dropRate": 1}):
            model.chaos(**chaos)
            failed = unanswered(server, thread, "hello vrint zorp")
            assert failed["error"]["type"].startswith("LLM_"), (chaos, failed)
            model.chaos()
            assert say(server, thread, "hello")["response"] == "Hi.", chaos
        assert say(server, thread, "PYTHON: top")["result"]["rows"] == [[45]]
        for status in (500, 429, 529):
            model.fail_once(status)
            assert say(server, thread, "hello")["response"] == "Hi."
    assert model.KEY not in server.log.read_text()


# ---- streams that make no sense ----

def spoilt(rng):
    """A stream that was good once: bytes flipped, cut, doubled, lost; fields of other types; numbers that are none."""
    good = rng.choice([text("Hello", " there."), calls(("run_sql", {"sql": "SELECT 1 AS one"})), calls(("run_python", {"code": "1"}), ("list_files", {})),
                       [delta("a"), delta(tool_calls=[{"index": rng.choice([0, -1, 99, 1 << 60, "0", None])}]), delta(finish="stop")]])
    data = bytearray(stream_bytes(good, done=rng.random() < 0.5))
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randrange(1, 40)]
        elif kind == 2:
            data[at:at] = data[at:at + rng.randrange(1, 80)]
        elif kind == 3:
            data[at:at] = rng.choice([b"\n\n", b"data: ", b"[DONE]", b"null", b"{", b"}", b"\x00", b"1e999", b'"', b"event: error\n", b"\xff\xfe"])
        elif kind == 4:
            data = bytearray(bytes(data).replace(b'"index": 0', rng.choice([b'"index": null', b'"index": {}', b'"index": 1e30'])))
        else:
            data = bytearray(bytes(data).replace(b'"content"', b'"contents"').replace(b'"arguments": "', b'"arguments": ["'))
    return Raw(bytes(data), cut=rng.random() < 0.2, status=rng.choice([200] * 9 + [206]))


def run_spoilt(tmp_path, model, n):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    settings = {**QUICK, **model.settings, "LLM_MAX_RETRIES": 0, "LLM_TIMEOUT_SECONDS": 5, "AGENT_MAX_CALLS": 3}
    with Server(tmp_path, **settings) as server:
        threads = [new_thread(server) for _ in range(4)]
        failures = []

        def chat(k, count):
            for i in range(count):
                answer = server.post(f"/thread/{threads[k]}/message", {"message": f"vrint {i} zorp"})
                if answer.status not in (200, 500) or answer.json["status"] not in ("succeeded", "failed", "rejected", "timed_out"):
                    failures.append((k, i, answer.status, answer.body[:500]))
                    return
        rng = random.Random(4711)
        lock = threading.Lock()

        def step(_):
            with lock:
                return spoilt(rng)
        model.says(step)
        workers = [threading.Thread(target=chat, args=(k, n // 4)) for k in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        assert not failures, failures[:3]
        for thread in threads:
            usable(server, model, thread)
            assert say(server, thread, "PYTHON: 20 + 1")["result"]["rows"] == [[21]]
        assert server.process.poll() is None
    assert "Sanitizer" not in server.log.read_text()


def test_spoilt_streams_leave_every_thread_usable(tmp_path, model):
    run_spoilt(tmp_path, model, 1000)


@pytest.mark.long
def test_ten_thousand_spoilt_streams(tmp_path, model):
    run_spoilt(tmp_path, model, 10000)
