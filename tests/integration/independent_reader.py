"""A second reader of models' answers, written from the providers' documents and from nothing of riddle's: what tests compare with."""

import json
import re

THINK = re.compile(r"\A\s*<(think|thinking|thought)>(.*?)(?:</\1>\s*|\Z)", re.S)


def surrogates(text):
    """JSON may have half a character; what cannot be UTF-8 is U+FFFD."""
    return re.sub("[\ud800-\udfff\x00]", "\ufffd", text)


def events_of(data):
    """The events of a stream: (name, data)."""
    out, name, lines = [], "", []
    for line in re.split(r"\r\n|\r|\n", data.decode("utf-8", "replace").lstrip("\ufeff")):
        if not line:
            if lines:
                out.append((name, "\n".join(lines)))
            name, lines = "", []
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "event":
                name = value
            elif field == "data":
                lines.append(value)
    return out


def parsed(text):
    return json.loads(text, strict=False)


class Answer:
    def __init__(self):
        self.text, self.thinking, self.calls, self.error = "", "", [], None

    def finish(self):
        while True:
            found = THINK.match(self.text)
            if not found:
                break
            self.thinking += found[2]
            self.text = self.text[found.end():]
        self.text, self.thinking = surrogates(self.text), surrogates(self.thinking)
        return self

    def seen(self):
        """What riddle must have found."""
        return {"text": self.text, "calls": [(c["name"], arguments(c["arguments"])) for c in self.calls]}


def arguments(text):
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def error_of(body):
    body = body[0] if isinstance(body, list) and body else body
    error = body.get("error") if isinstance(body, dict) else None
    if error:
        return error.get("message") if isinstance(error, dict) else str(error)
    if isinstance(body, dict) and body.get("object") == "error":
        return body.get("message")
    return None


def texts(content):
    if isinstance(content, str):
        return content, ""
    text = thinking = ""
    for part in content or []:
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            thinking += inner if isinstance(inner, str) else "".join(p.get("text", "") for p in inner or [])
        else:
            text += part.get("text") or ""
    return text, thinking


def read_chat(bodies, member):
    answer, calls = Answer(), {}
    if member == "message" and "choices" not in bodies[0] and not error_of(bodies[0]):
        answer.error = ""  # no answer of a model
        return answer
    for body in bodies:
        error = error_of(body)
        if error:
            answer.error = error
            return answer
        for choice in body.get("choices") or []:
            if choice.get("index", 0) != 0:
                continue
            m = choice.get(member) or {}
            text, thinking = texts(m.get("content"))
            answer.text += text
            reasoning = m.get("reasoning_content")
            answer.thinking += (reasoning if isinstance(reasoning, str) else m.get("reasoning") or "") + thinking
            answer.text += m.get("refusal") or ""
            for i, c in enumerate(m.get("tool_calls") or []):
                f, index = c.get("function") or {}, c.get("index")
                key = (index if index is not None else ("n", len(calls) if c.get("id") else len(calls) - 1), c.get("id") or None)
                if key[1] is None:
                    same = [k for k in calls if k[0] == key[0]]
                    key = same[-1] if same else key
                call = calls.setdefault(key, {"id": c.get("id"), "name": "", "arguments": ""})
                if f.get("name") and f["name"] != call["name"]:
                    call["name"] += f["name"]
                piece = f.get("arguments")
                call["arguments"] += piece if isinstance(piece, str) else json.dumps(piece) if isinstance(piece, dict) else ""
    answer.calls = [{**c, "arguments": c["arguments"] or "{}"} for c in calls.values()]
    return answer.finish()


def read_anthropic(bodies, is_stream):
    answer, blocks = Answer(), {}
    for body in bodies:
        error = error_of(body)
        if error:
            answer.error = error
            return answer
        if not is_stream:
            blocks = {i: dict(b, json=json.dumps(b.get("input", {}))) for i, b in enumerate(body.get("content") or [])}
        elif body.get("type") == "content_block_start":
            blocks[body["index"]] = dict(body["content_block"], json="")
        elif body.get("type") == "content_block_delta":
            block, delta = blocks[body["index"]], body["delta"]
            if delta["type"] == "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
            elif delta["type"] == "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            elif delta["type"] == "input_json_delta":
                block["json"] += delta["partial_json"]
        if body.get("type") == "message_stop":
            break  # some recordings have the next answer behind it
    for block in blocks.values():
        if block["type"] == "text":
            answer.text += block.get("text", "")
        elif block["type"] == "thinking":
            answer.thinking += block.get("thinking", "")
        elif block["type"] == "tool_use":
            answer.calls.append({"id": block["id"], "name": block["name"], "arguments": block["json"] or json.dumps(block.get("input") or {})})
    return answer.finish()


def read_responses(bodies):
    answer = Answer()
    response = bodies[-1] if len(bodies) == 1 and bodies[0].get("object") == "response" else None
    for body in bodies:
        if body.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            response = body["response"]
            break
        elif body.get("type") == "error":
            answer.error = body.get("message") or error_of(body)
            return answer
    error = error_of(response or {})
    if error:
        answer.error = error
        return answer
    for item in (response or {}).get("output") or []:
        if item["type"] == "message":
            for part in item["content"]:
                answer.text += part.get("text") or part.get("refusal") or ""
        elif item["type"] == "reasoning":
            answer.thinking += "".join(p.get("text", "") for p in (item.get("summary") or []) + (item.get("content") or []))
        elif item["type"] == "function_call":
            answer.calls.append({"id": item["call_id"], "name": item["name"], "arguments": item["arguments"] or "{}"})
    return answer.finish()


def protocol_of(form, data):
    """The protocol of a recording, whose index tells only whose form it is."""
    if form != "openai":
        return form
    compact = data[:4000].replace(b" ", b"")
    return "openai-responses" if b'"type":"response.' in compact or b'"object":"response"' in compact else "openai"


def read(protocol, data, is_stream):
    if is_stream:
        bodies = [parsed(d) for _, d in events_of(data) if d.strip() != "[DONE]"]
    else:
        bodies = [parsed(data.decode("utf-8", "replace"))]
    if protocol == "anthropic":
        return read_anthropic(bodies, is_stream)
    if protocol == "openai-responses":
        return read_responses(bodies)
    return read_chat(bodies, "delta" if is_stream else "message")
