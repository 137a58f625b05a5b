#!/bin/bash
# Runs examples/hello: every node says who it is, and the exit code is 0.
set -euo pipefail
output=$("$TEST_SRCDIR/millrace/examples/hello/hello" 2>&1) || { echo "exit $?: $output"; exit 1; }
echo "$output"
for node in chief:0 worker:0 worker:1 worker:2; do
  grep -Eq "^$node +I am $node at 127\.0\.0\.1:[0-9]+, rank [0-3] of 4$" <<<"$output" || {
    echo "no word from $node"
    exit 1
  }
done
