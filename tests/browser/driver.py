"""Chromium, driven by Playwright: the other side of bridge.mjs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

TIMEOUT_S = 30


class Browser:
    def __init__(self, directory):
        self.directory = directory
        self.program = shutil.which("chromium") or shutil.which("chromium-browser")
        assert self.program, "chromium is not installed: run 'make deps'"

    def __enter__(self):
        self.log = open(self.directory / "bridge.log", "wb")
        self.process = subprocess.Popen(["node", Path(__file__).with_name("bridge.mjs"), self.program],
                                        env={**os.environ, "HOME": str(self.directory), "TMPDIR": str(self.directory)},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self.pages = {}
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def call(self, page, what, *arguments):
        self.process.stdin.write(json.dumps({"page": page, "do": what, "with": arguments}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the bridge is gone: {(self.directory / 'bridge.log').read_text(errors='replace')[-2000:]}"
        answer = json.loads(line)
        for number, kind, text in answer["seen"]:
            if number in self.pages:
                self.pages[number].seen[kind].append(text)
        assert "error" not in answer, (what, *arguments, answer["error"])
        return answer["value"]

    def page(self, kind="desktop"):
        """The page of that kind, as new: nothing stored, nothing seen."""
        return Page(self, self.call(None, "fresh", kind))


class Page:
    def __init__(self, browser, number):
        self.browser, self.number = browser, number
        self.seen = {"request": [], "problem": []}
        browser.pages[number] = self

    def do(self, what, *arguments):
        return self.browser.call(self.number, what, *arguments)

    def sibling(self):
        """Another tab of the same browser."""
        return Page(self.browser, self.do("sibling"))

    def close(self):
        self.do("close")

    # ---- what is there ----

    @property
    def requests(self):
        """Addresses."""
        return self.seen["request"]

    @property
    def problems(self):
        """What went wrong in the page: exceptions, errors on the console, violations of its policy."""
        self.eval("0")  # what happened before this has been told by then
        return self.seen["problem"]

    def eval(self, expression):
        return self.do("eval", expression)

    def wait(self, expression, timeout_s=TIMEOUT_S):
        """The value of an expression once it is true."""
        try:
            return self.do("wait", expression, timeout_s * 1000)
        except AssertionError as late:
            raise AssertionError(f"still not so after {timeout_s} s: {expression}\n{self.problems}\n"
                                 f"{self.eval('document.body.innerText')[-3000:]}") from late

    def text(self, selector="body"):
        return self.eval(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.eval(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")

    def visible(self, selector):
        return self.eval(f"!!document.querySelector({json.dumps(selector)})?.checkVisibility()")

    # ---- what a person does ----

    def open(self, url):
        self.do("goto", url)

    def reload(self):
        self.do("reload")

    def click(self, selector, containing=""):
        """With the mouse, in the middle of the first such element in sight that has this text, once it stands still."""
        self.do("click", selector, containing)

    def type(self, text):
        self.do("type", text)

    def press(self, *keys):
        """press("Shift", "Enter") holds the first."""
        self.do("press", "+".join(keys))

    def choose_files(self, selector, *paths):
        self.do("files", selector, [str(p) for p in paths])

    def fake(self, end, body, kind="application/json"):
        """From now on this is the answer to requests whose address ends so: for what a real server says too seldom."""
        self.do("fake", end, kind, body)

    def unfake(self):
        self.do("unfake")

    def saved(self, end):
        """(name, content) of a file whose name ends so, once the page has handed it out."""
        name, path = self.do("download", end)
        return name, Path(path).read_bytes()

    def offline(self, yes):
        self.do("offline", yes)

    def size(self, width, height):
        self.do("size", width, height)

    def scheme(self, name):
        self.do("media", {"colorScheme": name})

    def empty_cache(self):
        self.do("emptyCache")

    def init(self, script):
        """Runs in every document that is opened from now on, before anything else."""
        self.do("init", script)

    def longest_task(self, act):
        """{clock, processor}: milliseconds that the page's main thread was busy at once while act() was done; {all}: all in all."""
        self.do("trace")
        try:
            act()
        finally:
            longest = self.do("traced")
        return longest

    def front(self):
        self.do("front")

    def screenshot(self, path):
        self.do("screenshot", str(path))
