"""A host whose name comes after the program that connects to it, as those of containers do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import farwrite as fw

NAME_SERVICE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

// "later.invalid" is this host, after as many refusals as the environment says.
int getaddrinfo(const char* host, const char* port, const struct addrinfo* hints,
                struct addrinfo** found) {
  static int asked = 0;
  int (*behind)(const char*, const char*, const struct addrinfo*, struct addrinfo**) =
      dlsym(RTLD_NEXT, "getaddrinfo");
  if (host == NULL || strcmp(host, "later.invalid") != 0) return behind(host, port, hints, found);
  if (++asked <= atoi(getenv("REFUSALS"))) return atoi(getenv("REFUSAL"));
  return behind("127.0.0.1", port, hints, found);
}
"""
PROGRAM = """
import farwrite as fw
with fw.Device() as device, fw.Device() as other:
    port = other.endpoint.rpartition(":")[2]
    near = device.connect(f"later.invalid:{port}", timeout=30)
    print(near.peer.endpoint == other.endpoint)
with fw.box.serve() as server, fw.box.connect(
    "later.invalid:" + server.endpoint.rpartition(":")[2], timeout=30
) as client:
    print(client.list())
"""
EAI_NONAME, EAI_AGAIN, EAI_FAIL, EAI_NODATA = -2, -3, -4, -5
LOOKS = 3


@pytest.fixture(scope="module")
def name_service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that answers for the name service."""
    path = tmp_path_factory.mktemp("names") / "libnames.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), "-ldl"]
    subprocess.run(command, input=NAME_SERVICE, text=True, check=True)
    return path


def connect_by_name(name_service: Path, refusal: int) -> subprocess.CompletedProcess[str]:
    """Connect to a host that has a name after `LOOKS` looks."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "LD_PRELOAD": f"{name_service}:{os.environ.get('LD_PRELOAD', '')}",
            "REFUSALS": str(LOOKS),
            "REFUSAL": str(refusal),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("refusal", [EAI_NONAME, EAI_AGAIN, EAI_NODATA])
def test_a_connect_waits_until_the_host_has_a_name(name_service: Path, refusal: int) -> None:
    ended = connect_by_name(name_service, refusal)
    assert (ended.returncode, ended.stdout) == (0, "True\n[]\n"), ended.stderr


def test_a_name_service_that_fails_for_good_is_not_asked_again(name_service: Path) -> None:
    ended = connect_by_name(name_service, EAI_FAIL)
    said = r"InvalidArgument: connect.* later\.invalid:\d+: the host does not resolve: Non-recov"
    assert re.search(said, ended.stderr), ended.stderr


def test_a_host_without_a_name_is_the_cause_of_the_error(
    device: fw.Device, capfd: pytest.CaptureFixture[str]
) -> None:
    begin = time.monotonic()
    cause = r"nowhere\.invalid:7.*the host does not resolve: .*; check the host's spelling"
    with pytest.raises(fw.Unavailable, match=cause + r".*\(tried for \d+\.\d s\)"):
        device.connect("nowhere.invalid:7", timeout=3)
    assert time.monotonic() - begin > 2.9
    logged = capfd.readouterr().err
    assert len(re.findall(r"still trying, for another \d\.\d s: connect .*" + cause, logged)) == 1
    with pytest.raises(fw.InvalidArgument, match="does not resolve"):  # its own name comes first
        fw.Device(listen="nowhere.invalid:0", token=None)
