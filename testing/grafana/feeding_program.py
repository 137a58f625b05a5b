"""The node program of grafana_test.py: takes its time for each batch, until there is the file that it is given."""

import os
import sys
import time

import millrace


def main(node):
    for step, batch in enumerate(node.feed(batch=10), 1):
        node.metric("rows", step, batch.num_rows)
        if not os.path.exists(sys.argv[1]):
            time.sleep(0.05)  # what it learns


millrace.run_node(main)
