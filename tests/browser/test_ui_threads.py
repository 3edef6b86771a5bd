"""Threads on the page: the list, two tabs, the data beside them, the state of the server, files made of them."""

import json

import pytest

from server import RIDDLE, wait_until
from steps import IDLE, LAST, ask, cells, choose, upload


def titles(page):
    return page.texts("#threads a span")


def act(page, title, what):
    """An action of a thread's menu."""
    found = f"[...document.querySelectorAll('#threads li')].find(l => l.innerText.includes({json.dumps(title)}))"
    page.wait(found)
    page.eval(f"{found}.querySelector('.menu > button').click()")
    page.click("#threads [role=menuitem]", what)


def test_rename_pin_and_find(page, server):
    ask(page, "SQL: SELECT 1 AS first_of_all")
    first = page.eval("location.pathname")
    page.click("#new")
    page.wait("document.getElementById('start') && !document.querySelector('.turn')")
    ask(page, "SQL: SELECT 2 AS second_of_all")
    act(page, "first_of_all", "Rename")
    page.wait("document.activeElement.getAttribute('aria-label') === 'Name of the thread'")
    page.type("<b>Lions</b> of <img src=x onerror=window.hit=1>")
    page.press("Enter")
    page.wait("[...document.querySelectorAll('#threads a span')].some(s => s.textContent.startsWith('<b>Lions</b>'))")
    assert server.get("/thread/" + first[3:] + "/status").json["title"].startswith("<b>Lions</b>")
    act(page, "Lions", "Pin")
    page.wait("document.querySelector('#threads h2')?.innerText === 'Pinned'")
    assert titles(page)[0].startswith("<b>Lions</b>")
    page.reload()
    page.wait("document.querySelector('#threads h2') && document.querySelectorAll('#threads a').length >= 2")
    assert titles(page)[0].startswith("<b>Lions</b>")
    page.click("#find")
    page.type("second_of")
    page.wait("[...document.querySelectorAll('#threads a span')].every(s => s.textContent.includes('second_of')) && !document.querySelector('#threads h2')")
    page.eval("(i => { i.value = 'no such thing'; i.dispatchEvent(new Event('input', { bubbles: true })); })(document.getElementById('find'))")
    page.wait("document.querySelector('#threads .empty')?.innerText === 'No thread has this in its name.'")
    page.eval("(i => { i.value = ''; i.dispatchEvent(new Event('input', { bubbles: true })); })(document.getElementById('find'))")
    act(page, "Lions", "Unpin")
    page.wait("!document.querySelector('#threads h2')")
    page.click("#threads a", "Lions")
    page.wait("document.querySelector('header h1')?.innerText.startsWith('<b>Lions</b>')")
    assert page.eval("window.hit ?? null") is None and page.problems == []


def test_two_tabs_follow_each_other(page, server):
    ask(page, "PYTHON: kept = 41")
    other = page.sibling()
    try:
        other.open(f"http://127.0.0.1:{server.port}{page.eval('location.pathname')}")
        other.wait("document.querySelectorAll('.turn').length === 1")
        page.front()
        turn = ask(page, "PYTHON: print('begun', flush=True)\nwhile True: pass", wait=False)
        other.front()
        other.wait(f"document.querySelector('{turn} .live')?.textContent.includes('begun')")  # while it runs
        other.click("#stop")
        page.wait(IDLE)  # in the background
        other.wait(IDLE)
        assert "Stopped before it was finished." in page.text(turn) and "Stopped before it was finished." in other.text(turn)
        ask(other, "PYTHON: print(kept + 1)")
        page.front()
        page.wait(f"document.querySelectorAll('.turn').length === 3 && document.querySelector('{LAST} .output')?.innerText === '42'")
        page.click("#threads li.here .menu > button")
        page.click("#threads [role=menuitem]", "Delete")
        other.wait("document.getElementById('start') && document.querySelector('#notice')?.innerText.includes('deleted in another tab')")
        assert other.problems == [] and page.problems == []
    finally:
        other.close()


