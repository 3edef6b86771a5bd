"""Answers on the page: all rows of a result, charts, code that is changed and run again, words of a model, and what must not run."""

import json
import os
import subprocess

import pytest

from server import ROOT, wait_until
from steps import BARS, IDLE, LAST, ask, cells, choose, events, stays_inside
from test_ui_threads import act

FRAME_MS = 100  # that the page may be busy at once; of the processor's time, as others use it too


def shows(page, done, kind="text/event-stream"):
    page.fake("/message/stream", events(("done", {"status": "succeeded", **done})), kind)
    return ask(page, "anything")


# ---- tables ----


def test_all_rows_of_a_large_result(page):
    """A million rows: only those in sight are in the document, and the server sends what is scrolled to."""
    turn = ask(page, "SQL: SELECT i AS n, 'name ' || (i % 1000) AS name, i / 8 AS part FROM range(1000000) t(i)")
    page.wait(f"document.querySelector('{turn} .bar')?.innerText.includes('1,000,000 rows')")
    assert page.eval(f"document.querySelectorAll('{turn} tbody tr').length") < 60
    end = f"document.querySelector('{turn} .scroll').dispatchEvent(new KeyboardEvent('keydown', {{ key: 'End', bubbles: true }}))"
    busy = page.longest_task(lambda: page.wait(f"{end} && [...document.querySelectorAll('{turn} tbody tr')].some(r => r.cells[0].textContent === '999,999')"))
    assert busy["processor"] < FRAME_MS, busy
    last = page.eval(f"""(box => [...document.querySelectorAll('{turn} tbody tr')].filter(r => r.cells[0].textContent === '999,999').map(r => {{
        const at = r.getBoundingClientRect(); return at.top >= box.top && at.bottom <= box.bottom + 1; }})[0])(document.querySelector('{turn} .scroll').getBoundingClientRect())""")
    assert last is True  # in sight
    by_n = f"document.querySelector('{turn} th button').click()"  # the mouse is for test_sort_filter_and_copy
    page.eval(f"{by_n}, {by_n}")
    page.wait(f"document.querySelector('{turn} tbody td').textContent === '999,999' && document.querySelector('{turn} th').getAttribute('aria-sort') === 'descending'")
    page.click(f"{turn} .bar button", "Filter")
    page.wait(f"document.activeElement.type === 'search'")
    page.type("99999")
    page.wait(f"document.querySelector('{turn} .bar').innerText.includes('of 1,000,000 rows')")
    assert page.problems == []


def test_sort_filter_and_copy(page):
    rows = {"columns": ["word", "n"], "types": ["VARCHAR", "DECIMAL(4,1)"], "rows": [["b", "10.5"], ["a", "9.0"], [None, "100.0"], ["c", None], ["<i>d</i>", "1.0"], ["e", "2.0"], ["f", "3.0"]]}
    turn = shows(page, {"response": "x", "result": rows})
    page.click(f"{turn} th button", "n")
    assert [r[0] for r in cells(page, turn)] == ["<i>d</i>", "e", "f", "a", "b", "null", "c"]
    page.click(f"{turn} th button", "n")
    assert [r[0] for r in cells(page, turn)] == ["null", "b", "a", "f", "e", "<i>d</i>", "c"]  # nulls last
    page.click(f"{turn} .bar button", "Filter")
    page.type("<I>")
    page.wait(f"document.querySelectorAll('{turn} tbody tr').length === 1")
    assert "1 of 7 rows" in page.text(f"{turn} .bar") and page.problems == []


# ---- charts ----


