"""Trains a little with TensorFlow between two tasks, over Farwrite and stock gRPC, and compares.

    training.py both FABRIC PLUGIN FOLDER ADDRESS            one host: the ps and the worker
    training.py ps FABRIC PLUGIN FOLDER ADDRESS PEER         two hosts: the ps ...
    training.py worker FABRIC PLUGIN FOLDER ADDRESS PEER     ... and the worker, which compares

FABRIC is the one that has to be taken where both tasks have it; then the worker has it not, and tcp
is taken. FOLDER is seen by both. A step has edges of a fixed size, which must land, and others that
have another size in every step, which must be read. No value may differ from gRPC's by a bit.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from c_tensorflow import Graph, Library, Session, Type, of_int, of_shape, of_type

SIZE = 65_536  # floats: 256 KiB
LENGTH, GROWTH = 5_000, 700  # floats of what changes its size
LINE = "a line of text that a task sends to another"
FETCHES = ("value", "gradient", "rows", "scaled", "hashes", "sum")
LANDINGS = 3  # on each of the two edges of a fixed size
LEAST_STEPS = 5
MOST_STEPS = 60  # slots are opened beside the steps, so no round's number is fixed
WAIT = 300.0
FARWRITE, STOCK = "grpc+farwrite", "grpc"
READ_EDGES = 2  # of those that change their size, to the worker; one goes back
ADAPTER = "farwrite_adapter_"  # what the metrics of memory registered with adapters begin with
TRANSFERS = f"{ADAPTER}transfers_total"
REGISTERED = f"{ADAPTER}transfers_registered_total"
SECONDS = f"{ADAPTER}registration_seconds_total"
COUNTERS = Path("/sys/class/infiniband")

Facts = dict[str, Any]


class Round(NamedTuple):
    """One cluster: its protocol, and what the plug-in of each task may use."""

    name: str
    protocol: str
    port: int
    allowed: dict[str, str]  # FARWRITE_FABRICS, by job
    fabric: str = ""  # what has to be taken


class Plan(NamedTuple):
    """What the command line says."""

    jobs: list[str]  # of this host
    hosts: dict[str, str]
    plugin: Path
    folder: Path
    rounds: list[Round]

    def file(self, of: Round, what: str) -> Path:
        """Return where a round's tasks tell each other something."""
        return self.folder / f"{of.name}.{what}"


def wait_for(path: Path) -> Any:
    """Return what `path` says, once it is there."""
    deadline = time.monotonic() + WAIT
    while not path.exists():
        if (path.parent / "failed").exists():
            raise RuntimeError("the other host failed")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {path}")
        time.sleep(0.1)
    return json.loads(path.read_text())


