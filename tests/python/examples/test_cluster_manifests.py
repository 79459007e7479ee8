"""The Kubernetes manifests of examples/cluster: required fields, and one cluster in all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from cluster_examples import CLUSTER

from farwrite.options.table import OPTIONS
from farwrite.units import parse_size

pytestmark = pytest.mark.checkout

Object = dict[str, Any]
MANIFESTS = ("jobs.yaml", "tfjob.yaml")
SECRET = {"secretKeyRef": {"name": "farwrite-token", "key": "token"}}


def objects(name: str) -> list[Object]:
    return list(yaml.safe_load_all((CLUSTER / name).read_text()))


def of_kind(name: str, kind: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in objects(name) if each["kind"] == kind}


def templates(name: str) -> Iterator[tuple[str, int, Object]]:
    """The job, replicas and pod template of each group of tasks."""
    for each in of_kind(name, "Job").values():
        spec = each["spec"]
        assert spec["completions"] == spec["parallelism"]
        yield each["metadata"]["name"].removeprefix("train-"), spec["completions"], spec["template"]
    for each in of_kind(name, "TFJob").values():
        for job, spec in each["spec"]["tfReplicaSpecs"].items():
            yield job.lower(), spec["replicas"], spec["template"]


def values(name: str, container: Object, index: int = 0) -> dict[str, Any]:
    """A container's environment: values as Kubernetes expands them, secrets as references."""
    maps = {key: each["data"] for key, each in of_kind(name, "ConfigMap").items()}
    found: dict[str, Any] = {}
    for each in container.get("envFrom", []):
        found.update(maps[each["configMapRef"]["name"]])
    # $(NAME) expands to an earlier entry of "env" alone, not to one of "envFrom".
    expandable: dict[str, str] = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        if "configMapKeyRef" in source:
            key = source["configMapKeyRef"]
            expandable[each["name"]] = maps[key["name"]][key["key"]]
        elif "fieldRef" in source:
            assert "job-completion-index" in source["fieldRef"]["fieldPath"]
            expandable[each["name"]] = str(index)
        elif "value" in each:
            expandable[each["name"]] = re.sub(
                r"\$\((\w+)\)", lambda match: expandable[match[1]], each["value"]
            )
        else:
            found[each["name"]] = source
    return {**found, **expandable}


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_object_has_what_the_api_requires(name: str) -> None:
    versions = {
        "ConfigMap": "v1",
        "Service": "v1",
        "Job": "batch/v1",
        "TFJob": "kubeflow.org/v1",
    }
    for each in objects(name):
        assert each["apiVersion"] == versions[each["kind"]]
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,50}", each["metadata"]["name"])
        assert ("data" in each) != ("spec" in each)


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_task_runs_the_example_with_resources(name: str) -> None:
    jobs = []
    for job, replicas, template in templates(name):
        jobs.append(job)
        assert replicas == 1 or job != "chief"
        (container,) = template["spec"]["containers"]
        assert container["name"] == "tensorflow" and container["image"]
        program = container["command"][1]
        assert (CLUSTER / program.removeprefix("/")).is_file()
        resources = container["resources"]
        assert resources["requests"]["memory"] == resources["limits"]["memory"]
        assert resources["requests"]["cpu"]
    assert sorted(jobs) == ["chief", "ps", "worker"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_task_has_the_token_of_the_secret_and_known_options(name: str) -> None:
    known = {option.variable for option in OPTIONS}
    for _, _, template in templates(name):
        (container,) = template["spec"]["containers"]
        given = values(name, container)
        assert given["FARWRITE_TOKEN"] == SECRET
        assert {key for key in given if key.startswith("FARWRITE_")} <= known
        ports = {each["containerPort"] for each in container["ports"]}
        assert int(given["FARWRITE_LISTEN"].rpartition(":")[2]) in ports
        assert int(given["FARWRITE_DATA_PORT"]) in ports
        limits = (given["FARWRITE_SEND_LIMIT"], given["FARWRITE_RECEIVE_LIMIT"])
        memory = container["resources"]["limits"]["memory"].removesuffix("i")
        assert sum(map(parse_size, limits)) < parse_size(memory)


def test_the_jobs_make_the_cluster_that_tf_config_names() -> None:
    service = of_kind("jobs.yaml", "Service")["train"]["spec"]
    assert service["clusterIP"] == "None"
    served = {each["port"] for each in service["ports"]}
    for job, replicas, template in templates("jobs.yaml"):
        assert template["metadata"]["labels"].items() >= service["selector"].items()
        assert template["spec"]["subdomain"] == "train"
        assert template["spec"]["restartPolicy"] == "Never"
        (container,) = template["spec"]["containers"]
        assert {each["containerPort"] for each in container["ports"]} == served
        for index in range(replicas):
            config = json.loads(values("jobs.yaml", container, index)["TF_CONFIG"])
            assert config["task"] == {"type": job, "index": index}
            # The name of a pod of an Indexed Job, in the domain of the Service.
            assert config["cluster"][job][index] == f"train-{job}-{index}.train:2222"
            assert len(config["cluster"][job]) == replicas
    assert {each["spec"]["completionMode"] for each in of_kind("jobs.yaml", "Job").values()} == {
        "Indexed"
    }


def test_a_tfjob_ends_its_servers_with_the_chief_and_has_the_operators_port() -> None:
    spec = of_kind("tfjob.yaml", "TFJob")["train"]["spec"]
    assert spec["runPolicy"]["cleanPodPolicy"] == "Running"
    for each in spec["tfReplicaSpecs"].values():
        assert each["restartPolicy"] == "Never"
        (container,) = each["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports["tfjob-port"] == 2222
        assert "TF_CONFIG" not in {entry["name"] for entry in container["env"]}
