"""Boots one guest, or two on one wire, and runs a script of the host in each.

    python tests/softroce/guests.py SCRIPT [--pair] [--accel auto|kvm|tcg] [--limit SECONDS]
                                    [--memory MIB] [--out FOLDER] [--image FOLDER] [--siw]

A guest is a Debian kernel under QEMU, unprivileged, with soft-RoCE (device rxe0 on eth0) or, where
prepare.sh was told to build it, iWARP in software (siw0). It sees the host's files read-only below
a writable layer in memory, so the checkout and its .venv run as they are; OUT is its /out, shared
by both guests and emptied first. SCRIPT runs as root under bash in the folder this is called from,
with GUEST_NAME (a or b), GUEST_DEVICE, GUEST_IP and, of a pair, GUEST_PEER_IP.

Exits 0 if every script did, 1 if one failed or a guest did not end in time, and 77 with the reason
where no guest can run.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import secrets
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parent.parent.parent
IMAGE = Path(os.environ.get("FARWRITE_SOFTROCE") or CHECKOUT / ".cache/softroce").resolve()
CANNOT = 77
KVM = Path("/dev/kvm")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PR_SET_PDEATHSIG = 1
LONGEST_LINE = 4096
KERNEL_WORDS = (
    # A guest whose kernel has broken down ends, instead of staying half alive.
    "console=ttyS0,115200 quiet panic=-1 oops=panic",
    # The clock that a guest finds by itself, hpet, costs it dear to look at.
    "tsc=reliable clocksource=tsc",
    # On a busy host the emulated timer misses the test that the kernel makes of it, and panics.
    "no_timer_check",
    # Code that lies at the same place in every process is translated once: a third less work.
    "norandmaps mitigations=off",
)
# QEMU ends by itself after the guest powered off; one that does not is killed.
POWER_OFF_SECONDS = 10.0
# What init says when a guest is up, and when that must be. It takes 3 to 10 s.
READY = "init: ready"
BOOT_SECONDS = 120.0
# How the ending of a guest begins that did not come up, or whose kernel broke down.
LOST = "no exit status"


class Plan(NamedTuple):
    """What to run and where."""

    script: Path
    image: Path
    out: Path
    device: str  # rxe0 or siw0
    accel: str
    memory: int
    cpus: int
    limit: float


class Guest(NamedTuple):
    """One running QEMU."""

    name: str
    process: subprocess.Popen[bytes]
    status_file: Path


def qemu(image: Path) -> list[str]:
    """Return the words that start QEMU: the fetched one, else the machine's."""
    fetched = image / "layer"
    program = fetched / "usr/bin/qemu-system-x86_64"
    if program.exists():
        firmware = [fetched / "usr/share/qemu", fetched / "usr/share/seabios"]
        return [str(program), *(word for folder in firmware for word in ("-L", str(folder)))]
    installed = shutil.which("qemu-system-x86_64")
    if installed is None:
        print(f"guests: no QEMU in {fetched} or on PATH; run tests/softroce/fetch.sh")
        sys.exit(CANNOT)
    return [installed]


def environment(image: Path) -> dict[str, str]:
    """Return QEMU's environment: it finds its libraries and its own modules where they lie."""
    folder = image / "layer" / LIBRARIES
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "QEMU_MODULE_DIR": str(folder / "qemu")}


def working_accel(image: Path) -> str:
    """Return kvm if the processor has what it takes and QEMU can use it, else tcg."""
    # There are machines with a /dev/kvm in software, under which a Debian kernel does not boot.
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text(), re.M)
    if flags is None or not os.access(KVM, os.R_OK | os.W_OK):
        return "tcg"
    words = [*qemu(image), "-M", "pc", "-accel", "kvm", "-cpu", "max", "-S", "-nodefaults"]
    words += ["-display", "none", "-monitor", "stdio"]
    try:
        probe = subprocess.run(
            words, env=environment(image), input=b"quit\n", capture_output=True, timeout=20
        )
    except subprocess.TimeoutExpired:
        return "tcg"
    return "kvm" if probe.returncode == 0 else "tcg"


def end_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends, however it does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def shared_folder(tag: str, path: Path, readonly: bool) -> list[str]:
    """Return the words that give a guest a folder of the host over 9p."""
    # Commas in a value are doubled.
    folder = str(path).replace(",", ",,")
    mode = "on" if readonly else "off"
    return [
        "-fsdev",
        f"local,id={tag},path={folder},security_model=none,readonly={mode},multidevs=remap",
        "-device",
        f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
    ]


def start(plan: Plan, name: str, number: int, peer: str, wire: socket.socket | None) -> Guest:
    """Boot one guest."""
    status = f"status-{name}-{secrets.token_hex(8)}"
    told = {
        "GUEST_NAME": name,
        "GUEST_DEVICE": plan.device,
        "GUEST_IP": f"10.9.0.{number}",
        "GUEST_PEER_IP": peer,
        "GUEST_FOLDER": str(Path.cwd()),
        "GUEST_SCRIPT": str(plan.script),
        "GUEST_STATUS": status,
    }
    lines = [f"{key}={shlex.quote(value)}\n" for key, value in told.items()]
    (plan.out / f"{name}.sh").write_text("".join(lines))
    words = [*qemu(plan.image), "-M", "pc", "-accel", plan.accel, "-cpu", "max"]
    words += ["-smp", str(plan.cpus), "-m", str(plan.memory), "-nodefaults", "-no-user-config"]
    words += ["-no-reboot", "-display", "none", "-serial", "stdio"]
    words += ["-kernel", str(plan.image / "boot/vmlinux")]
    words += ["-initrd", str(plan.image / "boot/initramfs")]
    words += ["-append", " ".join((*KERNEL_WORDS, f"guest={name}"))]
    words += shared_folder("root", Path("/"), readonly=True)
    words += shared_folder("layer", plan.image / "layer", readonly=True)
    words += shared_folder("out", plan.out, readonly=False)
    network = "user,restrict=on"
    if wire is not None:
        network = f"stream,server=off,addr.type=fd,addr.str={wire.fileno()}"
    words += ["-netdev", f"{network},id=wire"]
    words += ["-device", f"virtio-net-pci,netdev=wire,mac=52:54:00:00:00:{number:02x},romfile="]
    process = subprocess.Popen(
        words,
        env=environment(plan.image),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[] if wire is None else [wire.fileno()],
        preexec_fn=end_with_parent,
    )
    return Guest(name, process, plan.out / status)


