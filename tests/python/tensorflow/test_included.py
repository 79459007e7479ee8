"""What of others the compiled plug-in has in it, because TensorFlow's headers have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from farwrite.plugin.compiler import find_compiler
from farwrite.plugin.recipe import recipe
from farwrite.plugin.wheel import find_wheel
from included import NOTICES, Included, find_included, headers_read, notice


def test_each_component_of_tensorflow_that_the_plug_in_includes_is_known() -> None:
    wheel = find_wheel()
    headers = headers_read(recipe(wheel), find_compiler())
    found = find_included(headers, wheel.folder, wheel.version)
    assert [(one.name, one.licence) for one in found] == [
        ("tensorflow", "Apache-2.0"),
        ("abseil-cpp", "Apache-2.0"),
        ("eigen", "Apache-2.0 AND BSD-3-Clause AND MPL-2.0"),
        ("farmhash", "MIT"),
        ("grpc", "Apache-2.0"),
        ("ml_dtypes", "Apache-2.0"),
        ("protobuf", "BSD-3-Clause"),
    ]
    # The headers of these two say no version.
    assert [one.name for one in found if not one.version] == ["farmhash", "ml_dtypes"]
    told = notice(found, wheel.folder, wheel.version)
    for text in (
        "Mozilla Public License Version 2.0",
        "Copyright 2008, Google Inc.",
        "Copyright (c) 2014 Google, Inc.",
    ):
        assert text in told


@pytest.fixture
def tensorflow(tmp_path: Path) -> Path:
    """A package of TensorFlow that has one of TensorFlow's own headers, and some of Eigen's."""
    include = tmp_path / "include"
    (include / "Eigen").mkdir(parents=True)
    (include / "tensorflow").mkdir()
    (include / "tensorflow/tensor.h").write_text("// Licensed under the Apache License")
    (include / "Eigen/Version").write_text('#define EIGEN_VERSION_STRING "5.0.1"\n')
    (include / "Eigen/Core").write_text("// of the Mozilla\n// Public License v. 2.0\n")
    ruler = "-" * 80
    (tmp_path / NOTICES).write_text(f"{ruler}\n== Eigen\n\nThe text.\n{ruler}\n")
    return tmp_path


def test_the_headers_say_versions_and_licences(tensorflow: Path) -> None:
    headers = ("Eigen/Core", "tensorflow/tensor.h")
    found = find_included(headers, tensorflow, "2.21.0")
    assert found == [
        Included("tensorflow", "2.21.0", "Apache-2.0"),
        Included("eigen", "5.0.1", "MPL-2.0"),
    ]
    told = notice(found, tensorflow, "2.21.0")
    assert told.endswith(f"{'=' * 80}\neigen 5.0.1: MPL-2.0\n\nThe text.\n")


@pytest.mark.parametrize(
    ("header", "text", "reason"),
    [
        (
            "new/header.h",
            "// Apache License",
            "no component of TensorFlow is known for new/h",
        ),
        ("Eigen/Core", "// no word of it", "no header of eigen names its licence"),
        ("Eigen/Version", "// Mozilla Public License", "Eigen/Version has no version of eigen"),
        ("tsl/file.h", "// Mozilla Public License", "has no text for tensorflow, MPL-2.0"),
    ],
)
def test_what_it_cannot_tell_stops_the_build(
    tensorflow: Path, header: str, text: str, reason: str
) -> None:
    file = tensorflow / "include" / header
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    with pytest.raises(SystemExit, match=reason):
        notice(find_included([header], tensorflow, "2.21.0"), tensorflow, "2.21.0")
