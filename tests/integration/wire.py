"""The wire's messages (docs/wire.md), for tests that speak to a kernel themselves."""

import json
import re
import struct
from pathlib import Path

VERSION = int(re.search(r"#define WIRE_VERSION (\d+)", (Path(__file__).parents[2] / "src/sandbox/wire.h").read_text())[1])
NAMES = ("none join start exec ingest list read write interrupt reply bytes ready failed result ingested listed piece "
         "written display progress ask image imaged").split()

START = {"dataset_id": None, "mounts": [], "tables": [], "memory_bytes": 512 << 20, "workspace_bytes": 64 << 20, "tmp_bytes": 64 << 20,
         "inodes": 4096, "file_bytes": 64 << 20, "pids": 64, "open_files": 256, "threads": 1, "interrupts": False, "python_allowed": "",
         "python_blocked": ""}


def message(name, number=0, /, **body):
    text = json.dumps(body).encode() if body else b""
    return struct.pack("<IIB3x", len(text), number, NAMES.index(name)) + text


def execute(number, kind, code):
    return message("exec", number, kind=kind, code=code, restricted=False, svg=False, max_rows=200, max_bytes=65536)


def messages(data):
    """Whole messages as [{"message", "id", …members}], and the bytes that are left."""
    found = []
    while len(data) >= 12 and len(data) >= 12 + struct.unpack("<I", data[:4])[0]:
        length, number, kind = struct.unpack("<IIB3x", data[:12])
        body = data[12:12 + length]
        found.append({"message": NAMES[kind], "id": number, **({"data": body} if NAMES[kind] == "bytes" else json.loads(body or b"{}"))})
        data = data[12 + length:]
    return found, data