def test_chart_is_switched_and_saved(page):
    choose(page, "Support Tickets")
    turn = ask(page, "how many tickets by priority?")
    bars = page.wait(f"document.querySelectorAll('{turn} {BARS}').length")
    page.click(f"{turn} .kinds button", "Pie")
    page.wait(f"document.querySelectorAll('{turn} .chart .mark-arc path').length === {bars}")
    page.click(f"{turn} .kinds button", "Line")
    page.wait(f"document.querySelectorAll('{turn} .chart .mark-line path').length === 1")
    page.click(f"{turn} .kinds button", "Bars")
    page.click(f"{turn} .chart .bar button", "Adjust")
    page.eval(f"(s => {{ s.value = '-y'; s.dispatchEvent(new Event('change', {{ bubbles: true }})); }})([...document.querySelectorAll('{turn} .adjust select')].pop())")
    page.wait(f"(h => h.length === {bars} && h.every((x, i) => !i || x <= h[i - 1] + 1))([...document.querySelectorAll('{turn} {BARS}')]"
              ".sort((a, b) => a.getBoundingClientRect().x - b.getBoundingClientRect().x || a.getBoundingClientRect().y - b.getBoundingClientRect().y)"
              ".map(e => Math.max(e.getBoundingClientRect().height, 0)))")
    page.click(f"{turn} .chart .menu > button")
    page.click(f"{turn} .chart [role=menuitem]", "SVG")
    assert page.saved("chart.svg")[1].startswith(b"<svg")
    page.click(f"{turn} .chart .menu > button")
    page.click(f"{turn} .chart [role=menuitem]", "PNG")
    assert page.saved("chart.png")[1].startswith(b"\x89PNG")
    assert page.problems == []


def test_months_are_written_under_a_line(page):
    choose(page, "E-commerce Orders")
    turn = ask(page, "total by month")
    labels = page.wait(f"(l => l.length > 2 && l)([...document.querySelectorAll('{turn} .chart .role-axis-label text')].map(t => t.textContent))")
    assert "Nov 2025" in labels and page.problems == [], labels


# ---- data ----


def test_role_of_a_column_is_corrected(page, server):
    choose(page, "E-commerce Orders")
    page.click("#show-data")
    page.click("#data .col .name", "customer_id")
    page.wait("document.querySelector('#data .role select')?.value === 'id'")
    page.eval("(s => { s.value = 'category'; s.dispatchEvent(new Event('change', { bubbles: true })); })(document.querySelector('#data .role select'))")

    def roles():
        return {c["name"]: c["role"] for c in server.get("/data/ecommerce/tables/orders").json["columns"]}

    wait_until(lambda: roles()["customer_id"] == "category", "a role that is kept")
    page.wait("document.querySelector('#data .role select')?.value === 'category'")
    assert server.call("PATCH", "/datasets/ecommerce", '{"tables": null}', {"Content-Type": "application/json"}).status == 200
    assert roles()["customer_id"] == "id" and page.problems == []


# ---- code ----


def test_edit_and_run_again(page):
    choose(page, "E-commerce Orders")
    turn = ask(page, "how many orders by status?")
    page.click(f"{turn} .ran summary")
    assert page.eval(f"document.querySelectorAll('{turn} .t-keyword').length") >= 2
    page.click(f"{turn} .code-block button", "Edit")
    page.wait(f"document.querySelector('{turn} .editor').shadowRoot?.querySelector('.cm-content')")
    assert [r for r in page.requests if "/ui/editor-" in r]
    page.press("Control", "a")
    page.type("SELECT 4711 AS marker, 2 AS more")
    page.click(f"{turn} .code-block button", "Run")
    page.wait(f"document.querySelector('{turn} .again tbody')")
    assert cells(page, f"{turn} .again") == [["4,711", "2"]]
    page.press("Control", "a") if page.eval(f"document.querySelector('{turn} .editor').shadowRoot.activeElement !== null") else None
    page.click(f"{turn} .code-block button", "Discard")
    page.wait(f"document.querySelector('{turn} .code-block pre')?.textContent.includes('status')")
    assert page.problems == []


# ---- the composer ----


