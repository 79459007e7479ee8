"""A session whose master is in this process: session_local.py ..."""

import sys

from client import answer, tf

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    server = tf.distribute.Server({"local": ["127.0.0.1:0"]}, "local", 0, protocol="grpc+farwrite")
    with v1.Session(server.target.replace("grpc://", "grpc+farwrite://")) as session:
        fed = v1.placeholder(tf.float32, [])
        value = float(session.run(fed * 2.0, {fed: 3.0}))
    answer({"value": value, "stats": dict(sys.modules["farwrite.tensorflow"].stats())})


if __name__ == "__main__":
    main()
