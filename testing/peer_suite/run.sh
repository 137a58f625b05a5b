#!/usr/bin/env bash
# Runs TensorFlowOnSpark's own tests against this repository's package of that name: see README.md.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../bazelw" run -c opt //testing/peer_suite -- "$@"