def test_composer_recalls_completes_and_switches(page):
    choose(page, "E-commerce Orders")
    page.click(".modes button", "SQL")
    page.type("SELECT 5 AS five, 6 AS six")
    page.press("Enter")
    page.wait(f"document.querySelectorAll('.turn').length === 1 && {IDLE}")
    assert page.text(".question") == "SQL: SELECT 5 AS five, 6 AS six" and cells(page, LAST) == [["5", "6"]]
    page.click("#question")
    page.press("ArrowUp")
    page.wait("document.getElementById('question').value === 'SELECT 5 AS five, 6 AS six'")
    page.press("ArrowDown")
    page.wait("document.getElementById('question').value === ''")
    page.click(".modes button", "Question")
    page.wait("document.querySelector('#show-data')")
    page.type("average tot")
    page.wait("document.querySelector('#offered button')?.innerText.startsWith('total')")
    page.press("Tab")
    page.wait("document.getElementById('question').value === 'average total'")
    page.type(" by or")
    page.wait("document.querySelectorAll('#offered button').length > 1")
    second = page.texts("#offered button")[1]
    page.press("ArrowDown")
    page.wait(f"document.querySelector('#offered .picked').innerText.startsWith({json.dumps(second)})")
    page.press("Tab")
    page.wait(f"document.getElementById('question').value === 'average total by ' + {json.dumps(second)}")
    page.eval("document.activeElement.blur()")
    page.press("?")
    page.wait("document.getElementById('help')")
    page.press("Escape")
    page.wait("!document.getElementById('help')")
    assert page.problems == []


def test_pasted_table_is_uploaded(page):
    page.eval("""document.dispatchEvent(new ClipboardEvent('paste', { bubbles: true, clipboardData:
        (d => (d.setData('text/plain', 'fruit\\tgrams\\napple\\t182\\npear\\t178\\n'), d))(new DataTransfer()) })), 0""")
    page.wait("document.querySelector('#sets [aria-pressed=true] b')?.innerText === 'pasted.tsv' && !document.getElementById('uploading')")
    assert page.text(f"{ask(page, 'total grams')} .stat b") == "360"


# ---- words ----


def test_markdown_in_full(page):
    text = ("# Sales\n\nNorth **leads**, ~~south~~ follows. See [the docs](https://example.com/a?b=1).\n\n| region | total |\n|---|--:|\n| north | 35 |\n| south | 12 |\n\n"
            "> quoted\n\n1. one\n   - nested\n2. two\n\n```sql\nSELECT 1\n```\n\n---\nline\nbreak\n\nMost for القاهرة (35) on 2025-08-12.")
    turn = shows(page, {"response": text})
    # The number stays behind the name that is written from the right, and a date is not broken.
    assert page.texts(f"{turn} bdi") == ["القاهرة"] and page.texts(f"{turn} .unbroken") == ["2025-08-12"]
    name, number = page.eval(f"(r => [r(0), r(1)])(i => {{ const range = document.createRange(), n = document.querySelector('{turn} bdi'); "
                             "range.selectNode(i ? n.nextSibling : n); return range.getBoundingClientRect().left; })")
    assert name < number
    assert page.texts(f"{turn} .text th") == ["region", "total"] and page.texts(f"{turn} .text td") == ["north", "35", "south", "12"]
    assert page.eval(f"(a => [a.href, a.rel, a.target])(document.querySelector('{turn} .text a'))") == ["https://example.com/a?b=1", "noopener noreferrer", "_blank"]
    assert page.text(f"{turn} .text h1") == "Sales" and page.text(f"{turn} del") == "south" and page.text(f"{turn} li li") == "nested"
    assert page.text(f"{turn} .text pre").strip() == "SELECT 1" and page.eval(f"document.querySelectorAll('{turn} .text br').length") == 1
    assert page.problems == []


