"""Writes an array directly into receiver.py's memory."""

import numpy as np

import farwrite as fw

with fw.Device() as device, device.connect("127.0.0.1:7777") as channel:
    ones = np.ones((1024, 1024), "float32")
    channel.write(ones, channel.lookup("inbox"), notify=1).wait()
