"""Relays, each before a task that it forwards all calls to: relay.py '[[ADDRESS, FAULT], ...]'.

Its fault is in the meetings of plug-ins alone:

- unmet: the task cannot be called.
- renamed: who calls as task 0 of the job worker is introduced as another task.
- stock: the task does not know the call, and answers as stock TensorFlow does.
- refused: the answer names a process that cannot be reached.
- unclear: the answer names a process that is the one to connect, and never does.
- late: the call takes 15 s.

It prints where the relays listen, and for each line on stdin how many meetings came to each.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc

RECV_BUF = "/tensorflow.WorkerService/RecvBuf"
MEETING = b"type.googleapis.com/farwrite.Meeting"
# What is between this and the uuid: tag and length of the introduction, its version and server.
BEFORE_UUID, UUID = 12, 16
LATE_SECONDS = 15


def of_process(uuid, answer):
    """Put another uuid into the introduction; who has the lower one connects."""
    head, _, tail = answer.partition(MEETING)
    return head + MEETING + tail[:BEFORE_UUID] + uuid + tail[BEFORE_UUID + UUID :]


class Relay(grpc.GenericRpcHandler):
    def __init__(self, address, fault):
        self.channel = grpc.insecure_channel(address)
        self.fault = fault
        self.meetings = 0

    def service(self, details):
        # A unary call is a stream of one message.
        method = self.channel.stream_stream(details.method)
        behavior = self.receive_buffer if details.method == RECV_BUF else self.forward
        return grpc.stream_stream_rpc_method_handler(partial(behavior, method))

    def forward(self, method, requests, context):
        call = method(requests)
        context.add_callback(call.cancel)
        try:
            yield from call
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())
            context.abort(error.code(), error.details())

    def receive_buffer(self, method, requests, context):
        request = next(requests)
        behavior = self.meet if MEETING in request else self.forward
        yield from behavior(method, iter([request]), context)

    def meet(self, method, requests, context):
        self.meetings += 1
        match self.fault:
            case "unmet":
                context.abort(grpc.StatusCode.UNAVAILABLE, "a relay lets no meeting through")
            case "renamed":
                names = b"/job:worker/replica:0/task:0", b"/job:absent/replica:0/task:0"
                requests = [request.replace(*names) for request in requests]
            case "stock":
                unknown = b"-" * len(MEETING)
                requests = [request.replace(MEETING, unknown) for request in requests]
            case "late":
                time.sleep(LATE_SECONDS)
        for answer in self.forward(method, iter(requests), context):
            match self.fault:
                case "refused":
                    # Another address of this host, where nothing listens.
                    nowhere = answer.replace(b"127.0.0.1:", b"127.0.0.2:")
                    yield of_process(b"\xff" * UUID, nowhere)
                case "unclear":
                    yield of_process(bytes(UUID), answer)
                case _:
                    yield answer


def main():
    relays = [Relay(*relay) for relay in json.loads(sys.argv[1])]
    calls = ThreadPoolExecutor(100)  # a thread each, as long as they last
    servers = [grpc.server(calls, [relay]) for relay in relays]
    ports = [server.add_insecure_port("127.0.0.1:0") for server in servers]
    for server in servers:
        server.start()
    print(json.dumps([f"127.0.0.1:{port}" for port in ports]), flush=True)
    for _ in sys.stdin:
        print(json.dumps([relay.meetings for relay in relays]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
