"""The data of farwrite bench convergence: formats, damaged files, and generated corpora."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from farwrite.errors import Error, InvalidArgument, NotFound
from farwrite_experiments.convergence.data import cifar10, generated, lines, mnist_idx
from farwrite_experiments.convergence.data.choose import (
    CIFAR10,
    IMAGES,
    LINES,
    MNIST_IDX,
    SENTENCES,
    SENTENCES_FOLDER,
    SEQ2SEQ,
    TRANSLATION_FOLDER,
    choose,
)


def cifar(folder: Path, count: int = 3) -> Path:
    """Write a small CIFAR-10, and return the folder of its files."""
    made = folder / cifar10.FOLDER
    made.mkdir(parents=True)
    images = np.arange(count * 3072, dtype=np.uint32).reshape(count, 32, 32, 3) % 251
    for name in (*cifar10.TRAIN, *cifar10.TEST):
        cifar10.write(made / name, images.astype(np.uint8), np.arange(count, dtype=np.uint8) % 10)
    return made


def mnist(folder: Path, count: int = 3) -> Path:
    """Write a small MNIST, and return the folder of its files."""
    made = folder / mnist_idx.FOLDER
    made.mkdir(parents=True)
    pixels = bytes(number % 251 for number in range(count * 784))
    labels = bytes(number % 10 for number in range(count))
    for images_file, labels_file in (mnist_idx.TRAIN, mnist_idx.TEST):
        head = np.array([mnist_idx.IMAGES, count, 28, 28], ">u4").tobytes()
        (made / images_file).write_bytes(head + pixels)
        head = np.array([mnist_idx.LABELS, count], ">u4").tobytes()
        (made / labels_file).write_bytes(head + labels)
    return made


def text(folder: Path, name: str, first: str = "a b\nc\n", second: str = "x\ny z\n") -> Path:
    """Write line-aligned text for training and tests, and return its folder."""
    made = folder / name
    made.mkdir(parents=True)
    sides = {TRANSLATION_FOLDER: ("source", "target"), SENTENCES_FOLDER: ("first", "second")}[name]
    for kind in ("train", "test"):
        for side, content in zip(sides, (first, second), strict=True):
            (made / f"{kind}.{side}").write_text(content)
    return made


def test_a_folder_with_cifar_10_is_read_as_it_is_unpacked(tmp_path: Path) -> None:
    made = cifar(tmp_path)
    data = choose(IMAGES, tmp_path, tmp_path / "made")
    assert (data.name, data.format, data.synthetic) == ("CIFAR-10", CIFAR10, False)
    assert data.train == tuple(str(made / f"data_batch_{n}.bin") for n in range(1, 6))
    assert (data.test, data.records) == ((str(made / "test_batch.bin"),), 15)
    assert (made / "test_batch.bin").stat().st_size == 3 * 3073


def test_a_folder_with_mnist_is_read_where_there_is_no_cifar_10(tmp_path: Path) -> None:
    made = mnist(tmp_path)
    data = choose(IMAGES, tmp_path, tmp_path / "made")
    assert (data.name, data.format) == ("MNIST", MNIST_IDX)
    assert data.train == tuple(str(made / name) for name in mnist_idx.TRAIN)


def test_a_record_of_cifar_10_is_the_label_then_red_green_and_blue(tmp_path: Path) -> None:
    image = np.zeros((1, 32, 32, 3), np.uint8)
    image[0, 0, 1] = (7, 8, 9)
    cifar10.write(tmp_path / "one.bin", image, np.array([6], np.uint8))
    record = (tmp_path / "one.bin").read_bytes()
    assert record[0] == 6
    assert [record[1 + plane * 1024 + 1] for plane in range(3)] == [7, 8, 9]
    assert sum(record) == 6 + 7 + 8 + 9


@pytest.mark.parametrize(
    ("damage", "error", "what"),
    [
        (lambda path: path.unlink(), NotFound, "does not exist; unpack cifar-10-binary.tar.gz"),
        (
            lambda path: path.write_bytes(bytes(5000)),
            InvalidArgument,
            "has 5,000 bytes, which is no whole number of CIFAR-10 records of 3,073 bytes",
        ),
        (lambda path: path.write_bytes(b""), InvalidArgument, "has 0 bytes"),
        (
            lambda path: path.write_bytes(bytes(3073) + b"\x0b" + bytes(3072)),
            InvalidArgument,
            "record 1 has the label 11, and CIFAR-10 has labels below 10; unpack",
        ),
    ],
    ids=["missing", "cut", "empty", "label"],
)
def test_a_damaged_file_of_cifar_10_is_named(
    tmp_path: Path, damage: object, error: type[Error], what: str
) -> None:
    assert callable(damage)
    damage(cifar(tmp_path) / "data_batch_3.bin")
    with pytest.raises(error, match=f"data_batch_3.bin.*{what}"):
        choose(IMAGES, tmp_path, tmp_path / "made")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        (mnist_idx.TRAIN[0], b"\0\0\x08\x01" + bytes(12), "begins with 0x801, and an IDX file of"),
        (mnist_idx.TRAIN[0], b"abc", "is too short, and an IDX file of images begins with 0x803"),
        (mnist_idx.TRAIN[1], b"\0\0\x08\x01\0\0\0\x03ab", "has 10 bytes, and 3 labels need 11"),
        (mnist_idx.TRAIN[1], b"\0\0\x08\x01\0\0\0\x02ab", "3 images and .* has 2 labels"),
        (mnist_idx.TRAIN[1], b"\0\0\x08\x01\0\0\0\x03\0\x0c\0", "label 1 is 12, and MNIST has"),
        (
            mnist_idx.TRAIN[0],
            np.array([0x803, 3, 32, 32], ">u4").tobytes() + bytes(3 * 1024),
            "has images of 32 x 32 pixels, and MNIST has 28 x 28",
        ),
    ],
    ids=["kind", "short", "cut", "counts", "label", "sides"],
)
def test_a_damaged_file_of_mnist_is_named(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    (mnist(tmp_path) / name).write_bytes(content)
    with pytest.raises(InvalidArgument, match=what):
        choose(IMAGES, tmp_path, tmp_path / "made")


def test_a_packed_file_of_mnist_says_how_to_unpack_it(tmp_path: Path) -> None:
    path = mnist(tmp_path) / mnist_idx.TEST[0]
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    with pytest.raises(NotFound, match=rf"does not exist; run gunzip {path}\.gz"):
        choose(IMAGES, tmp_path, tmp_path / "made")


@pytest.mark.parametrize(
    ("task", "what"),
    [
        (IMAGES, "neither the folder cifar-10-batches-bin nor mnist; put the files"),
        (SEQ2SEQ, "translation is not a folder; put train.source, train.target, test.source,"),
        (SENTENCES, "sentences is not a folder; put train.first, train.second, test.first,"),
    ],
)
def test_a_folder_without_data_of_a_task_says_what_belongs_there(
    tmp_path: Path, task: str, what: str
) -> None:
    with pytest.raises(NotFound, match=f"{what}.*or leave the task .*out with --task"):
        choose(task, tmp_path, tmp_path / "made")


def test_text_of_the_user_gets_a_vocabulary_for_each_language(tmp_path: Path) -> None:
    text(tmp_path, TRANSLATION_FOLDER, "b a a\na b c\n", "x\ny y\n")
    data = choose(SEQ2SEQ, tmp_path, tmp_path / "made")
    assert (data.format, data.synthetic) == (LINES, False)
    words = [Path(file).read_text().split("\n")[4:-1] for file in data.words]
    assert words == [["a", "b", "c"], ["y", "x"]]


def test_both_sentences_of_a_paraphrase_share_a_vocabulary(tmp_path: Path) -> None:
    text(tmp_path, SENTENCES_FOLDER)
    (words,) = choose(SENTENCES, tmp_path, tmp_path / "made").words
    assert Path(words).read_text().split()[4:] == ["a", "b", "c", "x", "y", "z"]


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ("a\nb\n", "x\n", r"source has 2 lines and .*target has 1; line n of both must belong"),
        ("", "x\n", r"source has no line; put one sentence on each line"),
        ("\n \n", "x\ny\n", r"source has no word; put one sentence on each line"),
    ],
    ids=["counts", "empty", "blank"],
)
def test_text_that_is_not_aligned_is_named(
    tmp_path: Path, first: str, second: str, what: str
) -> None:
    text(tmp_path, TRANSLATION_FOLDER, first, second)
    with pytest.raises(InvalidArgument, match=what):
        choose(SEQ2SEQ, tmp_path, tmp_path / "made")


def test_text_that_is_missing_or_not_utf_8_is_named(tmp_path: Path) -> None:
    made = text(tmp_path, TRANSLATION_FOLDER)
    (made / "train.target").write_bytes(b"good\n\xff\xfe\n")
    with pytest.raises(InvalidArgument, match=r"train.target: line 2 is not UTF-8 .*iconv"):
        choose(SEQ2SEQ, tmp_path, tmp_path / "made")
    (made / "train.target").unlink()
    with pytest.raises(NotFound, match=r"train.target does not exist; put line-aligned text there"):
        choose(SEQ2SEQ, tmp_path, tmp_path / "made")


def test_a_last_line_without_an_end_counts(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_text("a\nb")
    other.write_text("c\nd\n")
    assert lines.check(one, other) == 2


def test_a_vocabulary_has_the_most_frequent_words(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("b b a a c\n<end> \u00e9\u00a0d\n")
    found = [word.decode() for word in lines.vocabulary([file], words=7)]
    # A space that is no ASCII space divides no word; a reserved word is none of the text's.
    assert found == [*lines.RESERVED, "a", "b", "c"]
    assert "\u00e9\u00a0d".encode() in lines.vocabulary([file])


def test_the_grammar_translates_with_another_order_and_agreement() -> None:
    made = generated.Grammar(seed=1).pairs()
    pairs = [next(made) for _ in range(20_000)]
    assert {len(source) for source, _ in pairs} == set(range(4, 21))
    words = [{word for pair in pairs for word in pair[side]} for side in (0, 1)]
    assert all(100 < len(each) < 500 for each in words)
    assert not words[0] & words[1]
    # A sentence has one translation.
    known: dict[str, str] = {}
    for source, target in pairs:
        assert known.setdefault(" ".join(source), " ".join(target)) == " ".join(target)
    # The same pairs in every run, and others with another seed.
    again = generated.Grammar(seed=1).pairs()
    assert [next(again) for _ in range(50)] == pairs[:50]
    other = generated.Grammar(seed=2).pairs()
    assert [next(other) for _ in range(50)] != pairs[:50]


def test_no_sentence_of_the_test_is_trained_with(tmp_path: Path) -> None:
    data = choose(SEQ2SEQ, None, tmp_path)
    assert data.synthetic and "synthetic" in data.name
    train, test = (
        set(Path(files[0]).read_text().splitlines()) for files in (data.train, data.test)
    )
    assert len(test) > 200
    assert not train & test


def test_paraphrases_differ_in_words_and_agree_in_meaning(tmp_path: Path) -> None:
    made = generated.paraphrased(seed=2)
    pairs = [next(made) for _ in range(2000)]
    assert all(first != second for first, second in pairs)
    assert {len(first) for first, _ in pairs} != {len(second) for _, second in pairs}
    again = generated.paraphrased(seed=2)
    assert [next(again) for _ in range(50)] == pairs[:50]
    data = choose(SENTENCES, None, tmp_path)
    assert data.synthetic and len(data.words) == 1
    assert lines.check(*map(Path, data.test)) == generated.TEST_PAIRS


def test_generated_words_fit_into_the_vocabulary(tmp_path: Path) -> None:
    for task in (SEQ2SEQ, SENTENCES):
        for file in choose(task, None, tmp_path).words:
            words = Path(file).read_text().split()
            assert 100 < len(words) == len(set(words)) < lines.WORDS


def test_the_digits_are_written_in_the_format_of_cifar_10(tmp_path: Path) -> None:
    data = choose(IMAGES, None, tmp_path)
    assert (data.format, data.synthetic) == (CIFAR10, False)
    assert "digits" in data.name
    counts = [cifar10.check(Path(file)) for file in (*data.train, *data.test)]
    assert sum(counts) == 1797
    records = np.fromfile(data.train[0], np.uint8).reshape(-1, cifar10.RECORD)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    assert set(records[:, 0]) == set(range(10))
    assert planes.max() == 255
    assert (planes[:, 0] == planes[:, 2]).all()
    # The margin that the network cuts is empty.
    assert not planes[:, :, :4].any() and not planes[:, :, :, 28:].any()
