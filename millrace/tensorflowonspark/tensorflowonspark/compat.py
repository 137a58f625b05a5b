"""Calls that differ between TensorFlow's versions, for programs."""


def export_saved_model(model, export_dir, is_chief=False):
    """Writes a Keras model as a SavedModel: the chief to `export_dir`, every other node to a folder of its own, since
    all have to take part."""
    folder = export_dir if is_chief else "worker_model"
    if hasattr(model, "export"):
        model.export(folder)  # Keras 3 has no other way
    else:
        model.save(folder, save_format="tf")


def disable_auto_shard(options):
    """For tf.data.Options: rows that are fed are divided already."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available():
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU")) > 0