HOSTILE = ["<script>window.hit=1</script>", "<img src=x onerror=window.hit=1>", "<svg/onload=window.hit=1>", "[x](javascript:window.hit=1)", "[x](data:text/html,<script>top.hit=1</script>)",
           "![x](https://example.com/x.png)", "<iframe srcdoc='<script>top.hit=1</script>'></iframe>", "<a href='javascript:window.hit=1'>x</a>", "<style>*{display:none}</style>",
           "<form action=//example.com><input name=x></form>", "`<img src=x onerror=window.hit=1>`", "```\n</code></pre><script>window.hit=1</script>\n```", "| <img src=x onerror=window.hit=1> |\n|---|\n| <b onmouseover=window.hit=1>x</b> |",
           "[x]: javascript:window.hit=1\n[y][x]", "<math><mi xlink:href='data:x,<script>window.hit=1</script>'>", "<noscript><p title='</noscript><img src=x onerror=window.hit=1>'>"]


def test_hostile_answers_do_not_run(page, server):
    svg = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40' onload='top.hit=1'><script>top.hit=1</script><image href='https://example.com/x.png'/><rect width='40' height='40'/></svg>"
    reading = "<img src=x onerror=window.hit=1>"
    rows = {"columns": ["<img src=x onerror=window.hit=1>", "n"], "types": ["VARCHAR", "BIGINT"], "rows": [["<script>window.hit=1</script>", 1], ["<svg onload=window.hit=1>", 2]]}
    chart = {"mark": "bar", "title": reading, "encoding": {"x": {"field": rows["columns"][0], "type": "nominal", "title": reading}, "y": {"field": "n", "type": "quantitative"}}, "data": {"url": "https://example.com/x.csv"}}
    turn = shows(page, {"response": "\n\n".join(HOSTILE), "result": rows, "chart": chart, "images": [{"svg": svg, "text": reading}], "reading": reading, "warning": reading, "not_understood": [reading],
                        "files": [{"path": reading, "size": 1}], "model": reading, "total_ms": 1, "choices": None, "code_runs": [{"language": "sql", "code": f"SELECT '{reading}' -- {reading}", "output": reading}]})
    page.wait(f"document.querySelector('{turn} .picture img').naturalWidth === 40")
    page.wait(f"document.querySelectorAll('{turn} {BARS}').length === 2")
    page.eval("[...document.querySelectorAll('.answer *')].forEach(e => e.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }))), 0")
    made = page.eval("document.querySelectorAll('.text :is(script, img, svg, iframe, style, form, input, math, [onerror], [onload], [onmouseover]), .text a:not([href^=http]):is([href])').length")
    assert made == 0 and page.eval("window.hit ?? null") is None
    assert "<img src=x onerror=window.hit=1>" in page.text(f"{turn} .text")
    own = f"http://127.0.0.1:{server.port}/"
    assert all(r.startswith((own, "data:", "blob:" + own)) for r in page.requests)
    assert page.problems == [] and stays_inside(page)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_long_answer(page, streamed):
    """20,000 tokens with tables that come at once: all is shown, and no frame waits long for it."""
    def table(rows):
        return "\n\n| a | b |\n|---|--:|\n" + "".join(f"| row {i} | {i * 7:,} |\n" for i in range(rows)) + "\n"
    tokens = [w + " " for i in range(1000) for w in f"Paragraph {i} says that the **north** leads and goes on for some more words until it really ends here again".split()]
    tokens = [t + (table(2000 if i == 7999 else 12) if i % 800 == 799 else "\n\n" if i % 20 == 19 else "") for i, t in enumerate(tokens)]
    body = "".join(tokens)
    flags = [{"text": "91", "offset": body.index("| row 13 | 91 |") + 11}]
    page.fake("/message/stream", events(*[("token", {"text": t}) for t in tokens if streamed], ("done", {"status": "succeeded", "response": body, "flagged": flags})), "text/event-stream")
    busy = page.longest_task(lambda: ask(page, "anything"))
    assert busy["processor"] < FRAME_MS, busy
    turn = LAST
    assert page.eval(f"document.querySelectorAll('{turn} .text table').length") == body.count("| a | b |")
    assert page.eval(f"[...document.querySelectorAll('{turn} .text p')].at(-1).textContent").startswith("Paragraph 999 says")
    # The long one is like other tables: only rows in sight are there, and it sorts by number.
    long = f"{turn} .text .rows"
    page.eval(f"document.querySelector('{long}').scrollIntoView()")
    page.wait(f"document.querySelector('{long} .bar').innerText.includes('2,000 rows')")
    assert page.eval(f"document.querySelectorAll('{long} tbody tr').length") < 60 and page.texts(f"{long} mark") == ["91"]
    page.click(f"{long} th button", "b")
    page.click(f"{long} th button", "b")
    page.wait(f"document.querySelector('{long} td').textContent === 'row 1999'")
    assert page.problems == []


