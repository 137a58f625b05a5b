#!/bin/bash
# Runs //examples/digits on five "hosts": the loopback addresses 127.0.0.2 to 127.0.0.6, each with an
# agent of its own that listens, as on machines of their own. docs/hosts.md is the same on real ones.
#
#   ./bazelw run //examples/hosts
#   ./bazelw run //examples/hosts -- --epochs=10          more options for digits
set -euo pipefail
runfiles="${RUNFILES_DIR:-${TEST_SRCDIR:-$0.runfiles}}/millrace"
folder=$(mktemp -d)
agents=()
finish() {
  if ((${#agents[@]})); then
    kill "${agents[@]}" 2>/dev/null || true
    wait "${agents[@]}" 2>/dev/null || true
  fi
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM

# 1. One secret, for the driver and all agents.
"$runfiles/core/cli/millrace" agent-secret --file "$folder/agents.json"

# 2. An agent on each host. A port of 0 is any; a fixed one is more usual.
addresses=()
for host in 127.0.0.2 127.0.0.3 127.0.0.4 127.0.0.5 127.0.0.6; do
  log="$folder/$host.log"
  "$runfiles/core/agent/millrace-agent" agent --listen "$host:0" --secret-file "$folder/agents.json" \
    >"$log" &
  agents+=($!)
  for _ in $(seq 600); do
    grep -q "listening on" "$log" && break
    kill -0 $! || exit 1
    sleep 0.05
  done
  addresses+=("$(sed -n 's/.*listening on \([^,]*\),.*/\1/p' "$log")")
  echo "host $host: an agent listens on ${addresses[-1]}"
done

# 3. The cluster: who is what, and where.
members=$(printf '{"type": "static", "cluster_spec": {"ps": ["%s"], "chief": ["%s"],
  "evaluator": ["%s"], "worker": ["%s", "%s"]}}' "${addresses[@]}")
"$runfiles/examples/digits/digits" --members="$members" --secret="$folder/agents.json" "$@"

# 4. The agents are free again, for the next cluster.
for _ in $(seq 600); do
  [[ $(cat "$folder"/*.log | grep -c "free again") == 5 ]] && break
  sleep 0.05
done
cat "$folder"/*.log | grep -c "free again" | sed 's/$/ agents are free again/'
