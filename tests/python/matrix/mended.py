"""Faults that were mended before the matrix was there, and how each is brought back: the package.

`prove.py` brings them back one by one. `mended_core.py` has those of the C++ core.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mended:
    """A fault: lines of today, and what brings it back in their place."""

    name: str
    commit: str
    """The first one that mended it."""
    file: str
    today: str
    """Must be in the file once."""
    before: str
    commands: tuple[str, ...]
    """Of the matrix family; the first that finds the fault proves it."""
    out_of_reach: str = ""
    """Why no command finds it, where that is known."""


def random(world: str) -> str:
    """The random programs of fixed seeds that `make test` runs."""
    path = "tests/python/random_programs/test_random_programs.py"
    return f"pytest {path} -k 'does_what_its_model_says and {world}'"


MENDED = (
    # --- An end that looks like success.
    Mended(
        "abandoned-stream-looks-complete", "e67d821", "python/farwrite/tensor.py",
        """                array = self.receive()
            except EndOfStream:
""",
        """                array = self.receive()
            except ConnectionError:
                return
            except EndOfStream:
""",
        ("program.py shm killed TensorReceiver.__iter__",),
    ),
    Mended(
        "death-ends-an-async-stream-quietly", "e67d821", "python/farwrite/tensor.py",
        """            return await self.receive_async()
        except EndOfStream:
""",
        """            return await self.receive_async()
        except (EndOfStream, ConnectionError):
""",
        ("program.py tcp killed TensorReceiver.__anext__",),
    ),
    Mended(
        "death-ends-notifications-quietly", "e67d821", "python/farwrite/channel.py",
        """        except (Unavailable, Cancelled, FailedPrecondition) as error:
            if ended_in_good_order(self, error):
                return None
            raise
""",
        """        except (ConnectionError, Cancelled, FailedPrecondition):
            return None
""",
        ("program.py shm killed Notifications.__iter__",),
    ),
    Mended(
        "closing-a-sender-does-not-wait", "bf1101f", "python/farwrite/tensor.py",
        """        self._native.close(limit)

    def abandon""",
        """        with contextlib.suppress(TimeoutError):
            self._native.close(0)

    def abandon""",
        ("killed_program.py shm sends tensors_to", random("tensors")),
    ),
    Mended(
        "publish-after-close-succeeds", "e1be8c2", "python/farwrite/box/publisher.py",
        """        self._closed = True
        self._give_back()
        with""",
        """        return
        with""",
        ("program.py shm shut Publisher.publish",),
    ),
    Mended(
        "watch-ends-without-a-word", "8609c76", "python/farwrite/box/updates.py",
        "            if callback is None or isinstance(arrived, _LEFT):\n",
        "            if callback is None or isinstance(arrived, Error):\n",
        ("program.py shm killed Segment.version",),
    ),
    Mended(
        "replaced-worker-counts-on", "31b1d3a", "python/farwrite/box/training/counters.py",
        "accumulate(claim, number, start=worker, count=1)",
        "accumulate(np.array([number], np.int64), start=worker)",
        (random("training"), "program.py shm shut AsyncSGD.step"),
    ),
    # --- A wait without limit.
    Mended(
        "change-of-a-stopped-box-waits-for-ever", "a9c6f8b", "python/farwrite/box/segment.py",
        "    def _wait(self) -> float | None:\n        return self._client.timeout\n",
        "    def _wait(self) -> float | None:\n        return None\n",
        ("program.py shm stopped Segment.write",),
    ),
    Mended(
        "step-of-a-stopped-box-waits-for-ever", "a9c6f8b",
        "python/farwrite/box/training/async_sgd.py",
        "        self._pending.finish(self._timeout)\n        self._counters.finish",
        "        self._pending.finish(None)\n        self._counters.finish",
        ("program.py tcp stopped AsyncSGD.step",),
    ),
    Mended(
        "latest-does-not-wait-for-a-buffer", "a057c09", "python/farwrite/box/subscriber.py",
        """                return Model(self._newest(copied, wait.left()), self._schema)
            except ResourceExhausted as error:
                nap = next(naps, None)
""",
        """                return Model(self._newest(copied, wait.left()), self._schema)
            except ResourceExhausted as error:
                nap = None
""",
        (random("models"),),
        "a buffer must be given back while it waits, and a program makes one call at a time",
    ),
    # --- Wrong bytes.
    Mended(
        "masked-array-loses-its-mask", "4d40512", "python/farwrite/memory/payload.py",
        "    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):\n",
        "    if False:\n",
        ("arguments_program.py shm Channel.write.source",),
    ),
    Mended(
        "factor-is-rounded", "06974cf", "python/farwrite/box/element.py",
        "        whole = int(number)\n",
        "        whole = int(float(number))\n        number = whole\n",
        (random("boxes"),),
    ),
    Mended(
        "interrupted-publish-mixes-versions", "ffe8692", "python/farwrite/box/publisher.py",
        """        memory = self._client.array((self._segment.nbytes,), "uint8").array
""",
        """        if not hasattr(self, "_memory"):
            self._memory = self._client.array((self._segment.nbytes,), "uint8").array
        memory = self._memory
