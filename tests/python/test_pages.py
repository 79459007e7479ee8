"""What the pages show: tables, markers, fragments of examples, shell commands and data."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
import yaml

from farwrite import cli
from pages import NOT_RUN, PAGES, ROOT, Block, blocks_of, marker_lines, name_of, prose_of

pytestmark = pytest.mark.checkout

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
CHECKED = {"python", "cpp", "c", "cmake", "dockerfile", "proto", "sh", "bash", "yaml", "json"}
OUTPUT = {"text", "console"}


def blocks_in(*languages: str) -> list[Block]:
    """The blocks of all pages in one of these languages; those in {braces} are Sphinx's."""
    return [block for block in BLOCKS if block.language in languages]


def test_every_row_belongs_to_a_table() -> None:
    broken = []
    for page in PAGES:
        above = ""
        lines = prose_of(page)
        for (number, line), (_, below) in zip(lines, [*lines[1:], (0, "")], strict=True):
            if line.startswith("|"):
                headed = below.startswith("|--") if not above else _cells(line) == _cells(above)
                if not headed:
                    broken.append(f"{name_of(page)}:{number}: {line}")
            above = line if line.startswith("|") else ""
    assert not broken


def _cells(row: str) -> int:
    return row.replace("\\|", "").count("|")


def test_every_marker_stands_before_a_block() -> None:
    written = {f"{name_of(page)}:{number}" for page in PAGES for number in marker_lines(page)}
    read = {f"{name_of(block.page)}:{block.line - 2}" for block in BLOCKS if block.marker}
    assert written == read


def test_every_block_names_a_language_that_the_tests_know() -> None:
    unknown = {str(block): block.language for block in BLOCKS if block.language[:1] != "{"}
    assert {
        place: language for place, language in unknown.items() if language not in CHECKED | OUTPUT
    } == {}


def test_a_marker_is_one_that_the_tests_know() -> None:
    unknown = {
        str(block): block.marker
        for block in BLOCKS
        if block.marker
        and not re.fullmatch(r"\w+\.py", block.saved_as or "")
        and not re.fullmatch(r"examples/[\w/.]+", block.fragment_of or "")
        and block.not_run not in NOT_RUN
        and block.printed_by not in programs_of(block)
    }
    assert not unknown


def programs_of(block: Block) -> set[str | None]:
    """The programs whose output a page may show."""
    saved = {other.saved_as for other in blocks_of(block.page) if other.saved_as}
    return {*saved, "this page"} if block.language in OUTPUT else set()


def test_an_output_is_looked_for_line_by_line() -> None:
    block = Block(ROOT / "README.md", 1, "text", "a\nb\n", "printed by x.py")
    assert block.printed_by == "x.py"
    assert block.is_part_of("c\na\nb\n")
    assert not block.is_part_of("b\na\n")
    loose = Block(ROOT / "README.md", 1, "text", "a\nb\n", "printed by x.py, in any order")
    assert loose.is_part_of("b\nc\na\n")
    assert not loose.is_part_of("a\nc\n")


def test_compiled_code_is_a_fragment_of_an_example() -> None:
    assert not [
        str(block) for block in blocks_in("cpp", "c", "cmake", "proto") if not block.fragment_of
    ]


def test_a_fragment_stands_in_its_file() -> None:
    missing = [str(block) for block in BLOCKS if block.fragment_of and not _stands_in_file(block)]
    assert not missing


def _stands_in_file(block: Block) -> bool:
    assert block.fragment_of is not None
    whole = (ROOT / block.fragment_of).read_text(encoding="utf-8")
    lines = [line.strip() for line in whole.splitlines() if line.strip()]
    shown = [line.strip() for line in block.text.splitlines() if line.strip()]
    starts = range(len(lines) - len(shown) + 1)
    return any(lines[start : start + len(shown)] == shown for start in starts)


def test_the_shell_accepts_every_command() -> None:
    refused = {}
    for block in blocks_in("sh", "bash", "dockerfile"):
        errors = _shell_errors(block)
        if errors:
            refused[str(block)] = errors
    assert not refused


def _shell_errors(block: Block) -> str:
    text = block.text
    if block.language == "dockerfile":
        text = "\n".join(re.findall(r"^RUN (.*)$", text.replace("\\\n", " "), re.MULTILINE))
    checked = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, text=True, check=False
    )
    return checked.stderr


def test_every_command_of_farwrite_and_make_exists() -> None:
    refused = []
    for block in blocks_in("sh", "bash"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = first_command(line)
            if (words[:1] == ["farwrite"] and not _parser_accepts(words[1:])) or (
                words[:1] == ["make"] and not _makefile_has(words[1:])
            ):
                refused.append(f"{block}: {line}")
    assert not refused


def first_command(line: str) -> list[str]:
    """The words of the line's first command, without the variables that are set before it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if word[:1] in "|;&<>()":
                break
            if words or not re.match(r"\w+=", word):
                words.append(word)
    except ValueError:  # a quotation that a later line ends
        return []
    return words


def test_the_first_command_ends_where_the_shell_ends_it() -> None:
    assert first_command("A=1 farwrite info --json | less  # all") == ["farwrite", "info", "--json"]
    assert first_command("farwrite run -- python 'a b.py' & wait")[-1] == "a b.py"
    assert first_command("'open") == []


def _parser_accepts(words: list[str]) -> bool:
    try:
        cli.parser().parse_args(words)
    except SystemExit as ended:
        return ended.code == 0  # --help and --version end so
    return True


def _makefile_has(words: list[str]) -> bool:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE)
    return {word for word in words if "=" not in word and word[0] != "-"} <= {*targets}


def test_data_can_be_read() -> None:
    for block in blocks_in("yaml"):
        assert list(yaml.safe_load_all(block.text)), str(block)
    for block in blocks_in("json"):
        assert json.loads(block.text), str(block)