def test_data_panel(page, tmp_path):
    path = tmp_path / "<img src=x onerror=window.hit=1>.csv"
    path.write_text("fruit,grams\napple,182\napple,178\n<b id=hit>pear</b>,\n")
    upload(page, path)
    page.click("#show-data")
    page.wait("document.querySelectorAll('#data .col').length === 2")
    assert page.text("#data h2") == path.name
    page.click("#data .col .name", "fruit")
    page.wait("document.querySelector('#data .detail .top')")
    assert page.texts("#data .top span")[0] == "apple" and "<b id=hit>pear</b>" in page.texts("#data .top span")
    assert cells(page, "#data .sample") == [["apple", "182"], ["apple", "178"], ["<b id=hit>pear</b>", ""]]
    # What comes later has come, so that nothing moves under the mouse.
    page.wait("[...document.querySelectorAll('#data .acts button')].some(b => b.innerText === 'Delete') && "
              "/ · (id|time|measure|category|flag|text) · /.test(document.querySelector('#data .detail .note').innerText)")
    page.click("#data button", "All rows")
    page.wait("document.querySelectorAll('#all-rows tbody tr').length === 3")
    assert cells(page, "#all-rows")[0] == ["apple", "182"]
    page.press("Escape")
    page.wait("!document.getElementById('all-rows')")
    page.click("#data .detail button", "Ask about it")
    page.wait("document.getElementById('question').value === 'fruit'")
    page.click("#data .acts button", "Delete")
    page.wait(f"!document.getElementById('data') && ![...document.querySelectorAll('#sets b')].some(b => b.innerText === {json.dumps(path.name)})")
    assert page.eval("[window.hit ?? null, document.getElementById('hit')]") == [None, None] and page.problems == []


