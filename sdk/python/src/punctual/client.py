"""A client of the REST API: submits runs, waits for them, lists and stops them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

import aiohttp

from punctual import lock as locks
from punctual._where import authorities, servers
from punctual._where import token as token_of
from punctual.errors import Problem, Unreachable
from punctual.lock import Lock

#: How long a request may take.
REQUEST_MAX = 60.0
#: The pause between two looks at a run that is waited for grows from the first to the second.
PAUSE_MIN = 0.02
PAUSE_MAX = 0.5

_LIVE = ("waiting", "ready", "running")

#: Seconds, or a text such as `90s` or `1h30m`.
Span = float | int | str


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as the server shows it. Instants are in UTC."""

    id: str
    namespace: str
    trigger: str
    #: waiting, ready, running, succeeded, failed, timed_out, cancelled or skipped.
    state: str
    #: The number of the last attempt, from 1. 0 means that none has been made.
    attempt: int
    due_at: datetime
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    job: str | None = None
    revision: int | None = None
    worker: str | None = None
    exit_code: int | None = None
    output: str | None = None
    error: str | None = None
    reason: str | None = None
    #: From 0 to 100, as the attempt reported it.
    progress: int | None = None
    progress_message: str | None = None
    progress_at: datetime | None = None
    #: `{value, at, attempt}`; only where a run is shown by itself.
    checkpoint: dict[str, Any] | None = None
    key: str | None = None
    parent: str | None = None
    retry_of: str | None = None
    lateness_ms: int | None = None
    #: Only where a run is shown by itself.
    attempts: list[dict[str, Any]] | None = None

    @property
    def ended(self) -> bool:
        return self.state not in _LIVE

    @property
    def result(self) -> Any:
        """The output, read as JSON."""
        return json.loads(self.output) if self.output else None


@dataclass(frozen=True, slots=True)
class Job:
    """A job, as the server shows it."""

    id: str
    name: str
    namespace: str
    revision: int
    #: active, paused or finished.
    state: str
    next_due_at: datetime | None
    #: The whole job, with its schedule and its task.
    definition: dict[str, Any]


