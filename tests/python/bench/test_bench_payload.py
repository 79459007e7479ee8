"""The check of payloads detects every kind of damage."""

import numpy as np
import pytest

from farwrite_bench import _native

SIZES = [8, 16, 64, 4088, 4096, 4104, 65536, 100_000]


def stamped(size, transfer):
    payload = np.zeros(size, dtype=np.uint8)
    _native.stamp(payload, transfer)
    return payload


@pytest.mark.parametrize("size", SIZES)
def test_an_intact_payload_is_accepted(size):
    assert _native.verify_stamps(stamped(size, 7), 7)


@pytest.mark.parametrize("size", SIZES)
def test_a_payload_of_another_transfer_is_noticed(size):
    assert not _native.verify_stamps(stamped(size, 7), 8)


@pytest.mark.parametrize("place", [0, 4096, 61440, 65528])
def test_one_changed_bit_under_a_stamp_is_noticed(place):
    payload = stamped(65536, 7)
    payload[place] ^= 1
    assert not _native.verify_stamps(payload, 7)


def test_a_page_of_an_older_transfer_is_noticed():
    payload = stamped(65536, 8)
    payload[8192:12288] = stamped(65536, 7)[8192:12288]
    assert not _native.verify_stamps(payload, 8)


def test_two_pages_that_changed_places_are_noticed():
    payload = stamped(65536, 7)
    payload[4096:12288] = np.concatenate([payload[8192:12288], payload[4096:8192]])
    assert not _native.verify_stamps(payload, 7)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first_word", [0, 5, 2**40])
def test_an_intact_ramp_adds_up(size, first_word):
    payload = np.zeros(size, dtype=np.uint8)
    _native.fill_ramp(payload, first_word)
    assert _native.ramp_matches(payload, first_word)


@pytest.mark.parametrize("place", [0, 1, 12_345, 65535])
def test_any_changed_byte_breaks_the_sum_of_a_ramp(place):
    payload = np.zeros(65536, dtype=np.uint8)
    _native.fill_ramp(payload, 3)
    payload[place] ^= 0x10
    assert not _native.ramp_matches(payload, 3)


def test_a_ramp_of_another_place_is_noticed():
    payload = np.zeros(4096, dtype=np.uint8)
    _native.fill_ramp(payload, 512)
    assert not _native.ramp_matches(payload, 0)