# ---- files ----


def test_notebook_runs(page, tmp_path):
    """In Jupyter, against the data that was exported with it."""
    choose(page, "Support Tickets")
    ask(page, "how many tickets by priority?")
    ask(page, "PYTHON: print(6 * 7, len(tickets))")
    ask(page, "how many tickets per month?")
    ask(page, "PYTHON: print(tickets.created_at.dt.year.min())")
    act(page, "how many tickets by priority?", "Save as notebook")
    for name, content in (page.saved(".ipynb"), page.saved("tickets.csv")):
        (tmp_path / name).write_bytes(content)
    name = next(tmp_path.glob("*.ipynb")).name
    # The kernel is the python3 of PATH, and has to be Debian's.
    ran = subprocess.run(["jupyter-nbconvert", "--to", "notebook", "--execute", "--output", "ran.ipynb", name], cwd=tmp_path, capture_output=True, text=True,
                         env={**os.environ, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MPLCONFIGDIR": str(tmp_path)}, timeout=120)
    assert ran.returncode == 0, ran.stderr
    book = json.loads((tmp_path / "ran.ipynb").read_text())
    assert book["nbformat"] == 4 and {c["cell_type"] for c in book["cells"]} == {"markdown", "code"}
    _, counted, printed, months, year = [c["outputs"] for c in book["cells"] if c["cell_type"] == "code"]
    table = "".join(counted[0]["data"]["text/plain"])
    assert "priority" in table and "Critical" in table, table
    rows = len((tmp_path / "tickets.csv").read_text().splitlines()) - 1
    assert "".join(printed[0]["text"]) == f"42 {rows}\n" and "".join(year[0]["text"]) == "2025\n"
    assert "2025-08-01" in "".join(months[0]["data"]["text/plain"])


# ---- for everybody ----


@pytest.fixture(scope="session")
def axe():
    return (ROOT / "third_party/page/node_modules/axe-core/axe.min.js").read_text()


def serious(page, axe, inside="html"):
    if page.eval("typeof axe") == "undefined":
        page.eval(axe + "; 0")
    return page.eval(f"axe.run('{inside}', {{ resultTypes: ['violations'], preload: false }})"
                     ".then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
                     ".map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ')))")


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_the_way(page, server, axe, scheme, phone):
    """axe-core, on every view."""
    page.scheme(scheme)
    page.size(*((390, 800) if phone else (1280, 820)))
    shots = ROOT / os.environ.get("RIDDLE_BUILD", "build") / "screenshots"
    shots.mkdir(exist_ok=True)

    def shoot(name):
        page.screenshot(shots / f"{name}-{390 if phone else 1280}-{scheme}.png")

    choose(page, "E-commerce Orders")
    assert serious(page, axe) == []
    shoot("start")
    page.eval("document.activeElement.blur()")
    page.press("?")
    page.wait("document.getElementById('help')")
    shoot("help")
    page.press("Escape")
    if phone:
        page.click("header button[aria-label='Show the threads']")
        page.wait("!document.getAnimations().length")
        shoot("threads")
        page.press("Escape")
    turn = ask(page, "how many orders by status?")
    page.wait(f"document.querySelector('{turn} {BARS}')")
    page.eval(f"document.querySelector('{turn}').scrollIntoView()")
    shoot("answer")
    page.click(f"{turn} .chart .bar button", "Adjust")
    page.click(f"{turn} .ran summary")
    shoot("code")
    ask(page, "SQL: SELECT * FROM nowhere")
    assert serious(page, axe) == []
    page.click("#show-data")
    page.wait("document.querySelector('#data .col')")
    page.click("#data .col .name", "status")
    assert serious(page, axe) == []
    shoot("data")
    page.click("#data button", "All rows")
    page.wait("document.querySelectorAll('#all-rows tbody tr').length > 5")
    shoot("rows")
    page.press("Escape")
    page.click("#describe")
    page.wait("document.querySelectorAll('#words .column').length")
    assert serious(page, axe, "#words") == []
    shoot("describe")
    page.press("Escape")
    page.wait("!document.getElementById('words')")
    page.click("#data [aria-label='Close the data']")
    page.click("header .menu > button")
    page.click("header [role=menuitem]", "Checkpoints")
    page.wait("document.querySelector('#checkpoints .empty')")
    assert serious(page, axe, "#checkpoints") == []
    shoot("checkpoints")
    page.open(f"http://127.0.0.1:{server.port}/ui/status")
    page.wait("document.querySelector('.panel')")
    assert serious(page, axe) == [] and stays_inside(page)
    shoot("status")
    small = page.eval("[...document.querySelectorAll('button, a, select, input, summary')].filter(e => e.checkVisibility() && !e.closest('.unseen') && !e.classList.contains('unseen') && "
                      "!e.classList.contains('skip') && !e.closest('p, li li') && e.getBoundingClientRect().height < 31.5).map(e => e.outerHTML.slice(0, 120))")
    assert small == []


def test_paper_has_the_answers_only(page):
    choose(page, "E-commerce Orders")
    turn = ask(page, "SQL: SELECT status, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1")
    page.do("media", {"media": "print"})
    try:
        assert page.visible(f"{turn} .question") and page.visible(f"{turn} tbody td")
        assert not any(page.visible(s) for s in ("#side", "footer", f"{turn} .bar button", "header button"))
        assert page.eval("getComputedStyle(document.querySelector('.scroller')).overflowY") == "visible"
    finally:
        page.do("media", {"media": "screen"})


@pytest.mark.phone
def test_composer_fits_a_small_phone(page):
    page.size(360, 780)
    for mode in ("Question", "SQL", "Python"):
        page.click(".modes button", mode)
        page.wait(f"document.querySelector('.modes [aria-pressed=true]').innerText === '{mode}'")
        assert stays_inside(page)
        assert page.eval("(box => box.right <= innerWidth - 8 && box.height < 60)(document.getElementById('send').getBoundingClientRect())"), mode


def test_rows_are_saved_as_they_are_arranged(page):
    choose(page, "E-commerce Orders")
    turn = ask(page, "SQL: SELECT order_id, total, status FROM orders")
    page.wait(f"document.querySelector('{turn} .bar')?.innerText.includes('4,018 rows')")
    page.click(f"{turn} .bar button", "Filter")
    page.type("cancelled")
    page.wait(f"document.querySelector('{turn} .bar span').innerText.includes(' of 4,018 rows')")
    page.click(f"{turn} th button", "total")
    page.wait(f"document.querySelector('{turn} th[aria-sort=ascending]')")
    shown = int(page.text(f"{turn} .bar span").split()[0].replace(",", ""))
    page.click(f"{turn} button[aria-label='Save the rows']")
    page.click(f"{turn} [role=menuitem]", "CSV")
    _, content = page.saved(".csv")
    rows = [line.split(",") for line in content.decode().splitlines()[1:]]
    assert len(rows) == shown and {r[2] for r in rows} == {"cancelled"}
    totals = [float(r[1]) for r in rows]
    assert totals == sorted(totals)
