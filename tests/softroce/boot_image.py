"""Makes what the guests boot from an unpacked kernel package: vmlinux and an initramfs.

    python tests/softroce/boot_image.py KERNEL_TREE BUSYBOX INIT OUT_FOLDER

KERNEL_TREE holds boot/vmlinuz-VERSION and lib/modules/VERSION. The initramfs holds a static
busybox, INIT as /init, and the modules that the guest loads, in an order in which each finds what
it needs. The kernel is unpacked here, because software emulation takes seconds for it.
"""

from __future__ import annotations

import lzma
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

# What the guest loads; what these depend on is found. The checksums are asked for by name at run
# time, so that no dependency tells of them: without crc32 no rxe device can be made.
MODULES = (
    "virtio_pci",
    "virtio_net",
    "9p",
    "9pnet_virtio",
    "overlay",
    "crc32_generic",
    "crc32_pclmul",
    "crc32c_generic",
    "crc32c_intel",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
    "siw",
)
# Not every kernel has these; a guest without them has no use for them either.
OPTIONAL = {"crc32_generic", "crc32_pclmul", "crc32c_generic", "crc32c_intel", "siw"}
APPLETS = (
    *("cat", "chroot", "hostname", "insmod", "ip", "ln"),
    *("mkdir", "mount", "poweroff", "sh", "sync"),
)
XZ_MAGIC = b"\xfd7zXZ\x00"


def module_files(tree: Path) -> dict[str, Path]:
    """Return the module files of a kernel tree by module name."""
    found = {}
    for path in (tree / "lib" / "modules").glob("*/kernel/**/*.ko*"):
        name = path.name.partition(".ko")[0].replace("-", "_")
        found[name] = path
    return found


def module_bytes(path: Path) -> bytes:
    """Return a module as insmod wants it."""
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def built_in(tree: Path) -> set[str]:
    """Return the names of what other kernels have as modules and this one has inside."""
    lists = (tree / "lib" / "modules").glob("*/modules.builtin")
    text = "".join(path.read_text() for path in lists)
    return {Path(line).name.partition(".ko")[0].replace("-", "_") for line in text.splitlines()}


def ordered_modules(tree: Path) -> dict[str, bytes]:
    """Return MODULES and what they depend on, each after what it needs."""
    files = module_files(tree)
    inside = built_in(tree)
    done: dict[str, bytes] = {}

    def add(name: str) -> None:
        name = name.replace("-", "_")
        if name in done or name in inside:
            return
        if name not in files:
            if name in OPTIONAL:
                return
            raise SystemExit(f"the kernel in {tree} has no module {name}")
        data = module_bytes(files[name])
        for needed in re.findall(rb"\x00depends=([^\x00]*)", data):
            for other in filter(None, needed.decode().split(",")):
                add(other)
        done[name] = data

    for name in MODULES:
        add(name)
    return done


def entry(name: str, mode: int, data: bytes, number: int) -> bytes:
    """Return one file in the format newc of cpio, which the kernel unpacks."""
    # inode, mode, uid, gid, links, mtime, size, device and its minor, special file's both, name
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def entries(tree: Path, busybox: Path, init: Path) -> Iterator[bytes]:
    """Yield the initramfs, file by file."""
    modules = ordered_modules(tree)
    files = [(name, stat.S_IFDIR | 0o755, b"") for name in ("bin", "proc", "sys", "dev", "mnt")]
    files += [("modules", stat.S_IFDIR | 0o755, b"")]
    files += [("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes())]
    files += [(f"bin/{name}", stat.S_IFLNK | 0o777, b"busybox") for name in APPLETS]
    files += [("init", stat.S_IFREG | 0o755, init.read_bytes())]
    files += [(f"modules/{name}.ko", stat.S_IFREG | 0o644, data) for name, data in modules.items()]
    order = "".join(f"{name}\n" for name in modules).encode()
    files += [("modules/order", stat.S_IFREG | 0o644, order), ("TRAILER!!!", 0, b"")]
    for number, (name, mode, data) in enumerate(files, start=1):
        yield entry(name, mode, data, number)


def unpacked_kernel(path: Path) -> bytes:
    """Return the vmlinux inside a bzImage."""
    image = path.read_bytes()
    at = image.find(XZ_MAGIC)
    while at >= 0:
        try:
            kernel = lzma.LZMADecompressor().decompress(image[at:])
        except lzma.LZMAError:
            kernel = b""
        if kernel.startswith(b"\x7fELF"):
            return kernel
        at = image.find(XZ_MAGIC, at + 1)
    raise SystemExit(f"{path} holds no kernel packed with xz; teach {__file__} its format")


def main(tree: Path, busybox: Path, init: Path, out: Path) -> None:
    """Write OUT_FOLDER/vmlinux and OUT_FOLDER/initramfs."""
    images = sorted((tree / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise SystemExit(f"{tree}/boot should hold one kernel, it holds {len(images)}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "vmlinux").write_bytes(unpacked_kernel(images[0]))
    # Not compressed: unpacking in the guest costs more than reading.
    (out / "initramfs").write_bytes(b"".join(entries(tree, busybox, init)))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
