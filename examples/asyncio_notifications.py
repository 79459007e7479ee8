"""Takes notifications and awaits writes in an asyncio program.

The worker receives jobs as short messages. For each job it writes the result into the asker's
array, and raises the job's number as the tag.
"""

import asyncio
import multiprocessing

import numpy as np

import farwrite as fw

JOBS = 8


async def work(endpoint: str) -> None:
    """Square the number of each job, until the asker closes the channel."""
    with fw.Device() as device, device.connect(endpoint) as channel:
        results = channel.lookup("results")
        async for job in channel.notifications():
            number = np.frombuffer(job.message, np.int64)
            await channel.write(number**2, results, offset=job.tag, notify=job.tag)


def worker(endpoint: str) -> None:
    """Run the second process."""
    asyncio.run(work(endpoint))


async def ask(channel: fw.Channel) -> None:
    """Send the jobs, then take the answers as they arrive."""
    results = channel.publish("results", channel.allocate(JOBS, np.int64))
    for tag in range(JOBS):
        await channel.send(np.int64(tag + 1).tobytes(), tag)
    answers = 0
    async for answer in channel.notifications():
        print(f"job {answer.tag}: {results.array[answer.tag]}")
        answers += 1
        if answers == JOBS:
            break


def main() -> None:
    """Start the worker and send it jobs."""
    with fw.Device() as device:
        process = multiprocessing.get_context("spawn").Process(
            target=worker, args=(device.endpoint,)
        )
        process.start()
        with device.accept(timeout=30) as channel:
            asyncio.run(ask(channel))
        process.join()


if __name__ == "__main__":
    main()
