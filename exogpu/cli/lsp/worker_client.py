"""The worker as the server sees it: started, asked, started anew where it has ended."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from exogpu.cli.lsp.document_checks import Job
from exogpu.cli.lsp.protocol import Failed, Told, from_json
from exogpu.solvers.processes import FORKS

WORKER: Final = "exogpu.cli.lsp.worker"

LONGEST: Final = 64 * 2**20
"""Bytes of a message."""

TRIES: Final = 2
"""The number of times that a job is given to a worker, where workers end at it."""


class Worker:
    """One process; one job at a time, the last that it was given."""

    def __init__(self, heard: Callable[[int, Told], None]) -> None:
        self._heard = heard
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._current: tuple[int, Job] | None = None
        self._tries = 0
        self._number = 0
        self._gate = asyncio.Lock()

    @property
    def idle(self) -> bool:
        """Tests whether it has nothing to do."""
        return self._current is None

    async def begin(self) -> None:
        """Starts the process, so that the first job finds it warm."""
        async with self._gate:
            await self._process_for_jobs()

    @property
    def next_number(self) -> int:
        """The number of the next job."""
        return self._number + 1

    async def ask(self, job: Job) -> int:
        """Begins a job in place of what is under way; its number, with which it is told of."""
        self._number += 1
        number = self._number
        if not FORKS and not self.idle:
            self.kill()  # it does the work itself, and hears of nothing meanwhile
        self._current, self._tries = (number, job), 0
        await self._give()
        return number

    async def stop(self) -> None:
        """Gives up the present job."""
        if self._current is not None:
            self._current = None
            await self._send({})

    def finish_job(self, number: int) -> None:
        """All of a job has been told."""
        if self._current is not None and self._current[0] == number:
            self._current = None

    def kill(self) -> None:
        """Gives up the present job, and the process with it."""
        self._current = None
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._process = None

    async def end(self) -> None:
        """Ends the process, and waits for its end."""
        process = self._process
        self.kill()
        if process is not None:
            await process.wait()
        if self._reading is not None:
            await self._reading

    async def _give(self) -> None:
        if self._current is not None:
            self._tries += 1
            number, job = self._current
            await self._send({"id": number, "job": asdict(job)})

    async def _send(self, message: object) -> None:
        async with self._gate:
            process = await self._process_for_jobs()
            assert process.stdin is not None
            with suppress(ConnectionError):
                process.stdin.write(json.dumps(message).encode() + b"\n")
                await process.stdin.drain()

    async def _process_for_jobs(self) -> Process:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", WORKER),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=LONGEST,
            )
            self._reading = asyncio.create_task(self._read_messages(process))
        return process

    async def _read_messages(self, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            try:
                message = json.loads(line)
            except ValueError:
                continue  # an empty line, or what a killed child began
            if "id" in message:
                self._heard(message["id"], from_json(message))
        await process.wait()
        if self._current is None or self._process is not process:
            return
        if self._tries < TRIES:
            await self._give()
        else:
            number, _ = self._current
            self._current = None
            reason = f"the checker's process ended with status {process.returncode}"
            self._heard(number, Failed(reason, False))
