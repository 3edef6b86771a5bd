"""Recorded answers of real servers, read by riddle and by a second reader: text and calls must be the same, however the stream is cut.

The recordings are not part of the repository: RIDDLE_RECORDINGS names their folder (with index.jsonl), else ../shared/data beside the project.
"""

import json
import os
import subprocess
from pathlib import Path

import independent_reader
import pytest
from conftest import BUILD

ROOT = Path(__file__).resolve().parent.parent.parent
BESIDE = [Path(os.environ.get("RIDDLE_RECORDINGS", "/nowhere")), ROOT.parent / "shared/data/model-recordings",
          ROOT.parent.parent / "shared/data/model-recordings"]
FOLDER = next((p for p in BESIDE if (p / "index.jsonl").is_file()), None)
SPLITS = 100
WHOLE_BYTES = 32000  # a stream of up to so many is cut at every byte by the long test …
LONG_SPLITS = 3000  # … and a longer one, which takes a time that grows with its square, in so many places
needs_recordings = pytest.mark.skipif(FOLDER is None, reason="no recordings beside the project (RIDDLE_RECORDINGS)")


@needs_recordings
def test_every_recording_is_read_as_a_second_reader_does(capsys):
    compare(lambda data: SPLITS, capsys)


@needs_recordings
@pytest.mark.long
@pytest.mark.limit(3600)
def test_recordings_cut_at_every_byte(capsys):
    compare(lambda data: len(data) + 1 if len(data) <= WHOLE_BYTES else LONG_SPLITS, capsys)


def compare(splits, capsys):
    """Each stream is also read byte by byte, whatever splits says."""
    rows, lines = [], []
    for row in map(json.loads, (FOLDER / "index.jsonl").read_text().splitlines()):
        data = (FOLDER / row["file"]).read_bytes()
        is_stream = row["content_type"].startswith("text/event-stream") or data.lstrip()[:5] in (b"data:", b"event")
        protocol = independent_reader.protocol_of(row["protocol"], data)
        rows.append((row, data, is_stream, protocol))
        lines.append(json.dumps({"protocol": protocol, "path": str(FOLDER / row["file"]), "is_stream": is_stream, "splits": splits(data)}))
    child = subprocess.run([BUILD / "tests/tools/llm_replay"], input="\n".join(lines).encode() + b"\n", stdout=subprocess.PIPE, timeout=3500,
                           check=True)
    answers = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(answers) == len(rows)
    wrong, cuts = [], 0
    for (row, data, is_stream, protocol), got in zip(rows, answers):
        if not is_stream and data.lstrip()[:1] not in (b"{", b"["):  # no answer of a model at all
            assert "error" in got, row
            continue
        want = independent_reader.read(protocol, data, is_stream)
        cuts += got.get("tried", 0)
        if not got.get("same", True):
            wrong.append((row["file"], "differs by how it is cut"))
        elif want.error is not None:
            if "error" not in got or want.error[:60] not in got["error"]["message"]:
                wrong.append((row["file"], "error not told", want.error, got))
        elif "error" in got:
            wrong.append((row["file"], got["error"]))
        else:
            seen = {"text": got["text"], "calls": [(c["name"], independent_reader.arguments(c["arguments"])) for c in got["calls"]]}
            if seen != want.seen() or got["tokens"] != got["text"] or got["thinking"] != want.thinking:
                wrong.append((row["file"], want.seen(), seen, want.thinking[:80], got["thinking"][:80]))
    with capsys.disabled():
        print(f"\n{len(rows) - len(wrong)} of {len(rows)} recordings are read; streams were cut in {cuts} ways")
    assert not wrong, "\n".join(map(repr, wrong[:20]))
