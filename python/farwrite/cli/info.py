"""``farwrite info``: the fabrics, copy kernels and limits of this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from farwrite.info import Info, PciDevice, Topology, info
from farwrite.units import format_size

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers, purpose: str) -> None:
    """Add the subcommand ``info``."""
    parser = subparsers.add_parser(
        "info",
        help=purpose,
        description="Show which fabrics are usable and why others are not, the rate of each copy"
        " kernel, and the limits of this process.",
        epilog="Example: farwrite info --json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table or the JSON object."""
    facts = info()
    print(json.dumps(facts, indent=2) if arguments.json else "\n".join(table(facts)))
    return 0


def table(facts: Info) -> Iterable[str]:
    """Yield the lines of the table."""
    yield f"Farwrite {facts['version']}"
    yield ""
    yield "Fabrics"
    for fabric in facts["fabrics"]:
        yield f"  {fabric['name']:<12} {'yes' if fabric['usable'] else 'no':<4} {fabric['reason']}"
        for line in fabric["more"]:
            yield f"  {'':<17} {line}"
    encryption = facts["encryption"]
    usable = "yes" if encryption["usable"] else "no"
    yield f"  {'encryption':<12} {usable:<4} {encryption['reason']}"
    yield from topology_lines(facts["topology"])
    yield ""
    yield "Copy kernels (rate of a cold copy to memory, from the start-up probe)"
    for kernel in facts["copy_kernels"]:
        if not kernel["supported"]:
            rate = "not supported by this CPU"
        elif kernel["gb_s"] > 0:
            rate = f"{kernel['gb_s']:.1f} GB/s"
        else:
            rate = "not probed"
        yield f"  {kernel['name']:<12} {rate}{'  <- chosen' if kernel['chosen'] else ''}"
    yield ""
    yield "Limits"
    limits = facts["limits"]
    available = format_size(limits["memory_available"])
    rows = (
        ("CPU", f"{limits['cpus']} x {limits['cpu']}"),
        ("memory", f"{format_size(limits['memory'])}, {available} available"),
        ("huge pages", f"{limits['shm_huge_pages']} (transparent, in shared memory)"),
        ("locked memory", _limit(limits["locked_memory"], size=True)),
        ("open files", _limit(limits["open_files"], size=False)),
    )
    for name, value in rows:
        yield f"  {name:<14} {value}"


def topology_lines(topology: Topology) -> Iterable[str]:
    """Yield the part on PCIe: nothing where no adapter is on it, or near a GPU."""
    adapters, gpus = topology["adapters"], topology["gpus"]
    if not adapters or not (gpus or any(adapter["pci_address"] for adapter in adapters)):
        return
    yield ""
    yield "PCIe"
    for adapter in adapters:
        yield f"  {adapter['name']:<17} {_place(adapter)}"
    for gpu in gpus:
        direct = gpu["direct_adapters"]
        way = f"direct from {', '.join(direct)}" if direct else "through host memory"
        yield f"  GPU {gpu['name']:<13} {_place(gpu)}; {way}"


def _place(device: PciDevice) -> str:
    if device["pci_address"] is None:
        return "not on PCIe"
    node = device["numa_node"]
    return f"NUMA node {'unknown' if node is None else node}, {device['host_bridge']}"


def _limit(limit: int | None, *, size: bool) -> str:
    if limit is None:
        return "no limit"
    return format_size(limit) if size else str(limit)
