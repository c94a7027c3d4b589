"""The stream to one node; it reconnects until it is no longer wanted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio

from punctual._nodes import authority
from punctual._outbox import Outbox
from punctual._words import MESSAGE_BYTES_MAX, PROTOCOL, LinkId
from punctual.errors import Refused
from punctual.v1 import worker_pb2 as pb

log = logging.getLogger("punctual")

METHOD = "/punctual.v1.Worker/Session"
#: How long a node may take to answer with its welcome.
DIAL_MAX = 10.0
#: The pause before reconnecting: exponential backoff with jitter, so that a thousand workers do not reconnect to a
#: restarted node at once.
BACKOFF_MIN = 0.05
BACKOFF_MAX = 4.0
#: How long to wait before trying a URL again whose node is already connected by another URL.
ALIAS_REST = 30.0

#: Reasons that a node would give again.
REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
}

OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # A silently broken connection is noticed within ten seconds.
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.max_pings_without_data", 0),
    # Every stream has a connection of its own, and this module decides when to dial again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
]


@dataclass(frozen=True)
class Settings:
    token: str | None
    #: A file with certificates to trust in addition to the machine's own. `None` means there is none.
    ca: Path | None


class Listener(Protocol):
    """What hears of a link."""

    def welcomed(self, link: LinkId, welcome: pb.Welcome, outbox: Outbox) -> bool:
        """The node has introduced itself. False: the stream is not wanted."""

    def message(self, link: LinkId, message: pb.FromNode) -> None: ...

    def gone(self, link: LinkId, why: Exception) -> None:
        """The stream has ended or could not be opened. `Refused` means that the node would refuse again."""


class _Unwanted(Exception):
    """The node is connected by another link already."""


class Link:
    def __init__(self, link: LinkId, url: str, settings: Settings, listener: Listener) -> None:
        self.url = url
        self._link = link
        self._settings = settings
        self._listener = listener
        self._was_welcomed = False
        self._stream: asyncio.Task[None] | None = None
        self._running = asyncio.ensure_future(self._run())

    def hang_up(self) -> None:
        """Closes the stream, and dials again later."""
        if self._stream is not None:
            self._stream.cancel()

    async def leave(self, outbox: Outbox) -> None:
        """Sends what is queued and a good-bye, and returns when the node has ended the stream."""
        outbox.leave()
        self._running.cancel()
        if self._stream is not None:
            await asyncio.gather(self._stream, return_exceptions=True)

    async def drop(self) -> None:
        """Closes the stream and dials no more."""
        self._running.cancel()
        self.hang_up()
        ends = [self._running] if self._stream is None else [self._running, self._stream]
        await asyncio.gather(*ends, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while True:
            rest = None
            self._was_welcomed = False
            self._stream = asyncio.ensure_future(self._carry())
            await asyncio.wait({self._stream})
            why = None if self._stream.cancelled() else self._stream.exception()
            if isinstance(why, _Unwanted):
                rest = ALIAS_REST
            else:
                failures = 1 if self._was_welcomed else failures + 1
            if isinstance(why, Refused | ConnectionError):
                self._listener.gone(self._link, why)
            elif why is not None and rest is None:
                log.error("%s: an error in the worker itself, which is a bug", self.url, exc_info=why)
                self._listener.gone(self._link, ConnectionError(f"{self.url}: {why}"))
            await asyncio.sleep(rest or backoff(failures))

    async def _carry(self) -> None:
        """Opens a stream and passes on the node's messages. It always ends with an exception that says why."""
        try:
            async with self._channel() as channel:
                open_stream: grpc.aio.StreamStreamMultiCallable[pb.FromWorker, pb.FromNode] = channel.stream_stream(
                    METHOD,
                    request_serializer=pb.FromWorker.SerializeToString,
                    response_deserializer=pb.FromNode.FromString,
                )
                token = self._settings.token
                await self._converse(open_stream(metadata=(("authorization", f"Bearer {token}"),) if token else ()))
        except grpc.aio.AioRpcError as error:
            raise trouble(self.url, error) from error

    async def _converse(self, call: grpc.aio.StreamStreamCall[pb.FromWorker, pb.FromNode]) -> None:
        try:
            async with asyncio.timeout(DIAL_MAX):
                first = await call.read()
        except TimeoutError:
            raise ConnectionError(f"{self.url}: no answer within ten seconds") from None
        if not isinstance(first, pb.FromNode) or not first.HasField("welcome"):
            raise ConnectionError(f"{self.url}: it ended the stream without a welcome")
        welcome = first.welcome
        if welcome.protocol != PROTOCOL:
            theirs = f"it is version {welcome.version} and speaks protocol {welcome.protocol}"
            raise refused(self.url, f"{theirs}, this worker speaks {PROTOCOL}")
        outbox = Outbox()
        if not self._listener.welcomed(self._link, welcome, outbox):
            raise _Unwanted
        self._was_welcomed = True
        writing = asyncio.ensure_future(self._write(call, outbox))
        try:
            while isinstance(message := await call.read(), pb.FromNode):
                self._listener.message(self._link, message)
            raise ConnectionError(f"{self.url}: the node ended the stream")
        finally:
            outbox.close()
            writing.cancel()

    async def _write(self, call: grpc.aio.StreamStreamCall[pb.FromWorker, pb.FromNode], outbox: Outbox) -> None:
        # The reading side says why the stream has ended.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while (message := await outbox.next()) is not None:
                await call.write(message)
            await call.done_writing()

    def _channel(self) -> grpc.aio.Channel:
        target = authority(self.url)
        if not self.url.startswith("https://"):
            return grpc.aio.insecure_channel(target, options=OPTIONS)
        try:
            roots = trusted(self._settings.ca)
        except OSError as error:
            raise ConnectionError(f"{self.url}: {error}") from error
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(roots), options=OPTIONS)


def backoff(failures: int) -> float:
    """Half of the pause is fixed, the other half is random."""
    longest = min(BACKOFF_MIN * (1 << min(failures, 10)), BACKOFF_MAX)
    return longest / 2 + longest / 2 * random.random()


def trusted(ca: Path | None) -> bytes | None:
    """The certificates of the machine, and the given ones. Read at each connect: the files may have been replaced."""
    if ca is None:
        return None
    own = ssl.get_default_verify_paths().cafile
    return (Path(own).read_bytes() + b"\n" if own and Path(own).exists() else b"") + ca.read_bytes()


def trouble(url: str, error: grpc.aio.AioRpcError) -> Exception:
    """What a status of gRPC means for the worker."""
    why = error.details() or error.code().name.lower()
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        why = "it does not take workers; `server` must name a Punctual server of this version"
    if error.code() in REFUSALS:
        return refused(url, why)
    return ConnectionError(f"{url}: {why}")


def refused(url: str, why: str) -> Refused:
    return Refused(f"{url} refuses this worker: {why}")
