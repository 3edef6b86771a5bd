"""Figures: inside the answer while they are small, by reference when they are large, and streams that last whatever is drawn."""

import base64
import json
import random
import threading
import time
import uuid

import pytest
from api import QUICK, make_set, refused, run_body, watching
from server import RIDDLE, Server, wait_until

pytestmark = pytest.mark.plain

INLINE_MAX = 256 << 10
SANITIZED = "asan" in str(RIDDLE)  # then freed memory is kept
MAGIC = b"\x89PNG\r\n\x1a\n"

# What a cell draws is known here to the last byte.
DRAW = """
import random
class Picture:
    def __init__(self, seed, size):
        self.bytes = b"\\x89PNG\\r\\n\\x1a\\n" + random.Random(seed).randbytes(size)
    def _repr_png_(self):
        return self.bytes
"""
KEYS = {"RIDDLE_API_KEYS": "ann:ann-key-0123456789ab,bob:bob-key-0123456789ab"}
ANN, BOB = "ann-key-0123456789ab", "bob-key-0123456789ab"


def picture(seed, size):
    return MAGIC + random.Random(seed).randbytes(size)


def drawing(*pictures, after=""):
    shown = "".join(f"display(Picture({seed}, {size}))\n" for seed, size in pictures)
    return run_body("shop", python=DRAW + shown + after, python_policy="open", timeout_seconds=60)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("figures"), **QUICK, **KEYS, RIDDLE_MEMORY="2g")  # room for a sanitized kernel
    server.key = ANN
    make_set(server)
    with server:
        yield server


def outputs_of(answer):
    assert answer.status == 200, answer.body[:2000]
    assert answer.json["status"] == "succeeded", answer.json["result"]["error"]
    return answer.json["result"]["outputs"]


def fetched(server, output, key=None):
    """The bytes of a figure, wherever they are."""
    if "png" in output:
        assert "png_url" not in output
        return base64.b64decode(output["png"], validate=True)
    answer = server.get(output["png_url"], key=key)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "image/png"
    assert len(answer.body) == output["png_bytes"] == int(answer.headers["content-length"])
    return answer.body


def test_small_figure_is_inside_and_has_an_address(server):
    answer = server.post("/runs", drawing((1, 1000)))
    [output] = outputs_of(answer)
    assert fetched(server, output) == picture(1, 1000) and "png" in output
    got = server.get(f"/runs/{answer.json['run_id']}/figures/1")
    assert (got.status, got.headers["content-type"], got.body) == (200, "image/png", picture(1, 1000))


def test_large_figure_is_a_reference(server):
    size = INLINE_MAX  # as base64 it is a third larger
    answer = server.post("/runs", drawing((2, size)))
    [output] = outputs_of(answer)
    run_id = answer.json["run_id"]
    assert "png" not in output and output["png_url"] == f"/runs/{run_id}/figures/1"
    assert fetched(server, output) == picture(2, size)
    assert len(answer.body) < 10000
    # The capsule has the reference, not the figure.
    capsule = server.get(f"/runs/{run_id}")
    assert capsule.json["result_json"]["outputs"] == [output] and len(capsule.body) < 20000