def test_how_a_file_was_read(page, tmp_path):
    path = tmp_path / "messy.csv"
    path.write_text("a;b\n1,5;x\n2,5;<img src=x onerror=window.hit=1>\nsome note\n")
    upload(page, path)
    text = page.wait("document.querySelector('.read')?.innerText")
    assert "messy.csv" in text and "2 rows" in text and "separated by semicolons, decimal commas" in text and "skipped" in text
    page.click(".read button", "See the data")
    page.wait("document.querySelector('#data .report') && document.querySelector('#data .reading')")
    # Each decision can be taken otherwise; what cannot be is told, and changes nothing.
    page.click("#data .reading summary")
    choice = "document.querySelector('#data .reading [name={}]')"

    before = page.text("#data .col .tag")
    types = choice.format("types")
    page.eval(f"{types}.value = 'text'; {types}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
    page.wait(f"!document.querySelector('[aria-busy]') && document.querySelector('#data .col .tag').innerText !== {json.dumps(before)}")
    page.click("#data .reading [name=header_line]")
    page.type("900")
    page.press("Enter")
    assert page.wait("!document.querySelector('[aria-busy]') && document.querySelector('#data .reading .problem')?.innerText")
    assert page.eval(f"[{choice.format('header_line')}.value, {choice.format('types')}.value]") == ["", "text"]
    assert len(page.problems) == 1 and "400" in page.problems.pop()
    choose(page, "Support Tickets")
    page.wait("!document.querySelector('.read')")
    assert page.eval("window.hit ?? null") is None and page.problems == []


def test_every_prompt_of_an_upload_works(page, tmp_path):
    """They are made of its columns (tests/integration/test_prompts_of_uploads.py has more of them), and the first draws a chart."""
    path = tmp_path / "german.csv"
    path.write_text("Datum;Filiale;Umsatz\n" + "".join(f"{d:02}.{m:02}.2024;{['Köln', 'Bremen'][d % 2]};{m * d},5\n" for m in range(1, 7) for d in (1, 2, 15)))
    upload(page, path)
    prompts = page.wait("[...document.querySelectorAll('#chips button')].map(b => b.innerText)")
    assert prompts[:2] == ["Total Umsatz by Filiale", "Total Umsatz by month"] and len(prompts) == 4
    for prompt in prompts:
        page.click("#chips button", prompt)
        page.wait(f"document.querySelectorAll('.turn').length === 1 && {IDLE}")
        assert page.visible(f"{LAST} .rows, {LAST} .stat") and not page.visible(f"{LAST} .chips, {LAST} .problem, {LAST} .doubt"), (prompt, page.text(LAST))
        if prompt == prompts[0]:
            page.wait(f"document.querySelector('{LAST} .chart svg')")
        page.click("#new")
        choose(page, path.name)
    assert page.problems == []


def test_file_added_to_a_thread(page, tmp_path):
    choose(page, "Support Tickets")
    ask(page, "PYTHON: kept = 41")
    path = tmp_path / "extra.csv"
    path.write_text("word,n\na,1\nb,2\n")
    page.choose_files("#file", path)
    assert page.wait("document.getElementById('added')?.innerText") == "extra.csv was added to this thread: ask about extra."
    turn = ask(page, "SQL: SELECT (SELECT sum(n) FROM extra) AS s, (SELECT count(*) > 0 FROM tickets) AS t")
    assert cells(page, turn) == [["3", "true"]] and not page.visible("#added")
    assert page.text(f"{ask(page, 'PYTHON: print(kept + 1)')} .output") == "42" and page.problems == []


def test_status_of_the_server(page):
    page.click("#side .links a", "Status")
    page.wait("location.pathname === '/ui/status' && document.querySelector('.health.good') && document.querySelectorAll('.panel').length >= 4")
    assert "Kernels" in page.texts(".panel h2") and page.eval("document.title") == "Status · Riddle"
    page.reload()
    page.wait("document.querySelector('.health.good')")
    page.click(".settings summary")
    page.wait("document.querySelector('.settings dl')?.innerText.length > 0")
    assert "RATE_LIMIT_MAX" in page.text(".settings") and "OPENAI_API_KEY" in page.text(".settings")
    page.eval("history.back()")
    page.wait("document.getElementById('start')")
    assert page.problems == []


def test_thread_as_files(page):
    choose(page, "Support Tickets")
    ask(page, "how many tickets by priority?")
    ask(page, "PYTHON: print('a | b')")
    title = "how many tickets by priority?"
    act(page, title, "Save as Markdown")
    text = page.saved(".md")[1].decode()
    assert text.startswith(f"# {title}\n\n## {title}\n") and "| priority |" in text and "```sql" in text and "```python\nprint('a | b')" in text
    act(page, title, "Save as HTML")
    text = page.saved(".html")[1].decode()
    assert "<th>priority</th>" in text and "default-src 'none'" in text


@pytest.mark.skipif("asan" in str(RIDDLE), reason="a sanitizer's own memory is no part of an image")
def test_a_cold_thread_wakes(page, server):
    """Its kernel is a file until somebody asks; then its variables are back."""
    ask(page, "PYTHON: kept = 41")
    thread = page.eval("location.pathname")[3:]
    assert server.post(f"/thread/{thread}/cool", {}).status == 200
    wait_until(lambda: server.get(f"/thread/{thread}/status").json["sandbox_status"] == "cold", "a cold thread")
    page.reload()
    page.wait("document.querySelectorAll('.turn').length === 1 && document.querySelector('#threads li.here .state.cold')")
    ask(page, "PYTHON: print(kept + 1, flush=True)\ninput('Go on? ')", wait=False)
    page.wait("document.querySelector('.asked-line input') && document.querySelector('#threads li.here .state.hot')")  # while it runs
    page.click(".asked-line input")
    page.press("Enter")
    page.wait(f"{IDLE} && document.querySelector('{LAST} .output')")
    assert page.text(f"{LAST} .output").startswith("42") and page.visible("#threads li.here .state.hot")
    server.post(f"/thread/{thread}/cool", {})
    page.reload()
    page.wait("document.querySelector('#threads li.here .state.cold')")
    page.click(f"{LAST} summary")
    page.click(f"{LAST} .code-block button", "Edit")
    page.wait(f"document.querySelector('{LAST} .editor').shadowRoot?.querySelector('.cm-content')")
    page.eval(f"document.querySelector('{LAST} .editor').shadowRoot.querySelector('.cm-content').focus()")
    page.press("Control", "a")
    page.type("kept + 2")
    page.click(f"{LAST} .code-block button", "Run")
    page.wait("document.querySelector('#threads li.here .state.hot')")
    assert page.problems == []


@pytest.mark.skipif("asan" in str(RIDDLE), reason="a sanitizer's own memory is no part of an image")
def test_fork_and_roll_back(page, server):
    ask(page, "PYTHON: total = 41\nprint(total)")
    first = page.eval("location.pathname")
    page.click("header .menu > button")
    page.click("header [role=menuitem]", "Checkpoints")
    page.wait("document.querySelector('#checkpoints .empty')?.innerText === 'There is none yet.'")
    page.click("#checkpoints input")
    page.type("before <b>it</b>")
    page.press("Enter")
    page.wait("document.querySelector('.kept li span')?.innerText.startsWith('before <b>it</b>')")
    page.click("#checkpoints .actions button", "Close")
    ask(page, "PYTHON: total = 0\nprint(total)")

    page.click("header .menu > button")
    page.click("header [role=menuitem]", "Fork")
    page.wait(f"location.pathname !== {json.dumps(first)} && document.querySelectorAll('.turn').length === 2")
    page.wait("document.querySelector('header h1').innerText.endsWith('(fork)')")
    ask(page, "PYTHON: total += 7\nprint(total)")
    assert page.text(f"{LAST} .output") == "7"

    page.eval("history.back()")
    page.wait(f"location.pathname === {json.dumps(first)} && document.querySelectorAll('.turn').length === 2")
    page.click("header .menu > button")
    page.click("header [role=menuitem]", "Checkpoints")
    page.click(".kept button", "Roll back")
    page.wait("document.querySelector('#checkpoints .done')?.innerText.includes('at “before <b>it</b>”. The 2 later messages can still be read.')")
    page.click("#checkpoints .actions button", "Close")
    ask(page, "PYTHON: print(total)")
    assert page.text(f"{LAST} .output") == "41"
    page.click("header .menu > button")
    page.click("header [role=menuitem]", "Checkpoints")
    page.click(".kept button[aria-label^=Delete]")
    page.wait("document.querySelector('#checkpoints .empty')")
    assert server.get("/thread/" + first[3:] + "/checkpoints").json["checkpoints"] == [] and page.problems == []
