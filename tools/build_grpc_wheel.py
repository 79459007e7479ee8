"""Builds the wheel of farwrite-grpc into a folder, against the libraries of Debian 12.

    .venv/bin/python tools/build_grpc_wheel.py FOLDER

Compiles src/grpc with this machine's GCC, the C and C++ libraries and gRPC's packages of Debian 12
(tools/fetch_debs.sh), and gRPC's private headers (tools/fetch_grpc.sh). The component is for every
Python, as it has none in it, and for every farwrite of the same C ABI, whichever compiler built it.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from build_wheels import ROOT, own_environment
from debian_wheel import DEBIAN_12, compiler_for, pack, too_new
from farwrite.errors import Error
from farwrite.plugin.build import allowed_jobs
from farwrite.run.grpc_component import LIBRARIES, OWN

SOURCE = ROOT / "grpc"
GRPC = ROOT / ".cache/grpc/grpc-1.51.1"


def compile_into(folder: Path, work: Path) -> None:
    """Compile the component, and install its libraries and its header into a folder."""
    subprocess.run([ROOT / "tools/fetch_grpc.sh"], check=True)
    compiler, *flags = compiler_for(DEBIAN_12, "libgrpc++-dev").command
    settings = {
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_CXX_COMPILER": compiler,
        "CMAKE_CXX_FLAGS": shlex.join(flags),
        "CMAKE_INSTALL_PREFIX": folder,
        "GRPC_PREFIX": DEBIAN_12.root,
        "GRPC_SOURCE": GRPC,
        "farwrite_DIR": OWN / "cmake",
    }
    cmake = Path(sys.executable).with_name("cmake")
    ninja = Path(sys.executable).with_name("ninja")
    words = [f"-D{name}={value}" for name, value in settings.items()]
    words += [f"-DCMAKE_MAKE_PROGRAM={ninja}", "--log-level=WARNING"]
    for command in (
        [cmake, "-S", ROOT / "src/grpc", "-B", work, "-G", "Ninja", *words],
        [cmake, "--build", work, "--parallel", str(allowed_jobs())],
        [cmake, "--install", work, "--strip"],
    ):
        ended = subprocess.run(
            command,
            env=own_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            sys.exit(f"build_grpc_wheel: {shlex.join(map(str, command))} failed\n{ended.stdout}")


def names_of_another_compiler(library: Path) -> list[str]:
    """Return the C++ names of Farwrite that a library takes from elsewhere: a wheel lacks them."""
    command = ("nm", "--dynamic", "--undefined-only", "--format=posix", library)
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = [line.split()[0].partition("@")[0] for line in listed.splitlines()]
    return [name for name in names if name.startswith("_Z") and "8farwrite" in name]


def build(folder: Path) -> Path:
    """Build the wheel into `folder`, and return it."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="component-") as name:
        made = Path(name)
        compile_into(made / "built", made / "compiled")
        files = [made / "built" / library for library in LIBRARIES]
        for library in files:
            if refused := [*too_new(library, DEBIAN_12), *names_of_another_compiler(library)]:
                sys.exit(f"build_grpc_wheel: {library.name} needs {', '.join(refused)}")
        return pack(SOURCE, made, (*files, made / "built/include"), DEBIAN_12, folder)


def main() -> int:
    """Read the command line, and build."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    try:
        made = build(parser.parse_args().folder)
    except (Error, subprocess.CalledProcessError) as error:
        sys.exit(f"build_grpc_wheel: {error}")
    print(f"{made} ({made.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
