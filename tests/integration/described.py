"""Answers against the API description. An object that has fields in the description has no others: what is not described is a fault, so that the
description cannot fall behind the server."""

import json
import re

KINDS = {"object": dict, "array": list, "string": str, "null": type(None), "boolean": bool, "integer": int, "number": (int, float)}


class Description:
    def __init__(self, document):
        self.document = document
        self.schemas = document["components"]["schemas"]
        found = [(path, method.upper(), operation) for path, item in document["paths"].items() for method, operation in item.items()]
        found.sort(key=lambda f: f[0].count("{"))  # literal segments win over parameters
        self.operations = [(method, self.pattern(path), operation) for path, method, operation in found]

    @staticmethod
    def pattern(path):
        parts = re.split(r"\{(\w+)\}", path)
        return re.compile("".join(re.escape(p) if i % 2 == 0 else ".+" if p == "path" else "[^/]+" for i, p in enumerate(parts)))

    def operation(self, method, path):
        plain = path.split("?")[0]
        return next((o for m, pattern, o in self.operations if m == method and pattern.fullmatch(plain)), None)

    def schema(self, operation, status, kind="application/json"):
        return self.content(operation, status).get(kind, {}).get("schema")

    def content(self, operation, status):
        answer = operation["responses"].get(str(status), {})
        if "$ref" in answer:
            answer = self.document["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
        return answer.get("content", {})

    def misfit(self, method, path, status, body):
        """What of a JSON answer is not as described; None when all is. A file may be JSON without being described as such."""
        operation = self.operation(method, path)
        content = operation and self.content(operation, status)
        if not content:
            return f"{operation['operationId']}: {status} is not described" if operation and 200 <= status < 300 else None
        if "application/json" not in content:
            return None
        schema = content["application/json"]["schema"]
        trouble = self.fault(schema, json.loads(body), "")
        return trouble and f"{operation['operationId']} {status}: {trouble}"

    def event_misfit(self, data):
        """What of an event is not as described; None when it fits one of the schemas of events with its type."""
        named = {name: schema for name, schema in self.schemas.items() if name.endswith("Event") and "properties" in schema
                 and data.get("type") in schema["properties"]["type"]["enum"]}
        faults = {name: self.fault(schema, data, "") for name, schema in named.items()}
        return None if None in faults.values() else f"event {json.dumps(data)[:300]}: {faults}"

    def fault(self, schema, value, where):
        if "$ref" in schema:
            return self.fault(self.schemas[schema["$ref"].rsplit("/", 1)[1]], value, where)
        if "anyOf" in schema:
            faults = [self.fault(s, value, where) for s in schema["anyOf"]]
            return None if None in faults else max(faults, key=lambda f: f.split(" ")[0].count("."))  # of the alternative that fits best
        if "enum" in schema:
            return None if value in schema["enum"] else f"{where or 'it'} is {value!r}, not one of {schema['enum']}"
        kinds = schema.get("type")
        if kinds is None:
            return None
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(isinstance(value, KINDS[k]) and (k == "boolean" or not isinstance(value, bool)) for k in kinds):
            return f"{where or 'it'} is {json.dumps(value)[:80]}, not {' or '.join(kinds)}"
        if isinstance(value, list) and "items" in schema:
            return next((f for i, v in enumerate(value) if (f := self.fault(schema["items"], v, f"{where}[{i}]"))), None)
        if isinstance(value, dict):
            return self.object_fault(schema, value, where)
        return None

    def object_fault(self, schema, value, where):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        missing = [name for name in schema.get("required", ()) if name not in value]
        if missing:
            return f"{where or 'it'} has no {', '.join(missing)}"
        for name, member in value.items():
            if name in fields:
                fault = self.fault(fields[name], member, f"{where}.{name}")
            elif others is None and fields:
                fault = f"{where}.{name} is not described"
            else:
                fault = self.fault(others, member, f"{where}.{name}") if isinstance(others, dict) else None
            if fault:
                return fault
        return None
