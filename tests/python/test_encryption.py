"""Devices that encrypt: both sides alike, with one token, or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from farwrite.info import encryption

needs_openssl = pytest.mark.skipif(not encryption()["usable"], reason=encryption()["reason"])

OPTIONS: dict[str, Any] = {"fabrics": ["tcp"], "token": "a long shared secret"}


@needs_openssl
def test_arrays_travel_encrypted() -> None:
    near_device = fw.Device(encrypt=True, **OPTIONS)
    far_device = fw.Device(encrypt=True, **OPTIONS)
    with near_device, far_device, ThreadPoolExecutor() as pool:
        accepted = pool.submit(far_device.accept)
        channel = near_device.connect(far_device.endpoint)
        far = accepted.result()
        assert channel.peer.encrypted and far.peer.encrypted
        landing = far.publish("inbox", far.allocate((1000, 1000), "float32"))
        weights = np.arange(1_000_000, dtype="float32").reshape(1000, 1000)
        channel.write(weights, channel.lookup("inbox"), notify=7).wait()
        assert far.wait_notification(10).tag == 7
        assert np.array_equal(landing.array, weights)


@needs_openssl
def test_one_side_alone_is_an_error() -> None:
    with fw.Device(encrypt=True, **OPTIONS) as near, fw.Device(**OPTIONS) as far:
        with pytest.raises(fw.FailedPrecondition, match="encrypt on both"):
            near.connect(far.endpoint)
        with pytest.raises(fw.FailedPrecondition, match="encrypt on both"):
            far.connect(near.endpoint)


@needs_openssl
def test_the_environment_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_ENCRYPT", "on")
    with pytest.raises(fw.InvalidArgument, match="set the token"):
        fw.Device(fabrics=["tcp"])
    with fw.Device(**OPTIONS) as near, fw.Device(**OPTIONS) as far:
        with ThreadPoolExecutor() as pool:
            accepted = pool.submit(far.accept)
            assert near.connect(far.endpoint).peer.encrypted
            accepted.result()
        assert "encrypted" in near.stats().choices[0]


def test_info_says_whether_it_can_be_had() -> None:
    assert set(fw.info()["encryption"]) == {"usable", "reason"}
    assert encryption()["reason"]
