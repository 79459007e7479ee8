"""The wheels of `make wheels`, each in an empty environment.

libfarwrite.so and the module have a libc++ each. What crosses between them, and between them and
the system's unwinder, is tested here. Programs that other compilers made use the library as well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from farwrite_bench.cluster.process import free_ports
from shared_by_threads import SHARED
from wheels.environments import PAIRS, ROOT, RUNNABLE, TOOLS, call, python_of, python_with

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
PEERS = """
    import sys, threading
    import numpy as np
    import farwrite as fw
    fabrics = sys.argv[1:] or ["shm", "tcp"]
    left, right = fw.Device(fabrics=fabrics), fw.Device(fabrics=fabrics)
    accepted = []
    thread = threading.Thread(target=lambda: accepted.append(right.accept(20)))
    thread.start()
    near = left.connect(right.endpoint)
    thread.join()
    far = accepted[0]
    """


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"{pair[0].name}-on-3.{pair[1]}")
def python(request: pytest.FixtureRequest) -> Path:
    """The Python of an environment that has the wheel."""
    wheel, minor = request.param
    found = python_of(wheel, minor)
    if found is None:
        pytest.skip(f"the machine has no Python 3.{minor}")
    return python_with(wheel, found)


def program(text: str) -> str:
    """Return a program of two devices with a channel, `near` and `far`."""
    return textwrap.dedent(PEERS) + textwrap.dedent(text)


def test_every_wheel_meets_a_python() -> None:
    met = {wheel.name for wheel, minor in PAIRS if python_of(wheel, minor) is not None}
    assert met == {wheel.name for wheel in RUNNABLE} >= {"cp311-x86_64", "cp312-abi3-x86_64"}


def test_threads_share_its_objects_without_the_gil_where_there_is_none(python: Path) -> None:
    said = call(python, HERE.parent / "shared_by_threads.py", "0.5")
    assert len(said.splitlines()) == len(SHARED)


def test_the_ten_lines_of_the_readme_run(python: Path, tmp_path: Path) -> None:
    port = str(free_ports(1)[0])
    for name in ("receiver", "sender"):
        text = (ROOT / "examples" / f"{name}.py").read_text()
        (tmp_path / f"{name}.py").write_text(text.replace("7777", port))
    with subprocess.Popen(
        [python, tmp_path / "receiver.py"], stdout=subprocess.PIPE, text=True
    ) as receiver:
        call(python, tmp_path / "sender.py")
        assert float(receiver.communicate(timeout=60)[0]) == 1024 * 1024


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_bytes_arrive_over_a_fabric(python: Path, fabric: str) -> None:
    said = call(
        python,
        "-c",
        program("""
            inbox = far.publish("inbox", far.allocate((1000, 1000), "float64"))
            near.write(np.arange(1e6).reshape(1000, 1000), near.lookup("inbox"), notify=7).wait()
            assert far.wait_notification(20).tag == 7
            assert (inbox.array == np.arange(1e6).reshape(1000, 1000)).all()
            assert fabrics[0] in str(left.stats().choices)
            receiver = fw.TensorReceiver(far, "edge")
            sender = fw.TensorSender(near, "edge")
            sender.send(np.ones(7, "float16"))
            assert receiver.receive(timeout=20).sum() == 7
            """),
        fabric,
    )
    assert said == ""


def test_a_box_serves_two_processes(python: Path) -> None:
    serve = """
        import sys, numpy as np, farwrite as fw
        with fw.box.serve(memory="64M") as server:
            print(server.endpoint, flush=True)
            sys.stdin.readline()
        """
    use = """
        import sys, numpy as np, farwrite as fw
        with fw.box.connect(sys.argv[1]) as box:
            weights = box.create("w", 1000, dtype="float32")
            weights.write(np.full(1000, 2, "float32"))
            weights.accumulate(np.ones(1000, "float32"))
            assert (weights.read() == 3).all()
        """
    with subprocess.Popen(
        [python, "-c", textwrap.dedent(serve)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        call(python, "-c", textwrap.dedent(use), endpoint)
        server.communicate("\n", timeout=60)
    assert server.returncode == 0


def test_errors_are_raised_and_caught(python: Path) -> None:
    """From the core, from nanobind's conversions, from a callback, and after a throw in each."""
    call(
        python,
        "-c",
        program("""
            from farwrite import _farwrite
            small = far.publish("small", far.allocate(1))
            for _ in range(100):
                for call, kind in (
                    (lambda: near.lookup("never", 0.001), fw.NotFound),
                    (lambda: left.connect("127.0.0.1:1", timeout=0.01), fw.Error),
                    (lambda: fw.Device(pollers=-1), (fw.InvalidArgument, OverflowError, TypeError)),
                    (lambda: _farwrite.Device("nonsense", 1, 2), TypeError),
                    (lambda: near.write(b"12", near.lookup("small")).wait(), fw.Error),
                ):
                    try:
                        call()
                    except kind:
                        continue
                    raise AssertionError(kind)
            raised = []
            sys.unraisablehook = lambda what: raised.append(what.exc_type)
            far.on_notification(lambda _: 1 // 0)
            near.notify(1).wait()
            for _ in range(2000):
                if raised: break
                threading.Event().wait(0.01)
            assert raised == [ZeroDivisionError]
            """),
    )


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile what refuses allocations."""
    library = tmp_path_factory.mktemp("refusing") / "refuse_memory.so"
    call("cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "refuse_memory.c", "-ldl")
    return library


def test_memory_that_is_refused_in_the_library_is_an_error_of_farwrite(
    python: Path, refusing: Path
) -> None:
    """std::bad_alloc crosses from the library's libc++ to the module's, which has its own type."""
    said = call(
        python,
        "-c",
        program("""
            import collections, ctypes
            refuse = ctypes.CDLL(None)
            def tried(call):
                seen = collections.Counter()
                for after in range(1000):
                    refuse.refuse_allocation(ctypes.c_long(after))
                    try:
                        call()
                        seen["none"] += 1
                    except fw.ResourceExhausted as error:
                        seen["refused memory" in str(error)] += 1
                    if refuse.refusal_is_left():
                        return seen
                raise AssertionError("no end")
            publish = lambda: far.publish("inbox", far.allocate(8))
            total = tried(left.stats) + tried(left.metrics) + tried(publish)
            assert total[True] > 2, total
            near.notify(1).wait(20)
            print("went on")
            """),
        LD_PRELOAD=str(refusing),
    )
    assert said.startswith("went on\n")


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_neither_the_wall_clock_nor_a_refusal_prolongs_a_wait(python: Path, fabric: str) -> None:
    """libc++ has its own ways to wait, and to report what the system refuses."""
    said = call(
        python,
        *("-W", "ignore", HERE.parent / "matrix" / "refused_program.py"),
        *(fabric, "clock,descriptors,memory,threads,files"),
        seconds=400,
        PYTHONPATH=str(HERE.parent),
        FARWRITE_LOG="off",
        TEST_SHARE="3",
    )
    assert said.splitlines()[-1] == "survivor fine"


def test_a_thread_that_cannot_start_is_an_error_of_farwrite(python: Path) -> None:
    """std::system_error, of std::thread in the library."""
    said = call(
        python,
        "-c",
        program("""
            import resource
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 40, resource.RLIM_INFINITY))
            used = int(open("/proc/self/statm").read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 20), resource.RLIM_INFINITY))
            try:
                fw.Device()
            except fw.ResourceExhausted as error:
                print("refused", str(error)[:0])
            """),
    )
    assert said.split() == ["refused"]


def test_daemon_threads_do_not_abort_a_process_that_ends(python: Path) -> None:
    """Python before 3.14 unwinds them, by pthread_exit() and libgcc_s, through our frames."""
    script = program("""
        import time
        source = np.ones(1 << 17, "uint8")
        far.publish("inbox", far.allocate(1 << 17))
        right.publish("mine", right.allocate(1 << 17))
        inbox, mine = near.lookup("inbox"), near.lookup("mine")
        def repeat(action):
            while True:
                try:
                    exec(action, globals())
                except fw.Error:  # closed
                    pass
        far.on_notification(lambda notification: sum(range(20_000)))
        for action in ["near.write(source, inbox).wait()", "mine.read()", "near.flush().wait()",
                       "near.lookup('never', 0.001)", "near.notify(1).wait()"] * 2:
            threading.Thread(target=repeat, args=(action,), daemon=True).start()
        time.sleep(0.1)
        """)
    for _ in range(5):
        assert call(python, "-c", script) == ""


def test_a_forked_child_is_told_and_the_parent_goes_on(python: Path) -> None:
    said = call(
        python,
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        program("""
            import os, time
            inbox = far.publish("inbox", far.allocate(4))
            child = os.fork()
            if child == 0:
                try:
                    near.notify(1).wait(5)
                except fw.Error as error:
                    print("fork" in str(error), flush=True)
                with fw.Device() as own:
                    print(own.endpoint is not None, flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            near.write(b"1234", near.lookup("inbox")).wait()
            assert bytes(inbox.array) == b"1234"
            """),
    )
    assert said == "True\nTrue\n"


def test_threads_of_a_library_that_was_opened_late_keep_their_own_objects(python: Path) -> None:
    """thread_local of what dlopen() brings: in threads before and after, and at their ends."""
    call(
        python,
        "-c",
        textwrap.dedent("""
            import threading
            ready, go = threading.Barrier(9), threading.Event()
            failed = []
            def use(early):
                try:
                    if early:
                        ready.wait()
                        go.wait()
                    import numpy as np, farwrite as fw
                    with fw.Device() as device:
                        device.stats(), device.metrics()
                except BaseException as error:
                    failed.append(error)
            early = [threading.Thread(target=use, args=(True,)) for _ in range(8)]
            for thread in early: thread.start()
            ready.wait()
            import farwrite
            go.set()
            late = [threading.Thread(target=use, args=(False,)) for _ in range(8)]
            for thread in late: thread.start()
            for thread in early + late: thread.join()
            assert failed == [], failed
            """),
    )


def zig() -> str:
    """Return the compiler of the wheels: Clang, which brings its own libc++."""
    (found,) = TOOLS.parent.glob("lib/python3*/site-packages/ziglang/zig")
    return str(found)


@pytest.mark.parametrize(
    ("language", "compiler"),
    [("c", ["cc", "-std=c11"]), ("cpp", ["c++", "-std=c++17"]), ("cpp", ["zig", "c++"])],
    ids=["c", "libstdc++", "libc++"],
)
def test_programs_of_other_compilers_use_the_wheel(
    python: Path, language: str, compiler: list[str], tmp_path: Path
) -> None:
    copied = shutil.copytree(ROOT / "examples" / language, tmp_path / language)
    port = str(free_ports(1)[0])
    for source in copied.glob("*.c*"):
        source.write_text(source.read_text().replace("7777", port))
    flags = call(python, "-m", "farwrite", "config", "--cflags", "--libs").split()
    command = [zig() if word == "zig" else word for word in compiler]
    for source in copied.glob("*.c*"):
        call(*command, "-pthread", "-o", source.with_suffix(""), source, *flags)
    with subprocess.Popen([copied / "receiver"], stdout=subprocess.PIPE, text=True) as receiver:
        call(copied / "sender")
        assert receiver.communicate(timeout=60)[0] == "1048576.0\n"
    if language == "cpp":
        summing = [copied / "tensors", "sum"]
        with subprocess.Popen(summing, stdout=subprocess.PIPE, text=True) as receiver:
            said = call(copied / "tensors", "send")
            assert receiver.wait(timeout=60) == 0
        assert said.splitlines() == [f"batch {i}: {i * 1024 * 256}" for i in range(5)]


def test_the_kernels_of_the_processor_are_found(python: Path) -> None:
    flags = set(re.findall(r"\w+", Path("/proc/cpuinfo").read_text().partition("flags")[2][:4000]))
    said = call(python, "-m", "farwrite", "info", HOME=os.environ.get("HOME", "/"))
    lacks = "not supported by this CPU"
    assert (lacks not in next(x for x in said.splitlines() if "nt-avx2" in x)) == ("avx2" in flags)
