"""The output of attempts on its way to the log, and its limits.

A `Transcript` numbers the chunks of one attempt. What a function prints while it runs goes into the transcript of its
attempt: `Capture` stands in for `sys.stdout` and `sys.stderr`, and a context variable says whose output it is.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from punctual._words import CHUNK_BYTES_MAX, LINE_BYTES_MAX, RUN_LOG_BYTES_MAX, Key
from punctual.v1 import worker_pb2 as pb

#: Output of all attempts that no node has kept yet. A thread waits for room; output of a coroutine is dropped.
ROOM_BYTES = 8 * 1024 * 1024
#: How long a thread waits for room; then its output is dropped, because no node takes it.
ROOM_WAIT_MAX = 20.0
CUT_MARK = " […]".encode()
#: A line ends with a newline or, as in a progress bar, with a carriage return.
LINE = re.compile(rb"[^\r\n]*[\r\n]?")


class Room:
    """Memory for output on its way, shared by all attempts and threads."""

    def __init__(self, size: int = ROOM_BYTES) -> None:
        self._free = size
        self._changed = threading.Condition()

    def take(self, size: int, wait: float) -> bool:
        with self._changed:
            if not self._changed.wait_for(lambda: self._free >= size, timeout=wait):
                return False
            self._free -= size
            return True

    def give(self, size: int) -> None:
        with self._changed:
            self._free += size
            self._changed.notify_all()


class Lines:
    """Limits the length of lines. A longer line is cut at the limit and marked."""

    def __init__(self) -> None:
        self._length = 0

    def add(self, data: bytes) -> tuple[bytes, int]:
        """Returns what is kept of a piece, and how many bytes were left out."""
        if self._length + len(data) <= LINE_BYTES_MAX:
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            self._length = len(data) - end if end else self._length + len(data)
            return data, 0
        kept = bytearray()
        left_out = 0
        for line in LINE.findall(data):
            text = line.rstrip(b"\r\n")
            room = max(0, LINE_BYTES_MAX - self._length)
            kept += text[:room].decode(errors="ignore").encode() if len(text) > room else text
            if len(text) > room and self._length <= LINE_BYTES_MAX:
                kept += CUT_MARK
            left_out += max(0, len(text) - room)
            self._length = min(self._length + len(text), LINE_BYTES_MAX + 1)
            if len(line) > len(text):
                kept += line[-1:]
                self._length = 0
        return bytes(kept), left_out


class Transcript:
    """The output of one attempt. It may be written to from any thread."""

    def __init__(self, key: Key, room: Room, emit: Callable[[pb.LogChunk], None]) -> None:
        self._attempt = pb.Attempt(run=key[0], token=key[1])
        self._room = room
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        #: What is not emitted yet, in order.
        self._parts: list[tuple[pb.LogStream, bytearray]] = []
        self._lines = {pb.LOG_STREAM_OUT: Lines(), pb.LOG_STREAM_ERR: Lines()}
        self._kept = 0
        self._dropped = 0
        self._next = 0
        self._is_scheduled = False
        self._is_closed = False

    def write(self, stream: pb.LogStream, text: str) -> None:
        data = text.encode(errors="replace")
        is_thread = threading.get_ident() != self._thread
        has_room = self._room.take(len(data), ROOM_WAIT_MAX if is_thread else 0.0)
        with self._lock:
            if not has_room or self._is_closed or self._kept + len(data) > RUN_LOG_BYTES_MAX:
                self._dropped += len(data)
                kept = b""
            else:
                kept, left_out = self._lines[stream].add(data)
                self._dropped += left_out
                self._kept += len(kept)
            if has_room:
                # A mark makes a line longer than what room was taken for.
                self._room.give(len(data) - len(kept))
            if kept:
                self._append(stream, kept)
                if not self._is_scheduled:
                    self._is_scheduled = True
                    soon = self._loop.call_soon_threadsafe if is_thread else self._loop.call_soon
                    soon(self.flush)

    def note(self, text: str) -> None:
        """Adds a line of the worker itself."""
        data = text.encode(errors="replace")[:LINE_BYTES_MAX]
        self._room.give(-len(data))
        with self._lock:
            # Each note is a chunk of its own.
            self._parts.append((pb.LOG_STREAM_NOTE, bytearray(data)))
        self.flush()

    def flush(self) -> None:
        """Emits what has been written. Only the event loop's thread calls it."""
        with self._lock:
            parts, self._parts = self._parts, []
            self._is_scheduled = False
        for stream, data in parts:
            for start in range(0, len(data), CHUNK_BYTES_MAX):
                piece = bytes(data[start : start + CHUNK_BYTES_MAX])
                at = int(time.time() * 1000)
                self._emit(pb.LogChunk(attempt=self._attempt, number=self._next, at=at, stream=stream, bytes=piece))
                self._next += 1

    def close(self) -> None:
        """Emits the rest, and says how much is missing."""
        with self._lock:
            self._is_closed = True
            dropped = self._dropped
        if dropped:
            self.note(f"{dropped} bytes of output were not kept")
        elif self._parts:
            self.flush()

    def _append(self, stream: pb.LogStream, data: bytes) -> None:
        if self._parts and self._parts[-1][0] == stream:
            self._parts[-1][1].extend(data)
        else:
            self._parts.append((stream, bytearray(data)))


current: ContextVar[Transcript | None] = ContextVar("punctual_transcript", default=None)


class Capture(io.TextIOBase):
    """Stands in for a standard stream: output of an attempt goes to its log, other output to the stream itself."""

    def __init__(self, stream: pb.LogStream, real: TextIO) -> None:
        self._stream = stream
        self._real = real

    def write(self, text: str, /) -> int:
        transcript = current.get()
        if transcript is None:
            return self._real.write(text)
        transcript.write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        if current.get() is None:
            self._real.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._real.isatty()

    def fileno(self) -> int:
        return self._real.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._real.encoding


@contextmanager
def captured() -> Iterator[None]:
    """Captures the prints of attempts."""
    out, err = sys.stdout, sys.stderr
    mine = (Capture(pb.LOG_STREAM_OUT, out), Capture(pb.LOG_STREAM_ERR, err))
    sys.stdout, sys.stderr = mine
    try:
        yield
    finally:
        # Another program may have replaced them meanwhile.
        if sys.stdout is mine[0]:
            sys.stdout = out
        if sys.stderr is mine[1]:
            sys.stderr = err
