"""Writes the hashes of a TensorFlow's libraries into plugin/tensorflow.json.

    .venv/bin/python tools/tensorflow_hashes.py VERSION

Downloads the wheels `tensorflow` and `tensorflow-cpu` for every Python that they are made for,
2.5 GB in all, and reads their RECORDs. One compiled plug-in serves them all only if the headers
that two of them have are the same, but for Python's and CUDA's, and if all libraries of one
distribution are; else this fails. tensorflow has headers of CUDA besides.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from farwrite.plugin.wheel import LIBRARIES

KNOWN = Path(__file__).resolve().parents[1] / "plugin/tensorflow.json"
DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu")
PYTHONS = ("3.11", "3.12", "3.13")
OTHERS = ("external/local_config_", "external/python_", "external/hwloc/", "third_party/gpus/")
"""Headers that the plug-in does not include."""
LEAST_HEADERS = 5000
Hashes = dict[str, str]


def read_record(distribution: str, version: str, python: str) -> Hashes:
    """Return the hashes of the files in a wheel, by their paths in tensorflow/."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["download", "-q", "--disable-pip-version-check", "--no-deps", "-d", folder]
        words += [
            "--only-binary",
            ":all:",
            "--python-version",
            python,
            f"{distribution}=={version}",
        ]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/RECORD"))
            rows = list(csv.reader(archive.read(name).decode().splitlines()))
    return {row[0].removeprefix("tensorflow/"): row[1] for row in rows}


def headers(record: Hashes) -> Hashes:
    """Return what the plug-in may include."""
    found = {}
    for path, digest in record.items():
        name = path.removeprefix("include/")
        if name != path and not name.startswith(OTHERS):
            found[path] = digest
    return found


def main() -> int:
    """Read the command line, download, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version", metavar="VERSION")
    version = parser.parse_args().version
    builds: dict[str, Hashes] = {}
    first: Hashes = {}
    for distribution in DISTRIBUTIONS:
        for python in PYTHONS:
            print(
                f"tensorflow_hashes: {distribution} {version} for Python {python} ...", flush=True
            )
            record = read_record(distribution, version, python)
            first = first or headers(record)
            ours = headers(record)
            differing = sorted(
                path for path in ours.keys() & first.keys() if ours[path] != first[path]
            )
            if len(ours.keys() & first.keys()) < LEAST_HEADERS:
                sys.exit(
                    "tensorflow_hashes: the headers are not where they were; adapt this script"
                )
            if differing:
                sys.exit(f"tensorflow_hashes: headers differ: {', '.join(differing[:5])}")
            libraries = {name: record[name] for name in LIBRARIES}
            if builds.setdefault(distribution, libraries) != libraries:
                sys.exit("tensorflow_hashes: the libraries differ from those for another Python")
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    known[version] = builds
    KNOWN.write_text(json.dumps(known, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