""",
        ("exceptions_program.py tcp Publisher.publish", random("models")),
        "the table publishes 32 bytes, always the same: no write is under way when the next begins",
    ),
    Mended(
        "another-model-is-accepted", "46a3c6a", "python/farwrite/box/training/weights.py",
        """        shapes.check_same(operation, name, segment.description, "the first worker's")
""",
        "        pass\n",
        ("arguments_program.py shm training", random("training")),
    ),
    Mended(
        "model-is-read-as-another", "46a3c6a", "python/farwrite/box/training/weights.py",
        """        shapes.check_same("read_weights", name, segment.description, "the workers'")
""",
        "",
        ("arguments_program.py shm read_weights",),
    ),
    Mended(
        "failed-group-goes-on", "32ca4e1", "python/farwrite/box/training/group.py",
        """            with contextlib.suppress(Error):
                self._attached.close()
            if isinstance""",
        """            self._ended = ""
            if isinstance""",
        (random("training"), "exceptions_program.py shm BoxGroup.all_reduce"),
    ),
    Mended(
        "nan-gets-into-shared-weights", "6e96554", "python/farwrite/box/training/async_sgd.py",
        "        if finite((gradients,)):\n",
        "        if True:\n",
        ("arguments_program.py shm AsyncSGD.step", random("training")),
    ),
    Mended(
        "tensors-apart-by-joined-paths", "f93226f", "python/farwrite/box/schema.py",
        "            yield from _leaves((*keys, key), child, operation)\n",
        '            yield from _leaves(("/".join((*keys, key)),), child, operation)\n',
        ("program.py shm none Server.publisher",),
    ),
    # --- Lost in silence.
    Mended(
        "cancelled-task-loses-what-it-took", "1feada4", "python/farwrite/doorbell.py",
        """ - time.monotonic()
        if (taken := look()) is not None:
""",
        """ - time.monotonic()
        if (taken := look()) is not None:
            await asyncio.sleep(0)
""",
        ("exceptions_program.py shm Channel.notification", random("channels")),
    ),
    # --- Leaks.
    Mended(
        "failed-publisher-leaves-its-segment", "72cab37", "python/farwrite/box/publisher.py",
        "        if segment.version == 0:  # of a publisher that ended before its first version\n",
        "        if False:\n",
        ("exceptions_program.py shm Client.publisher", random("models")),
    ),
    Mended(
        "doorbell-stays-open", "0ce51f4", "python/farwrite/doorbell.py",
        "                channel.doorbells.pop(loop).close()\n",
        "                channel.doorbells.pop(loop)\n",
        ("exceptions_program.py shm Channel.notification", "program.py shm shut"),
        "the descriptors of an event loop go with the loop, which ends with the world",
    ),
    Mended(
        "waiting-worker-frees-the-mark-of-the-first", "287c6be",
        "python/farwrite/box/training/claims.py",
        "                    self._mark.detach()  # not free: the first worker may live\n",
        "                    give_back(self._mark)\n",
        (random("training"),),
        "no program stops the first worker before it has prepared the segments",
    ),
    # --- Raw errors.
    Mended(
        "no-thread-is-a-runtime-error", "081507e", "python/farwrite/box/beside.py",
        "    except RuntimeError as error:\n",
        "    except MemoryError as error:\n",
        ("refused_program.py shm threads Segment.read_async",),
    ),
    Mended(
        "no-descriptor-is-an-os-error", "8e508f3", "python/farwrite/doorbell.py",
        "        except OSError as error:\n",
        "        except MemoryError as error:\n",
        ("program.py shm descriptors Channel.notification TensorReceiver.receive_async",),
    ),
    Mended(
        "overlapping-fields-are-a-value-error", "4d40512", "python/farwrite/memory/description.py",
        "    except ValueError:  # NumPy describes no fields that overlap or are out of order\n",
        "    except KeyError:\n",
        ("arguments_program.py shm Channel.allocate.dtype",),
    ),
    Mended(
        "huge-shape-is-a-raw-error", "c603ed4", "python/farwrite/box/element.py",
        """    try:
        check_size(lengths, itemsize)
    except ValueError as error:
""",
        """    try:
        pass
    except ValueError as error:
""",
        ("arguments_program.py shm Client.create.shape",),
    ),
    Mended(
        "hostile-exporter-is-a-raw-error", "c603ed4", "python/farwrite/memory/payload.py",
        """    except ValueError as error:
        raise InvalidArgument(
            f"{operation}: NumPy cannot view the buffer""",
        """    except KeyError as error:
        raise InvalidArgument(
            f"{operation}: NumPy cannot view the buffer""",
        ("arguments_program.py shm Channel.write.source",),
    ),
    Mended(
        "description-that-nobody-can-free", "c603ed4", "python/farwrite/box/client.py",
        "            parse_layout(_farwrite.BoxElement.BYTES, [count], checked.encode(), name)\n",
        "            pass\n",
        ("arguments_program.py shm Client.create_bytes.description",),
    ),
    Mended(
        "generator-trains-on-nothing", "17bf28c", "python/farwrite/box/training/shapes.py",
        "    if not isinstance(arrays, Collection) or",
        "    if",
        ("arguments_program.py shm SEASGD",),
    ),
)  # fmt: skip
