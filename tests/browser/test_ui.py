"""The page in a real browser: what a person does, and what they then see."""

import json
import re
import threading

import pytest

from scripted_model import Raw, ScriptedModel, calls, delta, stream_bytes, text
from server import Server, wait_until
from steps import BARS, IDLE, LAST, ask, cells, choose, events, stays_inside, upload

# ---- loading ----


def test_loads_from_its_own_server_only(page, server):
    own = f"http://127.0.0.1:{server.port}/"
    assert page.requests[0] == own and all(re.search(r"/ui/[a-z]+-[0-9A-Z]{8}\.(css|js)$", url) for url in page.requests[1:3])
    assert not [url for url in page.requests if re.search(r"/ui/(vega|editor)-", url)]  # not before they are needed
    assert all(url.startswith((own, "data:image/svg+xml")) for url in page.requests)
    assert page.problems == []
    assert page.eval("document.title") == "Riddle"
    assert page.eval("getComputedStyle(document.getElementById('send')).backgroundColor") == "rgb(15, 118, 110)"  # the style came
    page.wait("document.activeElement.id === 'question'")


def test_policy_lets_nothing_else_in(page):
    """What text could do if it ever became markup: nothing."""
    for attempt in ("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit = 1'}))",
                    "document.body.setAttribute('onclick', 'window.hit = 1'), document.body.click()",
                    "document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.2:9/x.png'}))"):
        before = len(page.problems)
        page.eval(f"void ({attempt})")
        wait_until(lambda: len(page.problems) > before, "a violation that is told")
        assert "Content Security Policy" in page.problems[-1]
    assert page.eval("window.hit") is None


def test_every_control_has_a_name(page):
    nameless = page.eval("[...document.querySelectorAll('button, input, textarea, progress, a')].filter(e => !e.textContent.trim() && "
                         "!e.labels?.length && !e.getAttribute('aria-label')).map(e => e.outerHTML)")
    assert nameless == []


# ---- asking ----


def test_choose_ask_and_see(page):
    choose(page, "E-commerce Orders")
    prompts = page.texts("#chips button")
    assert len(prompts) == 4
    turn = ask(page, "SQL: SELECT status, count(*) AS orders, sum(total) AS revenue FROM orders GROUP BY status ORDER BY status")
    assert page.texts(f"{turn} th button") == ["status", "orders", "revenue"]
    rows = cells(page, turn)
    assert [row[0] for row in rows] == ["cancelled", "completed", "returned"]
    assert all(re.fullmatch(r"\d{1,3}(,\d{3})*", row[1]) and re.fullmatch(r"\d{1,3}(,\d{3})+\.\d\d", row[2]) for row in rows)
    assert page.eval(f"getComputedStyle(document.querySelector('{turn} td:nth-child(3)')).textAlign") == "right"
    assert page.wait(f"document.querySelectorAll('{turn} {BARS}').length") == 3
    assert "cancelled" in page.eval(f"document.querySelector('{turn} {BARS}').getAttribute('aria-label')")
    page.click(f"{turn} summary")
    assert "GROUP BY status" in page.text(f"{turn} .ran pre")
    assert page.text("#about") == "E-commerce Orders"
    assert page.problems == []


def test_a_question_in_words(page, server):
    choose(page, "Support Tickets")
    turn = ask(page, "how many tickets by priority?")
    rows = {row[0]: int(row[1].replace(",", "")) for row in cells(page, turn)}
    truth = server.sql("support", "SELECT priority, count(*) FROM tickets GROUP BY 1").json["result"]["rows"]
    assert rows == {name: n for name, n in truth}
    assert page.wait(f"document.querySelectorAll('{turn} {BARS}').length") == len(truth)
    assert "Built-in planner" in page.text(f"{turn} .meta")
    page.click(f"{turn} .ran summary")
    assert page.texts(f"{turn} .meanings li") == ["tickets → table tickets", "priority → column priority"]


def test_example_prompt_is_one_click(page):
    choose(page, "Personal Transactions")
    prompt = page.texts("#chips button")[0]
    page.click("#chips button")
    page.wait(f"document.querySelectorAll('.turn').length === 1 && {IDLE}")
    assert page.text(".turn .question") == prompt
    assert not page.visible(".problem") and page.text(".turn .answer")


