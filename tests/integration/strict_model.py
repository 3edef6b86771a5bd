"""A model's server that validates requests as providers do: what each refuses by its documents or by reports of users, it refuses here, in
the provider's own words and shape. Its "model" follows a small script: two parallel calls of which one fails, a plot, a follow-up.

    server = StrictModel()
    settings = server.settings("deepseek", "deepseek-v4-flash")   # a row of PROVIDERS
    …
    server.refused                                                # [(provider, status, reason)]
"""

import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-strict-0123456789"
GOOD = {"sql": "SELECT region, sum(amount) AS total FROM sales GROUP BY region ORDER BY total DESC"}
BAD = {"sql": "SELECT nope FROM sales"}
PLOT = {"code": "import matplotlib.pyplot as plt\nplt.bar(['a'], [1])\nplt.show()"}

CHAT_MEMBERS = {"model", "messages", "stream", "tools", "tool_choice", "stream_options", "max_tokens", "max_completion_tokens", "reasoning_effort"}
MESSAGE_MEMBERS = {"role", "content", "tool_calls", "tool_call_id", "name"}


class Refusal(Exception):
    def __init__(self, message, status=400, **more):
        super().__init__(message)
        self.message, self.status, self.more = message, status, more


def require(condition, message, status=400, **more):
    if not condition:
        raise Refusal(message, status, **more)


# ---- the script ----

def step_of(questions, last_question, results):
    """What the model says: words, and calls."""
    if "plot" in last_question:
        return ("Drawn.", []) if results else ("", [("run_python", PLOT)])
    if "again" in last_question or questions > 2:
        return "As I said, East leads with 45.", []
    return ("East leads with 45.", []) if results else ("Let me look.", [("run_sql", GOOD), ("run_sql", BAD)])


# ---- Chat Completions ----

def check_history(messages, pairs=True):
    """Every call is answered once, right behind it; arguments are JSON objects; nothing is empty."""
    open_calls = []
    for i, m in enumerate(messages):
        if m["role"] == "tool":
            require(m.get("tool_call_id") in open_calls, f"messages[{i}]: tool_call_id does not belong to a preceding message with tool_calls")
            open_calls.remove(m["tool_call_id"])
            require(isinstance(m["content"], str), f"messages[{i}].content must be a string for role tool")
            continue
        require(not open_calls, f"An assistant message with 'tool_calls' must be followed by tool messages: {open_calls}")
        if m["role"] == "assistant":
            for call in m.get("tool_calls") or []:
                try:
                    arguments = json.loads(call["function"]["arguments"])
                except ValueError:
                    arguments = None
                require(isinstance(arguments, dict), "Failed to parse tool call arguments as JSON", 500 if pairs == "llama" else 400)
                open_calls.append(call["id"])
            require(m.get("content") or m.get("tool_calls"), f"messages[{i}]: content is required")
        else:
            require(m.get("content"), f"messages[{i}]: content must not be empty")
    require(not open_calls, f"tool_calls without an answer: {open_calls}")


def plain_message_members(messages, more=()):
    for i, m in enumerate(messages):
        extra = set(m) - MESSAGE_MEMBERS - set(more)
        require(not extra, f"'messages.{i}' : property '{(list(extra) or [''])[0]}' is unsupported", param=f"messages.{i}")


def no_temperature(body):
    require("temperature" not in body, "Unsupported value: 'temperature' does not support 0 with this model.", param="temperature")


