"""The Python worker and the Rust worker, held against the rules of a worker."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import BINARY, ROOT

CONFORMANCE = ROOT / "sdk" / "conformance"
COMMANDS = {
    "python": [sys.executable, str(CONFORMANCE / "python_worker.py")],
    "rust": [BINARY, "worker", "--drain", "8s"],
}


def hold(command: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(CONFORMANCE / "conformance.py"), *options]
    return subprocess.run([*program, "--", *command], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("worker", COMMANDS)
def test_a_worker_keeps_the_rules(worker: str) -> None:
    held = hold(COMMANDS[worker])
    assert held.returncode == 0, held.stdout + held.stderr
    assert held.stdout.splitlines()[-1] == "31 of 31 rules hold"


def test_a_worker_that_breaks_a_rule_is_named() -> None:
    """A worker that starts an attempt again, whatever its token is: one that remembers nothing."""
    forgetful = "import punctual._attempts as rules; rules.Attempts._is_settled = lambda *_: False\n"
    program = forgetful + (CONFORMANCE / "python_worker.py").read_text()
    held = hold([sys.executable, "-c", program], "--only", "after its end")
    assert held.returncode == 1
    assert held.stdout.startswith("FAIL  one start: an assignment that is repeated after its end"), held.stdout
    assert "it started 2 times, though it was acknowledged" in held.stdout
