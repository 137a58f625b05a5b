"""Runs JUnit classes with spark-submit, master local[2], once for each Spark in the runfiles.

    spark_junit.py JAR CLASS...

The jar holds millrace.JUnitRunner too. Skipped, with success, where there is no Spark; an error with
MILLRACE_REQUIRE_SPARK=1.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import spark_cluster



def _run(version, jar, classes):
    home = spark_cluster.spark_home(version)
    java = spark_cluster.java_home()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        conf = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": f"{spark_cluster.jvm_options(home)} -ea -Duser.timezone=Asia/Kolkata "
            f"-Djava.io.tmpdir={folder}",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        command = [str(home / "bin/spark-submit"), "--master", "local[2]", "--class", "millrace.JUnitRunner"]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TZ", "TEST_TMPDIR") if name in os.environ}
        env |= {"HOME": folder, "JAVA_HOME": str(java), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        print(f"--- Spark {version.replace('_', '.')}", flush=True)
        return subprocess.run([*command, str(jar), *classes], cwd=folder, env=env, check=False).returncode


def main():
    jar = pathlib.Path(sys.argv[1]).resolve()
    failed = 0
    for version in ("3_5", "4"):
        try:
            failed += _run(version, jar, sys.argv[2:]) != 0
        except spark_cluster.SparkUnavailable as why:
            print(f"skipped, Spark {version}: {why}")
            failed += os.environ.get("MILLRACE_REQUIRE_SPARK") == "1"
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
