"""The two programs of test_two_hosts.py: one asks, one answers, each on its own host."""

from __future__ import annotations

import sys

import numpy as np

import farwrite as fw

COUNT = 1 << 20
WAIT = 60.0
TOKEN = "of both hosts"


def ask(listen: str, rounds: int, host_timeout: float) -> None:
    """Write an array a round, and check that the answer is its double."""
    with fw.Device(
        listen=listen, token=TOKEN, host_timeout=host_timeout, detection_time=0.5
    ) as device:
        print("listening", device.endpoint, flush=True)
        with device.accept(WAIT) as channel:
            print("fabric", channel.peer.fabric, flush=True)
            back = channel.publish("back", channel.allocate(COUNT, "float32"))
            landing = channel.lookup("landing", WAIT)
            try:
                for number in range(rounds):
                    sent = np.full(COUNT, number + 1, "float32")
                    channel.write(sent, landing, notify=number).wait(WAIT)
                    assert channel.wait_notification(WAIT).tag == number
                    answer = np.asarray(back)
                    assert (answer == 2 * (number + 1)).all(), f"round {number} is torn"
                    print("round", number, flush=True)
            except fw.Error as error:
                print("error", type(error).__name__, error, flush=True)
            print("silences", channel.stats().silences, flush=True)


def answer(listen: str, endpoint: str, host_timeout: float) -> None:
    """Send every array back doubled."""
    with (
        fw.Device(
            listen=listen, token=TOKEN, host_timeout=host_timeout, detection_time=0.5
        ) as device,
        device.connect(endpoint, WAIT) as channel,
    ):
        landing = channel.publish("landing", channel.allocate(COUNT, "float32"))
        back = channel.lookup("back", WAIT)
        try:
            for notification in channel.notifications():
                doubled = np.asarray(landing) * 2
                channel.write(doubled, back, notify=notification.tag).wait(WAIT)
        except fw.Error as error:
            print("error", type(error).__name__, error, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        answer(sys.argv[2], sys.argv[3], float(sys.argv[4]))
