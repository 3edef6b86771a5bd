"""Every kernel draws random numbers of its own, whatever the code looks like; code that seeds a generator repeats."""

import json

import pytest
from api import make_set, run_body
from conftest import Programs
from server import Server

pytestmark = pytest.mark.plain

KERNELS = 5
SETS = [f"set{i}" for i in range(KERNELS)]

# None of them can be told by the words of the cell.
DRAW = {
    "random": "import random\nprint(random.random())",
    "numpy's old generator": "print(np.random.rand())",
    "numpy's normal deviates": "print(np.random.randn())",
    "numpy's new generator": "print(np.random.default_rng().random())",
    "pandas": "print(pd.Series(range(10**6)).sample(1).iloc[0])",
    "shuffled by a library": "import statistics\nprint(statistics.NormalDist().samples(1))",
    "SQL in Python": "print(sql('SELECT random() AS x').x[0])",
    "ids of SQL": "print(sql('SELECT uuid() AS x').x[0])",
}


@pytest.fixture(scope="module", params=["0", "4"], ids=["no pool", "pool"])
def server(request, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("random"), RATE_LIMIT_MAX=0, RIDDLE_POOL_SIZE=request.param, RIDDLE_PRELOAD="numpy,pandas")
    for name in SETS:
        make_set(server, name)
    with server:
        yield server


def printed(server, code):
    """What the cell prints in a new kernel."""
    hidden = f"exec(bytes.fromhex('{code.encode().hex()}').decode())"
    body = server.post("/runs", run_body(SETS[0], python=hidden, python_policy="open")).json
    assert body["status"] == "succeeded", body
    return body["result"]["stdout"]


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_kernels_draw_their_own_numbers(server, draw):
    drawn = [printed(server, draw) for _ in range(KERNELS)]
    assert all(drawn) and len(set(drawn)) == KERNELS, drawn


@pytest.mark.parametrize("what", ["random()", "uuid()", "gen_random_uuid()"])
def test_sql_kernels_draw_their_own_numbers(server, what):
    drawn = [server.sql(name, f"SELECT {what} AS x").json["result"]["rows"][0][0] for name in SETS]
    assert len(set(drawn)) == KERNELS, drawn


@pytest.mark.parametrize("draw", [
    "import random\nrandom.seed(7)\nprint(random.random())", "np.random.seed(7)\nprint(np.random.rand())",
    "print(np.random.default_rng(7).random())", "sql('SELECT setseed(0.5)')\nprint(sql('SELECT random() AS x').x[0])"])
def test_seeded_code_repeats(server, draw):
    assert len({printed(server, draw) for _ in range(3)}) == 1


def test_replay_of_seeded_code_is_equal(server, tmp_path):
    code = "import random\nrandom.seed(7)\nresult = [random.random(), float(np.random.default_rng(1).random())]"
    run = server.post("/runs", run_body(SETS[0], python=code)).json
    assert run["status"] == "succeeded", run
    programs = Programs(server.home, tmp_path)
    again = programs.riddle("replay", "--json", run["run_id"],
                            env={"DATASETS_DIR": str(server.datasets), "RIDDLE_PRELOAD": "numpy,pandas"})
    assert again.status == 0 and json.loads(again.text)["equal"] is True, again.text + again.err
