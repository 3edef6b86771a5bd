"""What people do on the page, in steps that several tests take."""

import json

LAST = ".turn:last-child"
BARS = ".chart .mark-rect.role-mark path"
IDLE = "!document.querySelector('[aria-busy]') && !document.getElementById('stop')"


def ask(page, question, wait=True):
    """Types a question and presses Enter; the selector of the turn that it became."""
    count = page.eval("document.querySelectorAll('.turn').length") + 1
    page.click("#question")
    page.type(question)
    page.press("Enter")
    page.wait(f"document.querySelectorAll('.turn').length === {count}")
    if wait:
        page.wait(IDLE)
    return LAST


def choose(page, name):
    page.click("#sets button", name)
    page.wait(f"document.querySelector('#sets [aria-pressed=true] b').innerText === {json.dumps(name)}")


def upload(page, path, *more):
    page.choose_files("#file", path, *more)
    page.wait(f"document.querySelector('#sets [aria-pressed=true] b')?.innerText === {json.dumps(path.name)} "
              "&& !document.getElementById('uploading')")


def cells(page, turn):
    return page.eval(f"[...document.querySelectorAll('{turn} tbody tr')].map(r => [...r.cells].map(c => c.textContent))")


def events(*pairs):
    return "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in pairs)


def stays_inside(page):
    return page.eval("document.documentElement.scrollWidth <= window.innerWidth && document.body.scrollWidth <= window.innerWidth")
