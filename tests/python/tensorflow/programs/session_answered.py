"""A step of 4 s whose answer waits at a gate: session_answered.py ... SCHEME BYTES | opens.

Both say "ready" and wait for a line. With the size of the answer, it then runs the step, says
"running", and answers with the error that ended it. The other opens the gate for one such answer.
"""

import os
import sys
import threading

from client import ADDRESSES, ARGUMENTS, answer, tf

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    session = v1.Session(f"{ARGUMENTS[0]}://{ADDRESSES['worker'][0]}")
    gate = v1.FIFOQueue(1, [tf.uint8], shapes=[[]], shared_name="gate")
    opens = gate.enqueue(tf.constant(1, tf.uint8))
    session.run(gate.size())
    print("ready", flush=True)
    sys.stdin.readline()
    if ARGUMENTS[1:] == ["opens"]:
        session.run(opens)
        answer({})
    else:
        large = tf.fill([int(ARGUMENTS[1])], gate.dequeue())
        ended = []

        def run():
            try:
                session.run(large, options=v1.RunOptions(timeout_in_ms=4000))
            except tf.errors.OpError as error:
                ended.append(type(error).__name__)

        waiting = threading.Thread(target=run, daemon=True)
        waiting.start()
        waiting.join(0.5)
        print("running", flush=True)
        waiting.join(30)
        answer({"error": ended})
    os._exit(0)  # to close the session is a call of gRPC's, which waits for the server


if __name__ == "__main__":
    main()
