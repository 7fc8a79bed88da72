"""A headless Chromium driven over the DevTools protocol, with nothing but the websockets that viser brings."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
    "--remote-debugging-port=0",
)
ERRORS = ("error", "assert")
PATIENCE = 20.0  # s


def find() -> str | None:
    """Path of a Chromium on this machine, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One page of a fresh browser; a context manager that ends the browser."""

    def __init__(self, url: str, width: int = 800, height: int = 300, timeout: float = 240.0) -> None:
        from websockets.sync.client import connect

        self._timeout = timeout
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [find() or "", *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._calls = 0
        self.console_errors: list[str] = []
        port = self._port()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=timeout) as answer:
            target = next(page for page in json.load(answer) if page["type"] == "page")
        self._socket = connect(target["webSocketDebuggerUrl"], max_size=None, open_timeout=timeout)
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=30)
        self._profile.cleanup()

    def call(self, method: str, **parameters: object) -> dict:
        """The result of a DevTools command."""
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=self._timeout))
            self._note_errors(message)
            if message.get("id") == self._calls:
                assert "error" not in message, message
                return message["result"]

    def evaluate(self, expression: str) -> object:
        """The value of a JavaScript expression."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def text(self) -> str:
        """The text on the page."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def screenshot(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def click(self, element: str, across: float = 0.5) -> None:
        """Click with the mouse on the element that a JavaScript expression gives, at a share of its width."""
        box = self.evaluate(
            f"(() => {{const found = {element}; found?.scrollIntoView({{block: 'center'}});"
            " return found?.getBoundingClientRect().toJSON()})()"
        )
        assert isinstance(box, dict), f"the page has no {element}"
        place = {"x": box["x"] + across * box["width"], "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def wait(self, holds: Callable[[], bool], what: str, again: Callable[[], None] | None = None) -> None:
        """Wait until `holds` is true, or fail saying `what` did not happen. `again` is done first, and again after a
        while: a browser that draws in software may be too busy for a click."""
        deadline = time.monotonic() + self._timeout
        repeat = 0.0
        while not holds():
            if again is not None and time.monotonic() > repeat:
                again()
                repeat = time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, f"{what} did not happen within {self._timeout:.0f} s: {self.text()!r}"
            time.sleep(0.5)

    def _note_errors(self, message: dict) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.console_errors.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ERRORS:
            self.console_errors.append(json.dumps(parameters["args"])[:500])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ERRORS:
            self.console_errors.append(json.dumps(parameters["entry"])[:500])

    def _port(self) -> int:
        from pathlib import Path

        file = Path(self._profile.name) / "DevToolsActivePort"
        deadline = time.monotonic() + self._timeout
        while not (file.exists() and file.read_text().strip()):
            assert self._process.poll() is None, "Chromium ended at once"
            assert time.monotonic() < deadline, f"Chromium did not start within {self._timeout:.0f} s"
            time.sleep(0.1)
        return int(file.read_text().split()[0])
