"""What `make lint` skips as unchanged, and the folders that it checks."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import check_folders
import check_includes
import check_locks
import check_names
import check_wording
import run_clang_tidy


@pytest.fixture(autouse=True)
def nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_clang_tidy, "ROOT", Path("/"))


def digest(folder: Path, options: str = "", version: bytes = b"1") -> str:
    run_clang_tidy.read.cache_clear()
    named = shlex.quote(f"{folder}/include")
    command = f"g++ -I{named} {options} -c source.cc"
    compiled = run_clang_tidy.Compiled(folder / "source.cc", folder / "build", command)
    return run_clang_tidy.digest(compiled, run_clang_tidy.files_of(compiled), version)


def checkout(folder: Path) -> Path:
    (folder / "include").mkdir(parents=True)
    (folder / "source.cc").write_text('#include <vector>\n#include "beside.h"\n')
    (folder / "beside.h").write_text('#include "deep.h"\n')
    (folder / "include" / "deep.h").write_text("int deep();\n")
    (folder / "other.h").write_text("int other();\n")
    return folder


def test_a_file_is_known_again_in_another_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = checkout(tmp_path / "one"), checkout(tmp_path / "two")
    (two / "other.h").write_text("int nobody_includes_this();\n")
    monkeypatch.setattr(run_clang_tidy, "ROOT", one)
    first = digest(one)
    monkeypatch.setattr(run_clang_tidy, "ROOT", two)
    assert digest(two) == first


@pytest.mark.parametrize("name", ["one", "with a blank", "(o'ne)"])
@pytest.mark.parametrize("changed", ["source.cc", "beside.h", "include/deep.h"])
def test_a_file_is_new_if_anything_that_it_includes_changed(
    tmp_path: Path, changed: str, name: str
) -> None:
    folder = checkout(tmp_path / name)
    before = digest(folder)
    with (folder / changed).open("a") as file:
        file.write("int more();\n")
    assert digest(folder) != before


def test_a_file_that_changes_while_it_is_looked_at_is_not_remembered(tmp_path: Path) -> None:
    header = checkout(tmp_path / "one") / "beside.h"
    run_clang_tidy.read(header)
    assert run_clang_tidy.is_unchanged(header)
    header.write_text("int more();\n")
    assert not run_clang_tidy.is_unchanged(header)
    header.unlink()
    assert not run_clang_tidy.is_unchanged(header)


def test_a_file_is_new_under_other_options_settings_or_tools(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "one")
    seen = {digest(folder), digest(folder, "-DX"), digest(folder, version=b"2")}
    (folder / ".clang-tidy").write_text("Checks: '-*'\n")
    assert len(seen | {digest(folder)}) == 4


def test_what_was_clean_is_remembered_and_without_a_cache_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_clang_tidy, "CLEAN", tmp_path / "cache")
    run_clang_tidy.Remembered().add("name")
    assert "name" in run_clang_tidy.Remembered()
    assert "another" not in run_clang_tidy.Remembered()
    run_clang_tidy.Remembered().remove("name")
    assert "name" not in run_clang_tidy.Remembered()

    (tmp_path / "file").touch()
    monkeypatch.setattr(run_clang_tidy, "CLEAN", tmp_path / "file" / "cache")
    run_clang_tidy.Remembered().add("name")
    assert "name" not in run_clang_tidy.Remembered()


MAP = """# Contributing

## Where things live

| folder | what is in it |
|---|---|
| `src/core/` | status; `codec.h` is the codec |
| `tests/` | `unit/` and `python/box/` |

## House style

