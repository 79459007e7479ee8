"""What the papers behind Farwrite measured, with their conditions.

docs/explanation/papers.md names the papers, and the part of Farwrite that follows each.
"""

from __future__ import annotations

from dataclasses import dataclass

NEEDS_GPUS = "not measured: needs GPUs"
NEEDS_CLUSTER = "not measured: needs GPUs and a cluster"


@dataclass(frozen=True)
class Result:
    """A figure of a paper."""

    what: str
    value: str
    conditions: str
    """What differs from the conditions of the whole paper."""
    ours: str
    """The name of a measure of `farwrite_experiments.papers.ours`, or why there is none."""


@dataclass(frozen=True)
class Paper:
    """A paper, the conditions of all of its figures, and the figures."""

    title: str
    authors: str
    conditions: str
    results: tuple[Result, ...]


RPC_HARMFUL = Paper(
    "RPC Considered Harmful: Fast Distributed Deep Learning on RDMA",
    "Jilong Xue, Youshan Miao, Cheng Chen, Ming Wu, Lintao Zhang, Lidong Zhou; Microsoft Research",
    "8 servers, each with 2 Xeon E5-2690 v4, 512 GB, 2 Tesla P100 and 100 Gbit/s InfiniBand;"
    " TensorFlow; a worker and a parameter server on each; 5 runs of 100 mini-batches.",
    (
        Result(
            "one tensor and reduce_max, beside gRPC over TCP",
            "1.7 to 61 times faster",
            "2 servers, sizes to 1 GB",
            "tensor beside grpc",
        ),
        Result(
            "the same beside gRPC over RDMA",
            "1.3 to 14 times faster",
            "2 servers; gRPC over RDMA failed at 1 GB",
            "tensor beside rpc-over-fabric",
        ),
        Result(
            "the same beside one copy at the sender",
            "1.2 to 1.8 times faster",
            "2 servers",
            "tensor beside staged",
        ),
        *(
            Result(
                f"training {name}, throughput beside gRPC over RDMA",
                value,
                "batches of 1 to 64, some to 128",
                f"train {key} beside rpc-over-fabric",
            )
            for name, key, value in (
                ("VGG-16", "vgg16", "117 to 145 % more"),
                ("AlexNet", "alexnet", "169 % more"),
                ("FCN-5", "fcn5", "151 % more"),
                ("LSTM", "lstm", "118 % more"),
                ("GRU", "gru", "69 % more"),
                ("Inception-v3", "inception_v3", "65 % more"),
            )
        ),
        Result(
            "training VGG-16, throughput beside gRPC over TCP",
            "up to 25 times",
            "batches of 1 to 64",
            "train vgg16 beside grpc",
        ),
        *(
            Result(
                f"training {name}, step time by batch size",
                "flat: bound by communication",
                "batches of 1 to 64, GPUs",
                f"train {key} step by batch",
            )
            for name, key in (("AlexNet", "alexnet"), ("VGG-16", "vgg16"), ("FCN-5", "fcn5"))
        ),
        Result(
            "training without the copy at the sender",
            "up to 21 % faster",
            "batch 8",
            "train beside staged",
        ),
        *(
            Result(
                f"{name}, step without and with GPUDirect",
                f"{without} ms, {direct} ms",
                "8 workers; metadata in host memory, payload read from GPU memory",
                NEEDS_GPUS,
            )
            for name, without, direct in (
                ("AlexNet", "178.5", "135.2"),
                ("FCN-5", "157.0", "101.9"),
                ("VGG-16", "690.1", "610.4"),
                ("Inception-v3", "172.5", "171.9"),
                ("LSTM", "84.4", "68.1"),
                ("GRU", "62.3", "52.6"),
            )
        ),
        Result(
            "Seq2Seq to a perplexity of 20, beside gRPC over TCP",
            "220 min to 66 min",
            "8 workers, WMT'10 French-English, 20 GB of text",
            "convergence seq2seq",
        ),
        Result(
            "CIFAR-10 to convergence, beside gRPC over TCP",
            "2.6 times",
            "8 workers",
            "convergence images",
        ),
        Result(
            "sentence embedding to a loss of 4.5, beside gRPC over TCP",
            "185 min to 100 min",
            "8 workers, 3.7 GB of private text",
            "convergence sentences",
        ),
    ),
)

AR_GRPC = Paper(
    "Accelerating TensorFlow with RDMA for High-Performance Deep Learning (AR-gRPC)",
    "Xiaoyi Lu, Dhabaleswar K. Panda; Ohio State University",
    "Two clusters: RI2 with 100 Gbit/s InfiniBand (EDR), and SDSC Comet with 56 Gbit/s (FDR)."
    " Default gRPC runs over IPoIB unless stated. Training uses Tesla K80 GPUs.",
    (
        *(
            Result(
                f"latency of {name} messages, beside default gRPC",
                f"up to {value} times less",
                "SDSC Comet",
                "grpc latency",
            )
            for name, value in (("small", "2.7"), ("medium", "2.8"), ("large", "2.5"))
        ),
        Result(
            "latency with the skew scheme",
            "56 % less (59 % beside 40G Ethernet)",
            "RI2",
            "grpc skew latency",
        ),
        Result(
            "latency with the skew scheme",
            "69 % less (78 % beside 10G Ethernet)",
            "SDSC Comet",
            "grpc skew latency",
        ),
        Result(
            "throughput of parameter servers, uniform scheme",
            "3.4 times",
            "RI2",
            "grpc ps-throughput",
        ),
        Result(
            "throughput of parameter servers, uniform scheme",
            "3.6 times",
            "SDSC Comet",
            "grpc ps-throughput",
        ),
        Result("speed-up in the summary", "up to 4.1 times", "both clusters", "grpc ps-throughput"),
        Result(
            "fully connected mimic of TensorFlow",
            "60 % less latency, 2.68 times the speed",
            "SDSC Comet",
            "grpc mimic",
        ),
        Result(
            "training GoogLeNet, images a second",
            "15 % more (597 beside 517)",
            "RI2, batch 32 of each GPU, 224 in all",
            NEEDS_CLUSTER,
        ),
        Result(
            "training AlexNet, images a second", "89 % more (124 beside 65)", "RI2", NEEDS_CLUSTER
        ),
        Result(
            "training Inception-v4, images a second",
            "29, 80 and 144 % more",
            "4, 8 and 12 nodes; beside the verbs channel 27, 12 and 31 %, beside MPI 29, 151 and"
            " 228 %",
            NEEDS_CLUSTER,
        ),
        Result(
            "training ResNet-152, images a second",
            "62 % and 147 % more, and 3 times",
            "4, 8 and 12 nodes; beside the verbs channel 40, 35 and 30 %, beside MPI 1.61, 3.3 and"
            " 4.5 times",
            NEEDS_CLUSTER,
        ),
    ),
)

