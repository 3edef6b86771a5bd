"""The API description: well-formed, whole, and true. Every route that it names is asked with bodies and parameters that break it."""

import copy
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from api import refused, run_body
from described import Description

try:
    from jsonschema import Draft202012Validator
except ImportError:
    Draft202012Validator = None

needs_jsonschema = pytest.mark.skipif(Draft202012Validator is None, reason="python3-jsonschema is not installed")

# What a good body says where the description gives no example of it.
GOOD = {
    "createRun": run_body("ecommerce", "SELECT 1 AS one"),
    "streamRun": run_body("ecommerce", "SELECT 1 AS one"),
    "describeDataset": {"notes": ["Prices are in dollars."]},
    "compilePlan": {"plan": {"dataset_id": "ecommerce", "table": "orders"}},
    "chat": {"dataset_id": "ecommerce", "message": "how many orders are there?"},
    "chatStream": {"dataset_id": "ecommerce", "message": "how many orders are there?"},
    "createThread": {"datasets": ["ecommerce"]},
    "editThread": {"title": "orders", "pinned": True},
    "checkpointThread": {"name": "before"},
    "rollbackThread": {"checkpoint": "0a1b2c3d"},
    "importMessages": {"messages": [{"role": "user", "content": "earlier"}]},
    "checkpointSandbox": {"name": "before"},
    "rollbackSandbox": {"checkpoint": "0a1b2c3d"},
    "addThreadData": {"data": ["ecommerce"]},
    "changeData": {"name": "walked.csv"},
    "clearSessionFiles": {"session_id": "session-1"},
    "sendMessage": {"message": "SQL: SELECT 1 AS one"},
    "streamMessage": {"message": "SQL: SELECT 1 AS one"},
    "executeInThread": {"language": "sql", "code": "SELECT 1 AS one"},
    "streamExecuteInThread": {"language": "sql", "code": "SELECT 1 AS one"},
    "createSandbox": {"max_memory_mb": 128},
    "executeInSandbox": {"code": "1 + 1"},
    "debugInSandbox": {"code": "1 + 1"},
    "commandDebugger": {"command": "state"},
    "offerDebugger": {"code": "1", "path": "/x.py"},
    "answerThreadInput": {"text": "x"},
    "answerSandboxInput": {"text": "x"},
    "streamExecuteInSandbox": {"code": "1 + 1"},
    "quickExecute": {"code": "1 + 1"},
    "getProcessorTemplate": {"processor_type": "data_processor"},
    "queryDatabase": {"query": "SELECT 1 AS one"},
    "querySandboxDatabase": {"query": "SELECT 1 AS one"},
}
# Good bodies that a thread without variables refuses.
WITHOUT_A_KERNEL = {"answerThreadInput": 409, "answerSandboxInput": 409, "checkpointThread": 409, "rollbackThread": 404, "checkpointSandbox": 409, "rollbackSandbox": 404}


@pytest.fixture(scope="module")
def document(shared):
    answer = shared.get("/openapi.json")
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    return answer.json


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method.upper(), operation


def resolve(document, reference):
    found = document
    for step in reference.removeprefix("#/").split("/"):
        found = found[step.replace("~1", "/").replace("~0", "~")]
    return found


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


@needs_jsonschema
def test_it_is_openapi_31(document):
    schema = json.loads((Path(__file__).parent / "openapi31.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    found = [f"{'/'.join(map(str, e.absolute_path))}: {e.message}" for e in Draft202012Validator(schema).iter_errors(document)]
    assert found == []


def test_version_and_routes(document):
    assert document["openapi"].startswith("3.1.")
    routes = {(method, path) for path, method, _ in operations(document)}
    assert {("POST", "/runs"), ("GET", "/runs"), ("POST", "/runs/stream"), ("GET", "/runs/{run_id}"), ("DELETE", "/runs/{run_id}"),
            ("GET", "/runs/{run_id}/status"), ("POST", "/plans/compile"), ("GET", "/datasets"), ("GET", "/datasets/{dataset_id}/schema"),
            ("POST", "/upload"), ("GET", "/uploads/{file_id}"), ("GET", "/healthz"), ("GET", "/metrics")} <= routes


def test_operation_ids_are_unique(document):
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))


def test_references_resolve(document):
    found = set(references(document))
    assert len(found) > 10
    for reference in found:
        assert isinstance(resolve(document, reference), dict), reference


def test_path_parameters_are_those_of_the_path(document):
    for path, method, operation in operations(document):
        named = [p["name"] for p in operation.get("parameters", []) if p["in"] == "path"]
        assert sorted(re.findall(r"\{(\w+)\}", path)) == sorted(named), f"{method} {path}"


