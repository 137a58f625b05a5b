#!/bin/bash
# Runs examples/hosts: digits trains on five agents that listen, which are free afterwards.
set -euo pipefail
output=$("$TEST_SRCDIR/millrace/examples/hosts/hosts" --epochs=20 2>&1) || { echo "exit $?: $output"; exit 1; }
echo "$output"
for line in "'worker': \['127\.0\.0\.5:[0-9]+', '127\.0\.0\.6:[0-9]+'\]" \
  "predicted 360 held-out rows: each once, in order" "^accuracy: 0\.9" "^5 agents are free again$"; do
  grep -Eq "$line" <<<"$output" || {
    echo "no line $line"
    exit 1
  }
done
