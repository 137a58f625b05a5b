"""Objects in a queue of TFManager that are no elements."""


class Marker(object):
    """Any of them."""


class EndPartition(Marker):
    """The elements of a partition of an RDD end here."""