def openai_chat(body, state):
    no_temperature(body)
    extra = set(body) - CHAT_MEMBERS
    require(not extra, f"Unknown parameter: {extra}")
    plain_message_members(body["messages"])
    model = body["model"]
    if re.match(r"gpt-[56]|o\d|mine", model):
        require("max_tokens" not in body, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
    if re.match(r"gpt-6-astra|gpt-6\.1", model):
        require(not body.get("tools"), f"Function tools are not supported with {model} in /v1/chat/completions. Please use /v1/responses.")
    if re.match(r"gpt-5\.6|gpt-6|mine", model) and body.get("tools"):
        require(body.get("reasoning_effort") == "none", f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
                "To use function tools, use /v1/responses or set reasoning_effort to 'none'.", param="reasoning_effort")
    if model.startswith("gpt-4"):
        require("reasoning_effort" not in body, "Unrecognized request argument supplied: reasoning_effort")


def needs_reasoning(words):
    def check(body, state):
        no_temperature(body)
        for i, m in enumerate(body["messages"]):
            if m["role"] == "assistant" and m.get("tool_calls"):
                require("reasoning_content" in m, words.format(i))
                issued = state["reasoning"].get(m["tool_calls"][0]["id"])
                require(issued in (None, m["reasoning_content"]), words.format(i))
    return check


def gemini(body, state):
    last_user = max(i for i, m in enumerate(body["messages"]) if m["role"] == "user" and isinstance(m["content"], str))
    for i, m in enumerate(body["messages"]):
        if m["role"] == "assistant" and m.get("tool_calls"):
            signature = ((m["tool_calls"][0].get("extra_content") or {}).get("google") or {}).get("thought_signature")
            require(signature, "Function call is missing a thought_signature in functionCall parts.")
            require(i < last_user or signature in state["signatures"], "Thought signature is not valid.")
    for tool in body.get("tools") or []:
        require(tool["function"]["parameters"].get("properties"), f"{tool['function']['name']}: parameters.properties: should be non-empty for OBJECT type")


def mistral(body, state):
    require("stream_options" not in body, "Extra inputs are not permitted", 422, loc=["body", "stream_options"])
    require("reasoning_effort" not in body, "Extra inputs are not permitted", 422, loc=["body", "reasoning_effort"])
    for i, m in enumerate(body["messages"]):
        extra = set(m) - MESSAGE_MEMBERS
        require(not extra, "Extra inputs are not permitted", 422, loc=["body", "messages", i, *extra])
        for call in m.get("tool_calls") or []:
            require(re.fullmatch(r"[A-Za-z0-9]{9}", call["id"]), f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9.")
        if i > 0 and m["role"] == "user":
            require(body["messages"][i - 1]["role"] != "tool", "Unexpected role 'user' after role 'tool'")


def groq(body, state):
    plain_message_members(body["messages"], ["reasoning"])
    if not state["failed"]:
        state["failed"] = True
        raise Refusal("Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.", code="tool_use_failed",
                      failed_generation="<function=run_sql>{{not json}</function>", counts=False)


def openrouter(body, state):
    no_temperature(body)
    for m in body["messages"]:
        if m["role"] == "assistant" and m.get("tool_calls") and m["tool_calls"][0]["id"] in state["reasoning"]:
            details = m.get("reasoning_details")
            require(details and details[0].get("text") == state["reasoning"][m["tool_calls"][0]["id"]] and details[0].get("signature"),
                    "Provider returned error", metadata={"raw": json.dumps({"error": {"message": "reasoning_details must be passed back"}})})


def alternating(body, state):
    """Templates of local models: no two messages of a person in a row, no images."""
    roles = [m["role"] for m in body["messages"] if m["role"] != "system"]
    for a, b in zip(roles, roles[1:]):
        require(not (a == b == "user"), "Conversation roles must alternate user/assistant/user/assistant/...", 500)
    require("image_url" not in json.dumps(body["messages"]), "image input is not supported - hint: you may need to provide the mmproj", 500)


def vllm(body, state):
    require(body.get("max_tokens", 0) <= 8192, f"'max_tokens' or 'max_completion_tokens' is too large: {body.get('max_tokens')}. This model's maximum "
            "context length is 8192 tokens and your request has 1200 input tokens.")
    alternating(body, state)


def anything(body, state):
    pass


# ---- Responses ----

def check_responses(body, state):
    require("messages" not in body and "temperature" not in body and "max_tokens" not in body, "Unknown parameter")
    require(body.get("store") is False, "this organization stores nothing: store must be false")
    open_calls, reasoning = [], None
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "reasoning":
            require(item.get("encrypted_content") in state["signatures"], "Item with id not found. Items are not persisted when `store` is set to false.",
                    404)
            reasoning = item["encrypted_content"]
        elif kind == "function_call":
            require(isinstance(json.loads(item["arguments"]), dict), "arguments must be an object")
            require(item["call_id"] not in state["reasoning"] or reasoning == state["reasoning"][item["call_id"]],
                    "Item of type 'function_call' was provided without its required 'reasoning' item.")
            open_calls.append(item["call_id"])
        elif kind == "function_call_output":
            require(item["call_id"] in open_calls, "No tool call found for function call output")
            open_calls.remove(item["call_id"])
        else:
            reasoning = None if item["role"] == "user" else reasoning
            require(item["role"] in ("user", "assistant", "system", "developer") and item["content"], "content is required")
    require(not open_calls, f"No tool output found for function call {open_calls}")
    for tool in body.get("tools") or []:
        require(tool["type"] == "function" and tool["name"] and "parameters" in tool, "Missing required parameter: 'tools[0].name'")
    if body["model"].startswith("gpt-4"):
        require("include" not in body, "Encrypted content is not supported with this model.")


# ---- Anthropic ----

def check_anthropic(body, state):
    model = body["model"]
    newest = re.match(r"claude-(opus-4-[78]|\w+-5)", model)
    require(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    require("temperature" not in body or not newest, "`temperature` is deprecated for this model.")
    require("thinking" not in body or newest, "adaptive thinking is not supported on this model")
    require(body.get("tool_choice", {}).get("type") not in ("any", "tool") or not newest, "Forced tool use is not supported")
    wanted, last = [], "assistant"
    for i, m in enumerate(body["messages"]):
        require(m["role"] != last, f"messages: roles must alternate between \"user\" and \"assistant\", at {i}")
        last = m["role"]
        require(m["content"], f"messages.{i}: all messages must have non-empty content")
        kinds = [b["type"] for b in m["content"]]
        if m["role"] == "user":
            given = [b["tool_use_id"] for b in m["content"] if b["type"] == "tool_result"]
            require(given == wanted, f"messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {wanted}")
            require(kinds == sorted(kinds, key=lambda k: k != "tool_result"), "tool_result blocks must come first")
        wanted = [b["id"] for b in m["content"] if b["type"] == "tool_use"]
        for b in m["content"]:
            require(b["type"] != "text" or b["text"].strip(), "messages: text content blocks must be non-empty")
            require(b["type"] != "thinking" or b.get("signature") in state["signatures"], "Invalid `signature` in `thinking` block")
        signed = [state["reasoning"][w] for w in wanted if w in state["reasoning"]]
        this_turn = i > max(k for k, x in enumerate(body["messages"]) if x["role"] == "user" and any(b["type"] == "text" for b in x["content"]))
        if signed and newest and this_turn:
            require(kinds[0] == "thinking" and m["content"][0]["signature"] == signed[0],
                    "`thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were.")


# ---- rows: provider → how it is spoken to, what it refuses, how it answers ----

PROVIDERS = {
    "openai": {"form": "responses", "provider": "openai-responses", "check": check_responses},
    "openai-chat": {"form": "chat", "check": openai_chat, "also_responses": True},
    "azure": {"form": "chat", "check": openai_chat, "also_responses": True, "header": "api-key", "path": "/mine.openai.azure.com/openai/v1"},
    "azure-dated": {"form": "chat", "check": openai_chat, "header": "api-key", "path": "/openai/deployments/mine",
                    "query": "api-version=2025-04-01-preview"},
    "anthropic": {"form": "anthropic", "check": check_anthropic, "header": "x-api-key"},
    "gemini": {"form": "chat", "check": gemini, "style": "gemini"},
    "deepseek": {"form": "chat", "check": needs_reasoning("The reasoning_content in the thinking mode must be passed back to the API. ({})"),
                 "style": "reasoning"},
    "moonshot": {"form": "chat", "style": "reasoning",
                 "check": needs_reasoning("thinking is enabled but reasoning_content is missing in assistant tool call message at index {}")},
    "mistral": {"form": "chat", "check": mistral, "path": "/api.mistral.ai/v1", "style": "mistral"},
    "groq": {"form": "chat", "check": groq},
    "openrouter": {"form": "chat", "check": openrouter, "style": "openrouter"},
    "together": {"form": "chat", "check": anything, "style": "seed"},
    "xai": {"form": "chat", "check": lambda body, state: plain_message_members(body["messages"])},
    "ollama": {"form": "chat", "check": anything, "style": "text"},
    "vllm": {"form": "chat", "check": vllm, "style": "think"},
    "llamacpp": {"form": "chat", "check": alternating, "pairs": "llama"},
    "lmstudio": {"form": "chat", "check": alternating},
}


def sse(events, named=False):
    lines = [(f"event: {e['type']}\n" if named else "") + "data: " + (e if isinstance(e, str) else json.dumps(e)) + "\n\n" for e in events]
    return "".join(lines).encode()


class StrictModel:
    def __init__(self):
        self.refused, self.asked, self.states = [], [], {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with model.lock:
                    status, kind, data = model.answer(self.path, self.headers, body)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def settings(self, provider, model):
        row = PROVIDERS[provider]
        base = f"http://127.0.0.1:{self.server.server_port}/{provider}"
        if row["form"] == "anthropic":
            return {"LLM_PROVIDER": "anthropic", "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": model}
        query = "?" + row["query"] if "query" in row else ""
        return {"LLM_PROVIDER": row.get("provider", "openai"), "OPENAI_BASE_URL": base + row.get("path", "/v1") + query, "OPENAI_API_KEY": KEY,
                "OPENAI_MODEL": model}

    # -- requests --

    def answer(self, path, headers, body):
        provider = path.split("/")[1]
        row = PROVIDERS[provider]
        state = self.states.setdefault(provider + " " + body["model"], {"reasoning": {}, "signatures": set(), "failed": False})
        self.asked.append((provider, path, body))
        try:
            require(headers.get(row.get("header", "Authorization"), "").endswith(KEY), "no key", 401)
            require("query" not in row or path.endswith("?" + row["query"]), "api-version is required", 404)
            end = path.partition("?")[0].rsplit("/", 1)[1]
            if end == "responses":
                require(row["form"] == "responses" or row.get("also_responses"), "Not Found", 404)
                check_responses(body, state)
                return 200, "text/event-stream", self.responses(body, state)
            if end == "messages":
                check_anthropic(body, state)
                return 200, "text/event-stream", self.anthropic(body, state)
            require(end == "completions" and row["form"] == "chat", "Not Found", 404)
            row["check"](body, state)
            check_history(body["messages"], row.get("pairs", True))
            return 200, "text/event-stream", self.chat(body, state, row.get("style"))
        except Refusal as r:
            if r.more.pop("counts", True):
                self.refused.append((provider, r.status, r.message))
            return r.status, "application/json", json.dumps(self.refusal(provider, r)).encode()

    @staticmethod
    def refusal(provider, r):
        if provider == "gemini":
            return [{"error": {"code": r.status, "message": r.message, "status": "INVALID_ARGUMENT"}}]
        if r.status == 422:
            return {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "msg": r.message, **r.more}]}, "code": None}
        if provider == "anthropic":
            return {"type": "error", "error": {"type": "invalid_request_error", "message": r.message}}
        return {"error": {"message": r.message, "type": "invalid_request_error", **r.more}}

    # -- answers --

    @staticmethod
    def where(messages):
        """Questions so far, the last one, and whether results stand behind it; of any form."""
        asked = [(i, t) for i, m in enumerate(messages) for t in [StrictModel.words(m)] if m.get("role") == "user" and t]
        i, last = asked[-1]
        rest = messages[i + 1:]
        results = any(m.get("role") == "tool" or m.get("type") == "function_call_output" or
                      (isinstance(m.get("content"), list) and any(b.get("type") == "tool_result" for b in m["content"])) for m in rest)
        return len(asked), last.rsplit("</data>", 1)[-1], results

    @staticmethod
    def words(m):
        content = m.get("content")
        if isinstance(content, str):
            return content if "could not be read" not in content else ""
        texts = [b.get("text", "") for b in content or [] if b.get("type") == "text"]
        return "" if any(b.get("type") == "image_url" for b in content or []) else "".join(texts)

    def chat(self, body, state, style):
        text, calls = step_of(*self.where(body["messages"]))

        def chunk(finish=None, **d):
            return {"choices": [{"index": 0, "delta": d, "finish_reason": finish}]}
        ids = [f"{next(self.numbers):09d}" if style == "mistral" else f"call_{next(self.numbers)}" for _ in calls]
        thought = f"thought {next(self.numbers)}"
        events = []
        if style == "reasoning":
            events += [chunk(role="assistant", content=None, reasoning_content=thought[:4]), chunk(reasoning_content=thought[4:])]
        elif style == "openrouter":
            events += [": OPENROUTER PROCESSING", chunk(reasoning=thought[:3], reasoning_details=[{"type": "reasoning.text", "text": thought[:3], "index": 0}]),
                       chunk(reasoning_details=[{"type": "reasoning.text", "text": thought[3:], "signature": "sig", "index": 0}])]
        elif style == "think":
            text = f"<think>\nMaybe SELECT 1\n</think>\n\n{text}"
        if ids:
            state["reasoning"][ids[0]] = thought if style in ("reasoning", "openrouter") else None
        if style == "text" and calls:
            events += [chunk(content=json.dumps({"name": name, "arguments": arguments}) + "\n") for name, arguments in calls]
            calls = []
        else:
            events += [chunk(content=piece) for piece in re.findall(r".{1,9}", text, re.S)]
        for i, (name, arguments) in enumerate(calls):
            call = {"index": i, "id": ids[i], "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            if style == "gemini":
                call.update(index=0, id="")
                if i == 0:
                    state["signatures"].add(thought)
                    call["extra_content"] = {"google": {"thought_signature": thought}}
            events.append(chunk(tool_calls=[call]))
        last = chunk("tool_calls" if calls else "stop")
        if style == "seed":
            last["choices"][0]["seed"] = 14836394043272784000 + next(self.numbers)
        events += [last, {"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 100}}}]
        out = b"".join(e.encode() + b"\n\n" if isinstance(e, str) else sse([e]) for e in events)
        return out + b"data: [DONE]\n\n"

    def responses(self, body, state):
        text, calls = step_of(*self.where(body["input"]))
        signature, items, events = f"encrypted {next(self.numbers)}", [], []
        if not body["model"].startswith("gpt-4"):
            state["signatures"].add(signature)
            items.append({"type": "reasoning", "id": f"rs_{next(self.numbers)}", "summary": [], "encrypted_content": signature})
        if text:
            items.append({"type": "message", "id": f"msg_{next(self.numbers)}", "role": "assistant", "status": "completed",
                          "content": [{"type": "output_text", "text": text, "annotations": []}]})
        for name, arguments in calls:
            call_id = f"call_{next(self.numbers)}"
            if not body["model"].startswith("gpt-4"):
                state["reasoning"][call_id] = signature
            items.append({"type": "function_call", "id": f"fc_{next(self.numbers)}", "call_id": call_id, "name": name, "status": "completed",
                          "arguments": json.dumps(arguments)})
        for i, item in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": i, "item": {**item, "content": [], "arguments": ""}})
            if item["type"] == "message":
                events += [{"type": "response.output_text.delta", "output_index": i, "delta": p} for p in re.findall(r".{1,9}", text, re.S)]
            events.append({"type": "response.output_item.done", "output_index": i, "item": item})
        events.append({"type": "response.completed", "response": {"object": "response", "status": "completed", "error": None, "output": items, "usage": {
            "input_tokens": 900, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 9}}})
        return sse(events, named=True)

    def anthropic(self, body, state):
        text, calls = step_of(*self.where(body["messages"]))
        signature, blocks = f"signed {next(self.numbers)}", []
        if "thinking" in body:
            state["signatures"].add(signature)
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": "Let me "}, {"type": "thinking_delta", "thinking": "see."}, {"type": "signature_delta", "signature": signature}]))
        if text:
            blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in re.findall(r".{1,9}", text, re.S)]))
        for name, arguments in calls:
            call_id = f"toolu_{next(self.numbers)}"
            if "thinking" in body:
                state["reasoning"][call_id] = signature
            blocks.append(({"type": "tool_use", "id": call_id, "name": name, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]))
        events = [{"type": "message_start", "message": {"usage": {"input_tokens": 100, "cache_read_input_tokens": 800, "output_tokens": 1}}}, {"type": "ping"}]
        for i, (block, deltas) in enumerate(blocks):
            events += [{"type": "content_block_start", "index": i, "content_block": block}]
            events += [{"type": "content_block_delta", "index": i, "delta": d} for d in deltas] + [{"type": "content_block_stop", "index": i}]
        events += [{"type": "message_delta", "delta": {"stop_reason": "tool_use" if calls else "end_turn"}, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
        return sse(events, named=True)
