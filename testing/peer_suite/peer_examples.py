"""TensorFlowOnSpark's examples, with images that are made here and have the shapes of those that they download."""

import fnmatch
import json
import pathlib
import shutil
import time

_CLASSES = 10
_TRAIN = 60000  # the programs count their steps by it
_TEST = 2000
_PARTS = 10
_SIDE = 28


def _images(count, seed):
    """Labels, and a blurred picture of each one that no two examples share."""
    import numpy as np

    shapes = np.random.default_rng(0).random((_CLASSES, _SIDE, _SIDE)) < 0.2
    drawn = np.random.default_rng(seed)
    labels = drawn.integers(0, _CLASSES, count)
    pixels = shapes[labels] * 200 + drawn.integers(0, 56, (count, _SIDE, _SIDE))
    return labels, pixels.astype(np.uint8).reshape(count, _SIDE * _SIDE)


def _write(folder, count, seed):
    """As lines of numbers, as Examples of numbers, and as Examples of PNG files; in parts, as Spark does."""
    import tensorflow as tf

    def example(**features):
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

    def ints(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    labels, pixels = _images(count, seed)
    for form in ("csv", "tfr", "png"):
        (folder / form).mkdir(parents=True)
    for part in range(_PARTS):
        name = f"part-r-{part:05}"
        mine = range(part, count, _PARTS)
        with (
            open(folder / "csv" / name, "w", encoding="ascii") as lines,
            tf.io.TFRecordWriter(str(folder / "tfr" / name)) as numbers,
            tf.io.TFRecordWriter(str(folder / "png" / name)) as pictures,
        ):
            for i in mine:
                label, image = int(labels[i]), pixels[i]
                lines.write(f"{label},{','.join(map(str, image.tolist()))}\n")
                numbers.write(example(label=ints([label]), image=ints(image.tolist())))
                png = tf.io.encode_png(image.reshape(_SIDE, _SIDE, 1)).numpy()
                picture = tf.train.Feature(bytes_list=tf.train.BytesList(value=[png]))
                pictures.write(example(label=ints([label]), image=picture))


def _write_weights(home):
    """Weights of MobileNetV2, where Keras looks in a home folder before it downloads the trained ones."""
    import tensorflow as tf

    folder = home / ".keras/models"
    folder.mkdir(parents=True)
    model = tf.keras.applications.MobileNetV2(input_shape=(128, 128, 3), include_top=False, weights=None)
    model.save_weights(folder / "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_128_no_top.h5")


def _model(export):
    """The folder of the one model that was exported below a folder, or there."""
    found = sorted(pathlib.Path(export).glob("**/saved_model.pb"))
    if len(found) != 1:
        raise AssertionError(f"{len(found)} models in {export}")
    return found[0].parent


def _exported(folder):
    _model(folder / "export")


def _predicted_lines(folder):
    rows = [line.split() for part in (folder / "predictions").glob("part-*") for line in part.read_text().splitlines()]
    right = sum(label == guess for label, guess in rows)
    if len(rows) != _TEST or right < 0.5 * _TEST:
        raise AssertionError(f"{right} of {len(rows)} right, of {_TEST} rows")


def _predicted_rows(folder):
    parts = (folder / "predictions").glob("part-*.json")
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    classes = {row["argmax"] for row in rows}  # the labels are not among the outputs
    if len(rows) != _TEST or len(classes) != _CLASSES:
        raise AssertionError(f"{len(rows)} rows of {_TEST} in {len(classes)} classes of {_CLASSES}")


def _programs(data, folder):
    """Each of the examples, in an order in which one takes the model of those before it."""
    sizes = ["--cluster_size", "2"]
    training = ["--epochs", "1", "--model_dir", folder / "model", "--export_dir", folder / "export"]
    scoring = ["--output", folder / "predictions"]
    train, test = data / "train", data / "test"
    yield "segmentation/segmentation_spark.py", [*sizes, *training, "--batch_size", "8"], _exported
    steps = {"keras": ["--steps_per_epoch", "100"], "estimator": []}
    for kind in ("keras", "estimator"):
        yield f"mnist/{kind}/mnist_spark.py", [*sizes, *training, "--images_labels", train / "csv"], _exported
        yield (
            f"mnist/{kind}/mnist_inference.py",
            [*sizes, *scoring, "--images_labels", test / "tfr", "--export_dir"],
            _predicted_lines,
        )
        yield (
            f"mnist/{kind}/mnist_pipeline.py",
            [*sizes, *training, "--mode", "train", "--images_labels", train / "csv"],
            _exported,
        )
        yield (
            f"mnist/{kind}/mnist_pipeline.py",
            [*sizes, *scoring, "--mode=inference", "--format=tfr", "--images_labels", test / "tfr", "--export_dir"],
            _predicted_rows,
        )
        yield f"mnist/{kind}/mnist_tf.py", [*sizes, *training, *steps[kind]], _exported
    yield (
        "mnist/keras/mnist_tf_ds.py",
        [*sizes, *training, "--data_format", "tfds", "--images_labels", train / "png" / "part-*"],
        _exported,
    )


def run(source, pattern, cluster, variables, jars, folder, log):
    """Runs those whose path matches, one after the other, and returns how each one ended, as record_tests.py does."""
    for name, count in (("train", _TRAIN), ("test", _TEST)):
        _write(folder / "data" / name, count, count)
    _write_weights(folder / "home")
    variables = variables | {"PEER_SUITE_DATA": str(folder / "data"), "HOME": str(folder / "home")}
    variables["PYTHONPATH"] += f":{pathlib.Path(__file__).resolve().parent / 'stand_in'}"
    rows = []
    for script, arguments, check in _programs(folder / "data", folder):
        if not fnmatch.fnmatch(script, pattern):
            continue
        trains = "--model_dir" in arguments
        for made in ("model", "export") if trains else ("predictions",):
            shutil.rmtree(folder / made, ignore_errors=True)
        begun = time.monotonic()
        row = {"test": script + ("" if trains else " (scoring)"), "outcome": "ok", "why": ""}
        try:
            if arguments[-1] == "--export_dir":
                arguments = [*arguments, _model(folder / "export")]
            code, wrote = cluster.run(
                None, [source / "examples" / script, *jars], arguments, environment=variables
            )
            log.write(wrote.encode())
            if code:
                raise AssertionError(f"it ended with {code}")
            check(folder)
        except AssertionError as error:
            row |= {"outcome": "failed", "why": str(error)}
        rows.append(row | {"seconds": round(time.monotonic() - begun, 1)})
    return rows