def tell(path: Path, what: Any) -> None:
    """Write `path` so that it is never seen in part."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(what))
    draft.rename(path)


def graph() -> Graph:
    """Return the training: a variable of the ps, its gradient from the worker, and more."""
    ps, worker = "/job:ps/task:0", "/job:worker/task:0"
    real, whole, text = (of_type(dtype) for dtype in (Type.FLOAT, Type.INT32, Type.STRING))
    made = Graph()

    def ramp(name: str, length: str) -> str:
        for end, value in (("first", 0), ("by", 1)):
            made.constant(f"{name}/{end}", ps, Type.INT32, value)
        made.add(f"{name}/of", "Range", ps, f"{name}/first", length, f"{name}/by", Tidx=whole)
        return made.add(name, "Cast", ps, f"{name}/of", SrcT=whole, DstT=real)

    def float_op(name: str, op: str, device: str, *inputs: str) -> str:
        return made.add(name, op, device, *inputs, T=real)

    made.add("number", "Placeholder", worker, dtype=real, shape=of_shape())
    made.add("length", "Placeholder", worker, dtype=whole, shape=of_shape())

    made.constant("size", ps, Type.INT32, SIZE)
    made.add("weights", "VarHandleOp", ps, dtype=real, shape=of_shape(SIZE))
    made.add("init", "AssignVariableOp", ps, "weights", ramp("start", "size"), dtype=real)
    made.add("read", "ReadVariableOp", ps, "weights", dtype=real)
    float_op("sine", "Sin", worker, "read")
    float_op("change", "Mul", worker, "sine", "number")
    made.add("update", "AssignSubVariableOp", ps, "weights", "change", dtype=real)

    made.constant("three", ps, Type.FLOAT, 3.0)
    float_op("thirds", "Mul", ps, ramp("ramp", "length"), "three")
    float_op("scale", "Mul", worker, "thirds", "number")
    made.constant("all", ps, Type.INT32, 0)
    made.add("back", "Sum", ps, "scale", "all", T=real, Tidx=whole)

    made.constant("ten", ps, Type.INT32, 10)
    made.add("few", "FloorDiv", ps, "length", "ten", T=whole)
    made.constant("front", ps, Type.INT32, 0)
    made.add("lines", "ExpandDims", ps, "few", "front", T=whole, Tdim=whole)
    made.constant("line", ps, Type.STRING, LINE)
    made.add("text", "Fill", ps, "lines", "line", T=text, index_type=whole)
    made.add("hash", "StringToHashBucketFast", worker, "text", num_buckets=of_int(1 << 40))

    sources = ("read", "change", "thirds", "scale", "hash", "back")
    for name, source in zip(FETCHES, sources, strict=True):
        dtype = of_type(Type.INT64) if source == "hash" else real
        made.add(name, "Identity", worker, source, "^update", T=dtype)
    return made


class Task:
    """One task of a cluster, in a process of its own."""

    def __init__(self, plan: Plan, of: Round, job: str) -> None:
        self.plan, self.round, self.job = plan, of, job
        self.plugin: ctypes.CDLL | None = None

    def stats(self) -> Facts:
        """Return what the plug-in counted in this process; nothing without it."""
        if self.plugin is None:
            return {}
        self.plugin.farwrite_tf_stats_json.restype = ctypes.c_char_p
        self.plugin.farwrite_tf_device_metrics.restype = ctypes.c_char_p
        stats: Facts = json.loads(self.plugin.farwrite_tf_stats_json())
        for line in self.plugin.farwrite_tf_device_metrics().decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith(ADAPTER):
                stats[name.partition("{")[0]] = float(value) if "." in value else int(value)
        return stats

    def train(self, library: Library, target: str, steps: int) -> list[list[str]]:
        """Run `steps` steps, or if that is 0, as many as it takes until tensors have landed."""
        session = Session(library, graph(), target)
        session.run({}, [], ["init"])
        results: list[list[str]] = []
        while len(results) < (steps or MOST_STEPS):
            step = len(results)
            number, length = 0.25 + step, LENGTH + GROWTH * step
            feeds = {"number": (Type.FLOAT, number), "length": (Type.INT32, length)}
            fetched = session.run(feeds, FETCHES)
            results.append(
                [f"{len(one)}:{hashlib.sha256(one).hexdigest()[:16]}" for one in fetched]
            )
            if steps == 0 and len(results) >= LEAST_STEPS:
                stats = self.stats()
                if min(stats["landed"], stats["pushes_landed"]) >= LANDINGS:
                    break
        session.close()
        return results

    def run(self, library: Library) -> None:
        """Serve until the worker has trained and both tasks have told what they counted."""
        plan, of = self.plan, self.round
        began = time.monotonic()
        if of.protocol == FARWRITE:
            os.environ["FARWRITE_FABRICS"] = of.allowed[self.job]
            self.plugin = library.load_plugin(plan.plugin)  # before anything is allocated
        cluster = {
            job: [f"{host}:{of.port + at}"] for at, (job, host) in enumerate(plan.hosts.items())
        }
        target = library.start_server(cluster, self.job, 0, of.protocol)
        trained = plan.file(of, "trained")
        if self.job == "worker":
            # gRPC's round, the last, takes as many steps as the longest before it.
            ours = [] if of.protocol == FARWRITE else plan.rounds[:-1]
            steps = max((len(wait_for(plan.file(one, "trained"))) for one in ours), default=0)
            tell(trained, self.train(library, target, steps))
        else:
            wait_for(trained)
        tell(plan.file(of, self.job), {**self.stats(), "seconds": time.monotonic() - began})
        for job in plan.hosts:
            wait_for(plan.file(of, job))  # links end with the task


def start(task: Task, library: Library) -> int:
    """Run a task in a child of this process, which has TensorFlow already."""
    child = os.fork()
    if child != 0:
        return child
    status = 1
    try:
        signal.alarm(int(WAIT))
        task.run(library)
        status = 0
    except BaseException as error:
        print(
            f"training: {task.round.name}, {task.job}: {type(error).__name__}: {error}", flush=True
        )
    finally:
        os._exit(status)


def run(plan: Plan, of: Round, library: Library) -> None:
    """Run this host's tasks of a round; the first that fails ends the others."""
    children = {start(Task(plan, of, job), library) for job in plan.jobs}
    while children:
        child, status = os.wait()
        children.remove(child)
        if status != 0:
            for other in children:
                os.kill(other, signal.SIGKILL)
            raise RuntimeError(f"{of.name}: a task ended with {status}")


def packets() -> int:
    """Return how many packets the RDMA devices of this host have sent; 0 without one."""
    found = COUNTERS.glob("*/ports/*/hw_counters/sent_pkts")
    return sum(int(path.read_text()) for path in found)


