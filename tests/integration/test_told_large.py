"""Forty tables of 25 columns: what of them a model is told, and how much of the second call its provider has not cached."""

import json
import random

from api import QUICK
from scripted_model import ScriptedModel, calls, text
from server import Server
from test_chat import new_thread, say

WORDS = "order customer region price discount quantity status shipped returned weight colour supplier contract invoice payment currency tax margin".split()
BYTES_PER_TOKEN = 3  # of JSON with names and figures; text has more


def name(rng, i):
    return f"{rng.choice(WORDS)}_{rng.choice(WORDS)}_{i}"


def test_forty_tables(tmp_path, capsys):
    rng, columns, model = random.Random(5), {}, ScriptedModel()
    folder = tmp_path / "datasets" / "big"
    folder.mkdir(parents=True)
    for t in range(40):
        columns[f"t{t:02d}_{rng.choice(WORDS)}"] = [name(rng, i) for i in range(25)]
    for table, names in columns.items():
        rows = [[str(rng.randrange(10**6)) if i % 3 else rng.choice(["Berlin", "München", "Köln"]) for i in range(25)] for _ in range(5)]
        (folder / f"{table}.csv").write_text("\n".join(",".join(r) for r in [names, *rows]) + "\n")
    try:
        with Server(tmp_path, **QUICK, **model.settings, OPENAI_MODEL="any", AGENT_TIMEOUT_SECONDS=300, RUN_TIMEOUT_SECONDS=60) as server:
            thread = new_thread(server, datasets=["big"])
            gold = [(t, c) for t in rng.sample(sorted(columns), 20) for c in rng.sample(columns[t], 5)]
            table, column = gold[0]
            model.says(calls(("run_sql", {"sql": f"SELECT sum({columns[table][1]}) AS s FROM {table}"})), text("Done."))
            answer = say(server, thread, f"what is the total of {column.rsplit('_', 1)[0].replace('_', ' ')}?")
            assert answer["response"] == "Done."
            first, second = (r["body"] for r in model.requests)
    finally:
        model.close()
    told = json.dumps(first["messages"])
    named = sum(f"Table {t} " in told and f"{c} " in told for t, c in gold) / len(gold)
    a, b = json.dumps([first["tools"], first["messages"]]), json.dumps([second["tools"], second["messages"]])
    same = next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)
    fresh = (len(b) - same) // BYTES_PER_TOKEN
    with capsys.disabled():
        print(f"\n{named:.0%} of the gold columns are named; {len(b) // BYTES_PER_TOKEN} tokens in the second call, {fresh} of them not cached")
    assert named >= 0.95 and fresh <= 2500 and len(a) // BYTES_PER_TOKEN < 20000
    assert "Columns that the question may mean" in told
