"""The element types of segments, and arrays of other libraries."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import farwrite as fw

ARITHMETIC = ["float64", "float32", "float16", "int64", "int32"]


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_the_server_adds(box: fw.box.Client, dtype: str) -> None:
    segment = box.create("w", 1000, dtype)
    values = np.arange(1000).astype(dtype)
    segment.write(values)
    segment.accumulate(values, scale=3)
    np.testing.assert_array_equal(segment.read(), (4 * np.arange(1000)).astype(dtype))


def test_the_server_adds_bfloat16(box: fw.box.Client) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    segment = box.create("w", 100, "bfloat16")
    assert segment.dtype == np.dtype(ml_dtypes.bfloat16)
    values = np.arange(100).astype(ml_dtypes.bfloat16)
    segment.write(values)
    segment.accumulate(values, scale=2)
    np.testing.assert_array_equal(segment.read(), (values.astype("float32") * 3).astype("bfloat16"))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "complex64", "float32", ">i4", "M8[s]"])
def test_every_type_can_be_written_and_read(box: fw.box.Client, dtype: str) -> None:
    values = np.arange(12).reshape(3, 4).astype("u1").astype(dtype)
    segment = box.create("w", like=values)
    assert (segment.shape, segment.dtype) == ((3, 4), values.dtype)
    segment.write(values)
    found = box.attach("w")
    assert (found.shape, found.dtype) == ((3, 4), values.dtype)
    np.testing.assert_array_equal(found.read(), values)
    with segment.lease() as lease:
        np.testing.assert_array_equal(lease.array, values)


def test_fields_out_of_their_order_are_written_and_read(box: fw.box.Client) -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["<i4", "<f4"], "offsets": [4, 0]})
    values = np.array([(1, 0.5), (2, 0.25)], dtype)
    box.create("w", like=values).write(values)
    found = box.attach("w")
    assert (found.shape, found.dtype) == ((2,), dtype)
    np.testing.assert_array_equal(found.read(), values)
    publisher = box.publisher("table", {"rows": values})
    publisher.publish({"rows": values})
    with box.subscribe("table").latest(timeout=5) as model:
        np.testing.assert_array_equal(model["rows"], values)


def test_a_type_without_arithmetic_is_refused_by_name(box: fw.box.Client) -> None:
    segment = box.create("w", 4, "int16")
    with pytest.raises(fw.InvalidArgument, match=r"'w' has dtype int16.*no arithmetic"):
        segment.accumulate(np.ones(4, "int16"))
    with pytest.raises(fw.InvalidArgument, match="no arithmetic"):
        segment.fill(1)


class Exporter:
    """An array of another library: DLPack and nothing else."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_dlpack_goes_in_and_out(box: fw.box.Client) -> None:
    segment = box.create("w", (2, 3), "float32")
    values = np.arange(6, dtype="float32").reshape(2, 3)
    segment.write(Exporter(values))
    out = np.zeros((2, 3), "float32")
    segment.read(Exporter(out))
    np.testing.assert_array_equal(out, values)


def test_a_dlpack_array_that_is_not_contiguous_is_refused(box: fw.box.Client) -> None:
    segment = box.create("w", (3, 2), "float32")
    with pytest.raises(fw.InvalidArgument, match="not C-contiguous"):
        segment.write(Exporter(np.zeros((2, 3), "float32").T))


def test_a_bfloat16_tensor_of_pytorch_needs_no_other_package(box: fw.box.Client) -> None:
    torch = pytest.importorskip("torch")
    segment = box.create("w", 8, torch.bfloat16)
    segment.write(torch.arange(8, dtype=torch.bfloat16))
    segment.accumulate(torch.ones(8, dtype=torch.bfloat16))
    out = torch.empty(8, dtype=torch.bfloat16)
    segment.read(out)
    assert out.tolist() == [1.0 + i for i in range(8)]


