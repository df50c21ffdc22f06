"""A language client over standard input and output, as an editor is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from time import monotonic
from typing import Any

ROOT = Path(__file__).parent.parent

PATIENCE = 120.0
"""Seconds after which a test gives up: the machine may be busy."""


class Client:
    """One server, and the documents that are open in it."""

    def __init__(self, folder: Path, **options: object) -> None:
        paths = {"PYTHONPATH": str(ROOT), "EXOGPU_CACHE": str(folder / ".cache")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "exogpu", "lsp"],
            cwd=folder,
            env={**os.environ, **paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.published: dict[str, tuple[int | None, list[dict[str, Any]]]] = {}
        self._number = 0
        self._messages: Queue[dict[str, Any] | None] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.capabilities = self.ask(
            "initialize",
            processId=os.getpid(),
            rootUri=folder.as_uri(),
            capabilities={"general": {"positionEncodings": ["utf-16"]}},
            initializationOptions={"delay": 0.02, "patience": 90, **options},
        )["capabilities"]
        self.tell("initialized")

    # --- messages -------------------------------------------------------------------------------

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            length = 0
            while header.strip():
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
                header = stream.readline()
            self._messages.put(json.loads(stream.read(length)))
        self._messages.put(None)

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        stream = self.process.stdin
        assert stream is not None
        stream.write(f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        stream.flush()

    def tell(self, method: str, **params: object) -> None:
        """A notification."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: object) -> Any:
        """What a request is answered with."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        until = monotonic() + PATIENCE
        while True:
            message = self._next(until)
            if message.get("id") == self._number and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def _next(self, until: float) -> dict[str, Any]:
        try:
            message = self._messages.get(timeout=max(until - monotonic(), 0.01))
        except Empty:
            raise TimeoutError from None
        assert message is not None, "the server has ended"
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            self.published[params["uri"]] = params.get("version"), params["diagnostics"]
        return message

    # --- documents ------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> None:
        self.texts[name], self.versions[name] = text, 1
        document = {"uri": self.uri(name), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)

    def change(self, name: str, text: str) -> None:
        """The whole text."""
        self.edit(name, text, {"text": text})

    def edit(self, name: str, text: str, *changes: dict[str, Any]) -> None:
        """Changes of ranges, and the text after them."""
        self.texts[name] = text
        self.versions[name] += 1
        document = {"uri": self.uri(name), "version": self.versions[name]}
        self.tell("textDocument/didChange", textDocument=document, contentChanges=[*changes])

    def close(self, name: str) -> None:
        self.tell("textDocument/didClose", textDocument={"uri": self.uri(name)})

    def found(self, name: str) -> list[dict[str, Any]]:
        """The diagnostics of the present text, once they are there."""
        until = monotonic() + PATIENCE
        while self.published.get(self.uri(name), (None, []))[0] != self.versions[name]:
            self._next(until)
        return self.published[self.uri(name)][1]

    def again(self, name: str) -> list[dict[str, Any]]:
        """The next diagnostics of a document, whatever its version."""
        self.published.pop(self.uri(name), None)
        until = monotonic() + PATIENCE
        while self.uri(name) not in self.published:
            self._next(until)
        return self.published[self.uri(name)][1]

    def hover(self, name: str, place: str, at: int = 1) -> str:
        """What is said of the n-th place of the text where these characters stand; or nothing."""
        position = self.position(name, place, at)
        said = self.ask(
            "textDocument/hover", textDocument={"uri": self.uri(name)}, position=position
        )
        return said["contents"]["value"] if said else ""

    def position(self, name: str, place: str, at: int = 1) -> dict[str, int]:
        before = place.join(self.texts[name].split(place)[:at])
        line = before.count("\n")
        column = len(before.rpartition("\n")[2].encode("utf-16-le")) // 2
        return {"line": line, "character": column}

    def actions(self, name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
        """The quick fixes of a diagnostic."""
        actions: list[dict[str, Any]] = self.ask(
            "textDocument/codeAction",
            textDocument={"uri": self.uri(name)},
            range=found["range"],
            context={"diagnostics": [found]},
        )
        return actions

    def apply(self, name: str, action: dict[str, Any]) -> None:
        """Makes the edits of an action, as an editor does."""
        (change,) = action["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": self.uri(name), "version": self.versions[name]}
        text = self.texts[name]
        for edit in sorted(change["edits"], key=lambda e: -self._offset(text, e["range"]["start"])):
            start = self._offset(text, edit["range"]["start"])
            end = self._offset(text, edit["range"]["end"])
            text = text[:start] + edit["newText"] + text[end:]
        self.change(name, text)

    @staticmethod
    def _offset(text: str, position: dict[str, int]) -> int:
        lines = text.splitlines(keepends=True)
        before = sum(map(len, lines[: position["line"]]))
        line = lines[position["line"]] if position["line"] < len(lines) else ""
        units = line.encode("utf-16-le")[: 2 * position["character"]]
        return before + len(units.decode("utf-16-le"))

    def verdicts(self, name: str) -> list[str]:
        """What stands above the procedures."""
        lenses = self.ask("textDocument/codeLens", textDocument={"uri": self.uri(name)})
        return [lens["command"]["title"] for lens in lenses]

    def end(self) -> int:
        """Ends the server as an editor does; its exit status."""
        self.ask("shutdown")
        self.tell("exit")
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
