"""`exogpu lsp`: hazards while typing, repairs, and what is known of each statement.

The server keeps the documents and answers from what it was told; a worker checks.  A change
makes it give up the check of the text before.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer

from exogpu.cli.doctor import exogpu_version
from exogpu.cli.lsp import documents
from exogpu.cli.lsp.document_checks import Job
from exogpu.cli.lsp.documents import Document
from exogpu.cli.lsp.protocol import Failed, Told
from exogpu.cli.lsp.worker_client import Worker

DELAY: Final = 0.15
"""Seconds without a change after which a document is checked."""

GRACE: Final = 10.0
"""Seconds beyond the limit of loading after which the worker is taken to hang."""

PATIENCE: Final = 4.0
"""Seconds that a question about a place waits for a check that is under way."""

LOOK: Final = 0.03
"""Seconds between two looks whether it has an answer."""

KERNELS: Final = re.compile(r"\bexogpu\b|^\s*@([\w.]+\.)?(proc|macro|instr)\b", re.MULTILINE)
"""A file of kernels names exogpu, or decorates as its kernels are decorated."""

_PYTHON: Final = lsp.FileOperationRegistrationOptions(
    [lsp.FileOperationFilter(lsp.FileOperationPattern("**/*.py"))]
)


class Checker:
    """The open documents, and the one that is being checked."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._documents: dict[str, Document] = {}
        self._worker = Worker(self._on_message)
        self._running: tuple[int, Document, int] | None = None
        """Number of the job, its document, the version of it."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.options: dict[str, Any] = {}

    # --- documents ------------------------------------------------------------------------------

    def open_document(self, uri: str) -> None:
        """A document is open from here on."""
        path = path_of(uri)
        self._documents[uri] = Document(uri, path)
        self.changed_file(path)
        self._schedule(0.0)

    def change_document(self, uri: str) -> None:
        """Its text is another."""
        document = self._documents.get(uri)
        if document is not None:
            # Those last changed come first.
            self._documents[uri] = self._documents.pop(uri)
            document.change()
            self.changed_file(document.path)
            self._schedule(float(self.options.get("delay", DELAY)))

    def close_document(self, uri: str) -> None:
        """It is read from the disk from here on."""
        document = self._documents.pop(uri, None)
        if document is not None:
            self._publish(uri, [])
            self.changed_file(document.path)
            if self._running is not None and self._running[1] is document:
                self._running = None
            self._schedule(0.0)

    def changed_file(self, path: str) -> None:
        """Documents that rest on a file are checked again."""
        for document in self._documents.values():
            if document.rests_on(path) and not document.dirty:
                document.change()
                self._schedule(float(self.options.get("delay", DELAY)))

    def document(self, uri: str) -> Document | None:
        """An open document."""
        return self._documents.get(uri)

    def text(self, document: Document) -> documents.Text:
        """Its lines at present."""
        workspace = self._server.workspace
        encoding = workspace.position_encoding or lsp.PositionEncodingKind.Utf16
        return documents.Text(workspace.get_text_document(document.uri).lines, encoding)

    def client_version(self, document: Document) -> int | None:
        """The client's number of the present text."""
        return self._server.workspace.get_text_document(document.uri).version

    async def begin(self) -> None:
        """Starts the worker."""
        await self._worker.begin()

    async def end(self) -> None:
        """Ends the worker."""
        if self._timer is not None:
            self._timer.cancel()
        self._documents.clear()
        await self._worker.end()

    async def looks(self, document: Document | None) -> AsyncIterator[None]:
        """Looks at a document until nothing more is told of it, or patience ends."""
        loop = asyncio.get_running_loop()
        until = loop.time() + float(self.options.get("patience", PATIENCE))
        while document is not None:
            last = document.complete.is_set() or loop.time() > until
            yield None
            if last:
                return
            await asyncio.sleep(LOOK)

    # --- checks ---------------------------------------------------------------------------------

    def _schedule(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        """The document changed last is checked, whatever else is: that is given up."""
        self._timer = None
        waiting = [one for one in self._documents.values() if one.dirty and self._concerns(one)]
        if not waiting:
            return
        document = waiting[-1]
        if self._running is not None and self._running[1] is not document:
            other = self._running[1]
            other.dirty = not other.complete.is_set()
        document.begin()
        task = asyncio.get_running_loop().create_task(self._ask(document))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _concerns(self, document: Document) -> bool:
        """Tests whether a document may have kernels: no other is executed."""
        text = self._server.workspace.get_text_document(document.uri).source
        if KERNELS.search(text) is not None:
            return True
        document.leave()
        self._publish(document.uri, [])
        return False

    async def _ask(self, document: Document) -> None:
        texts = {
            one.path: self._server.workspace.get_text_document(one.uri).source
            for one in self._documents.values()
        }
        limits = {
            name: float(self.options[name])
            for name in ("loading", "checking")
            if name in self.options
        }
        job = Job(document.path, texts, str(self.options.get("policy", "ptx")), **limits)
        number = self._worker.next_number
        self._running = (number, document, document.version)
        await self._worker.ask(job)
        loop = asyncio.get_running_loop()
        loop.call_later(job.loading + GRACE, partial(self._hangs, number, job))

    def _hangs(self, number: int, job: Job) -> None:
        """Handles a worker that itself executes the file, and may come to no end with it."""
        if self._running is None or self._running[0] != number or not self._running[1].loading:
            return
        self._worker.kill()
        reason = f"executing this file came to no end within {job.loading:g} s"
        self._on_message(number, Failed(reason, True))

    def _on_message(self, number: int, told: Told) -> None:
        if self._running is None or self._running[0] != number:
            return  # of a text that is no longer
        _, document, version = self._running
        if document.version != version:
            return
        news = document.tell(told, version)
        if news:
            self._publish(document.uri, documents.diagnostics(document, self.text(document)))
            self._refresh()
        if document.complete.is_set():
            self._worker.finish_job(number)
            self._running = None
            if any(one.dirty for one in self._documents.values()) and self._timer is None:
                self._schedule(0.0)

    def _publish(self, uri: str, found: list[lsp.Diagnostic]) -> None:
        document = self._documents.get(uri)
        version = None if document is None else self.client_version(document)
        params = lsp.PublishDiagnosticsParams(uri, found, version)
        self._server.text_document_publish_diagnostics(params)

    def _refresh(self) -> None:
        """Tells the client that verdicts have changed, if it can be told."""
        workspace = self._server.client_capabilities.workspace
        lens = None if workspace is None else workspace.code_lens
        if lens is not None and lens.refresh_support:
            self._server.workspace_code_lens_refresh(None)


def path_of(uri: str) -> str:
    """The absolute path of a document; of one that was never saved, where it would be."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return os.path.abspath(path or f"{uri.rpartition(':')[2].rpartition('/')[2]}.py")


def make_server() -> LanguageServer:
    """The server with its features."""
    server = LanguageServer("exogpu", exogpu_version())
    checker = Checker(server)

    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        given = params.initialization_options
        checker.options = dict(given) if isinstance(given, dict) else {}

    @server.feature(lsp.INITIALIZED)
    async def initialized(_: lsp.InitializedParams) -> None:
        await checker.begin()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def open_document(params: lsp.DidOpenTextDocumentParams) -> None:
        checker.open_document(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def change_document(params: lsp.DidChangeTextDocumentParams) -> None:
        checker.change_document(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def close_document(params: lsp.DidCloseTextDocumentParams) -> None:
        checker.close_document(params.text_document.uri)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def watched(params: lsp.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            checker.changed_file(path_of(change.uri))

    @server.feature(lsp.WORKSPACE_DID_RENAME_FILES, _PYTHON)
    async def renamed(params: lsp.RenameFilesParams) -> None:
        for file in params.files:
            checker.changed_file(path_of(file.old_uri))
            checker.changed_file(path_of(file.new_uri))

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = checker.document(params.text_document.uri)
        async for _ in checker.looks(document):
            if document is not None and document.current:
                text = checker.text(document)
                found = documents.hover(document, text, params.position)
                if found is not None or document.complete.is_set():
                    return found
        return None

    kinds = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix])

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, kinds)
    async def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = checker.document(params.text_document.uri)
        found: list[lsp.CodeAction] = []
        async for _ in checker.looks(document):
            if document is not None and document.current:
                text, version = checker.text(document), checker.client_version(document)
                found = documents.actions(document, text, params.range, version)
                if document.repaired:
                    break
        return found

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        document = checker.document(params.text_document.uri)
        if document is None or not document.current:
            return []
        return documents.lenses(document, checker.text(document))

    @server.feature(lsp.SHUTDOWN)
    async def shutdown(_: None) -> None:
        await checker.end()

    return server


def serve() -> None:
    """Serves on standard input and output until the client says that it ends."""
    # What else is printed in this process is no message.
    reads, writes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    make_server().start_io(reads, writes)
