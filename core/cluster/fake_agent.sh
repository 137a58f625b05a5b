#!/bin/sh
# Stands for millrace-agent in local_launcher_test: says what a real one says first, then does what
# FAKE_AGENT_MODE asks for.
echo '{"event": "ready", "seq": 0, "protocol": 1, "version": "'"${FAKE_AGENT_VERSION:-fake}"'", "pid": 1}'
read -r start
dir=$(printf '%s' "$start" | sed -n 's/.*"runtime_dir":"\([^"]*\)".*/\1/p')
mkdir -p "$dir"
printf '%s\n' "$start" > "$dir/start"
case "$FAKE_AGENT_MODE" in
  until_eof)
    cat > /dev/null
    rm -r "$dir"
    ;;
  ignore_eof)
    trap '' TERM
    while :; do sleep 3600 & wait; done
    ;;
  fail)
    echo 'first words' >&2
    echo 'last words' >&2
    echo '{"event": "error", "seq": 1, "code": "UNAUTHENTICATED", "message": "the token is unknown"}'
    exit 3
    ;;
  garbage)
    echo 'this is no JSON'
    echo '[1, 2]'
    exit 0
    ;;
esac
