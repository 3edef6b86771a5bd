"""The step debugger as a view: steps, a timeline, breakpoints, evaluation, and back in time."""

import json
import os

from server import ROOT, wait_until
from steps import IDLE, ask, choose, stays_inside
from test_ui_answers import axe, serious  # noqa: F401  a fixture

CODE = """\
total = 0
word = '<img src=x onerror="window.hacked = 1">'
for i in range(3):
    total += i
    print(word, i)
total * 100
"""
PLACE = "document.querySelector('#debug .place').innerText"


def do(page, label, then):
    page.click("#debug .controls button", label)
    page.wait(f"{PLACE} === {json.dumps(then)}")


def variables(page):
    return dict(page.eval("[...document.querySelectorAll('#debug .variables tbody tr')].map(r => [r.querySelector('th').firstChild.data, r.querySelector('code').textContent])"))


def changed(page):
    return page.eval("[...document.querySelectorAll('#debug .variables .changed th')].map(t => t.firstChild.data)")


def slide(page, to):
    page.eval(f"(s => {{ s.value = {to}; s.dispatchEvent(new Event('input', {{ bubbles: true }})); }})(document.querySelector('#debug [type=range]'))")
    page.wait(f"document.querySelector('#debug .timeline small').innerText.startsWith('{to} of ')")


def evaluate(page, expression):
    count = page.eval("document.querySelectorAll('#debug [role=log] p').length")
    page.click("#debug .evaluate input")
    page.type(expression)
    page.press("Enter")
    page.wait(f"document.querySelectorAll('#debug [role=log] p').length === {count + 1}")
    return page.eval("document.querySelector('#debug [role=log] p:last-child code:last-child').textContent")


def test_step_through(page, server, axe):  # noqa: F811
    choose(page, "E-commerce Orders")
    turn = ask(page, f"PYTHON: {CODE}")
    page.click(f"{turn} .ran summary")
    assert not [r for r in page.requests if "/ui/debug-" in r]  # nobody has asked for it yet
    page.click(f"{turn} .code-block button", "Step through")
    page.wait(f"{PLACE} === 'Ready: line 1 runs next'")
    do(page, "Next", "Paused: line 2 runs next")
    page.press("F10")
    page.wait(f"{PLACE} === 'Paused: line 3 runs next'")
    assert page.text("#debug .source [aria-current=step] code") == "for i in range(3):"
    assert variables(page) == {"total": "0", "word": repr('<img src=x onerror="window.hacked = 1">')} and changed(page) == ["word"]

    page.click("#debug .source [aria-label='Breakpoint at line 5']")
    page.wait("document.querySelector('#debug .source li:nth-child(5) button').ariaPressed === 'true'")
    do(page, "Continue", "Breakpoint: line 5 runs next")
    assert (variables(page)["total"], variables(page)["i"]) == ("0", "0")
    page.click("#debug .controls button", "Continue")
    page.wait("document.querySelector('#debug .timeline small').innerText === '7 of 7 steps'")
    assert (variables(page)["total"], variables(page)["i"]) == ("1", "1") and changed(page) == ["total"]
    assert page.text("#debug .written pre").count("<img src=x") == 1

    assert evaluate(page, "total + 41") == "42" and evaluate(page, "1 / 0") == "ZeroDivisionError: division by zero"
    assert "<img src=x onerror" in evaluate(page, "[word]")
    evaluate(page, "total = 5")  # a statement
    assert variables(page)["total"] == "5"

    # The timeline shows earlier moments, and the kernel goes back to the one that is shown.
    seen = []
    for at in range(7):
        slide(page, at)
        seen.append((variables(page).get("total"), variables(page).get("i")))
    assert seen == [(None, None), ("0", None), ("0", None), ("0", "0"), ("0", "0"), ("0", "0"), ("0", "1")], seen
    slide(page, 3)
    assert page.text("#debug .place") == "Earlier moment, after 3 of 7 steps: line 4 runs next" and page.text("#debug .written") == "Output\n\nNone yet."
    assert page.eval("document.querySelector('#debug .evaluate input').disabled")
    do(page, "Back", "Back: line 4 runs next")
    assert variables(page)["i"] == "0" and evaluate(page, "total, i") == "(0, 0)"
    do(page, "Back", "Back: line 3 runs next")
    assert "i" not in variables(page)

    shots = ROOT / os.environ.get("RIDDLE_BUILD", "build") / "screenshots"
    shots.mkdir(exist_ok=True)
    do(page, "Continue", "Breakpoint: line 5 runs next")
    page.click("#debug .controls button", "Continue")
    page.wait("document.querySelector('#debug .timeline small').innerText === '7 of 7 steps'")
    for width in (1280, 390):
        page.size(width, 800)
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            page.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            page.wait("!document.getAnimations().length")  # colours change gradually
            assert serious(page, axe) == [] and stays_inside(page)
            assert page.eval("(d => d.scrollWidth <= d.clientWidth)(document.getElementById('debug'))")
            page.screenshot(shots / f"debug-{width}-{scheme}.png")

    page.click("#debug .source [aria-label='Breakpoint at line 5']")
    page.wait("document.querySelector('#debug .source li:nth-child(5) button').ariaPressed === 'false'")
    page.click("#debug .controls button", "Continue")
    page.wait(f"{PLACE}.startsWith('The code ran to its end')")
    assert page.text("#debug .written pre").count("<img src=x") == 3 and "Result: 300" in page.text("#debug .written")
    assert page.eval("!document.querySelector('#debug img') && window.hacked === undefined")
    page.press("Escape")
    page.wait("!document.getElementById('debug')")
    wait_until(lambda: server.get("/sandbox/statistics").json["statistics"]["active_sandboxes"] == 0, "the sandbox is deleted")
    assert len(page.problems) == 1 and "400 (Bad Request)" in page.problems[0]  # the division by zero


def test_step_through_what_is_being_written(page):
    """From the composer, before there is a thread: an exception stops at its line."""
    choose(page, "E-commerce Orders")
    page.click(".modes button", "Python")
    page.type("n = len(orders)\nraise ValueError('<b>no</b> ' + str(n > 1))")
    page.click("#ask [aria-label='Step through']")
    page.wait(f"{PLACE} === 'Ready: line 1 runs next'")
    do(page, "Continue", "Exception in line 2")
    assert page.text("#debug [role=alert]") == "ValueError: <b>no</b> True"
    do(page, "Stop", "Stopped, after 2 steps")
    do(page, "Start again", "Ready: line 1 runs next")
    page.click("#debug .close")
    page.wait(f"!document.getElementById('debug') && {IDLE}")
    assert page.eval("document.getElementById('question').value").startswith("n = len") and page.problems == []
