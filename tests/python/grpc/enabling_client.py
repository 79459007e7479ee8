"""Compiles tests/grpc/enabling_client.cc, which links Farwrite in front of gRPC or behind it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import sanitized
from grpc_programs import REPOSITORY

DEBS = REPOSITORY / ".cache/debs/usr"


def compiled(folder: Path, *libraries: str, component: Path = sanitized.COMPONENT) -> Path:
    """Compile enabling_client, linked against the libraries in this order; return its path."""
    prefix = DEBS if (DEBS / "include/grpc/grpc.h").exists() else Path("/usr")
    (grpc,) = prefix.glob("lib/*/libgrpc.so")
    program = folder / "enabling_client"
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Werror",
            *sanitized.COMPILE,
            f"-I{prefix / 'include'}",
            f"-I{REPOSITORY / 'src/grpc/include'}",
            REPOSITORY / "tests/grpc/enabling_client.cc",
            f"-L{component}",
            f"-L{grpc.parent}",
            # RPATH rather than RUNPATH, because Debian's libraries find each other through it.
            f"-Wl,--disable-new-dtags,-rpath,{component},-rpath,{grpc.parent}",
            *(f"-l{library}" for library in libraries),
            "-lgpr",
            "-o",
            program,
        ],
        check=True,
    )
    return program