def check(plan: Plan, of: Round) -> str:
    """Look at what a round with the plug-in counted; return a summary."""
    ps, worker = (wait_for(plan.file(of, job)) for job in ("ps", "worker"))
    steps = len(wait_for(plan.file(of, "trained")))
    for task in (ps, worker):
        assert [link["fabric"] for link in task["links"]] == [of.fabric], task["links"]
        for counter in ("grpc_recv_tensor_calls", "pushes_pull", "staged_unaligned", "fetches"):
            assert task[counter] == 0, f"{counter} is {task[counter]}"
    # The variable lands on the worker, its gradient on the ps ...
    assert ps["pushes_landed"] == worker["landed"] >= LANDINGS, (ps, worker)
    assert worker["pushes_landed"] == ps["landed"] >= LANDINGS, (ps, worker)
    # ... and what has another size in every step is read, as is what came before there were slots.
    assert worker["offers_read"] >= READ_EDGES * steps and ps["offers_read"] >= steps, (ps, worker)
    if of.fabric == "verbs":
        # Tensors are allocated in registered memory; the text alone is read into a string.
        assert ps[REGISTERED] == 0 and worker[REGISTERED] <= steps, (ps, worker)
        # Its time, and that of all segments.
        assert ps[SECONDS] > 0 and worker[SECONDS] > 0, (ps, worker)
        assert ps[TRANSFERS] >= LANDINGS and worker[TRANSFERS] > worker[REGISTERED], (ps, worker)
        print(f"training: {registering(ps, worker)}", flush=True)
    return (
        f"{of.fabric}: {steps} steps, {ps['landed'] + worker['landed']} tensors landed,"
        f" {ps['offers_read'] + worker['offers_read']} were read"
        f" ({worker['links'][0]['reason']})"
    )


def registering(*tasks: Facts) -> str:
    """Say what registering memory cost all tasks, as the poster on zero-copy dataflows does."""
    total = {name: sum(task[name] for task in tasks) for name in (TRANSFERS, REGISTERED)}
    without = total[TRANSFERS] - total[REGISTERED]
    spent = sum(task[SECONDS] for task in tasks)
    return (
        f"{without} of {total[TRANSFERS]} transfers ({without / total[TRANSFERS]:.1%}) needed no"
        f" registration, and registering took {spent / sum(task['seconds'] for task in tasks):.2%}"
        " of the tasks' time"
    )


def compare(plan: Plan) -> None:
    """Compare all rounds with the last one, gRPC's."""
    *ours, stock = (wait_for(plan.file(of, "trained")) for of in plan.rounds)
    assert len({json.dumps(step) for step in stock}) == len(stock), "the steps were all the same"
    for of, results in zip(plan.rounds, ours, strict=False):
        beside = stock[: len(results)]
        assert results == beside, f"results differ over {of.fabric}:\n{results}\n{beside}"


def read_plan() -> Plan:
    """Read the command line."""
    role, fabric, plugin, folder, own = sys.argv[1:6]
    jobs = ["ps", "worker"] if role == "both" else [role]
    hosts = {job: own if job in jobs else sys.argv[6] for job in ("ps", "worker")}
    wanted = ",".join(dict.fromkeys((fabric, "tcp")))
    if role != "both":
        wanted = f"shm,{wanted}"
    both = {"ps": wanted, "worker": wanted}
    rounds = [
        Round(fabric, FARWRITE, 2322, both, fabric),
        Round(f"without {fabric}", FARWRITE, 2332, {"ps": wanted, "worker": "tcp"}, "tcp"),
        Round("stock", STOCK, 2342, {}),
    ]
    return Plan(jobs, hosts, Path(plugin), Path(folder), rounds)


def run_rounds(plan: Plan) -> None:
    """Run the rounds, one after the other."""
    began = time.monotonic()
    library = Library()
    # Loading takes long, so that it is done once; only this thread lives on in the tasks.
    assert len(os.listdir("/proc/self/task")) == 1, "this process has threads"
    print(f"training: TensorFlow is loaded after {time.monotonic() - began:.1f} s", flush=True)
    for of in plan.rounds:
        began, before = time.monotonic(), packets()
        run(plan, of, library)
        if of.fabric and "worker" in plan.jobs:
            print(f"training: {check(plan, of)}", flush=True)
        # The device's own word for who moved the bytes. Ends of connections are packets, too.
        sent, large = packets() - before, LANDINGS * SIZE * 4 // 4096
        assert (sent >= large) == (of.fabric == "verbs"), f"{of.name}: {sent} packets by verbs"
        print(f"training: {of.name} took {time.monotonic() - began:.1f} s", flush=True)
    if "worker" in plan.jobs:
        compare(plan)
        print("training: no value differs from gRPC's", flush=True)


def main() -> int:
    """Run all; where it fails, the other host need not wait."""
    plan = read_plan()
    try:
        run_rounds(plan)
    except BaseException:
        tell(plan.folder / "failed", plan.jobs)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
