"""An image of Spark for pods that run as processes (testing/kubelet): the Spark of this test, this machine's Java and
Python, and what a test puts into /app.

    images = {"spark": spark_image(folder, {"digits.csv": path})}

Spark's backend for Kubernetes asks an image for an entry point that knows `driver` and `executor`; what they get is in
Spark's page on custom images, and in the environment.
"""

import os
import pathlib
import shutil

from container_image import Image
from spark_cluster import java_home, spark_home

_USER = 185  # as Spark's own images have it
_ENTRY_POINT = """\
#!/bin/bash
set -eu
role="$1"
shift
case "$role" in
  driver)
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \\
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
  executor)
    options=()
    number=0
    while option="SPARK_JAVA_OPT_$number" && [[ -v "$option" ]]; do
      options+=("${!option}")
      number=$((number + 1))
    done
    exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xmx$SPARK_EXECUTOR_MEMORY" \\
      -cp "$SPARK_CONF_DIR:${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \\
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \\
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \\
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \\
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    echo "driver or executor, not $role" >&2
    exit 2
    ;;
esac
"""


def spark_image(folder, files, version=None):
    """`folder` is made; `files`: name in /app to path. Raises SparkUnavailable."""
    home, java = spark_home(version), java_home().resolve()
    root = pathlib.Path(folder)
    for name in ("app", "opt/spark", "tmp", "work"):
        (root / name).mkdir(parents=True)
    for name in ("tmp", "work"):
        (root / name).chmod(0o1777)
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(f"usr/{name}")
    for name, path in files.items():
        shutil.copy(pathlib.Path(path).resolve(), root / "app" / name)
        (root / "app" / name).chmod(0o755)
    (root / "opt/entrypoint.sh").write_text(_ENTRY_POINT, encoding="ascii")
    (root / "opt/entrypoint.sh").chmod(0o755)
    passwd = root / "passwd"
    passwd.write_text(f"root:x:0:0::/root:/bin/sh\nspark:x:{_USER}:{_USER}::/work:/bin/sh\n", encoding="ascii")
    # Java's own files are links to /etc.
    mounts = {"/usr": "/usr", "/etc": "/etc", "/etc/passwd": passwd}
    if not java.is_relative_to("/usr"):
        mounts[str(java)] = java
    for name in ("bin", "jars", "python", "sbin"):
        mounts[f"/opt/spark/{name}"] = home / name
    return Image(
        root=root,
        mounts=mounts,
        entrypoint=["/opt/entrypoint.sh"],
        environment={
            "SPARK_HOME": "/opt/spark",
            "JAVA_HOME": str(java),
            "PATH": "/usr/bin:/bin",
            "HOME": "/work",
            "LANG": "C.UTF-8",
            "PYSPARK_PYTHON": "/usr/bin/python3",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        user=_USER,
        folder="/work",
    )