def test_what_cannot_be_read_offers_what_can(page):
    choose(page, "Personal Transactions")
    turn = ask(page, "flumox the garblewicket")
    offered = page.texts(f"{turn} .chips button")
    assert len(offered) >= 1
    page.click(f"{turn} .chips button")
    page.wait(f"document.querySelectorAll('.turn').length === 2 && {IDLE}")
    assert page.text(f"{LAST} .question") == offered[0]
    assert page.visible(f"{LAST} .rows, {LAST} .stat"), page.text(LAST)


def test_python_prints_and_draws(page):
    turn = ask(page, "PYTHON: import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nprint('a', 6 * 7)")
    assert page.text(f"{turn} .output") == "a 42"
    assert page.wait(f"document.querySelector('{turn} img').naturalWidth") > 200
    page.reload()
    assert page.wait("document.querySelector('.turn img').naturalWidth") > 200  # it is kept with the run


def test_input_asks_the_person_and_survives_a_reload(page):
    ask(page, "PYTHON: name = input('Your name? ')\nprint('hello', name)", wait=False)
    assert page.wait("document.querySelector('.asked-line label')?.innerText").strip() == "Your name?"
    page.reload()
    page.wait("document.querySelector('.asked-line input')")
    page.click(".asked-line input")
    page.type("Ann")
    page.press("Enter")
    page.wait(f"document.querySelector('{LAST} .output')")
    assert page.text(f"{LAST} .output") == "hello Ann" and page.problems == []


def test_large_figure_is_fetched(page, server):
    """It is not inside the answer, so the page follows the reference: live, and again after a reload."""
    turn = ask(page, "PYTHON: import numpy as np, matplotlib.pyplot as plt\nplt.figure(figsize=(10, 10))\n"
                     "plt.imshow(np.random.rand(1000, 1000, 3))\nplt.show()")
    assert page.wait(f"document.querySelector('{turn} img').naturalWidth") > 500
    assert page.eval(f"document.querySelector('{turn} img').src").startswith(f"blob:http://127.0.0.1:{server.port}/")
    assert [r for r in page.requests if re.search(r"/runs/[0-9a-f-]{36}/figures/1$", r)]
    page.reload()
    assert page.wait("document.querySelector('.turn img').naturalWidth") > 500
    assert page.problems == []


def test_enter_sends_and_shift_enter_does_not(page):
    page.click("#question")
    page.type("SQL: SELECT 1 AS one,")
    page.press("Shift", "Enter")
    page.type("2 AS two")
    assert page.eval("document.getElementById('question').value") == "SQL: SELECT 1 AS one,\n2 AS two"
    assert page.eval("document.querySelectorAll('.turn').length") == 0
    page.press("Enter")
    page.wait(f"document.querySelectorAll('.turn').length === 1 && {IDLE}")
    assert cells(page, ".turn") == [["1", "2"]]


# ---- files ----


def test_upload_and_ask(page, tmp_path):
    path = tmp_path / "fruit.csv"
    path.write_text("name,colour,grams\napple,red,182\npear,green,178\ncherry,red,8\n")
    upload(page, path)
    turn = ask(page, "total grams by colour")
    assert sorted(cells(page, turn)) == [["green", "178"], ["red", "190"]]
    assert page.text("#about") == "fruit.csv"


