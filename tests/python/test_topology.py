"""What ``farwrite info`` shows of adapters and GPUs, on machines that the tests make up."""

from __future__ import annotations

from pathlib import Path

import pytest

from farwrite.cli.info import topology_lines
from farwrite.info import topology


class Machine:
    """A folder like /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, link: str, place: str, **files: str) -> None:
        """Make a device at `place`, with these files, and a link to it."""
        device = self.root / "devices" / place
        device.mkdir(parents=True)
        for name, line in files.items():
            (device / name.replace("pci_class", "class")).write_text(f"{line}\n")
        (self.root / link).parent.mkdir(parents=True, exist_ok=True)
        (self.root / link).symlink_to(device)

    def add_adapter(self, name: str, place: str, node: str) -> None:
        self.add(f"class/infiniband/{name}/device", place, numa_node=node)

    def add_gpu(self, place: str, node: str) -> None:
        address = place.rpartition("/")[2]
        link = f"bus/pci/devices/{address}"
        self.add(link, place, numa_node=node, pci_class="0x030200", vendor="0x10de")

    def lines(self) -> list[str]:
        return list(topology_lines(topology(str(self.root))))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_adapter_reaches_the_gpus_below_its_host_bridge(machine: Machine) -> None:
    machine.add_adapter("mlx5_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0")
    machine.add_adapter("mlx5_1", "pci0000:80/0000:80:00.0/0000:81:00.0", "-1")
    machine.add_gpu("pci0000:3a/0000:3a:02.0/0000:3c:00.0", "0")
    machine.add_gpu("pci0000:5d/0000:5d:00.0/0000:5e:00.0", "0")
    assert topology(str(machine.root)) == {
        "adapters": [
            {
                "name": "mlx5_0",
                "pci_address": "0000:3b:00.0",
                "host_bridge": "pci0000:3a",
                "numa_node": 0,
            },
            {
                "name": "mlx5_1",
                "pci_address": "0000:81:00.0",
                "host_bridge": "pci0000:80",
                "numa_node": None,
            },
        ],
        "gpus": [
            {
                "name": "0000:3c:00.0",
                "pci_address": "0000:3c:00.0",
                "host_bridge": "pci0000:3a",
                "numa_node": 0,
                "direct_adapters": ["mlx5_0"],
            },
            {
                "name": "0000:5e:00.0",
                "pci_address": "0000:5e:00.0",
                "host_bridge": "pci0000:5d",
                "numa_node": 0,
                "direct_adapters": [],
            },
        ],
    }
    assert machine.lines() == [
        "",
        "PCIe",
        "  mlx5_0            NUMA node 0, pci0000:3a",
        "  mlx5_1            NUMA node unknown, pci0000:80",
        "  GPU 0000:3c:00.0  NUMA node 0, pci0000:3a; direct from mlx5_0",
        "  GPU 0000:5e:00.0  NUMA node 0, pci0000:5d; through host memory",
    ]


def test_a_software_adapter_alone_is_not_shown(machine: Machine) -> None:
    (machine.root / "class/infiniband/rxe0").mkdir(parents=True)
    assert topology(str(machine.root))["adapters"] == [
        {"name": "rxe0", "pci_address": None, "host_bridge": None, "numa_node": None}
    ]
    assert machine.lines() == []
    machine.add_gpu("pci0000:3a/0000:3a:02.0/0000:3c:00.0", "0")
    assert machine.lines()[2:4] == [
        "  rxe0              not on PCIe",
        "  GPU 0000:3c:00.0  NUMA node 0, pci0000:3a; through host memory",
    ]


def test_a_gpu_without_an_adapter_is_not_shown(machine: Machine) -> None:
    machine.add_gpu("pci0000:3a/0000:3a:02.0/0000:3c:00.0", "0")
    assert len(topology(str(machine.root))["gpus"]) == 1
    assert machine.lines() == []


def test_a_machine_without_either_shows_nothing(machine: Machine) -> None:
    assert topology(str(machine.root)) == {"adapters": [], "gpus": []}
    assert machine.lines() == []
