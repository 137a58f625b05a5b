"""Defaults of calls, said once for the clusters of both kinds.

They are those of TrainOptions, InferenceOptions, ShutdownOptions and FeedOptions in C++
(//testing/parity:option_names_test).
"""

from typing import Optional

QUEUES = ("input", "output", "error")
QUEUE = "input"
NUM_EPOCHS = 1
FEED_TIMEOUT = 600.0  # seconds
BATCH_BYTES = 1 << 20
END_OF_FEED = False
GRACE: Optional[float] = None  # without end
TIMEOUT = 259_200.0  # seconds of a shutdown: three days
