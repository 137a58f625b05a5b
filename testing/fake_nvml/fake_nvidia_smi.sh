#!/bin/sh
# nvidia-smi for tests: two GPUs, the second without power and with an error in one column.
# FAKE_NVIDIA_SMI=fail: as on a host whose driver does not answer; hang: never ends.
case "$FAKE_NVIDIA_SMI" in
  fail)
    echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    exit 9
    ;;
  hang)
    exec sleep 1000
    ;;
esac
case "$*" in
  *--query-gpu=index,uuid,name*--format=csv,noheader,nounits*) ;;
  *)
    echo "unexpected arguments: $*"
    exit 2
    ;;
esac
cat <<END
0, GPU-11111111-0000-0000-0000-000000000000, Fake A100, 00000000:01:00.0, 535.104.05, \
41, 7, 1024, 40960, 123.45, 400.00, 51, 1410, 1215, 1410, 4, 16, Disabled
1, GPU-22222222-0000-0000-0000-000000000000, Fake A100, 00000000:02:00.0, 535.104.05, \
[N/A], [Not Supported], 0, 40960, [Unknown Error], 400.00, 50, 210, 1215, 1410, 4, 16, [N/A]
END
