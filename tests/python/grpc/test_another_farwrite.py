"""A component whose libfarwrite.so is that of another Farwrite, or is not there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sanitized
from enabling_client import compiled
from grpc_programs import PROGRAMS, GrpcProgram, require_programs

from another_library import C_ABI, VERSION, build_library
from farwrite.run.grpc_component import LIBRARIES, PRELOADED, c_abi
from farwrite_bench.cluster.process import free_ports

require_programs("sum_client", "sum_server")


@pytest.fixture(params=["farwrite", "farwrite_grpc"])
def component(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a component in either package, beside a library of another C ABI."""
    (tmp_path / "farwrite").mkdir()
    build_library(tmp_path / "farwrite")
    folder = tmp_path / request.param
    folder.mkdir(exist_ok=True)
    for name in LIBRARIES:
        shutil.copy(sanitized.COMPONENT / name, folder)
    return folder


def sentence(component: Path) -> str:
    remedy = {
        "farwrite": "build the component again, in a checkout of that Farwrite: make grpc",
        "farwrite_grpc": "install the component of that release: pip install --force-reinstall"
        f" --no-deps farwrite_grpc-{VERSION}-*.whl",
    }
    library = component.parent / "farwrite/libfarwrite.so"
    if component.name == "farwrite_grpc":
        library = component / "../farwrite/libfarwrite.so"
    return (
        f"the component in {component}/ needs C ABI {c_abi()} of Farwrite, and this process has"
        f" loaded Farwrite {VERSION}, which has C ABI {C_ABI}, from {library};"
        f" {remedy[component.name]}"
    )


def run_client(component: Path, folder: Path, *, required: bool) -> tuple[int, str]:
    """Run the client as `farwrite run` would; return its status and what it wrote."""
    port = free_ports(1)[0]
    variables = {"LD_PRELOAD": str(component / PRELOADED), "FARWRITE_GRPC_PRELOADED": "1"}
    if required:
        variables["FARWRITE_GRPC_REQUIRE"] = "1"
    with GrpcProgram([PROGRAMS / "sum_server", str(port)], folder, "server") as server:
        server.wait_until_it_listens(port)
        command = [PROGRAMS / "sum_client", str(port)]
        with GrpcProgram(command, folder, "client", variables) as client:
            status = client.wait()
        server.interrupt()
    return status, client.log


@pytest.mark.parametrize("required", [False, True])
def test_a_program_is_told_the_versions(component: Path, tmp_path: Path, required: bool) -> None:
    status, log = run_client(component, tmp_path, required=required)
    assert log.count(f"farwrite: gRPC stays on TCP: {sentence(component)}\n") == 1
    assert (status, f"sum {2**24}\n" in log) == ((126, False) if required else (0, True))


def test_a_program_is_told_that_the_library_is_missing(component: Path, tmp_path: Path) -> None:
    (tmp_path / "farwrite/libfarwrite.so").unlink()
    status, log = run_client(component, tmp_path, required=True)
    assert status == 126
    assert "libfarwrite.so: cannot open shared object file" in log


def test_a_program_that_links_the_component_is_told_by_enable(
    component: Path, tmp_path: Path
) -> None:
    program = compiled(tmp_path, "farwrite_grpc", "grpc", component=component)
    with GrpcProgram([program, str(free_ports(1)[0])], tmp_path, "client") as client:
        assert client.wait() == 1  # it has no server
    assert f"Enable: {sentence(component)}\n" in client.log