class Client:
    """Talks to one cluster.

    async with Client("http://127.0.0.1:7400") as client:
        run = await client.submit(function="settle", params={"day": "2026-11-17"}, key="settle-2026-11-17")
        run = await client.wait(run.id)
    """

    def __init__(
        self,
        server: str | Sequence[str] | None = None,
        token: str | None = None,
        *,
        namespace: str = "default",
        ca: str | Path | None = None,
    ) -> None:
        """`server` may be several: each is tried while those before it cannot be reached.

        The defaults are `PUNCTUAL_SERVER`, else this machine, `PUNCTUAL_TOKEN` and `PUNCTUAL_CA`.
        """
        self.servers = servers(server)
        token = token_of(token)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._space = f"/api/v1/namespaces/{namespace.replace('/', '.')}"
        self._ca = authorities(ca)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def submit(  # noqa: PLR0913
        self,
        task: Mapping[str, Any] | None = None,
        *,
        function: str | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        due_at: datetime | None = None,
        delay: Span | None = None,
        priority: int | None = None,
        timeout: Span | None = None,
        retry: Mapping[str, Any] | None = None,
        route: Mapping[str, Any] | None = None,
        at_most_once: bool | None = None,
    ) -> Run:
        """Submits a run without a job: a function, or any `task` of a job file.

        With a `key` the run is made once, however often it is submitted. A request whose answer is lost is sent again
        only if it has a key.
        """
        if (task is None) == (function is None):
            raise ValueError("give either a task or the name of a function")
        body = {
            "task": task if task is not None else {"function": function},
            "params": params,
            "key": key,
            "due_at": _instant(due_at),
            "delay": _span(delay),
            "priority": priority,
            "timeout": _span(timeout),
            "retry": retry,
            "route": route,
            "at_most_once": at_most_once,
        }
        return _run(await self._post("/runs", body, may_repeat=key is not None))

    async def start(
        self,
        job: str,
        *,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        due_at: datetime | None = None,
        delay: Span | None = None,
    ) -> Run:
        """Starts a job by hand."""
        body = {"params": params, "key": key, "due_at": _instant(due_at), "delay": _span(delay)}
        return _run(await self._post(f"/jobs/{_path(job)}/run", body, may_repeat=key is not None))

    async def run(self, id: str) -> Run:
        """Shows one run with its attempts and its checkpoint."""
        return _run(await self._get(f"/runs/{_path(id)}"))

    async def wait(self, id: str, timeout: float | None = None) -> Run:
        """Waits until a run has ended, in whatever state. Raises `TimeoutError` after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            pause = PAUSE_MIN
            while not _run(await self._get(f"/runs/{_path(id)}?children=false")).ended:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, PAUSE_MAX)
            return await self.run(id)

    async def cancel(self, id: str, *, now: bool = False) -> Run:
        """Cancels a run. Its attempt is asked to end: `wait` says when it has. With `now` it has no grace period."""
        return _run(await self._post(f"/runs/{_path(id)}/cancel", {"now": now}, may_repeat=True))

    async def move(self, id: str, worker: str | None = None) -> Run:
        """Continues a running run on another worker, at its last checkpoint: on the named one, or on any other."""
        return _run(await self._post(f"/runs/{_path(id)}/move", {"worker": worker}, may_repeat=False))

    async def retry(
        self, id: str, *, params: Mapping[str, Any] | None = None, resume: bool = False, key: str | None = None
    ) -> Run:
        """Makes a new run like this one. With `resume` it starts at the last checkpoint of the old one."""
        body = {"params": params, "resume": resume, "key": key}
        return _run(await self._post(f"/runs/{_path(id)}/retry", body, may_repeat=key is not None))

    async def report(  # noqa: PLR0913
        self,
        id: str,
        token: int | str,
        *,
        percent: int | None = None,
        message: str | None = None,
        checkpoint: Any = None,
        seq: int | None = None,
        durable: bool = False,
    ) -> None:
        """Reports the progress of an attempt. With `durable` it returns when the report is stored."""
        body = {
            "token": str(token),
            "percent": percent,
            "message": message,
            "checkpoint": checkpoint,
            "seq": seq,
            "durable": durable,
        }
        await self._post(f"/runs/{_path(id)}/progress", body, may_repeat=seq is not None)

    async def logs(self, id: str) -> str:
        """The output of a run so far."""
        return str(await self._get(f"/runs/{_path(id)}/logs"))

    async def runs(  # noqa: PLR0913
        self,
        *,
        job: str | None = None,
        state: str | Sequence[str] | None = None,
        key: str | None = None,
        search: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[Run]:
        """All runs that match, newest first. The pages are read while the caller iterates."""
        states = state if state is None or isinstance(state, str) else ",".join(state)
        query = {
            "job": job,
            "state": states,
            "key": key,
            "search": search,
            "since": _instant(since),
            "until": _instant(until),
        }
        async for item in self._pages("/runs", query):
            yield _run(item)

    async def jobs(self, *, search: str | None = None, label: str | None = None) -> AsyncIterator[Job]:
        """All jobs that match, by name. The pages are read while the caller iterates."""
        async for item in self._pages("/jobs", {"search": search, "label": label}):
            yield _job(item)

    async def job(self, name: str) -> Job:
        return _job(await self._get(f"/jobs/{_path(name)}"))

    async def put_job(self, name: str, definition: Mapping[str, Any]) -> Job:
        """Creates or replaces a job: `definition` has the fields of a job file."""
        return _job(await self._send("PUT", f"{self._space}/jobs/{_path(name)}", definition, may_repeat=True))

    @asynccontextmanager
    async def lock(
        self, name: str, *, owner: str | None = None, ttl: float = 30.0, wait: float | None = None
    ) -> AsyncIterator[Lock]:
        """Holds a lock while the block runs, and renews it.

        `ttl` is how long it is held if this process dies, `wait` how long to wait for it, both in seconds. Without
        `wait` there is no end. Raises a `Problem` with the code `locked` if another owner holds it.

            async with client.lock("import") as lock:
                await load(fence=lock.fence)
        """
        path, key = f"/locks/{_path(name)}", uuid4().hex
        who = owner if owner is not None else f"{socket.gethostname()}:{os.getpid()}"

        async def ask(wait: float) -> int:
            body = {"ttl": _span(ttl), "owner": who, "wait": _span(wait)}
            return int((await self._post(path, body, may_repeat=True, key=key))["fence"])

        fence, since = await locks.acquire(ask, ttl, wait)
        lock = Lock(name, fence)

        async def act(what: str) -> None:
            await self._post(f"{path}/{what}", {"fence": str(fence)}, may_repeat=True)

        keeping = asyncio.create_task(locks.keep(lock, lambda: act("renew"), ttl, since))
        try:
            yield lock
        finally:
            keeping.cancel()
            await locks.release(lambda: act("release"))

    async def drain(self, worker: str) -> None:
        """Tells a worker to take no more work. What it runs and does not finish in time goes on elsewhere."""
        await self._send("POST", f"/api/v1/workers/{_path(worker)}/drain", may_repeat=True)

    async def resume(self, worker: str) -> None:
        """Tells a drained worker to work again."""
        await self._send("POST", f"/api/v1/workers/{_path(worker)}/resume", may_repeat=True)

    async def _pages(self, path: str, query: Mapping[str, str | None]) -> AsyncIterator[dict[str, Any]]:
        after: str | None = None
        while True:
            page = await self._get(path, {**query, "after": after})
            for item in page["items"]:
                yield item
            after = page.get("next")
            if after is None:
                return

    async def _get(self, path: str, query: Mapping[str, str | None] | None = None) -> Any:
        return await self._send("GET", self._space + path, query=query, may_repeat=True)

    async def _post(self, path: str, body: Mapping[str, Any], may_repeat: bool, key: str | None = None) -> Any:
        return await self._send("POST", self._space + path, _given(body), may_repeat=may_repeat, key=key)

    async def _send(  # noqa: PLR0913
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str | None] | None = None,
        may_repeat: bool,
        key: str | None = None,
    ) -> Any:
        """Sends a request to the first server that can be reached."""
        if self._http is None:
            trusted = ssl.create_default_context()
            if self._ca is not None:
                trusted.load_verify_locations(self._ca)
            self._http = aiohttp.ClientSession(
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=REQUEST_MAX),
                connector=aiohttp.TCPConnector(ssl=trusted, limit=100),
            )
        last: Exception | None = None
        headers = _given({"idempotency-key": key})
        for server in self.servers:
            try:
                async with self._http.request(
                    method, server + path, json=body, params=_given(query or {}), headers=headers
                ) as answer:
                    return await _read(answer)
            except aiohttp.ClientConnectorError as error:
                # It has not reached the server, so nothing has happened.
                last = error
            except (aiohttp.ClientError, TimeoutError) as error:
                last = error
                if not may_repeat:
                    break
        raise Unreachable(f"no answer from {', '.join(self.servers)}: {last}") from last


async def _read(answer: aiohttp.ClientResponse) -> Any:
    text = await answer.text()
    if answer.status < 400:
        return json.loads(text) if answer.content_type == "application/json" else text
    try:
        said = json.loads(text)
        raise Problem(answer.status, said["code"], said["message"], said.get("field"))
    except (ValueError, KeyError, TypeError):
        raise Problem(answer.status, "strange", f"{answer.url.origin()} did not answer as Punctual does") from None


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is `None`."""
    return {name: value for name, value in values.items() if value is not None}


def _path(part: str) -> str:
    return quote(part, safe="")


def _instant(at: datetime | None) -> str | None:
    if at is not None and at.tzinfo is None:
        raise ValueError("an instant needs a time zone, such as datetime.now(UTC)")
    return None if at is None else at.isoformat()


def _span(span: Span | None) -> str | None:
    return span if span is None or isinstance(span, str) else f"{round(span * 1000)}ms"


def _parsed(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


_INSTANT = re.compile(r"_at$")


def _run(body: Mapping[str, Any]) -> Run:
    known = {field.name for field in fields(Run)} & body.keys()
    return Run(**{name: _parsed(body[name]) if _INSTANT.search(name) else body[name] for name in known})


def _job(body: Mapping[str, Any]) -> Job:
    return Job(
        body["id"],
        body["name"],
        body["namespace"],
        body["revision"],
        body["state"],
        _parsed(body.get("next_due_at")),
        dict(body),
    )
