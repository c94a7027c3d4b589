"""The load of this machine."""

from __future__ import annotations

from pathlib import Path

from punctual.v1 import worker_pb2 as pb


class Gauge:
    """Reads processor and memory use; each reading costs two small files."""

    def __init__(self) -> None:
        self._before = (0, 0)
        self.read()

    def read(self) -> pb.Report | None:
        """The load since the last reading. `None` means the machine does not provide it."""
        try:
            cpu = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
            memory = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
            total, free = (int(memory[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
        except (OSError, ValueError, KeyError):
            return None
        now = (sum(cpu), cpu[3] + cpu[4])
        passed, idle = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return pb.Report(
            load=pb.Load(cpu_percent=_percent(passed - idle, passed), memory_percent=_percent(total - free, total))
        )


def _percent(part: int, whole: int) -> int:
    return min(100, max(0, round(100 * part / whole))) if whole > 0 else 0
