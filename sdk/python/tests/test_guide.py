"""The code of the guide and of the README, run as it stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import BINARY, ROOT, SOON, Node

GUIDE = ROOT / "docs" / "guides" / "python.md"
README = ROOT / "sdk" / "python" / "README.md"


def blocks(file: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", file.read_text(), re.MULTILINE | re.DOTALL)


def test_the_programs_of_the_guide_work(node: Node, tmp_path: Path) -> None:
    programs: dict[str, str] = {}
    for block in blocks(GUIDE, "python"):
        named = re.match(r"# (\S+\.py)\n", block)
        name = named[1] if named else next(reversed(programs))
        programs[name] = programs.get(name, "") + "\n\n" + block
    assert list(programs) == ["worker.py", "submit.py"]
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
    (job,) = blocks(GUIDE, "yaml")
    (tmp_path / "settle.yaml").write_text(job)
    _, use, conformance = blocks(GUIDE, "sh")
    assert (ROOT / conformance.split()[1]).exists() and (ROOT / conformance.split()[4]).exists()
    path = os.pathsep.join([str(Path(BINARY).resolve().parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PUNCTUAL_SERVER": node.url, "PATH": path}
    worker = subprocess.Popen([sys.executable, "worker.py"], cwd=tmp_path, env=env)
    try:
        shell = ["bash", "-euc", use]
        used = subprocess.run(
            shell, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=SOON * 2, check=True
        )
    finally:
        worker.terminate()
        assert worker.wait(SOON) == 0
    for text in ("succeeded settled 25 rows 76", "100 rows", "settling monday east", "wrong_state "):
        assert text in used.stdout, used.stdout


def test_the_package_is_installed_from_a_copy_of_the_repository(tmp_path: Path) -> None:
    for folder in ("proto", "sdk/python"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("build", "*_pb2*", "*.egg-info")
        )
    install, *_ = blocks(GUIDE, "sh")
    subprocess.run(["bash", "-euc", install], cwd=tmp_path, timeout=SOON * 10, check=True)
    use = "from punctual import Client, Worker"
    subprocess.run([tmp_path / "venv" / "bin" / "python", "-c", use], cwd=tmp_path, check=True)


def test_the_program_of_the_readme_is_a_worker() -> None:
    (program,) = blocks(README, "python")
    names: dict[str, object] = {}
    exec(program, names)
    assert "settle" in names["worker"]._functions  # type: ignore[attr-defined]