def test_headers_of_a_figure(server):
    run_id = server.post("/runs", drawing((3, INLINE_MAX), (4, 100))).json["run_id"]
    for n in (1, 2):
        got = server.get(f"/runs/{run_id}/figures/{n}")
        assert got.headers["cache-control"] == "private, max-age=31536000, immutable"
        assert got.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["content-disposition"] == f'inline; filename="figure-{n}.png"'
        again = server.get(f"/runs/{run_id}/figures/{n}", headers={"If-None-Match": got.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        head = server.call("HEAD", f"/runs/{run_id}/figures/{n}")
        assert (head.status, head.headers["content-length"], head.body) == (200, str(len(got.body)), b"")


def test_figures_have_an_owner(server):
    run_id = server.post("/runs", drawing((5, INLINE_MAX), (6, 100))).json["run_id"]
    for n in (1, 2):
        assert server.get(f"/runs/{run_id}/figures/{n}").status == 200
        assert refused(server.get(f"/runs/{run_id}/figures/{n}", key=BOB), 404, "NOT_FOUND") == "Run not found"
    assert refused(server.get(f"/runs/{run_id}/figures/3"), 404, "NOT_FOUND") == "Figure not found"
    assert refused(server.get(f"/runs/{uuid.uuid4()}/figures/1"), 404, "NOT_FOUND") == "Run not found"
    assert server.get(f"/runs/{run_id}/figures/0").status == 422
    assert server.get(f"/runs/..%2f{run_id}/figures/1").status == 404


def test_parts_that_are_no_pictures(server):
    code = """
class Page:
    def _repr_html_(self): return "<b>" + "h" * 300000
    def _repr_json_(self): return {"list": ["j" * 1000] * 300}
display(Page())
"""
    answer = server.post("/runs", run_body("shop", python=code, python_policy="open"))
    [output] = outputs_of(answer)
    assert output["html_bytes"] == 300003 and "html" not in output and "json" not in output
    page = server.get(output["html_url"])
    assert page.body == b"<b>" + b"h" * 300000 and page.headers["content-disposition"].startswith("attachment")
    assert page.headers["content-type"].startswith("text/html")
    assert server.get(output["json_url"]).json == {"list": ["j" * 1000] * 300}


def test_many_small_figures_stay_within_one_answer(server):
    pictures = [(seed, 150_000) for seed in range(10)]
    answer = server.post("/runs", drawing(*pictures))
    outputs = outputs_of(answer)
    assert [fetched(server, o) for o in outputs] == [picture(*p) for p in pictures]
    inside = sum(len(o.get("png", "")) for o in outputs)
    assert 800_000 < inside <= 1 << 20 and any("png_url" in o for o in outputs)


def test_seventeen_megabytes_of_figures(tmp_path):
    """Was answered 413: the result was larger than the store keeps."""
    pictures = [(seed, 3_400_000) for seed in range(5)]
    server = Server(tmp_path, **QUICK)
    make_set(server)
    with server:
        answer = server.post("/runs", drawing(*pictures))
        outputs = outputs_of(answer)
        assert [fetched(server, o) for o in outputs] == [picture(*p) for p in pictures]
        # The same in a turn, whose question and answer are kept.
        turn = server.post("/chat", {"dataset_id": "shop", "message": "PYTHON:\n" + drawing(*pictures)["python_code"]})
        assert turn.status == 200 and turn.json["status"] == "succeeded", turn.body[:1000]
        assert [fetched(server, o) for o in turn.json["images"]] == [picture(*p) for p in pictures]
        assert len(server.get(f"/threads/{turn.json['thread_id']}/messages").json["messages"]) == 2
    with server:  # and they outlive the server
        stored = server.get(f"/runs/{answer.json['run_id']}").json["result_json"]["outputs"]
        assert stored == outputs
        assert [fetched(server, o) for o in stored] == [picture(*p) for p in pictures]


def test_figure_can_be_had_while_its_run_goes_on(server):
    with watching(server, drawing((7, 3_000_000), after="while True: pass")) as watched:
        image = watched.until("image")
        assert fetched(server, image) == picture(7, 3_000_000)
        assert refused(server.get(image["png_url"], key=BOB), 404, "NOT_FOUND") == "Run not found"


def test_figures_of_a_run_that_ended_too_soon_are_removed(tmp_path):
    server = Server(tmp_path, **QUICK)
    make_set(server)
    with server:
        kept = server.post("/runs", drawing((8, INLINE_MAX))).json["run_id"]
        orphan = server.home / "figures" / str(uuid.uuid4())
    orphan.mkdir()
    (orphan / "1.png").write_bytes(MAGIC)
    with server:
        wait_until(lambda: not orphan.exists(), "the orphan is removed")
        assert server.get(f"/runs/{kept}/figures/1").body == picture(8, INLINE_MAX)


# ---- streams ----


def test_stream_of_a_large_plot(server):
    """Ended in the middle: the event was larger than the stream's queue."""
    code = "import numpy as np, matplotlib.pyplot as plt\nplt.figure(figsize=(12, 12))\nplt.imshow(np.random.rand(1200, 1200, 3))\nplt.show()"
    with watching(server, run_body("shop", python=code, timeout_seconds=60)) as watched:
        image = watched.until("image")
        result = watched.until("result")
        assert watched.until("done")["run_id"] == watched.run_id
    assert result["status"] == "succeeded" and result["result"]["outputs"] == [{k: v for k, v in image.items() if k != "type"}]
    png = fetched(server, image)
    assert len(png) > 1 << 20 and png.startswith(MAGIC) and png.endswith(b"IEND\xaeB`\x82")


def test_stream_of_much_output_read_slowly(server):
    """More text than a client reads at once, in many small bits, arrives whole and ends in done."""
    code = "import sys\nfor i in range(60000):\n    print(i, flush=True)\n"
    body = run_body("shop", python=code, python_policy="open", max_output_bytes=1_000_000, timeout_seconds=60)
    with watching(server, body) as watched:
        watched.executing()
        time.sleep(2)  # a reader that is slow: the pause is what is tried here
        text, events = "", 0
        for name, data in watched.events:
            if name == "step":
                text += data["text"]
                events += 1
            elif name == "result":
                result = data["result"]
        assert name == "done"
    assert text == result["stdout"] == "".join(f"{i}\n" for i in range(60000))


CLIENTS, FIGURES, FIGURE_BYTES = 50, 20, 2 << 20
GROWTH_MAX_KB = 32 << 10


class SlowReader(threading.Thread):
    """Reads a stream 512 bytes at a time with pauses; then fetches every figure that it names."""

    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.server, self.seed, self.problem = server, seed, "it did not end"

    def run(self):
        try:
            self.problem = self.read()
        except Exception as error:  # told by the test
            self.problem = repr(error)

    def read(self):
        connection = self.server.connect()
        body = drawing(*[(self.seed * FIGURES + i, FIGURE_BYTES) for i in range(FIGURES)])
        connection.request("POST", "/runs/stream", json.dumps(body), self.server.headers({"Content-Type": "application/json"}))
        response = connection.getresponse()
        text = b""
        while piece := response.read1(512):
            text += piece
            time.sleep(0.02)
        events = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: ")]
        if events[-1]["type"] != "done":
            return f"ended in {events[-1]}"
        images = [e for e in events if e["type"] == "image"]
        if len(images) != FIGURES:
            return f"{len(images)} figures"
        for i, image in enumerate(images):
            if fetched(self.server, image) != picture(self.seed * FIGURES + i, FIGURE_BYTES):
                return f"figure {i} differs"
        return None


@pytest.mark.long
def test_slow_readers_of_many_figures(tmp_path):
    server = Server(tmp_path, **QUICK, RIDDLE_MAX_KERNELS=8)
    make_set(server)
    with server:
        outputs_of(server.post("/runs", drawing((0, FIGURE_BYTES))))
        server.forget_peak()
        before = server.status_kb("VmRSS")
        readers = [SlowReader(server, seed) for seed in range(CLIENTS)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        most = server.status_kb("VmHWM")
        assert [r.problem for r in readers] == [None] * CLIENTS
        assert SANITIZED or most - before <= GROWTH_MAX_KB, f"{before} kB before, {most} kB at most"


# ---- threads ----


def test_figures_of_a_thread(server):
    code = DRAW + "display(Picture(20, 1000)); display(Picture(21, 1000000))\nclass T:\n  def _repr_html_(self): return '<i>t</i>'\ndisplay(T())"
    thread = server.post("/thread/new", {}).json["thread_id"]
    answer = server.post(f"/thread/{thread}/message", {"message": "PYTHON:\n" + code})
    assert answer.status == 200 and answer.json["status"] == "succeeded", answer.json
    small, large = answer.json["images"]
    assert (fetched(server, small), fetched(server, large)) == (picture(20, 1000), picture(21, 1000000))
    assert "png" in small and "png_url" in large
    # Once inside one answer is enough.
    outputs = answer.json["result"]["outputs"]
    assert [o.get("image") for o in outputs] == [0, 1, None] and outputs[2]["html"] == "<i>t</i>"
    assert answer.body.count(small["png"].encode()) == 1
    stored = server.get(f"/runs/{answer.json['run_id']}").json["result_json"]["outputs"]
    assert stored[:2] == [small, large] and stored[2]["html"] == "<i>t</i>"
    assert server.get(f"/runs/{answer.json['run_id']}/figures/1").body == picture(20, 1000)
    assert server.get(f"/runs/{answer.json['run_id']}/figures/3?part=html").body == b"<i>t</i>"