UNIQUE_STUDIO = Paper(
    "TensorFlow RDMA test document",
    "Unique Studio, HUST, 2016",
    "Nodes with Xeon E5-2670, Tesla K20m and ConnectX-3, beside gigabit Ethernet; MNIST, 1"
    " parameter server, 1 to 4 workers on each of 1 or 2 nodes; 100,000 asynchronous steps of a"
    " 784-100-10 network, batch 100. The slowest worker counts.",
    (
        Result(
            "MNIST, beside TCP",
            "2.5 to 4.5 times faster",
            "1 to 8 workers",
            "train mnist_mlp beside grpc",
        ),
        Result(
            "seconds over RDMA, 1 to 4 workers on 1 node",
            "495.0, 246.5, 146.9, 12.0",
            "the last one is probably a typing error",
            NEEDS_CLUSTER,
        ),
        Result(
            "seconds over TCP, 1 to 4 workers on 1 node",
            "1265.2, 631.6, 389.0, 377.1",
            "",
            NEEDS_CLUSTER,
        ),
        Result(
            "seconds over RDMA, 1 to 4 workers on each of 2 nodes",
            "263.3, 132.4, 92.1, 70.6",
            "",
            NEEDS_CLUSTER,
        ),
        Result(
            "seconds over TCP, 1 to 4 workers on each of 2 nodes",
            "691.4, 371.3, 395.2, 317.7",
            "",
            NEEDS_CLUSTER,
        ),
    ),
)

SOFT_MEMORY_BOX = Paper(
    "A Novel Shared Memory Framework for Distributed Deep Learning in High-Performance Computing"
    " Architecture (Soft Memory Box)",
    "Shinyoung Ahn, Joongheon Kim, Sungwon Kang; ICSE 2018",
    "6 servers with 2 Xeon E5-2690 v4 and 4 Titan X each, a memory server, 56 Gbit/s InfiniBand"
    " (FDR); emulated asynchronous training, 2 to 32 workers, beside MPI.",
    (
        *(
            Result(
                f"{name}, exposed communication beside MPI",
                f"{value} times less",
                "32 workers" if key == "inception_v1" else "up to 32 workers",
                f"box {key}",
            )
            for name, key, value in (
                ("Inception-v1", "inception_v1", "7"),
                ("ResNet-50", "resnet50", "5.2"),
                ("Inception-ResNet-v2", "inception_resnet_v2", "4.8"),
                ("VGG-16", "vgg16", "1.8"),
            )
        ),
        Result(
            "Inception-v1, exposed communication of a step",
            "0 ms",
            "up to 24 workers",
            "box inception_v1 ms",
        ),
        Result(
            "Inception-v1, exposed communication of a step",
            "45 ms (MPI: 323 ms)",
            "32 workers",
            "box inception_v1 ms",
        ),
    ),
)

ZERO_COPY = Paper(
    "Towards Zero Copy Dataflows using RDMA",
    "Bairen Yi, Jiacheng Xia, Li Chen, Kai Chen; HKUST, SIGCOMM Posters and Demos 2017",
    "4 servers with 2 Xeon E5-2603 v4 and 4 Tesla K40m each, 40 Gbit/s RoCE; synchronous VGG-16"
    " (528 MB), as many parameter servers as workers; TensorFlow 1.2.1.",
    (
        Result(
            "training VGG-16, throughput beside gRPC",
            "2.43 times",
            "4 nodes",
            "train vgg16 beside grpc",
        ),
        Result(
            "training VGG-16, throughput beside RDMA with private buffers",
            "1.21 times",
            "4 nodes",
            "train vgg16 beside staged",
        ),
        Result("training VGG-16 beside one GPU", "13.8 times", "16 GPUs", NEEDS_CLUSTER),
        Result("share of the pipeline that registers memory", "2.7 %", "", "registrations"),
        Result("transfers without a registration", "82.6 %", "", "registrations"),
        Result("copies in host memory", "0", "", "copies"),
        Result(
            "throughput of copies by size",
            "20 to 30 GB/s at 4 KB, 2 to 4 GB/s from 4 MB on",
            "one server",
            "copy throughput",
        ),
    ),
)

PAPERS = (RPC_HARMFUL, AR_GRPC, UNIQUE_STUDIO, SOFT_MEMORY_BOX, ZERO_COPY)
