"""Waits until sender.py has written an array, and sums the array in place."""

import farwrite as fw

with fw.Device(listen="127.0.0.1:7777") as device, device.accept() as channel:
    inbox = channel.publish("inbox", channel.allocate((1024, 1024), "float32"))
    channel.wait_notification()
    print(float(inbox.array.sum()))
