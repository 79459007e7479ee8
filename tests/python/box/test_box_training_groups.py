"""BoxGroup: how its members agree on a group before a byte counts, and what ends one."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from box_process import BoxProcess
from boxes import open_box

import farwrite as fw
from farwrite.box.training import BoxGroup, Termination
from processes import wait_until

Connect = Callable[[], fw.box.Client]


def one(value: float = 0) -> list[np.ndarray]:
    return [np.full(2, value, np.float32)]


def average(connect: Connect, rank: int, size: int, value: float, **options: Any) -> float:
    """Form the group "g", average once, and leave it."""
    arrays = one(value)
    with BoxGroup(connect(), "g", arrays, rank, size, **options) as group:
        group.all_reduce(arrays)
    return float(arrays[0][0])


def outcome(future: Future[float]) -> float | type[BaseException]:
    error = future.exception(60)
    return future.result() if error is None else type(error)


def run(connect: Connect, members: list[tuple[int, int, float]], **options: Any) -> list[Any]:
    """Start a member for each (rank, size, value); return their averages or errors."""
    with ThreadPoolExecutor(len(members)) as pool:
        return [pool.submit(average, connect, *member, **options) for member in members]


def names(connect: Connect) -> list[str]:
    return [info.name for info in connect().list()]


MEMBER = """
from farwrite.box.training import BoxGroup
rank, calls = {rank}, {calls}
arrays = [np.full(2, 100.0, np.float32)]
group = BoxGroup(box, "g", arrays, rank, 2)
for call in calls:
    getattr(group, call)(arrays)
    print(call)
print("ready")
if rank == 0:
    group._sums[0].accumulate(group._flat * 0 + 100, 0.5)  # its share of the next average
    print("added")
