"""Calls that differ between TensorFlow's versions, for programs."""

import importlib


def export_saved_model(model, export_dir, is_chief=False):
    """Writes a Keras model as a SavedModel: the chief to `export_dir`, every other node to a folder of its own, since
    all have to take part."""
    folder = export_dir if is_chief else "worker_model"
    if _is_of_keras_2(model):
        model.save(folder, save_format="tf")  # its export() has other names for what the model answers
    else:
        model.export(folder)


def _is_of_keras_2(model):
    """Keras is a package of its own (also by the name tf_keras), or a part of the oldest TensorFlow 2."""
    packages = {kind.__module__.split(".")[0] for kind in type(model).__mro__}
    for package in ("keras", "tf_keras"):
        if package in packages:
            return importlib.import_module(package).__version__.startswith("2.")
    return "tensorflow" in packages


def disable_auto_shard(options):
    """For tf.data.Options: rows that are fed are divided already."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available():
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU")) > 0
