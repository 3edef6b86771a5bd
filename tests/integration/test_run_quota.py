"""What is kept of runs: how much, for how long, and until somebody deletes it."""

import pytest

from api import QUICK, make_set, refused, run_body, watching
from server import Server, wait_until

KEYS = {"RIDDLE_API_KEYS": "alice:alice-key-0123456789,bob:bob-key-0123456789"}
ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"
LARGE = """class Page:
    def _repr_html_(self): return 'x' * 700000
display(Page())  # becomes a file
print('y' * 200000)"""


def serve(directory, **settings):
    server = Server(directory, **QUICK, **KEYS, **settings)
    make_set(server)
    return server


def run(server, key, code=LARGE):
    done = server.post("/runs", run_body("shop", python=code, python_policy="open", max_output_bytes=1000000), key=key)
    assert done.status == 200 and done.json["status"] == "succeeded", done.body[:500]
    return done.json["run_id"]


def kept(server, key):
    return [r["run_id"] for r in server.get("/runs?limit=100", key=key).json["runs"]]


def test_the_oldest_runs_of_an_owner_go_first(tmp_path):
    """Other owners' runs stay."""
    with serve(tmp_path, RUN_QUOTA_BYTES=4 << 20) as server:
        mine = run(server, BOB)
        runs = [run(server, ALICE, "print('y' * 900000)") for _ in range(8)]
        wait_until(lambda: len(kept(server, ALICE)) <= 4, "runs past the quota are gone")
        left = kept(server, ALICE)
        assert left == runs[::-1][:len(left)] and 3 <= len(left) <= 4
        assert server.get(f"/runs/{runs[0]}", key=ALICE).status == 404
        assert kept(server, BOB) == [mine]


def test_figures_go_before_runs(tmp_path):
    """The oldest files of figures are dropped, the capsules say so, and stay for as long as they fit themselves."""
    code = "class Page:\n    def _repr_html_(self): return 'x' * 700000\ndisplay(Page()); display('small'); print('kept')"
    with serve(tmp_path, RUN_QUOTA_BYTES=2 << 20) as server:
        runs = [run(server, ALICE, code) for _ in range(6)]

        def dropped():
            outputs = [server.get(f"/runs/{r}", key=ALICE).json["result_json"]["outputs"][0] for r in runs]
            return ["html_url" not in o and o.get("dropped") for o in outputs]

        wait_until(lambda: sum(map(bool, dropped())) == 4, "four figures are dropped")
        assert dropped()[:4] == [True] * 4 and not any(dropped()[4:])
        assert kept(server, ALICE) == runs[::-1]
        oldest = server.get(f"/runs/{runs[0]}", key=ALICE).json["result_json"]
        assert oldest["stdout"] == "kept\n" and "small" in oldest["outputs"][1]["text"]
        wait_until(lambda: {d.name for d in (server.home / "figures").iterdir()} == set(runs[4:]), "their files are gone")
        message = refused(server.get(f"/runs/{runs[0]}/figures/1", key=ALICE), 404, "NOT_FOUND")
        assert message.startswith("The figure was dropped, because")
        assert server.get(f"/runs/{runs[5]}/figures/1", key=ALICE).status == 200


def test_runs_expire(tmp_path):
    with serve(tmp_path, RUN_TTL_SECONDS=1) as server:
        run(server, ALICE, "1")
        wait_until(lambda: not kept(server, ALICE), "the run is gone", 90)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("runs")) as server:
        yield server


def test_delete_what_is_kept_of_a_run(server):
    one = run(server, ALICE)
    assert (server.home / "figures" / one).exists()
    assert refused(server.delete(f"/runs/{one}", key=ALICE), 409, "CONFLICT").startswith("This run has already ended")
    assert refused(server.delete(f"/runs/{one}?capsule=true", key=BOB), 404, "NOT_FOUND") == "Run not found"
    gone = server.delete(f"/runs/{one}?capsule=true", key=ALICE)
    assert gone.status == 200 and gone.json == {"run_id": one, "status": "deleted"}
    assert server.get(f"/runs/{one}", key=ALICE).status == 404
    wait_until(lambda: not (server.home / "figures" / one).exists(), "its figures are gone")
    assert refused(server.delete(f"/runs/{one}?capsule=true", key=ALICE), 404, "NOT_FOUND") == "Run not found"


def test_a_run_under_way_is_cancelled_first(server):
    with watching(server, run_body("shop", python="while True: pass", python_policy="open"), key=ALICE) as watched:
        watched.executing()
        said = refused(server.delete(f"/runs/{watched.run_id}?capsule=true", key=ALICE), 409, "CONFLICT")
        assert said == "This run is under way: cancel it before its capsule is deleted"
        assert server.delete(f"/runs/{watched.run_id}", key=ALICE).status == 202
