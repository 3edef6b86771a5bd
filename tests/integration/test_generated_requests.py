"""Requests made from the API description, valid and not: none ends in an error of the server that it does not declare, and every answer
is one that the description has. A small number every day; RIDDLE_GENERATED of them with `make check-long`."""

import http.client
import json
import os
import random
import re
from urllib.parse import quote

import pytest
from api import QUICK, make_set
from server import BOUNDARY, FORM_TYPE, Server, description, form

EVERY_DAY = 1500
SEED = int(os.environ.get("RIDDLE_SEED", "20240607"))

WORDS = ["", "a", "shop", "sales", "SELECT 1 AS one", "SELECT * FROM sales", "how many sales are there?", "SQL: SELECT 1", "x" * 300,
         "ä€😀", "../../etc/passwd", "%00", "'; DROP TABLE sales; --", "\x7f", "null", "0", "-1", "2024-01-01", "true", "\u202e"]
NUMBERS = [0, 1, -1, 2, 10, 100, 10_000, 2**31, 2**53, 2**63, -2**63, 0.5, -0.5, 1e308, 1e-308]


class Maker:
    """Values of a schema, or nearly."""

    def __init__(self, document, seed):
        self.document = document
        self.random = random.Random(seed)

    def resolve(self, schema):
        while "$ref" in schema:
            found = self.document
            for step in schema["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            schema = found
        return schema

    def anything(self, depth=0):
        pick = self.random.randrange(8 if depth < 3 else 5)
        if pick == 0:
            return None
        if pick == 1:
            return self.random.choice([True, False])
        if pick == 2:
            return self.random.choice(NUMBERS)
        if pick in (3, 4):
            return self.random.choice(WORDS)
        if pick == 5:
            return [self.anything(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.random.choice(WORDS) or "k": self.anything(depth + 1) for _ in range(self.random.randrange(4))}

    def value(self, schema, wrong, depth=0):
        schema = self.resolve(schema)
        if (wrong and self.random.random() < 0.3) or depth > 6:
            return self.anything(depth)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self.value(self.random.choice(schema[several]), wrong, depth + 1)
        if "enum" in schema and self.random.random() < 0.95:
            return self.random.choice(schema["enum"])
        if "examples" in schema and self.random.random() < 0.7:
            return self.random.choice(schema["examples"])
        kinds = schema.get("type", "string")
        kind = self.random.choice(kinds) if isinstance(kinds, list) else kinds
        if kind == "object":
            required = set(schema.get("required", ()))
            names = [n for n in schema.get("properties", {}) if n in required or self.random.random() < 0.4]
            return {n: self.value(schema["properties"][n], wrong, depth + 1) for n in names
                    if not (wrong and self.random.random() < 0.1)}
        if kind == "array":
            n = self.random.randrange(int(schema.get("minItems", 0)), int(schema.get("minItems", 0)) + 3)
            return [self.value(schema.get("items", {}), wrong, depth + 1) for _ in range(n)]
        if kind in ("integer", "number"):
            low, high = schema.get("minimum", -100), schema.get("maximum", 1000)
            return self.random.choice([low, high, self.random.randint(int(low), int(min(high, low + 1000)))])
        if kind == "boolean":
            return self.random.choice([True, False])
        if kind == "null":
            return None
        return self.random.choice(WORDS)


class Caller:
    def __init__(self, server, document, seed):
        self.server, self.document = server, document
        self.make = Maker(document, seed)
        self.random = self.make.random
        self.operations = [(path, method.upper(), op) for path, item in document["paths"].items() for method, op in item.items()]
        self.ids = ["shop", "0123456789ab", "00000000-0000-4000-8000-000000000000"]

    def parameter(self, schema, wrong):
        if self.random.random() < 0.5:
            return self.random.choice(self.ids)
        value = self.make.value(schema, wrong)
        return value if isinstance(value, str) else json.dumps(value)

    def request(self):
        path, method, op = self.random.choice(self.operations)
        while path == "/doctor" and self.random.random() < 0.95:  # on a busy machine its checks take a minute
            path, method, op = self.random.choice(self.operations)
        wrong = self.random.random() < 0.5
        target, query = path, []
        for p in op.get("parameters", ()):
            p = self.make.resolve(p)
            text = quote(self.parameter(p.get("schema", {}), wrong), safe="")
            if p["in"] == "path":
                target = target.replace("{%s}" % p["name"], text or "x")
            elif p.get("required") or self.random.random() < 0.4:
                query.append(f"{p['name']}={text}")
        target = re.sub(r"\{[^}]*\}", "x", target) + ("?" + "&".join(query) if query else "")
        body, headers = None, {}
        content = op.get("requestBody", {}).get("content", {})
        if "multipart/form-data" in content:
            field = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="session_id"\r\n\r\ns1\r\n'.encode()
            text = self.random.choice(["id,n\n1,2\n", "", "x", "a,b\n1\n", '[{"a": 1}]', "\x00\x01"])
            body = (field if self.random.random() < 0.5 else b"") + form((self.random.choice(["a.csv", "b.json", "c.bin", "ä.csv"]), text))
            headers = {"Content-Type": FORM_TYPE if not wrong or self.random.random() < 0.7 else "text/plain"}
        elif "application/json" in content:
            value = self.make.value(content["application/json"]["schema"], wrong)
            for name in ("timeout_seconds", "timeout"):
                if isinstance(value, dict) and name in value:
                    value[name] = 2
            if isinstance(value, dict) and "dataset_id" in value and self.random.random() < 0.8:
                value["dataset_id"] = "shop"
            body = json.dumps(value)
            if wrong and self.random.random() < 0.1:
                body = body[:len(body) // 2]
            headers = {"Content-Type": "application/json"}
        return path, method, op, target, body, headers

    def one(self):
        """What is wrong with the answer to one request; None when nothing is."""
        path, method, op, target, body, headers = self.request()
        what = f"{method} {target[:300]} {str(body)[:600]}"
        try:
            answer = self.server.plain_call(method, target, body, headers)
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            return f"{what}: no answer: {error!r}"
        declared = op.get("responses", {})
        if str(answer.status) not in declared and "default" not in declared:
            return f"{what}: {answer.status} is not described: {answer.body[:300]}"
        kind = answer.headers.get("content-type", "").split(";")[0]
        if answer.status >= 500 and answer.status not in (502, 503, 504):
            return f"{what}: {answer.status}: {answer.body[:300]}"
        if kind == "application/json":
            try:
                value = answer.json
            except ValueError as error:
                return f"{what}: no JSON: {error}"
            trouble = description().misfit(method, target, answer.status, answer.body)
            if trouble:
                return f"{what}: {trouble}"
            for key in ("file_id", "thread_id", "run_id"):
                if isinstance(value, dict) and isinstance(value.get(key), str) and len(self.ids) < 200:
                    self.ids.append(value[key])
        return None


@pytest.mark.parametrize("n", [EVERY_DAY, pytest.param(int(os.environ.get("RIDDLE_GENERATED", "200000")),
                                                       marks=[pytest.mark.long, pytest.mark.limit(7200)])])
def test_generated_requests(tmp_path, n):
    server = Server(tmp_path, **QUICK, RUN_TIMEOUT_SECONDS=2, AGENT_TIMEOUT_SECONDS=10)
    make_set(server)
    with server:
        document = server.get("/openapi.json").json
        caller = Caller(server, document, SEED)
        troubles = [t for t in (caller.one() for _ in range(n)) if t]
        assert not troubles, f"{len(troubles)} of {n}:\n" + "\n".join(troubles[:20])
        assert server.get("/healthz").status == 200
        assert server.stop() == 0