| `docs/` | not in the map |
"""
FOLDERS = ("src/core", "tests/unit", "tests/python/box")


def test_the_map_of_folders_is_whole() -> None:
    files = ["README.md", *(f"{folder}/file" for folder in FOLDERS), "src/core/a/b/file"]
    assert check_folders.faults(MAP, [*files, "src/core/a/file"]) == [
        "CONTRIBUTING.md: the map lacks src/core/a/; say there what is in it"
    ]
    assert check_folders.faults(MAP, [*files, "docs/file"])[-1].endswith("say there what is in it")
    assert check_folders.faults(MAP, [f"{folder}/file" for folder in FOLDERS]) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_map_has_no_folder_that_is_gone(folder: str) -> None:
    files = [f"{other}/file" for other in FOLDERS if other != folder]
    assert f"CONTRIBUTING.md: the map has {folder}/, which does not exist" in check_folders.faults(
        MAP, files
    )


BELOW = {
    "src/core/status.h": "",
    "src/device/channel.cc": '#include "core/status.h"\n',
    "src/tensorflow/base/record.h": "",
    "src/tensorflow/peer/peers.h": '#include "base/record.h"\n',
    "bench/python/farwrite_bench/plan.py": "import farwrite\n",
}
ABOVE = {
    "src/core/log.cc": '#include "device/channel.h"\n',
    "src/python/waiting.cc": '#include "core/status.h"\n',
    "src/tensorflow/base/options.cc": '#include "peer/peers.h"\n',
    "python/farwrite/device.py": "def run():\n    from farwrite_bench import plan\n",
    "bench/python/farwrite_bench/plan.py": "import farwrite_experiments.train\n",
}


def test_no_message_has_a_name_of_one_language_alone() -> None:
    text = re.compile(r'"((?:[^"\\\\]|\\\\.)*)"')
    name = re.compile(r"\b[A-Z]\w+::\w|nullptr")
    keyword = re.compile(r"\b(None|True|False)\b|(?<![-\w])[a-z_]+=[\"'\[(A-Z,\\]|`[A-Z]\w*\.\w")
    sources = [*check_includes.ROOT.glob("src/**/*.cc"), *check_includes.ROOT.glob("src/**/*.h")]
    assert len(sources) > 300
    found = [
        f"{path}: {each}"
        for path in sources
        if not {"tensorflow", "grpc"} & {*path.parts}
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith("//")
        for each in text.findall(line)
        if name.search(each) or (path.parent.name != "python" and keyword.search(each))
    ]
    assert found == [], "C++, C and Python show it"


def test_a_folder_uses_what_is_below_it() -> None:
    assert check_includes.faults(BELOW) == []


@pytest.mark.parametrize("path", ABOVE)
def test_a_folder_uses_nothing_above_it(path: str) -> None:
    files = {**BELOW, "src/device/channel.h": "", path: ABOVE[path]}
    assert [fault.partition(":")[0] for fault in check_includes.faults(files)] == [path]


CIRCLE = {
    "python/farwrite/one.py": "from farwrite import two\n",
    "python/farwrite/two.py": "def run():\n    from farwrite.three import x\n",
    "python/farwrite/three.py": "import farwrite.one\n",
}


def test_a_folder_may_use_a_file_of_another_and_not_its_neighbour() -> None:
    files = {
        "src/core/steady_condition.h": "",
        "src/core/mutex.h": "",
        "src/python/one.h": '#include "core/steady_condition.h"\n',
        "src/python/two.h": '#include "core/mutex.h"\n',
    }
    [found] = check_includes.faults(files)
    assert found.startswith("src/python/two.h: uses core/mutex.h")


def test_files_do_not_use_each_other() -> None:
    [found] = check_includes.faults({**BELOW, **CIRCLE})
    assert all(path in found for path in CIRCLE)
    typed = "if TYPE_CHECKING:\n    import farwrite.one\n"
    assert check_includes.faults({**CIRCLE, "python/farwrite/three.py": typed}) == []
    headers = {"src/core/a.h": '#include "core/b.h"\n', "src/core/b.h": '#include "core/a.h"\n'}
    assert "use each other" in check_includes.faults(headers)[0]


def test_a_new_folder_needs_a_floor() -> None:
    found = check_includes.faults({"src/core/deep/status.h": ""})
    assert found == ["src/core/deep/: say in tools/check_includes.py which folders it may use"]


@pytest.mark.parametrize(
    "line",
    [
        "std::mutex mutex_;",
        "mutable std::shared_mutex mutex_;",
        "const std::lock_guard lock(mutex_);",
        "std::unique_lock<Mutex> lock(mutex_, std::adopt_lock);",
    ],
)
def test_a_lock_that_the_compiler_does_not_check_is_refused(line: str) -> None:
    found = check_locks.faults({"src/box/pin.cc": f"\n{line}\n", check_locks.OURS: line})
    assert [fault.split(" ")[0] for fault in found] == ["src/box/pin.cc:2:"]


def test_the_python_module_has_the_locks_of_the_standard_library() -> None:
    assert check_locks.faults({"src/python/waiting.h": "std::mutex mutex_;\n"}) == []


@pytest.mark.parametrize("path", ["src/box/pin.cc", "src/python/waiting.h", check_locks.OURS])
def test_a_condition_variable_that_may_wait_by_the_wall_clock_is_refused(path: str) -> None:
    found = check_locks.faults({path: "std::condition_variable changed_;\n"})
    assert [fault.split(" ")[0] for fault in found] == [f"{path}:1:"]


def test_a_lock_that_the_compiler_checks_is_not_refused() -> None:
    text = (
        "core::Mutex mutex_{core::LockRank::kBox};  // a std::mutex\n"
        "const core::Lock lock(mutex_, std::adopt_lock);\n"
    )
    assert check_locks.faults({"src/box/pin.cc": text}) == []


def test_a_mutex_that_may_be_taken_in_any_order_is_listed_with_its_reason() -> None:
    line = "core::Mutex mutex_{core::LockRank::kBox, 0, core::Siblings::kAnyOrder};"
    found = check_locks.faults({"src/box/pin.cc": line})
    assert [fault.split(" ")[:2] for fault in found] == [["src/box/pin.cc:1:", "kAnyOrder;"]]
    for path in check_locks.UNORDERED:
        text = (check_locks.ROOT / path).read_text()
        assert check_locks.ANY_ORDER.search(text)
        assert check_locks.faults({path: text}) == []


ONE = "namespace farwrite::device {\nclass Lane {};\n}\n"
"""A type at the head of a named namespace."""


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        "namespace farwrite::box {\nclass Table {\n  struct alignas(64) Lane { int x; };\n};\n}\n",
        "namespace farwrite::box {\nclass Table::Lane final : public Base {};\n}\n",
        "namespace farwrite::box {\nnamespace {\nenum class Lane : char { kOne };\n}\n}\n",
        "namespace farwrite::box {\nvoid run() {\n  struct Lane { int x; } lane;\n}\n}\n",
        "namespace farwrite::box {\ntemplate <typename T>\nclass X {\n  union Lane {};\n};\n}\n",
    ],
)
def test_two_folders_have_no_types_of_one_name(text: str) -> None:
    files = {"src/device/lane.h": ONE, "src/box/table.h": text}
    [found] = check_names.faults(files, {})
    assert found.startswith("src/device/lane.h:2, src/box/table.h:")
    assert " name Lane;" in found
    assert check_names.faults(files, {"Lane": "a reason"}) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/box/lane.h", ONE.replace("device", "box")),  # its namespace says which it is
        ("src/device/lanes.h", "class Lanes {\n  struct Lane {};\n};\n"),  # the same folder
        ("src/box/lane.h", "class Lane;\nstruct Lane* next(class Lane& lane) { return 0; }\n"),
        ("src/box/lane.h", '// struct Lane {\nconst char* text = "struct Lane {";\n'),
        ("src/box/lane.h", "struct Lanes {};\nLane lane{};\nenum { kLane };\n"),
    ],
)
def test_a_name_may_come_again_where_it_names_no_other_type(path: str, text: str) -> None:
    assert check_names.faults({"src/device/lane.h": ONE, path: text}, {}) == []


def test_a_name_that_is_unique_needs_no_leave() -> None:
    [found] = check_names.faults({"src/device/lane.h": ONE}, {"Lane": "a reason"})
    assert found.startswith("Lane is the name of types of one folder now")


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.cc", 'call("nobody");  // nobody reads it\nint nobody;\n', [1]),
        ("a.py", '"""Whoever\nreads."""\nx = "nobody"\nnobody = 1  # he reads\n', [1, 4]),
        ("a.md", "Somebody `nobody`\n```\nnobody\n```\nthe theory of everything\n", [1]),
        ("a.sh", "#!/bin/nobody\nid nobody  # for nobody\n", [2]),
    ],
)
def test_wordings_are_found_in_prose_alone(
    tmp_path: Path, name: str, text: str, lines: list[int]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = list(check_wording.found_in(path, check_wording.wordings()))
    assert sorted(int(each.rpartition(f"{name}:")[2].split(":")[0]) for each in found) == lines


def test_each_wording_has_advice() -> None:
    assert all(each.instead for each in check_wording.wordings())


def test_processes_are_stopped_in_one_place_that_waits_until_they_stand() -> None:
    root = Path(__file__).parents[2]
    senders = [
        f"{file.relative_to(root)}:{number}"
        for file in sorted((root / "tests/python").rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(r"\(.*signal\.SIGSTOP\)", line)
    ]
    assert {sender.partition(":")[0] for sender in senders} == {"tests/python/processes.py"}