def test_tags_are_declared(document):
    declared = {tag["name"] for tag in document["tags"]}
    assert {tag for _, _, operation in operations(document) for tag in operation["tags"]} == declared


@needs_jsonschema
def test_every_schema_is_one(document):
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        for example in schema.get("examples", []):
            validate(document, schema, example, name)
        for field, inner in schema.get("properties", {}).items():
            for value in inner.get("examples", []) + ([inner["default"]] if "default" in inner else []):
                validate(document, inner, value, f"{name}.{field}")


def validate(document, schema, value, what):
    whole = {**schema, "components": document["components"]}  # so that references are found
    problems = [f"{what} {list(e.absolute_path)}: {e.message}" for e in Draft202012Validator(whole).iter_errors(value)]
    assert problems == []


# ---- answers are as described: Server.call checks each ----


def test_every_success_is_described(document):
    described = Description(document)
    for path, method, operation in operations(document):
        statuses = [s for s in operation["responses"] if s < "300" and s not in ("101", "204")]
        assert statuses or "101" in operation["responses"]
        for status in statuses:
            kinds = list(operation["responses"][status]["content"])
            assert len(kinds) == 1 and described.schema(operation, status, kinds[0]) is not None, f"{method} {path} {status}"


def test_what_is_not_described_is_found(document):
    described = Description(document)
    good = {"thread_id": "a", "stopped": 1}

    def misfit(value):
        return described.misfit("POST", "/thread/a/stop", 200, json.dumps(value))
    assert misfit(good) is None
    assert misfit({**good, "more": 1}) == "stopThread 200: .more is not described"
    assert misfit({"thread_id": "a"}) == "stopThread 200: it has no stopped"
    assert misfit({**good, "stopped": True}) == "stopThread 200: .stopped is true, not integer"
    assert misfit([good]) == f"stopThread 200: it is {json.dumps([good])}, not object"


def test_every_type_is_used(document):
    used = {reference.rsplit("/", 1)[1] for reference in references(document)}
    assert set(document["components"]["schemas"]) <= used


@pytest.mark.parametrize("method, path, status", [("GET", "/runs/nosuch", 404), ("GET", "/datasets/nosuch/schema", 404),
                                                  ("DELETE", "/runs/nosuch", 404), ("GET", "/runs?limit=x", 422)])
def test_errors_fit_their_description(shared, document, method, path, status):
    described = Description(document)
    assert described.schema(described.operation(method, path), status)
    assert shared.call(method, path).status == status


# ---- the walk: every JSON body, made wrong in one place at a time ----


def with_json_body(document):
    for path, method, operation in operations(document):
        media = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if media:
            schema = media["schema"]
            yield path, method, operation, resolve(document, schema["$ref"]) if "$ref" in schema else schema


SAMPLES = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": [], "null": None}


def types_of(schema):
    found = schema.get("type", list(SAMPLES))
    return [found] if isinstance(found, str) else found


def wrong_values(document, schema):
    """(what is wrong, value) for each way to break this one schema."""
    if "$ref" in schema:
        schema = {**resolve(document, schema["$ref"]), **{k: v for k, v in schema.items() if k != "$ref"}}
    allowed = types_of(schema)
    for kind, sample in SAMPLES.items():
        if kind not in allowed and not (kind == "integer" and "number" in allowed):
            yield f"is {kind}", sample
    if "integer" in allowed and "number" not in allowed:
        yield "is no whole number", 1.5
        yield "is beyond any integer", 10**30
    if "enum" in schema:
        yield "is no choice", "nosuchchoice"
    if "minimum" in schema:
        yield "is below the minimum", schema["minimum"] - 1
    if "maximum" in schema:
        yield "is above the maximum", schema["maximum"] + 1
    if schema.get("minLength"):
        yield "is too short", "x" * (schema["minLength"] - 1)
    if "maxLength" in schema:
        yield "is too long", "x" * (schema["maxLength"] + 1)
    if schema.get("minItems"):
        yield "has too few", []
    if "maxItems" in schema:
        yield "has too many", [None] * (schema["maxItems"] + 1)


def wrong_bodies(document, schema, good):
    for field in schema.get("required", []):
        body = copy.deepcopy(good)
        del body[field]
        yield f"{field} is missing", body
    for field, inner in schema["properties"].items():
        for what, value in wrong_values(document, inner):
            yield f"{field} {what}", {**good, field: value}
    for value in ([], "x", 1, True, None, [good]):
        yield f"{json.dumps(value)[:20]} is no object", value


