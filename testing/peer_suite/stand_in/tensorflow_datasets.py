"""What examples use of TensorFlow Datasets, which come from the network, with images that are made here.

Those in the shape of MNIST's peer_examples.py has written where the environment says: PEER_SUITE_DATA.
"""

import os
import types

_PETS = {"train": 64, "test": 80}


def disable_progress_bar():
    pass


def load(name, split=None, with_info=False, as_supervised=False):
    """Datasets by the name of their split, or one of them; with_info: and how many examples each one of the pets has.

    mnist, as_supervised: (image, label), uint8 of 28 x 28 x 1 and int64. oxford_iiit_pet: dictionaries of image, uint8
    of 160 x 160 x 3, and segmentation_mask, uint8 of 160 x 160 x 1: 1 for the animal, 2 for the rest, 3 between them.
    """
    if name == "mnist" and as_supervised:
        read = _mnist
    elif name.partition(":")[0] == "oxford_iiit_pet" and not as_supervised:
        read = _pets
    else:
        raise ValueError(f"there is no {name}, or not in this form")
    found = read(split) if split else {part: read(part) for part in ("train", "test")}
    counts = _PETS.items() if read is _pets else ()
    splits = {part: types.SimpleNamespace(num_examples=count) for part, count in counts}
    return (found, types.SimpleNamespace(name=name, splits=splits)) if with_info else found


def _mnist(part):
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([28 * 28], tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(example):
        row = tf.io.parse_single_example(example, features)
        return tf.reshape(tf.cast(row["image"], tf.uint8), [28, 28, 1]), row["label"]

    files = tf.io.gfile.glob(os.path.join(os.environ["PEER_SUITE_DATA"], part, "tfr", "part-*"))
    return tf.data.TFRecordDataset(sorted(files)).map(parse)


def _pets(part):
    """Bright discs on a dark ground."""
    import numpy as np
    import tensorflow as tf

    drawn = np.random.default_rng(_PETS[part])
    across, along = np.meshgrid(np.arange(160), np.arange(160))

    def draw():
        for _ in range(_PETS[part]):
            (x, y), radius = drawn.integers(40, 120, 2), drawn.integers(15, 40)
            away = np.hypot(across - x, along - y) - radius
            mask = np.select([away < -2, away > 2], [1, 2], 3).astype(np.uint8)[..., None]
            image = (mask == 1) * 150 + drawn.integers(0, 100, (160, 160, 3))
            yield {"image": image.astype(np.uint8), "segmentation_mask": mask}

    signature = {
        "image": tf.TensorSpec([160, 160, 3], tf.uint8),
        "segmentation_mask": tf.TensorSpec([160, 160, 1], tf.uint8),
    }
    return tf.data.Dataset.from_generator(draw, output_signature=signature)
