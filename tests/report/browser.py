"""Headless Chromium, driven over the pipe of its DevTools protocol: no library, no port."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TIMEOUT = 60.0
"""Seconds that one answer may take."""

_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--force-color-profile=srgb",
)


class Browser:
    """One Chromium with one page.  `errors` and `requests` gather what the page does."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        # The browser reads commands from descriptor 3 and writes to descriptor 4.
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (commands, answers))
        script = f'exec "$0" "$@" 3<&{read} 4>&{write} {read}<&- {write}>&-'
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, *command],
            pass_fds=(read, write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (commands, answers, read, write):
            os.close(fd)
        self._to, self._from = to_browser, from_browser
        self._pending = b""
        self._number = 0
        self._session = ""
        self._loaded = False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._session = ""
            self.send("Browser.close")
        except (OSError, TimeoutError):
            self._process.kill()
        self._process.wait(10)
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    # --- the protocol ---------------------------------------------------------------------

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """One command, and its answer."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._from], [], [], max(deadline - time.monotonic(), 0))
            chunk = os.read(self._from, 1 << 16) if ready else b""
            if not chunk:
                raise TimeoutError("the browser does not answer")
            self._pending += chunk
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, parameters: dict[str, Any]) -> None:
        match event:
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(str(parameters["entry"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "assert"):
                self.errors.append(str(parameters["args"]))
            case _:
                pass

    def medium(self, name: str) -> None:
        """`print`, or empty for the screen."""
        self.send("Emulation.setEmulatedMedia", media=name)

    # --- what a person does ---------------------------------------------------------------

    def open(self, file: Path) -> None:
        """Loads a file and waits until it is shown."""
        self._loaded = False
        self.send("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._receive()

    def resize(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        """`light` or `dark`."""
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": name}],
        )

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """`Tab`, `Enter`, `Escape`, ..."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        """Clicks on the middle of the first element of a selector."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector: str) -> None:
        x, y = self._middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def _middle(self, selector: str) -> tuple[float, float]:
        x, y = self.js(
            "(() => { const e = document.querySelector(" + json.dumps(selector) + ");"
            "e.scrollIntoView({ block: 'center', behavior: 'instant' });"
            "const r = e.getBoundingClientRect();"
            "return [r.x + Math.min(r.width, 40) / 2, r.y + r.height / 2]; })()"
        )
        return x, y

    def screenshot(self, selector: str) -> bytes:
        """A PNG of an element."""
        box = self.js(
            "(() => { const r = document.querySelector(" + json.dumps(selector) + ")"
            ".getBoundingClientRect();"
            "return { x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height }; })()"
        )
        answer = self.send(
            "Page.captureScreenshot", clip=box | {"scale": 1}, captureBeyondViewport=True
        )
        return base64.b64decode(answer["data"])