def follow(guests: list[Guest], plan: Plan, said: dict[str, str]) -> bool:
    """Print what the guests say, each line after its guest's name; return whether time was left.

    `said` gets the last line of each. A guest that does not come up, or ends without an exit
    status, ends all: its peer would wait for it in every step.
    """
    started = time.monotonic()
    deadline = started + plan.limit
    booting = {guest.name for guest in guests}
    rest = {guest.name: b"" for guest in guests}
    with selectors.DefaultSelector() as selector:
        for guest in guests:
            assert guest.process.stdout is not None
            os.set_blocking(guest.process.stdout.fileno(), False)
            selector.register(guest.process.stdout, selectors.EVENT_READ, guest)
        lost = False
        while selector.get_map() and not lost:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            boot_left = started + BOOT_SECONDS - time.monotonic()
            if booting and boot_left <= 0:
                print(f"guests: not up after {BOOT_SECONDS:.0f} s: {', '.join(sorted(booting))}")
                break
            for key, _ in selector.select(min(left, boot_left) if booting else left):
                guest = key.data
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                    lost = lost or not guest.status_file.exists()
                *lines, rest[guest.name] = (rest[guest.name] + data).split(b"\n")
                if not data or len(rest[guest.name]) > LONGEST_LINE:
                    lines.append(rest[guest.name])
                    rest[guest.name] = b""
                for line in lines:
                    text = line.decode(errors="replace").rstrip("\r")
                    if text:
                        said[guest.name] = text
                        if text.startswith(READY):
                            booting.discard(guest.name)
                        print(f"{time.monotonic() - started:6.1f} {guest.name}| {text}", flush=True)
    return True


def stop(guests: list[Guest]) -> None:
    """Kill what still runs."""
    for guest in guests:
        try:
            guest.process.wait(POWER_OFF_SECONDS if guest.process.stdout is None else 0)
        except subprocess.TimeoutExpired:
            guest.process.kill()
            guest.process.wait()


def empty_folder(out: Path) -> None:
    """Make the shared folder anew; one that is no earlier run's is left alone."""
    if out.is_dir() and any(out.iterdir()) and not (out / "a.sh").exists():
        sys.exit(f"guests: {out} holds something else than an earlier run; give another --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)


def ending(guest: Guest, limit: float | None, last: str) -> str:
    """Return the exit status of a guest's script, or why there is none; 0 alone is good."""
    # QEMU's own exit status says nothing about the guest.
    try:
        status = guest.status_file.read_text().strip()
    except OSError:
        status = LOST if limit is None else f"nothing after {limit:.0f} s"
        status += f"; the last it said: {last}"
    if status != "0":
        print(f"guests: {guest.name} ended with {status}", flush=True)
    return status


def run(plan: Plan, pair: bool) -> dict[str, str]:
    """Run the script in one guest or two; return what each guest's script ended with."""
    empty_folder(plan.out)
    names = ["a", "b"] if pair else ["a"]
    # A wire without a name: nothing to clean up, and no guest has to wait for the other.
    wires: list[socket.socket | None] = list(socket.socketpair()) if pair else [None]
    guests: list[Guest] = []
    said = dict.fromkeys(names, "nothing")
    try:
        for number, (name, wire) in enumerate(zip(names, wires, strict=True), start=1):
            peer = f"10.9.0.{3 - number}" if pair else ""
            guests.append(start(plan, name, number, peer, wire))
            if wire is not None:
                wire.close()
        in_time = follow(guests, plan, said)
    finally:
        stop(guests)
    limit = None if in_time else plan.limit
    return {guest.name: ending(guest, limit, said[guest.name]) for guest in guests}


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("script", type=Path)
    parser.add_argument("--pair", action="store_true", help="two guests on one wire")
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds, all in all")
    parser.add_argument("--memory", type=int, default=3072, help="MiB for each guest")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--out", type=Path, default=CHECKOUT / "build/softroce/out")
    parser.add_argument("--siw", action="store_true", help="iWARP in place of RoCE")
    parser.add_argument("--image", type=Path, default=IMAGE)
    words = parser.parse_args()
    accel = working_accel(words.image) if words.accel == "auto" else words.accel
    plan = Plan(
        script=words.script.resolve(),
        image=words.image.resolve(),
        out=words.out.resolve(),
        device="siw0" if words.siw else "rxe0",
        accel=accel,
        memory=words.memory,
        cpus=words.cpus,
        limit=words.limit,
    )
    print(f"guests: {accel}, {2 if words.pair else 1} x {plan.memory} MiB", flush=True)
    return int(any(status != "0" for status in run(plan, words.pair).values()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