def test_bfloat16_without_its_package_says_what_to_install(
    box: fw.box.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    segment = box.create("w", 8, "bfloat16")
    assert segment.nbytes == 16
    assert segment.fill(1) == 1
    with pytest.raises(fw.Unsupported, match="pip install ml_dtypes"):
        segment.read()


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_the_arithmetic_on_local_arrays(dtype: str) -> None:
    to, by = np.arange(1000).astype(dtype), np.ones(1000, dtype)
    fw.box.add_scaled(to, by, 2)
    np.testing.assert_array_equal(to, np.arange(2, 1002).astype(dtype))


EXACT = {"int64": [2**53 + 1, -(2**63), 2**63 - 1, 3.0, True], "int32": [2**31 - 1, -(2**31)]}


@pytest.mark.parametrize(
    ("dtype", "number"), [(dtype, number) for dtype in EXACT for number in EXACT[dtype]]
)
def test_a_number_reaches_integers_exactly(box: fw.box.Client, dtype: str, number: Any) -> None:
    segment = box.create("w", 3, dtype)
    other = box.create("y", 3, dtype)
    ones = np.ones(3, dtype)
    exact = np.array([int(number)] * 3, dtype)
    for given in (number, np.dtype(dtype).type(number), np.array(int(number), dtype)):
        segment.fill(given)
        np.testing.assert_array_equal(segment.read(), exact)
        segment.fill(0)
        segment.accumulate(ones, scale=given)
        np.testing.assert_array_equal(segment.read(), exact)
        segment.axpy(given, ones, other)
        np.testing.assert_array_equal(segment.read(), exact)
        segment.write(ones)
        segment.scale(given)
        np.testing.assert_array_equal(segment.read(), exact)
        local = np.zeros(3, dtype)
        fw.box.add_scaled(local, ones, given)
        np.testing.assert_array_equal(local, exact)


NO_INTEGERS = [0.5, float("nan"), float("inf"), 1e300, 2**63, -(2**63) - 1, 10**400, 2.0**63,
               Fraction(2**54 + 1, 2), np.complex64(1 + 2j), "5", None]  # fmt: skip


@pytest.mark.parametrize("number", NO_INTEGERS, ids=repr)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_the_box_and_the_process_refuse_the_same_numbers(
    box: fw.box.Client, dtype: str, number: Any
) -> None:
    segment = box.create("w", 3, dtype)
    other = box.create("y", 3, dtype)
    local = np.zeros(3, dtype)
    ones = np.ones(3, dtype)
    for change in (
        lambda: segment.fill(number),
        lambda: segment.scale(number),
        lambda: segment.accumulate(ones, scale=number),
        lambda: segment.axpy(number, ones, other),
        lambda: fw.box.add_scaled(local, ones, number),
    ):
        with pytest.raises(fw.InvalidArgument):
            change()
    assert segment.version == 0
    assert not local.any()


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2.0**31])
def test_both_refuse_a_number_that_int32_lacks(box: fw.box.Client, number: Any) -> None:
    segment = box.create("w", 3, "int32")
    local = np.zeros(3, "int32")
    with pytest.raises(fw.InvalidArgument, match=r"fill: value .* not a value of int32.* 'w' has"):
        segment.fill(number)
    with pytest.raises(fw.InvalidArgument, match=r"add_scaled: scale .* not a value of int32"):
        fw.box.add_scaled(local, np.ones(3, "int32"), number)
    assert not local.any()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("number", [-0.0, float("nan"), float("-inf"), 2**53 + 2, Fraction(1, 2)])
def test_any_real_number_reaches_floats(box: fw.box.Client, dtype: str, number: Any) -> None:
    segment = box.create("w", 3, dtype)
    segment.fill(number)
    with np.errstate(over="ignore"):
        expected = np.full(3, float(number)).astype(dtype)
    np.testing.assert_array_equal(segment.read(), expected)
    np.testing.assert_array_equal(np.signbit(segment.read()), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize(
    "number",
    [10**400, 10**5000, Fraction(10**5000, 3), "9" * 1000],
    ids=["int", "int that has no repr", "fraction", "text"],
)
def test_a_refused_number_is_shown_in_a_few_words(
    box: fw.box.Client, dtype: str, number: Any
) -> None:
    segment = box.create("w", 3, dtype)
    with pytest.raises(fw.InvalidArgument, match="fill: value") as refused:
        segment.fill(number)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    "number",
    [10**400, np.complex64(1 + 2j), np.array(2j), "half", None, "0.1", b"1", np.array("1")],
)
def test_floats_refuse_what_is_no_real_number(box: fw.box.Client, number: Any) -> None:
    segment = box.create("w", 3, "float64")
    with pytest.raises(fw.InvalidArgument):
        segment.fill(number)
    assert segment.version == 0


def test_local_arithmetic_refuses_what_does_not_fit() -> None:
    ones = np.ones(4, "float32")
    with pytest.raises(fw.InvalidArgument, match="one kind"):
        fw.box.add_scaled(ones, np.ones(4))
    with pytest.raises(fw.InvalidArgument, match="one kind"):
        fw.box.add_scaled(ones, np.ones(5, "float32"))
    with pytest.raises(fw.InvalidArgument, match="no arithmetic"):
        fw.box.add_scaled(np.ones(4, "uint8"), np.ones(4, "uint8"))
    with pytest.raises(fw.InvalidArgument, match="whole number"):
        fw.box.add_scaled(np.ones(4, "int32"), np.ones(4, "int32"), 0.5)
    ones.flags.writeable = False
    with pytest.raises(fw.InvalidArgument, match="read-only"):
        fw.box.add_scaled(ones, np.ones(4, "float32"))
