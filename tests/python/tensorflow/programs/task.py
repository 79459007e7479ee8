"""A task of a test's cluster: task.py PROTOCOL CLUSTER_JSON JOB INDEX. Answers lines on stdin."""

import contextlib
import json
import os
import sys
from pathlib import Path

import fartest

PROFILES = []


def load(protocol):
    import tensorflow as tf

    if os.environ.get("FARWRITE_TEST_LATE"):
        tf.constant(1.0)
    if protocol != "grpc":
        import farwrite.tensorflow  # noqa: F401
    if fartest.wanted():
        fartest.load(tf)
    return tf


def stats():
    plugin = sys.modules.get("farwrite.tensorflow")
    return dict(plugin.stats()) if plugin else {}


def descriptors():
    """Count the open ones, but not those of the memory that tensors land in.

    It grows with how many steps are under way at once, and stays for the next ones.
    """
    kept = 0
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder's own, closed by now
            kept += not os.readlink(f"/proc/self/fd/{entry}").startswith("/memfd:receive memory")
    return kept


def spans():
    """End the profile, and return what it has of transfers."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    tf.profiler.experimental.stop(save=True)
    found = []
    for path in Path(PROFILES[-1]).glob("**/*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            for event in (event for line in plane.lines for event in line.events):
                name = plane.event_metadata[event.metadata_id].name
                if name not in ("SendTensor", "RecvTensor"):
                    continue
                span = {"name": name}
                for stat in event.stats:
                    value = getattr(stat, stat.WhichOneof("value"))
                    if stat.WhichOneof("value") == "ref_value":
                        value = plane.stat_metadata[value].name
                    span[plane.stat_metadata[stat.metadata_id].name] = str(value)
                found.append(span)
    return found


def profile(folder):
    import tensorflow as tf

    PROFILES.append(os.path.join(folder, f"profile-{os.getpid()}"))
    tf.profiler.experimental.start(PROFILES[-1])
    return "on"


def main():
    protocol, cluster, job, index = sys.argv[1:5]
    tf = load(protocol)
    server = tf.distribute.Server(
        json.loads(cluster), job_name=job, task_index=int(index), protocol=protocol, start=True
    )
    print("up", flush=True)
    for line in sys.stdin:
        if line.strip() == "stats":
            with open("/proc/self/statm") as statm:
                resident = int(statm.read().split()[1]) * 4096
            facts = {"descriptors": descriptors(), "resident": resident, **stats()}
            print(json.dumps(facts, default=str), flush=True)
        elif line.strip() == "edges":
            print(json.dumps(sys.modules["farwrite.tensorflow"].edges()), flush=True)
        elif line.startswith("device "):
            print(json.dumps(fartest.obey(line.split()[1:])), flush=True)
        elif line.startswith("profile "):
            print(json.dumps(profile(line.split()[1])), flush=True)
        elif line.strip() == "profiled":
            print(json.dumps(spans()), flush=True)
    del server
    os._exit(0)


if __name__ == "__main__":
    main()
