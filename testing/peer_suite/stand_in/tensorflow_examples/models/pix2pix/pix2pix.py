"""What the example of segmentation uses of TensorFlow's package of examples, which no registry has."""


def upsample(filters, size):
    """Layers that double height and width."""
    import tensorflow as tf

    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2DTranspose(filters, size, strides=2, padding="same", use_bias=False),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.ReLU(),
        ]
    )
