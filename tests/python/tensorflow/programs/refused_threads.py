"""A server that is refused threads of Farwrite's, from each on: refused_threads.py PROTOCOL ..."""

import itertools
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from client import PROTOCOL, answer, tf

from matrix import injection

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    refusals = injection.Injection()
    errors = []
    for number in itertools.count(1):
        refusals.refuse(os.getpid(), "own_threads", number, injection.FOR_EVER)
        try:
            server = tf.distribute.Server(
                {"worker": ["127.0.0.1:0"]}, "worker", 0, protocol=PROTOCOL
            )
        except tf.errors.OpError as error:
            errors.append([type(error).__name__, error.message])
            continue
        finally:
            refusals.end()
        break
    with v1.Session(server.target.replace("grpc://", "grpc+farwrite://")) as session:
        fed = v1.placeholder(tf.float32, [])
        value = float(session.run(fed * 2.0, {fed: 3.0}))
    answer({"errors": errors, "value": value})


if __name__ == "__main__":
    main()
