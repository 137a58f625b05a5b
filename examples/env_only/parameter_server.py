"""Parameter servers and workers, knowing only TF_CONFIG: a stand-in for a TensorFlow script.

With TensorFlow main() begins so:

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()   # reads the same variable
    if resolver.task_type == "ps":
        server = tf.distribute.Server(resolver.cluster_spec(), job_name="ps", task_index=resolver.task_id)
        server.join()
"""

import json
import os
import socket
import sys
import time


def host_port(address):
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def serve(address):
    """A parameter server: keeps a number, until millrace stops it."""
    value = 0
    with socket.create_server(host_port(address)) as server:
        while True:
            peer, _ = server.accept()
            with peer:
                value += int(peer.makefile().readline())
                peer.sendall(f"{value}\n".encode())


def push(address, amount):
    """Adds to the number that a parameter server keeps; returns what it is then."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(host_port(address), timeout=60) as peer:
                peer.sendall(f"{amount}\n".encode())
                return int(peer.makefile().readline())
        except ConnectionRefusedError:  # it does not listen yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main():
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    name = f"{task['type']}:{task['index']}"
    print(f"{name} of {json.dumps({job: len(tasks) for job, tasks in cluster.items()})}", flush=True)
    if task["type"] == "ps":
        serve(cluster["ps"][task["index"]])
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for step in range(steps):
        values = [push(address, 1) for address in cluster["ps"]]
        print(f"{name}: step {step}, parameters {values}", flush=True)


if __name__ == "__main__":
    main()
