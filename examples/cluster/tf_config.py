"""The TF_CONFIG of each task of a cluster: a parameter server and a worker on every host.

The first host also runs the chief, which drives the training. As a program, it runs a command as
one of these tasks. Under Slurm, the variables of `srun` name the task:

    python3 tf_config.py --hosts node1,node2 chief -- python3 train.py
    srun --ntasks-per-node=2 python3 tf_config.py --hosts node1,node2 slurm -- python3 train.py
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PORT = 2222
"""Of the parameter servers. The workers and the chief take the next two."""

Cluster = dict[str, list[str]]


@dataclass(frozen=True)
class Task:
    """One process of the cluster."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job}:{self.index}"


CHIEF = Task("chief", 0)
JOBS_OF_HOST = ("ps", "worker")


def read_hosts(text: str) -> list[str]:
    """Return the hosts of a file that has one in each line; `#` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return check_hosts([line for line in lines if line])


def check_hosts(hosts: Sequence[str]) -> list[str]:
    """Return the hosts, unless there is none, or one stands there twice."""
    if not hosts:
        raise ValueError("no hosts: name at least one")
    twice = sorted({host for host in hosts if hosts.count(host) > 1})
    if twice:
        raise ValueError(f"hosts named twice: {', '.join(twice)}; their tasks would share ports")
    return list(hosts)


def cluster_of(hosts: Sequence[str], port: int = PORT) -> Cluster:
    """Return the addresses of all tasks, by job."""
    return {
        "chief": [f"{hosts[0]}:{port + 2}"],
        "ps": [f"{host}:{port}" for host in hosts],
        "worker": [f"{host}:{port + 1}" for host in hosts],
    }


def tasks_of(cluster: Mapping[str, Sequence[str]]) -> dict[Task, str]:
    """Return all tasks, the servers first, with their hosts."""
    return {
        Task(job, index): address.rpartition(":")[0]
        for job in (*JOBS_OF_HOST, CHIEF.job)
        for index, address in enumerate(cluster[job])
    }


def slurm_task(environment: Mapping[str, str]) -> Task:
    """Return the task that Slurm's variables name: the first on each node is a parameter server."""
    node, local = (int(environment[name]) for name in ("SLURM_NODEID", "SLURM_LOCALID"))
    if local >= len(JOBS_OF_HOST):
        raise ValueError(
            f"task {local} of a node has no job: start srun with"
            f" --ntasks-per-node={len(JOBS_OF_HOST)}"
        )
    return Task(JOBS_OF_HOST[local], node)


def tf_config(cluster: Mapping[str, Sequence[str]], task: Task) -> str:
    """Return the value of TF_CONFIG for `task`."""
    return json.dumps({"cluster": cluster, "task": {"type": task.job, "index": task.index}})


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a command as a task of a cluster.")
    parser.add_argument("--hosts", required=True, metavar="HOST,HOST...")
    parser.add_argument("--port", type=int, default=PORT, help=f"the first (default: {PORT})")
    parser.add_argument("task", choices=("chief", "slurm"), help="slurm: as its variables say")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    cluster = cluster_of(check_hosts(arguments.hosts.split(",")), arguments.port)
    task = CHIEF if arguments.task == "chief" else slurm_task(os.environ)
    os.environ["TF_CONFIG"] = tf_config(cluster, task)
    os.execvp(arguments.command[0], arguments.command)


if __name__ == "__main__":
    main()
