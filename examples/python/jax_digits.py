"""Two processes learn to read digits with JAX, each of them on its share of every batch.

    python examples/python/jax_digits.py

Needs jax and jaxlib. `import millrace.jax` lets jax.distributed.initialize() find the others by itself.
"""

import digits_data
import millrace


def main(node):
    """What each process runs."""
    import jax
    import jax.numpy as jnp
    import millrace.jax  # noqa: F401: for initialize()
    from jax.experimental import multihost_utils
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize()
    mesh = Mesh(jax.devices(), "rows")
    by_row = NamedSharding(mesh, PartitionSpec("rows"))

    def scores(weights, images):
        return images @ weights[:-1] + weights[-1]

    @jax.jit
    def step(weights, images, labels):
        def loss_of(weights):
            return -jnp.take_along_axis(jax.nn.log_softmax(scores(weights, images)), labels[:, None], 1).mean()

        loss, gradient = jax.value_and_grad(loss_of)(weights)
        return weights - 0.5 * gradient, loss

    weights = jnp.zeros((65, 10))
    for number, batch in enumerate(node.feed(batch=32, equal="drop")):
        # The rows of all processes are one array; XLA does the rest.
        images, labels = (
            multihost_utils.host_local_array_to_global_array(jax.dlpack.from_dlpack(batch[name]), mesh, by_row.spec)
            for name in ("image", "label")
        )
        weights, loss = step(weights, images, labels)
        node.metric("loss", number, float(loss))
    weights = multihost_utils.global_array_to_host_local_array(weights, mesh, PartitionSpec())
    feed = node.feed(batch=256, mode="inference")
    for batch in feed:
        feed.results({"digit": scores(weights, batch["image"].numpy()).argmax(axis=1)})


def drive(num_processes=2):
    known, held_out = digits_data.read()
    with millrace.Cluster.run(main, num_processes, input_mode=millrace.InputMode.FEED) as cluster:
        print(cluster.train(known, num_epochs=20, end_of_feed=True))
        answers = cluster.inference({"image": held_out["image"]}).to_pylist()
    return digits_data.accuracy(answers, held_out)


if __name__ == "__main__":
    print(f"accuracy: {drive():.2f}")