def test_every_json_body_made_wrong(shared, document):
    walked = {}
    assert shared.post("/thread/new", {"thread_id": "walked", "datasets": ["ecommerce"]}).status == 200
    data_id = shared.upload(("walk.csv", "a\n1\n")).json["files"][0]["file_id"]
    sandbox = shared.post("/sandbox/create", {}).json["sandbox_id"]
    for path, method, operation, schema in with_json_body(document):
        name = operation["operationId"]
        path = path.replace("{thread_id}", "walked").replace("{data_id}", data_id).replace("{dataset_id}", "ecommerce")
        path = path.replace("{sandbox_id}", sandbox)
        path = path.replace("{name}", "files")
        good = GOOD[name]  # a route without one is to get one here
        assert "nosuchfield" not in schema["properties"] and set(good) <= set(schema["properties"])
        headers = {"Content-Type": "application/json"}
        for what, body in wrong_bodies(document, schema, good):
            answer = shared.call(method, path, json.dumps(body), headers)
            assert answer.status in (400, 413, 415, 422), f"{name}: {what}: {answer.status} {answer.body[:500]}"
            assert str(answer.status) in operation["responses"]
            refused(answer, answer.status, answer.json["error"]["type"])
            walked[name] = walked.get(name, 0) + 1
        text = json.dumps(good)
        for what, raw in (("empty", b""), ("cut", text[:-1]), ("two", text + text), ("no UTF-8", b'{"\xc3\x28": 1}'), ("NUL", text + "\0"),
                          ("NaN", text[:-1] + ', "x": NaN}'), ("deep", "[" * 100000), ("number", text[:-1] + f', "x": {"9" * 5000}}}'),
                          ("twice", text[:-1] + "," + text[1:])):
            if what == "empty" and not operation["requestBody"]["required"]:
                continue
            answer = shared.call(method, path, raw, headers)
            assert (answer.status, answer.json["error"]["type"]) == (400, "INVALID_JSON"), f"{name}: {what}: {answer.body[:500]}"
            refused(answer, 400, "INVALID_JSON")
        assert shared.call(method, path, text, {"Content-Type": "text/csv"}).status == 415
        # And the good one is good; fields that nobody knows are taken unless the description says otherwise.
        fine = 404 if "{debug_id}" in path else WITHOUT_A_KERNEL.get(name, 200)  # nothing is being debugged
        unknown = 422 if schema.get("additionalProperties") is False else fine
        assert shared.call(method, path, json.dumps({**good, "nosuchfield": {"a": [1]}}), headers).status == unknown, name
        assert shared.call(method, path, text, headers).status == fine, name
    assert walked["createRun"] > 40 and walked["streamRun"] == walked["createRun"] and walked["compilePlan"] > 10


def test_the_message_names_the_place(shared):
    good = GOOD["createRun"]
    for change, message in (({"max_rows": 0}, "'max_rows' must be an integer between 1 and 1000, not 0"),
                            ({"dataset_id": 7}, "'dataset_id' must be a string, not 7"),
                            ({"query_type": "sqll"}, "'query_type' must be one of \"sql\", \"plan\", \"python\", not \"sqll\"")):
        assert refused(shared.post("/runs", {**good, **change}), 422, "VALIDATION_ERROR") == message


def test_every_parameter_made_wrong(shared, document):
    walked = 0
    for path, method, operation in operations(document):
        if method != "GET":
            continue
        for parameter in operation.get("parameters", []):
            for what, value in wrong_values(document, parameter["schema"]):
                if what.startswith("is ") and what[3:] in SAMPLES and parameter["schema"].get("type") == "string":
                    continue  # any text is a string
                text = value if isinstance(value, str) else json.dumps(value)
                if parameter["in"] == "path":
                    if not text:
                        continue  # another path
                    url = path.replace("{" + parameter["name"] + "}", quote(text, safe=""))
                else:
                    url = re.sub(r"\{\w+\}", "x", path) + f"?{parameter['name']}={quote(text, safe='')}"
                answer = shared.get(url)
                if what == "is integer" and parameter["schema"].get("type") == "boolean" and text in ("0", "1"):
                    continue  # these are understood
                assert answer.status == 422, f"{method} {url[:200]}: {what}: {answer.status}"
                refused(answer, 422, "VALIDATION_ERROR")
                walked += 1
    assert walked > 15


def test_no_route_fails_without_anything(shared, document):
    """Every route, asked with nothing in hand, says what is wrong or answers; none breaks."""
    for path, method, operation in operations(document):
        answer = shared.call(method, re.sub(r"\{\w+\}", "nosuch", path))
        assert answer.status < 500, f"{method} {path}: {answer.body[:500]}"
        assert str(answer.status) in operation["responses"], f"{method} {path}: {answer.status}"
