"""A real browser without a screen, told what to do over two pipes (the Chrome DevTools Protocol).

    with Browser(archive) as browser:
        page = browser.open("report.html", html)
        assert page.evaluate("document.title") == "..."
        assert page.trouble() == []

It is Debian's chromium-headless-shell, in a root folder and namespaces of its own: it reaches no network, and ends with
the test. Raises root_folder.Unavailable where there is none.
"""

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading

import root_folder
from eventually import WAIT_S

# Its pipes are 3 and 4; what it says besides goes to stderr. A root folder's root needs no sandbox, and has one.
_COMMAND = ("exec chromium-headless-shell --remote-debugging-pipe --no-sandbox --disable-gpu --hide-scrollbars"
            " --disable-dev-shm-usage --no-first-run --user-data-dir=/tmp/profile about:blank"
            " 3<&0 4>&1 1>&2")  # fmt: skip


class Browser:
    def __init__(self, archive):
        root_folder.check()
        self._ids = 0
        self._answers = {}
        self._events = queue.Queue()
        self._folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        try:
            self._root = root_folder.RootFolder(self._folder, archive)
            self._said = open(os.path.join(self._folder, "said"), "w+b")
            self._process = self._root.start("sh", "-c", _COMMAND, stdin=subprocess.PIPE, stderr=self._said,
                                             text=False, errors=None)  # fmt: skip
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()
        self._said.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self):
        rest = b""
        while chunk := os.read(self._process.stdout.fileno(), 1 << 16):
            *messages, rest = (rest + chunk).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers[message["id"]].put(message)
                else:
                    self._events.put(message)
        for answer in list(self._answers.values()):
            answer.put({"error": "the browser has ended"})
        self._events.put({"method": "ended"})

    def ask(self, method, session=None, **parameters):
        self._ids += 1
        answer = self._answers[self._ids] = queue.Queue()
        message = {"id": self._ids, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        told = answer.get(timeout=WAIT_S)
        if "error" in told:
            self._said.seek(0)
            raise AssertionError(f"{method}: {told['error']}\n{self._said.read().decode(errors='replace')[-4000:]}")
        return told["result"]

    def open(self, name, content):
        """The page of a file with this content."""
        with open(os.path.join(self._folder, "typed", name), "w", encoding="utf-8") as file:
            file.write(content)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return _Page(self, session, self._events, f"file:///typed/{name}")


class _Page:
    def __init__(self, browser, session, events, url):
        self._browser, self._session, self._events, self._url = browser, session, events, url
        self._seen = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.ask("Page.navigate", url=url)
        self._until("Page.loadEventFired")

    def ask(self, method, **parameters):
        return self._browser.ask(method, self._session, **parameters)

    def _until(self, method):
        while True:
            event = self._events.get(timeout=WAIT_S)
            self._seen.append(event)
            if event["method"] == method:
                return
            assert event["method"] != "ended", "the browser has ended"

    def evaluate(self, expression):
        """The value of it, which is JSON."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def trouble(self):
        """What it has complained about or asked for: messages of its console, and requests besides itself."""
        # What came before is told before this is answered.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
        while not self._events.empty():
            self._seen.append(self._events.get())
        trouble = []
        for event in self._seen:
            method, told = event["method"], event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                trouble.append(json.dumps(told))
            if method == "Network.requestWillBeSent" and told["request"]["url"] != self._url:
                trouble.append("requests " + told["request"]["url"])
            if method == "Page.javascriptDialogOpening":
                trouble.append("opens a dialog")
        return trouble

    def picture(self, path, **options):
        """A PNG of all of it."""
        told = self.ask("Page.captureScreenshot", captureBeyondViewport=True, **options)
        with open(path, "wb") as file:
            file.write(base64.b64decode(told["data"]))

    def printed(self):
        """A PDF."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=False)["data"])
