"""Chromium, driven by its DevTools protocol over two pipes: the browser reads commands on descriptor 3 and writes answers and
events on 4, as JSON texts that end in NUL. No driver, no socket, and nothing to wait for but events."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

TIMEOUT_S = 30

# Quiet: a browser that looks for updates or fetches lists would make requests that no page made.
FLAGS = ["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage", "--no-proxy-server", "--hide-scrollbars",
         "--no-sandbox",  # every page is ours, and containers often lack what its own sandbox needs
         "--disable-features=Translate,OptimizationHints,MediaRouter", "--force-color-profile=srgb", "--remote-debugging-pipe"]


class Chromium:
    def __init__(self, directory):
        self.directory = directory
        self.program = shutil.which("chromium") or shutil.which("chromium-browser")
        assert self.program, "chromium is not installed: run 'make deps'"

    def __enter__(self):
        def high(fd):  # clear of 3 and 4, which the child's ends are moved to
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
            os.close(fd)
            return moved

        commands, self.out = map(high, os.pipe())
        self.inn, answers = map(high, os.pipe())

        def place():
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.log = open(self.directory / "chromium.log", "wb")
        self.process = subprocess.Popen([self.program, *FLAGS, f"--user-data-dir={self.directory / 'profile'}", "about:blank"],
                                        env={**os.environ, "HOME": str(self.directory)}, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, preexec_fn=place, pass_fds=(3, 4))
        os.close(commands)
        os.close(answers)
        self.rest, self.last, self.answers, self.pages = b"", 0, {}, {}
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inn)
        self.log.close()

    def send(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        return self.last

    def pump(self, timeout_s):
        """Takes what has come, or comes within this time."""
        if select.select([self.inn], [], [], timeout_s)[0]:
            data = os.read(self.inn, 1 << 20)
            assert data, f"chromium is gone: {(self.directory / 'chromium.log').read_text(errors='replace')[-2000:]}"
            *texts, self.rest = (self.rest + data).split(b"\0")
            for message in map(json.loads, texts):
                if "id" in message:
                    self.answers[message["id"]] = message
                elif message.get("sessionId") in self.pages:
                    self.pages[message["sessionId"]].on_event(message["method"], message["params"])

    def call(self, method, session=None, timeout_s=TIMEOUT_S, **params):
        wanted, end = self.send(method, session, **params), time.monotonic() + timeout_s
        while wanted not in self.answers:
            self.pump(max(0, end - time.monotonic()))
            assert time.monotonic() < end, f"no answer to {method} within {timeout_s} s"
        answer = self.answers.pop(wanted)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.requests = []  # addresses
        self.problems = []  # what went wrong in the page: exceptions, errors on the console, violations of its policy
        self.loaded = 0
        self.fakes = []  # (end of the address, content type, body): answers that no server gave
        browser.pages[session] = self
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def forget(self):
        """As new: nothing stored, nothing seen. Cheaper than a new page, which is a new process."""
        origin = self.eval("location.origin")
        self.open("about:blank")
        if origin != "null":
            self.call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self.call("Network.clearBrowserCache")
        self.call("Fetch.disable")
        self.size(1100, 820)
        self.scheme("light")
        for seen in (self.requests, self.problems, self.fakes):
            seen.clear()

    def on_event(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.problems.append(str([a.get("value") for a in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Fetch.requestPaused":
            for end, kind, body in self.fakes:
                if params["request"]["url"].endswith(end):
                    self.browser.send("Fetch.fulfillRequest", self.session, requestId=params["requestId"], responseCode=200,
                                      responseHeaders=[{"name": "Content-Type", "value": kind}],
                                      body=base64.b64encode(body.encode()).decode())
                    return
            self.browser.send("Fetch.continueRequest", self.session, requestId=params["requestId"])
        elif method == "Page.loadEventFired":
            self.loaded += 1
        elif method == "Page.javascriptDialogOpening":
            self.browser.send("Page.handleJavaScriptDialog", self.session, accept=True)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    # ---- what is there ----

    def eval(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, expression, timeout_s=TIMEOUT_S):
        """The value of an expression once it is true."""
        end = time.monotonic() + timeout_s
        while True:
            # A node has no value, but is there.
            value = self.eval(f"(v => v instanceof Node ? true : v)((() => {{ try {{ return {expression} }} catch {{ return null }} }})())")
            if value:
                return value
            assert time.monotonic() < end, (f"still not so after {timeout_s} s: {expression}\n{self.problems}\n"
                                            f"{self.eval('document.body.innerText')[-3000:]}")
            self.browser.pump(0.02)

    def text(self, selector="body"):
        return self.eval(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.eval(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")

    def visible(self, selector):
        return self.eval(f"!!document.querySelector({json.dumps(selector)})?.checkVisibility()")

    # ---- what a person does ----

    def open(self, url):
        before = self.loaded
        self.call("Page.navigate", url=url)
        while self.loaded == before:
            self.browser.pump(TIMEOUT_S)

    def reload(self):
        before = self.loaded
        self.call("Page.reload")
        while self.loaded == before:
            self.browser.pump(TIMEOUT_S)

    def click(self, selector, containing=""):
        """With the mouse, in the middle of the first such element that has this text, once it stands still."""
        found = (f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.checkVisibility() && "
                 f"e.innerText.includes({json.dumps(containing)}))")
        measure = f"(e => (e.scrollIntoView({{block: 'center', behavior: 'instant'}}), e.getBoundingClientRect().toJSON()))({found})"
        box, before = self.wait(measure), None
        while box != before:
            self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            box, before = self.wait(measure), box
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **place)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False, control=False):
        codes = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowUp": (38, ""), "ArrowDown": (40, ""), "?": (191, "?"), "a": (65, ""), "F10": (121, "")}
        code, text = codes[key]
        name = f"Key{key.upper()}" if key.isalpha() and len(key) == 1 else key
        more = {"key": key, "code": name, "windowsVirtualKeyCode": code, "modifiers": (8 if shift else 0) | (2 if control else 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **more, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    def choose_files(self, selector, *paths):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(p) for p in paths])

    def fake(self, end, body, kind="application/json"):
        """From now on this is the answer to requests whose address ends so: for what a real server says too seldom."""
        self.fakes.insert(0, (end, kind, body))
        self.call("Fetch.enable", patterns=[{"urlPattern": "*"}])

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