sys.stdin.readline()
"""


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_all_members_that_start_again_get_nothing_of_the_killed_ones(fabric: str) -> None:
    with fw.box.serve(fabrics=[fabric]) as server:

        def connect() -> fw.box.Client:
            return fw.box.connect(server.endpoint, fabrics=[fabric])

        programs = [MEMBER.format(rank=rank, calls="[]") for rank in range(2)]
        with (
            BoxProcess(server.endpoint, programs[0]) as root,
            BoxProcess(server.endpoint, programs[1]) as other,
        ):
            assert (root.line(), root.line(), other.line()) == ("ready", "added", "ready")
            root.kill()
            other.kill()
            with connect() as first, connect() as second:
                clients = [first, second]

                def work(rank: int) -> tuple[float, float]:
                    arrays = one(1 + rank)
                    with BoxGroup(clients[rank], "g", arrays, rank, 2) as group:
                        group.broadcast(arrays)
                        told = float(arrays[0][0])
                        arrays[0][:] = 1 + rank
                        group.all_reduce(arrays)
                        return told, float(arrays[0][0])

                with ThreadPoolExecutor(2) as pool:
                    assert list(pool.map(work, range(2))) == [(1, 1.5), (1, 1.5)]


def test_a_member_that_starts_again_alone_is_refused_and_those_left_are_told() -> None:
    with open_box() as connect:
        arrays = one()
        with (
            ThreadPoolExecutor(1) as pool,
            BoxProcess(connect().server.endpoint, MEMBER.format(rank=1, calls="[]")) as other,
        ):
            root = pool.submit(BoxGroup, connect(), "g", arrays, 0, 2).result(30)
            assert other.line() == "ready"
            other.kill()
            with pytest.raises(fw.FailedPrecondition, match=r"\[1\] closed or died; start all"):
                root.all_reduce(arrays)
            with pytest.raises(fw.FailedPrecondition, match=r"earlier call failed.*start all"):
                root.all_reduce(arrays)
            root.close()

        with ThreadPoolExecutor(2) as pool:
            old = pool.submit(BoxGroup, connect(), "g", arrays, 0, 2)
            gone = pool.submit(BoxGroup, connect(), "g", one(), 1, 2).result(30)
            gone.close()
            again = pool.submit(average, connect, 1, 2, 3, timeout=0.5)
            assert outcome(again) is fw.DeadlineExceeded  # the root is in the earlier group
            old.result().close()


def test_a_call_ends_well_if_a_member_left_after_its_share_and_the_next_one_fails() -> None:
    with open_box() as connect, ThreadPoolExecutor(2) as pool:
        formed = [pool.submit(BoxGroup, connect(), "g", one(), rank, 2) for rank in range(2)]
        root, other = (future.result(30) for future in formed)
        other._sums[0].accumulate(other._flat * 0 + 6, 0.5)  # its share of the next average
        other.close()
        arrays = one(2)
        root.all_reduce(arrays)
        assert arrays[0].tolist() == [4] * arrays[0].size
        with pytest.raises(fw.FailedPrecondition, match=r"\[1\] closed or died"):
            root.all_reduce(arrays)
        root.close()


def test_a_root_that_starts_again_alone_names_who_is_in_the_earlier_group() -> None:
    with open_box() as connect, ThreadPoolExecutor(2) as pool:
        root, other = (
            future.result(30)
            for future in [
                pool.submit(BoxGroup, connect(), "g", one(), rank, 2) for rank in range(2)
            ]
        )
        root.close()
        with pytest.raises(fw.DeadlineExceeded, match=r"\[1\] are in a group that began earlier"):
            BoxGroup(connect(), "g", one(), 0, 2, timeout=0.5)
        other.close()


def test_two_processes_of_one_rank_are_both_refused() -> None:
    with open_box() as connect, ThreadPoolExecutor(3) as pool:
        third = pool.submit(average, connect, 2, 3, 100)
        wait_until(lambda: "g.2" in names(connect))  # or no member would be left to tell it
        both = [pool.submit(average, connect, 1, 3, value) for value in (1, 10)]
        said = [outcome(each) for each in [*both, third]]
        assert said[:2].count(fw.AlreadyExists) == 1
        assert said.count(fw.FailedPrecondition) == 2


def test_a_second_process_of_a_rank_does_not_disturb_a_group_that_has_begun() -> None:
    with open_box() as connect, ThreadPoolExecutor(2) as pool:
        groups = [
            future.result(30)
            for future in [
                pool.submit(BoxGroup, connect(), "g", one(), rank, 2) for rank in range(2)
            ]
        ]
        for rank in range(2):
            with pytest.raises(fw.AlreadyExists, match=f"living processes are member {rank} of"):
                BoxGroup(connect(), "g", one(), rank, 2)
        arrays = [one(1), one(2)]
        list(pool.map(lambda rank: groups[rank].all_reduce(arrays[rank]), range(2)))
        assert [float(each[0][0]) for each in arrays] == [1.5, 1.5]
        for group in groups:
            group.close()


@pytest.mark.parametrize("members", [[(0, 2), (1, 3)], [(0, 3), (1, 2)], [(0, 2), (1, 3), (2, 3)]])
def test_members_that_disagree_about_the_size_are_all_told(members: list[tuple[int, int]]) -> None:
    with open_box() as connect:
        with ThreadPoolExecutor(len(members)) as pool:
            others = [pool.submit(average, connect, *each, 1.0) for each in members[1:]]
            wait_until(lambda: len(names(connect)) == len(others))  # one could come after the end
            root = pool.submit(average, connect, *members[0], 1.0)
            errors = [future.exception(60) for future in [root, *others]]
        assert isinstance(errors[0], fw.InvalidArgument)
        for error in errors:
            assert isinstance(error, (fw.InvalidArgument, fw.FailedPrecondition))
            assert f"was told of {members[0][1]} members" in str(error)
        assert names(connect) == []


def test_members_of_different_models_are_told_which_tensor_differs() -> None:
    with open_box() as connect, ThreadPoolExecutor(2) as pool:
        models = [
            {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)},
            {"w": np.zeros(3, np.float32), "b": np.zeros((2, 3), np.float32)},
        ]
        groups = [
            pool.submit(BoxGroup, connect(), "g", model, rank, 2)
            for rank, model in enumerate(models)
        ]
        errors = [group.exception(60) for group in groups]
    assert [type(error) for error in errors] == [fw.InvalidArgument, fw.FailedPrecondition]
    assert all("tensor 'w' has shape (2, 3)" in str(error) for error in errors)


def test_members_that_do_not_start_are_named() -> None:
    with open_box() as connect:
        with pytest.raises(fw.DeadlineExceeded, match=r"0\.1 s.*\[1, 2\] did not start"):
            BoxGroup(connect(), "g", one(), 0, 3, timeout=0.1)
        with pytest.raises(fw.DeadlineExceeded, match=r"member 1 waited 0\.1 s for the 3 members"):
            BoxGroup(connect(), "g", one(), 1, 3, timeout=0.1)
        assert names(connect) == []


def test_numpy_numbers_are_ranks_and_sizes() -> None:
    with open_box() as connect:
        arrays, rank, size = one(3), np.int64(0), np.int64(1)
        with BoxGroup(connect(), "g", arrays, rank, size) as group:  # type: ignore[arg-type]
            group.all_reduce(arrays)
            assert (group.rank, group.size) == (0, 1)


@pytest.mark.parametrize("rank", [0, 1, 7])
def test_a_group_beside_a_termination_of_its_name_is_refused(rank: int) -> None:
    with open_box() as connect, Termination(connect(), "g", 8, 10) as other:
        other.advance(rank)
        kind = fw.AlreadyExists if rank == 0 else fw.InvalidArgument
        with pytest.raises(kind, match=rf"the box has 'g\.{rank}', which.*choose another name"):
            BoxGroup(connect(), "g", one(), 0, 2)
        assert other.counts().sum() == 1


DESCRIPTIONS = ["", "1", "[]", "{}", '{"size":true}', '{"size":-1}', '{"size":1e999}', "[" * 100000]


@pytest.mark.parametrize("number", range(len(DESCRIPTIONS)))
def test_a_group_writes_nothing_into_a_segment_that_is_no_members(number: int) -> None:
    with open_box() as connect:
        foreign = connect().create_bytes("g.1", 1024, DESCRIPTIONS[number], temporary=True)
        with pytest.raises(fw.InvalidArgument, match=r"'g\.1', which is no member's; choose"):
            BoxGroup(connect(), "g", one(), 0, 2)
        assert foreign.version == 0


@pytest.mark.parametrize("letter", ["", "1", "[]", "{}", '{"generation":1}'])
def test_a_letter_of_a_client_that_is_no_member_is_refused(letter: str) -> None:
    with open_box() as connect, ThreadPoolExecutor(1) as pool:
        member = pool.submit(BoxGroup, connect(), "g", one(), 1, 2)
        claim = connect().attach("g.1", 20)
        claim.write(np.frombuffer(letter.encode().ljust(1024), np.uint8))
        with pytest.raises(fw.FailedPrecondition, match=r"'g\.1' was changed by a client"):
            member.result(30)


@pytest.mark.parametrize("keys", ["", "[1,2]", '{"keys":[1]}', '{"keys":[1,-1]}', '{"keys":"ab"}'])
def test_keys_that_no_root_wrote_are_refused(keys: str) -> None:
    with open_box() as connect, ThreadPoolExecutor(1) as pool:
        client = connect()
        parts = [client.create(f"g/x/{part}", (2,)) for part in ("even", "odd", "root")]
        parts.append(client.create("g/x/answer", (1,), "int64"))
        parts.append(client.create_bytes("g/x/ready", 0, keys))
        member = pool.submit(BoxGroup, connect(), "g", one(), 1, 2)
        claim = connect().attach("g.1", 20)
        claim.write(np.frombuffer(b'{"generation":"g/x"}'.ljust(1024), np.uint8))
        with pytest.raises(fw.FailedPrecondition, match="'g/x/ready' has no members"):
            member.result(30)


def test_a_group_refuses_calls_after_one_that_did_not_end_in_time() -> None:
    with open_box() as connect, ThreadPoolExecutor(2) as pool:
        late = pool.submit(BoxGroup, connect(), "g", one(), 0, 2)
        arrays = one(1)
        with BoxGroup(connect(), "g", arrays, 1, 2) as group:
            root = late.result(30)
            group._timeout = 1.0
            with pytest.raises(fw.DeadlineExceeded, match=r"all_reduce: member 1 waited 1\.0 s"):
                group.all_reduce(arrays)
            for call in (group.all_reduce, group.broadcast):
                with pytest.raises(fw.FailedPrecondition, match="an earlier call failed"):
                    call(arrays)
        assert arrays[0].tolist() == [1, 1]
        # The share that member 1 has added is no reason for the root to go on without it.
        with pytest.raises(fw.FailedPrecondition, match=r"\[1\] closed or died"):
            root.broadcast(one())
            root.all_reduce(one())
            root.all_reduce(one())
        root.close()


def test_wrong_arguments_do_not_end_a_group() -> None:
    with open_box() as connect:
        arrays = one(3)
        with BoxGroup(connect(), "g", arrays, 0, 1) as group:
            with pytest.raises(fw.InvalidArgument):
                group.all_reduce([])
            group.all_reduce(arrays)
        with pytest.raises(fw.FailedPrecondition, match="it is closed"):
            group.all_reduce(arrays)


def test_a_name_is_free_after_a_group_and_the_box_keeps_nothing_of_it() -> None:
    with open_box() as connect:
        for value in (1, 2, 3):
            results = run(connect, [(0, 2, value), (1, 2, value)])
            assert [outcome(each) for each in results] == [value, value]
        wait_until(lambda: names(connect) == [])


def test_no_broadcast_is_overwritten_before_all_have_read_it() -> None:
    with open_box() as connect:

        def work(rank: int) -> list[float]:
            arrays, seen = one(), []
            with BoxGroup(connect(), "g", arrays, rank, 2) as group:
                for call in range(5):
                    if rank == 1:
                        time.sleep(0.02)  # the root is ahead
                    arrays[0][:] = call
                    group.broadcast(arrays)
                    seen.append(float(arrays[0][0]))
            return seen

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(work, range(2))) == [[0, 1, 2, 3, 4]] * 2


def test_double_precision_is_averaged_in_double_precision() -> None:
    with open_box() as connect:

        def work(rank: int) -> float:
            arrays = [np.full(1, 1 / 3 + rank)]
            with BoxGroup(connect(), "g", arrays, rank, 2) as group:
                group.all_reduce(arrays)
            return float(arrays[0][0])

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(work, range(2))) == [1 / 3 + 0.5] * 2


def test_an_interrupted_call_ends_the_group() -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    with open_box() as connect:
        arrays = one(3)
        with BoxGroup(connect(), "g", arrays, 0, 1) as group:
            group._shapes.gather = interrupt  # type: ignore[method-assign]
            with pytest.raises(Interrupted):
                group.all_reduce(arrays)
            with pytest.raises(fw.FailedPrecondition, match="Interrupted"):
                group.all_reduce(arrays)


def test_a_restored_server_has_nothing_of_the_groups_of_before(tmp_path: Path) -> None:
    sizes = {"memory": "8M", "pool": "2M"}
    with (
        fw.box.serve(snapshot=tmp_path, **sizes) as server,
        server.connect() as client,
        ThreadPoolExecutor(2) as pool,
    ):
        clients = [client, server.connect()]
        forming = [pool.submit(BoxGroup, clients[rank], "g", one(), rank, 2) for rank in range(2)]
        old = [each.result(30) for each in forming]
        arrays = [one(rank) for rank in range(2)]
        list(pool.map(lambda rank: old[rank].all_reduce(arrays[rank]), range(2)))
        server.snapshot()
    for group in old:
        with pytest.raises(fw.Error):
            group.all_reduce(one())
        group.close()
    with fw.box.serve(snapshot=tmp_path, restore=True, **sizes) as server:
        results = run(server.connect, [(0, 2, 1), (1, 2, 2)])
        assert [outcome(each) for each in results] == [1.5, 1.5]


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "float64"])
def test_tensors_of_pytorch_are_averaged_where_they_are(name: str) -> None:
    pytest.importorskip("ml_dtypes")
    torch: Any = pytest.importorskip("torch")
    given = [torch.full((3,), 2.0 + 2 * rank, dtype=getattr(torch, name)) for rank in range(2)]
    with open_box() as connect, ThreadPoolExecutor(2) as pool:

        def member(rank: int) -> None:
            arrays = [given[rank], torch.nn.Parameter(given[rank].clone())]
            with BoxGroup(connect(), "g", arrays, rank, 2) as group:
                group.all_reduce(arrays)
                assert arrays[1].tolist() == [3] * 3

        list(pool.map(member, range(2)))
    assert [one.tolist() for one in given] == [[3] * 3] * 2


def test_a_tensor_that_cannot_be_changed_in_place_is_named() -> None:
    torch: Any = pytest.importorskip("torch")
    with open_box() as connect:
        with pytest.raises(
            fw.InvalidArgument, match=r"'w': the tensor is sparse; give x\.to_dense"
        ):
            BoxGroup(connect(), "g", {"w": torch.ones(3).to_sparse()}, 0, 1)
        with pytest.raises(fw.InvalidArgument, match="array 1 is NoneType"):
            BoxGroup(connect(), "g", [np.ones(2), None], 0, 1)  # type: ignore[list-item]
