"""Makes the types of `worker.proto` before the package is built or installed; they are not kept in the repository."""

from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"


def generate() -> None:
    """Writes `src/punctual/v1/worker_pb2.py` and its types. A source archive has no `proto`: it contains the result."""
    if not PROTO.is_dir():
        return
    from grpc_tools import protoc  # noqa: PLC0415

    out = HERE / "src"
    (out / "punctual" / "v1").mkdir(parents=True, exist_ok=True)
    (out / "punctual" / "v1" / "__init__.py").touch()
    failed = protoc.main(
        ["protoc", f"-I{PROTO}", f"--python_out={out}", f"--pyi_out={out}", "punctual/v1/worker.proto"]
    )
    if failed:
        raise SystemExit(f"protoc failed with {failed}")


# Packages are looked for when `setup` is called, so the types have to be there before.
generate()
setup()
