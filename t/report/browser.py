# SPDX-License-Identifier: LGPL-3.0-only
"""Headless Chromium over its debugging pipe: no library and no port, JSON between zero bytes.

    with Browser() as browser:
        page = browser.open(path)
        page.js("document.title")
"""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"]


def found():
    """Returns the path of Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A Chromium with a profile of its own and without network."""

    def __init__(self, patience=120):
        self.patience = patience
        self.profile = tempfile.TemporaryDirectory(prefix="mf-report-")
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()

        def pipes():
            # Chromium reads from descriptor 3 and writes to 4. Our pipes may have these numbers, so copy them to other numbers first.
            reading, writing = os.dup(to_read), os.dup(to_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        arguments = [
            found(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}",
            "--no-first-run", "--disable-gpu", "--disable-extensions", "--disable-background-networking",
            "--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none", "--lang=en-US",
            # No host name resolves, so a page that requests anything fails visibly.
            "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=direct://",
        ]
        if os.getuid() == 0:
            arguments.append("--no-sandbox")  # as root Chromium does not run in its sandbox
        if os.path.exists("/dev/shm") and shutil.disk_usage("/dev/shm").total < 256 << 20:
            arguments.append("--disable-dev-shm-usage")
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=pipes, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", patience=10)
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        for _ in range(20):
            try:
                self.profile.cleanup()
                return
            except OSError:  # other processes of Chromium still write there
                time.sleep(0.1)

    def call(self, method, session=None, patience=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.write_end, rest):]
        return self.answer(self.number, method, time.monotonic() + (patience or self.patience))

    def answer(self, number, method, until):
        while True:
            message = self.read(until)
            if message is None:
                raise RuntimeError(f"{method}: no answer from Chromium")
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error'].get('message')}")
                return message["result"]

    def read(self, until):
        """Returns the next message and stores events, or returns None if no message comes in time."""
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                return None
            more = os.read(self.read_end, 1 << 20)
            if not more:
                raise RuntimeError("Chromium is gone")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, width=1280, height=900, dark=False):
        """Opens a file in a new page, without waiting for it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ["Page", "Runtime", "Log", "Network"]:
            page.call(f"{domain}.enable")
        page.size(width, height)
        page.theme(dark)
        page.call("Page.navigate", url="file://" + os.path.abspath(path))
        return page


class Page:
    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, dark):
        scheme = "dark" if dark else "light"
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}, motion])

    def js(self, expression):
        """Returns the value of an expression in the page, after a promise is fulfilled."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, expression, patience=60):
        """Waits until an expression is true."""
        until = time.monotonic() + patience
        while True:
            try:
                value = self.js(expression)
            except RuntimeError:  # the page is between two documents
                value = None
            if value or time.monotonic() > until:
                return value
            time.sleep(0.02)

    def key(self, key, code=None):
        """Presses and releases a key."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "End": 35, "Home": 36}
        common = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes.get(key, 0)}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, expression):
        """Clicks into the middle of an element with the mouse."""
        place = self.js(f"(() => {{ const e = {expression}; e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
                        " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
                      clickCount=0 if kind == "mouseMoved" else 1)

    def shot(self, path, whole=False):
        """Takes a picture of the visible part or of the whole page."""
        import base64
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))

    def pdf(self):
        """Prints to PDF, and returns the number of pages and the bytes."""
        import base64
        data = base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=False)["data"])
        return data.count(b"/Type /Page\n") or data.count(b"/Type /Page"), data

    def complaints(self):
        """Returns the messages on the console and the requests of the page, except for the page itself."""
        told = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, parameters = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                told.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif method == "Runtime.consoleAPICalled":
                told.append(f"console.{parameters['type']}")
            elif method == "Log.entryAdded":
                told.append(parameters["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file://", "about:")):
                told.append(f"asked for {parameters['request']['url']}")
        return told

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