def test_a_file_that_cannot_be_read_is_told(page, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("")
    page.choose_files("#file", path)
    assert "empty.csv" in page.wait("document.querySelector('#notice .problem')?.innerText") and "empty" in page.text("#notice").lower()
    assert not page.visible("#uploading")


def test_hostile_data_stays_text(page, tmp_path):
    long = "x" * 5000
    path = tmp_path / "hostile.csv"
    path.write_text('"<b id=hit>name</b>",note,big\n'
                    f'"<script>window.hit=1</script>","<img src=x onerror=window.hit=2>",9007199254740993\n'
                    f'"{long}","</textarea><svg onload=window.hit=3>",-9223372036854775807\n')
    upload(page, path)
    page.size(390, 800)
    turn = ask(page, "SQL: SELECT * REPLACE (CAST(big AS BIGINT) AS big) FROM hostile")  # digits of an id are text
    assert page.texts(f"{turn} th button")[0] == "<b id=hit>name</b>"
    rows = cells(page, turn)
    assert rows[0] == ["<script>window.hit=1</script>", "<img src=x onerror=window.hit=2>", "9,007,199,254,740,993"]
    bars = page.wait(f"[...document.querySelectorAll('{turn} {BARS}')].map(t => t.getAttribute('aria-label'))")
    assert len(bars) == 2 and "9,007,199,254,740,993" in bars[0]  # a value too large for a number is drawn all the same
    assert rows[1][0] == "x" * 400 + "…" and rows[1][2] == "-9,223,372,036,854,775,807"
    assert page.eval("[window.hit ?? null, document.getElementById('hit'), document.querySelectorAll('.answer script, .answer img').length]") == [None, None, 0]
    assert stays_inside(page)
    page.reload()
    page.wait("document.querySelector('.turn tbody')")
    assert cells(page, ".turn")[0] == rows[0] and page.eval("window.hit") is None
    page.click("header button[aria-label='Show the threads']")
    page.click("#new")
    page.wait("document.getElementById('start')")
    assert stays_inside(page)
    named = tmp_path / "<img src=x onerror=window.hit=4>.csv"
    named.write_text("day,n\n03/04/2025,1\n05/06/2025,2\n")
    upload(page, named)
    assert named.name in page.text("#start .read") and "guess" in page.text("#start .guess")
    page.click("#show-data")
    page.wait("document.querySelector('#data .col')")
    assert page.text("#data h2") == named.name
    page.click("#data [aria-label='Close the data']")
    title = "SQL: SELECT '<img src=x onerror=window.hit=5>' AS x"
    ask(page, title)
    assert page.text("header h1") == title
    page.wait("document.querySelector('#threads li.here span')?.textContent.includes('<img src=x')")
    assert page.eval("[window.hit ?? null, document.querySelectorAll('img').length]") == [None, 0] and page.problems == []


# ---- threads ----


def test_reload_goes_on_with_the_thread(page):
    choose(page, "E-commerce Orders")
    ask(page, "PYTHON: kept = 41")
    ask(page, "SQL: SELECT status, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1")
    before = cells(page, LAST)
    page.reload()
    page.wait(f"document.querySelectorAll('.turn').length === 2 && document.querySelector('{LAST} tbody')")
    assert page.texts(".question")[0] == "PYTHON: kept = 41"
    assert cells(page, LAST) == before
    assert page.wait(f"document.querySelectorAll('{LAST} {BARS}').length") == 3
    assert page.text("#about") == "E-commerce Orders"
    turn = ask(page, "PYTHON: print(kept + 1)")
    assert page.text(f"{turn} .output") == "42"


def test_address_names_the_thread(page, server):
    own = f"http://127.0.0.1:{server.port}"
    ask(page, "SQL: SELECT 815 AS marker, 1 AS more")
    address = page.eval("location.pathname")
    assert re.fullmatch(r"/t/[\w-]+", address)
    page.click("#new")
    page.wait("document.getElementById('start') && location.pathname === '/'")
    page.open(own + address)
    page.wait("document.querySelector('.turn tbody')")
    assert cells(page, ".turn") == [["815", "1"]] and page.eval("location.pathname") == address
    page.open(f"{own}/?thread={address[3:]}")  # as addresses were once
    page.wait("document.querySelector('.turn tbody')")
    page.open(f"{own}/t/nosuchthread")
    page.wait("document.getElementById('start') && location.pathname === '/'")
    assert "not there any more" in page.text("#notice")


def test_back_and_forward_walk_through_threads(page):
    ask(page, "SQL: SELECT 4711 AS marker, 2 AS more")
    first = page.eval("location.pathname")
    page.click("#new")
    page.wait("document.getElementById('start') && !document.querySelector('.turn')")
    ask(page, "SQL: SELECT 4712 AS marker, 2 AS more")
    page.eval("history.go(-2)")
    page.wait(f"location.pathname === '{first}' && document.querySelector('.turn td')?.textContent === '4,711'")
    page.eval("history.back()")
    page.wait("document.getElementById('start')")
    page.eval("history.go(3)")
    page.wait("document.querySelector('.turn td')?.textContent === '4,712'")
    page.click("#threads a", "4711")
    page.wait("document.querySelector('.turn td')?.textContent === '4,711'")
    assert page.problems == []


def test_delete_thread(page, server):
    ask(page, "SQL: SELECT 1 AS one")
    thread = page.eval("location.pathname")[3:]
    assert server.get(f"/thread/{thread}/history").status == 200
    page.click("#threads li.here .menu > button")
    page.click("#threads [role=menuitem]", "Delete")
    page.wait("document.getElementById('start') && document.querySelectorAll('.turn').length === 0")
    assert server.get(f"/thread/{thread}/history").status == 404
    assert not page.eval(f"document.querySelector('#threads a[href$=\"{thread}\"]')")


def test_stop(page):
    turn = ask(page, "PYTHON: print('begun', flush=True)\nwhile True: pass", wait=False)
    page.wait(f"document.querySelector('{turn} .live')?.textContent.includes('begun')")
    assert page.visible("#stop") and not page.visible("#send")
    page.click("#stop")
    page.wait(IDLE)
    assert "Stopped before it was finished." in page.text(turn)
    turn = ask(page, "PYTHON: print('again')")  # the turn before it has really ended
    assert page.text(f"{turn} .output") == "again"


def test_reload_shows_the_turn_that_is_under_way(page, server):
    question = "PYTHON: print('begun', flush=True)\nwhile True: pass"
    turn = ask(page, question, wait=False)
    page.wait(f"document.querySelector('{turn} .live')?.textContent.includes('begun')")
    page.reload()
    page.wait(f"document.querySelector('{turn} .live')?.textContent.includes('begun')")  # what it printed before
    assert page.text(".question") == question and page.visible("#stop")
    page.click("#stop")
    page.wait(IDLE)
    assert "Stopped before it was finished." in page.text(turn)
    page.reload()
    page.wait("document.querySelectorAll('.turn').length === 1")
    assert "Stopped before it was finished." in page.text(turn) and not page.visible("#stop")


def test_new_thread_leaves_the_old_one_running(page, server):
    turn = ask(page, "PYTHON: print('begun', flush=True)\nwhile True: pass", wait=False)
    page.wait(f"document.querySelector('{turn} .live')?.textContent.includes('begun')")
    thread = page.eval("location.pathname")[3:]
    page.click("#new")
    page.wait("document.getElementById('start') && !document.getElementById('stop')")
    assert cells(page, ask(page, "SQL: SELECT 1 AS one")) == [] and page.text(".turn .stat b") == "1"
    assert server.post(f"/thread/{thread}/stop", {}).json["stopped"] == 1


# ---- what goes wrong ----


def test_a_query_that_fails_is_told_and_can_be_edited(page):
    turn = ask(page, "SQL: SELECT * FROM nowhere")
    assert "nowhere" in page.text(f"{turn} .problem") and page.visible("#send")
    page.click(f"{turn} .problem button", "Edit")
    page.wait("document.getElementById('question').value === 'SELECT * FROM nowhere'")
    assert page.text(".modes [aria-pressed=true]") == "SQL"


def test_server_gone_and_back(blank, tmp_path):
    """The page says so, and comes back by itself: with the list, and with the answer that was under way."""
    own = Server(tmp_path, RIDDLE_PRELOAD="", RATE_LIMIT_MAX=0, RIDDLE_STOP_TIMEOUT_SECONDS=1)
    (own.datasets / "t").mkdir()
    (own.datasets / "t" / "t.csv").write_text("a\n1\n2\n")
    with own:
        blank.open(f"http://127.0.0.1:{own.port}/ui")
        blank.wait("document.querySelector('#sets [data-id]')")
        ask(blank, "how many rows?")
    turn = ask(blank, "how many rows are there?")
    assert blank.text(f"{turn} .problem span") == "The server can't be reached. Is it still running?"
    assert "Trying again" in blank.wait("document.getElementById('away')?.innerText")
    with own:  # at the same port
        blank.wait("!document.getElementById('away')")
        blank.click(f"{turn} .problem button", "Try again")
        blank.wait(f"document.querySelectorAll('.turn').length === 2 && {IDLE} && !document.querySelector('.turn .problem')")
        assert cells(blank, LAST) == [] and blank.text(f"{LAST} .stat b") == "2"
        ask(blank, "PYTHON: import time; time.sleep(300)", wait=False)
        blank.wait("document.getElementById('stop')")
        own.process.kill()
        own.process.wait()
        blank.wait("document.getElementById('away')")
    with own:
        blank.wait(f"!document.getElementById('away') && {IDLE}")
        assert "cut before the answer was complete" in blank.text(f"{LAST} .problem span")
        assert blank.eval("document.querySelectorAll('#threads li').length") == 1


def test_offline_and_back(page):
    """Without a connection nothing is lost: what was asked can be asked again."""
    choose(page, "E-commerce Orders")
    ask(page, "SQL: SELECT 1 AS one, 2 AS two")
    page.offline(True)
    turn = ask(page, "SQL: SELECT 3 AS three, 4 AS four")
    assert page.text(f"{turn} .problem span") == "The server can't be reached. Is it still running?"
    page.offline(False)
    page.click(f"{turn} .problem button", "Try again")
    page.wait(f"document.querySelectorAll('.turn').length === 2 && {IDLE} && !document.querySelector('.turn .problem')")
    assert cells(page, LAST) == [["3", "4"]] and all("ERR_INTERNET_DISCONNECTED" in problem for problem in page.problems)


def test_key_is_asked_for_and_kept_for_the_tab(blank, tmp_path):
    with Server(tmp_path, RIDDLE_API_KEYS="ann:secret-key-of-ann", RIDDLE_PRELOAD="", RATE_LIMIT_MAX=0) as own:
        address = f"http://127.0.0.1:{own.port}/"
        blank.open(address)
        for key in ("wrong", "secret-key-of-ann"):
            blank.wait("document.activeElement.id === 'key-value' && document.activeElement.value === ''")
            blank.type(key)
            blank.press("Enter")
            blank.wait("(document.getElementById('key-value')?.value ?? '') === ''")
        blank.wait("document.getElementById('start')")
        assert blank.eval("[Object.values(localStorage), Object.values(sessionStorage)]") == [[], ['"secret-key-of-ann"']]
        path = tmp_path / "mine.csv"
        path.write_text("a\n1\n2\n")
        upload(blank, path)
        blank.reload()
        blank.wait("document.getElementById('start')")
        assert not blank.visible("#key") and blank.texts("#sets [data-id] b")[0] == "mine.csv"


def test_streams_that_end_badly(page):
    for stream, said in (
            ("event: status\ndata: {\"type\":\"status\",\"text\":\"Thinking\"}\n\n", "The connection was cut before the answer was complete."),
            (events(("error", {"message": "the model is <b>tired</b>"}), ("done", {})), "the model is <b>tired</b>")):
        page.fake("/message/stream", stream, "text/event-stream")
        turn = ask(page, "anything")
        assert page.text(f"{turn} .problem span") == said
        assert page.visible("#send") and page.texts(f"{turn} .problem button") == ["Try again"]
        page.unfake()


# ---- what a model may answer ----


def test_with_a_model(blank, tmp_path):
    model, release = ScriptedModel(), threading.Event()
    own = Server(tmp_path, **model.settings, RIDDLE_PRELOAD="", RATE_LIMIT_MAX=0)
    (own.datasets / "sales").mkdir()
    (own.datasets / "sales" / "sales.csv").write_text("region,amount\nnorth,30\nsouth,12\nnorth,5\n")
    query = calls(("run_sql", {"sql": "SELECT region, sum(amount) AS total FROM sales GROUP BY 1 ORDER BY 2 DESC"}))
    with own:
        blank.open(f"http://127.0.0.1:{own.port}/")
        blank.wait("document.querySelectorAll('#sets [data-id]').length === 1")
        model.says(query, Raw(stream_bytes([delta("North "), delta("leads")], done=False), hold=release))
        turn = ask(blank, "who leads?", wait=False)
        blank.wait(f"document.querySelector('{turn} .text')?.innerText === 'North leads'")  # while it is being written
        assert blank.visible("#stop") and blank.eval(f"document.querySelector('{turn} .answer').getAttribute('aria-busy')") == "true"
        blank.press("Escape")
        blank.wait(IDLE)
        assert "Stopped before it was finished." in blank.text(turn)
        release.set()
        hold = threading.Event()
        model.says(query, Raw(stream_bytes([delta("North "), delta("leads")], done=False), hold=hold, rest=stream_bytes(text(" clearly."))))
        turn = ask(blank, "who leads?", wait=False)
        blank.wait(f"document.querySelector('{turn} .text')?.innerText === 'North leads'")
        blank.reload()
        blank.wait(f"document.querySelector('{turn} .text')?.innerText === 'North leads'")  # followed again
        hold.set()
        blank.wait(IDLE)
        assert "North leads clearly." in blank.text(turn) and cells(blank, turn) == [["north", "35"], ["south", "12"]]
        assert blank.eval("document.querySelectorAll('.turn').length") == 2
        model.says(query, text("North leads with **35**,", " up from 4711."))
        turn = ask(blank, "who leads?")
        assert cells(blank, turn) == [["north", "35"], ["south", "12"]]
        assert blank.texts(f"{turn} strong") == ["35"] and blank.texts(f"{turn} mark") == ["4711"]
        assert "GROUP BY 1" in blank.eval(f"document.querySelector('{turn} .ran pre').textContent")
        blank.reload()
        blank.wait("document.querySelectorAll('.turn').length === 3")
        assert blank.texts("mark") == ["4711"]  # still told to be in no result
        assert blank.problems == []
    model.close()


def test_words_of_a_model(page):
    text = "Ünïts: **<b>1</b>** and `x<y`, sold 3,999.\n\n- one\n- two\n\n1. first\n\n```\nlet <i>x</i>\n```"
    flag = {"text": "3,999", "offset": len(text[:text.index("3,999")].encode())}
    page.fake("/message/stream", events(("token", {"text": "Ün"}), ("done", {
        "response": text, "status": "succeeded", "flagged": [flag], "model": "m-1", "total_ms": 1234, "result": {"columns": [], "rows": []}})),
        "text/event-stream")
    turn = ask(page, "anything")
    assert page.texts(f"{turn} mark") == ["3,999"] and "in no result" in page.text(f"{turn} .doubt")
    assert page.texts(f"{turn} strong") == ["<b>1</b>"] and page.texts(f"{turn} p code") == ["x<y"]
    assert page.texts(f"{turn} li") == ["one", "two", "first"] and page.text(f"{turn} .text pre").strip() == "let <i>x</i>"
    assert page.text(f"{turn} .meta") == "m-1 · 1.2 s"


def test_a_choice_runs_its_own_plan(page):
    plan = {"dataset_id": "ecommerce", "table": "orders", "select": [{"func": "count", "column": "*", "alias": "n"}]}
    choose(page, "E-commerce Orders")
    page.fake("/message/stream", events(("done", {"response": "Which?\n1. count of rows\n2. other", "status": "succeeded", "choices": [
        {"reading": "count of `orders`", "plan": plan}, {"reading": "other", "plan": plan}]})), "text/event-stream")
    turn = ask(page, "anything")
    assert page.text(f"{turn} .text") == "Which?" and page.texts(f"{turn} .chips button") == ["count of orders", "other"]
    page.unfake()
    page.click(f"{turn} .chips button")
    page.wait(f"document.querySelectorAll('.turn').length === 2 && {IDLE}")
    assert page.text(f"{LAST} .question") == "count of orders"
    assert re.fullmatch(r"[\d,]+\nn", page.text(f"{LAST} .stat"))
    assert 'FROM "orders"' in page.eval(f"document.querySelector('{LAST} .ran pre').textContent")


ROWS = {"columns": ["when", "kind", "value"], "types": ["DATE", "VARCHAR", "DOUBLE"],
        "rows": [[f"2024-0{m}-01", kind, m * factor] for m in range(1, 7) for kind, factor in (("a", 1.5), ("b", -2))]}


CHARTS = [  # (mark, encoding, what is drawn, how often)
    ("bar", {"x": {"field": "when", "type": "nominal"}, "y": {"field": "value", "type": "quantitative"}, "color": {"field": "kind"}}, "rect", 12),
    ("line", {"x": {"field": "when", "type": "temporal"}, "y": {"field": "value", "type": "quantitative"}, "color": {"field": "kind"}}, "line", 2),
    ("point", {"x": {"field": "value", "type": "quantitative"}, "y": {"field": "value", "type": "quantitative"}}, "symbol", 12),
    ("arc", {"theta": {"field": "value", "type": "quantitative"}, "color": {"field": "when", "type": "nominal"}}, "arc", 6)]


def answered(page, **answer):
    """A turn with this answer."""
    page.fake("/message/stream", events(("done", {"response": "x", "status": "succeeded", **answer})), "text/event-stream")
    turn = ask(page, "anything")
    page.unfake()
    return turn


def test_charts(page):
    for mark, encoding, selector, count in CHARTS:
        page.size(1100, 820)
        turn = answered(page, chart={"mark": mark, "encoding": encoding, "data": {"name": "result"}}, result=ROWS)
        marks = f"{turn} .chart .mark-{selector}.role-mark path"
        drawn = page.wait(f"[...document.querySelectorAll('{marks}')].map(e => e.outerHTML)")
        assert len(drawn) == count and not [d for d in drawn if "NaN" in d or "undefined" in d], mark
        texts = page.eval(f"[...document.querySelectorAll('{turn} .chart svg text')].map(t => t.textContent)")
        legend = {"bar": {"a", "b"}, "line": {"a", "b"}, "arc": {"2024-01-01", "2024-06-01"}}.get(mark, set())
        assert legend <= set(texts)
        page.size(390, 800)
        page.wait(f"document.querySelector('{turn} .chart svg').getBoundingClientRect().width < 390")
        outside = page.eval(f"""(box => [...document.querySelectorAll('{marks}')].filter(e => {{
            const r = e.getBoundingClientRect(); return r.left < box.left - 4 || r.right > box.right + 4 || r.top < box.top - 4 || r.bottom > box.bottom + 4;
        }}).length)(document.querySelector('{turn} .chart svg').getBoundingClientRect())""")
        assert outside == 0 and stays_inside(page) and page.problems == []


def test_of_many_series_the_largest_are_drawn_and_rows_are_charted(page):
    rows = {"columns": ["when", "kind", "total_value"], "types": ["DATE", "VARCHAR", "DOUBLE"],
            "rows": [[f"2024-0{m}-01", f"k{k:02}", k * m] for m in range(1, 7) for k in range(30)]}
    encoding = {"x": {"field": "when", "type": "temporal"}, "y": {"field": "total_value", "type": "quantitative"}, "color": {"field": "kind"}}
    for chart in ({"mark": "line", "encoding": encoding, "data": {"name": "result"}}, None):  # None: one that the page makes
        turn = answered(page, chart=chart, result=rows)
        if not chart:
            page.click(f"{turn} .rows .bar button", "Chart")
        assert page.wait(f"document.querySelectorAll('{turn} .chart .mark-line.role-mark path').length") == 8
        assert page.text(f"{turn} .chart .note") == "The 8 largest of 30 by kind; the table has all."
        assert "k29" in page.eval(f"[...document.querySelectorAll('{turn} .chart svg text')].map(t => t.textContent)")
    page.click(f"{turn} .kinds button", "Area")
    corners = page.wait(f"[...document.querySelectorAll('{turn} .chart .mark-area.role-mark path')].map(e => e.getAttribute('d').match(/[ML]/g).length)")
    assert corners == [12] * 8  # an upper and a lower one for each of six months
    page.click(f"{turn} .kinds button", "Pie")
    page.wait(f"document.querySelectorAll('{turn} .chart .mark-arc path').length === 6")
    assert page.text(f"{turn} figcaption") == "Total value by when" and page.problems == []


# Steps between them that are too small to count would be counted for ever.
HARD_NUMBERS = [[1e300] * 12, [2 ** 53] * 12, [1e16 + 2 * m for m in range(12)], [-1e308, 1e308] * 6, [5e-324] * 12, [0] * 12, [7] * 12]


def test_charts_of_any_numbers_end(page):
    for values in HARD_NUMBERS:
        rows = {**ROWS, "rows": [[f"2024-{m + 1:02}-01", "a", v] for m, v in enumerate(values)]}
        for mark, kind in (("line", "temporal"), ("bar", "nominal")):
            encoding = {"x": {"field": "when", "type": kind}, "y": {"field": "value", "type": "quantitative"}}
            turn = answered(page, chart={"mark": mark, "encoding": encoding, "data": {"name": "result"}}, result=rows)
            page.wait(f"document.querySelector('{turn} .chart svg')")
            assert page.eval(f"document.querySelectorAll('{turn} .chart svg text').length") < 100
    assert page.problems == []


def test_csv_has_no_formulas(page):
    """What a spreadsheet would take for a formula is text; numbers stay numbers."""
    rows = {"columns": ["=1+1", "n"], "types": ["VARCHAR", "DOUBLE"], "rows": [["=cmd|' /C calc'!A0", -5], ["@SUM(1)", 2], ["-12.5", 3], ["+x", 4], ["a-b", 5]]}
    page.fake("/message/stream", events(("done", {"response": "x", "status": "succeeded", "result": rows})), "text/event-stream")
    turn = ask(page, "anything")
    page.click(f"{turn} .bar button", "CSV")
    assert page.saved(".csv")[1].decode().splitlines() == ["'=1+1,n", "'=cmd|' /C calc'!A0,-5", "'@SUM(1),2", "-12.5,3", "'+x,4", "a-b,5"]


# ---- small and dark ----


@pytest.mark.phone
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(page, scheme):
    page.scheme(scheme)
    page.size(360, 700)
    assert stays_inside(page)
    ask(page, "SQL: SELECT *, 'a rather long text that goes on and on' AS words FROM orders LIMIT 30")
    ask(page, "SQL: SELECT " + ", ".join(f"{n} AS a_column_with_a_long_name_{n}" for n in range(20)))
    ask(page, "PYTHON: print('w' * 500)")
    assert stays_inside(page)
    paper, ink = page.eval("[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.documentElement).color]"
                           ".map(c => c.match(/\\d+/g).reduce((a, b) => a + +b, 0))")
    assert (paper < ink) == (scheme == "dark")
    assert page.problems == []


# ---- what people know about their data ----


def test_describing_data(page, tmp_path):
    path = tmp_path / "parcels.csv"
    path.write_text("id,st,v1\n1,completed,10\n2,returned,20\n3,completed,5\n")
    upload(page, path)
    page.click("#show-data") if not page.visible("#data") else None
    page.click("#describe")
    page.wait("document.querySelectorAll('#words .column').length === 3")
    page.click("#words [aria-label='Description of v1']")
    page.type("Shipping weight")
    page.click("#words [aria-label='Unit of v1']")
    page.type("kg")
    page.click("#words button", "Add a metric")
    page.click("#words .metric input")
    page.type("net weight")
    page.click("#words .metric input:nth-of-type(2)")
    page.type("sum of v1 where st is completed")
    page.click("#words button", "Save")
    page.wait("!document.getElementById('words')")
    turn = ask(page, "what is the net weight?")
    assert page.text(f"{turn} .stat b") == "15"
    # It is there when the dialog is opened again, and what the server refuses is said in it.
    page.click("#show-data") if not page.visible("#data") else None
    page.click("#describe")
    page.wait("document.querySelector('#words [aria-label=\"Unit of v1\"]')?.value === 'kg'")
    page.eval("document.querySelector('#words .metric input').removeAttribute('maxlength'); "
              "document.querySelector('#words .metric input').value = 'm'.repeat(81)")
    page.click("#words button", "Save")
    page.wait("document.querySelector('#words .problem:not([hidden])')?.innerText.includes('1 to 80 bytes')")
    page.click("#words button", "Cancel")
    page.wait("!document.getElementById('words')")
    assert all("400" in str(problem) for problem in page.problems)  # the refused one, and nothing else


def test_confirming_an_answer(page, tmp_path):
    path = tmp_path / "confirmed.csv"
    path.write_text("kind,n\na,1\nb,2\n")
    upload(page, path)
    turn = ask(page, "total n by kind")
    page.click(f"{turn} .confirm", "Confirm this answer")
    page.wait(f"document.querySelector('{turn} .confirm').getAttribute('aria-pressed') === 'true'")
    again = ask(page, "Total n by kind?")
    assert "Answered as you confirmed it earlier." in page.text(again) and not page.visible(f"{again} .confirm")
    page.reload()
    page.wait("document.querySelector('.confirm')?.innerText === '✓ Confirmed'")
    page.click(".turn .confirm")
    page.wait("document.querySelector('.confirm').getAttribute('aria-pressed') === 'false'")
    assert "Answered as you confirmed it earlier." not in page.text(ask(page, "total n, by kind"))
    assert page.problems == []
