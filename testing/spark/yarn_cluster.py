"""A real YARN on loopback, and Spark applications on it, for tests.

    with YarnCluster(folder, jars) as yarn:
        code, output = yarn.run("io.millrace.Checks", [jar], conf={...}, executors=2)

A ResourceManager and a NodeManager of Hadoop, of the version that Spark 3.5 has the client of, on an address of
loopback that is this cluster's alone. Ended as SparkCluster ends what it starts.
"""

import random
import xml.sax.saxutils

from spark_cluster import SparkCluster
from spark_distribution import JVM_OPTIONS

_YARN = "org.apache.hadoop.yarn.server"
_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def _xml(settings):
    lines = "".join(
        f"<property><name>{name}</name><value>{xml.sax.saxutils.escape(str(value))}</value></property>\n"
        for name, value in settings.items()
    )
    return f"<configuration>\n{lines}</configuration>\n"


class YarnCluster(SparkCluster):
    """Runs until close(). `jars` are what Spark lacks: hadoop-client-minicluster, bcpkix and bcprov.

    With `deploy_mode` "cluster" the driver is a container too, and run() returns what all containers wrote;
    `files` go with the application.
    """

    def __init__(self, folder, jars, cores=8, memory_mb=16384, deploy_mode="client", files=()):
        self._jars = [str(jar) for jar in jars]
        self._deploy_mode = deploy_mode
        self._files = [str(file) for file in files]
        # YARN's ports are fixed; addresses are there in plenty.
        self._host = f"127.{random.randint(16, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"
        super().__init__(folder, cores=cores, memory_mb=memory_mb, version="3_5")

    def environment(self):
        return super().environment() | {
            "HADOOP_CONF_DIR": str(self._folder / "conf"),
            "SPARK_CONF_DIR": str(self._folder / "conf"),
            "SPARK_LOCAL_IP": self._host,
            "SPARK_PUBLIC_DNS": self._host,
        }

    def _start(self, cores, memory_mb, gpus, hosts):
        conf = self._folder / "conf"
        conf.mkdir(parents=True)
        (conf / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}), encoding="utf-8")
        (conf / "capacity-scheduler.xml").write_text(
            _xml(
                {
                    "yarn.scheduler.capacity.root.queues": "default",
                    "yarn.scheduler.capacity.root.default.capacity": 100,
                    "yarn.scheduler.capacity.maximum-am-resource-percent": 0.5,
                }
            ),
            encoding="utf-8",
        )
        (conf / "yarn-site.xml").write_text(
            _xml(
                {
                    "yarn.resourcemanager.hostname": self._host,
                    "yarn.resourcemanager.bind-host": self._host,
                    "yarn.nodemanager.hostname": self._host,
                    "yarn.nodemanager.bind-host": self._host,
                    "yarn.nodemanager.resource.cpu-vcores": cores,
                    "yarn.nodemanager.resource.memory-mb": memory_mb,
                    "yarn.nodemanager.vmem-check-enabled": "false",
                    "yarn.nodemanager.local-dirs": self._folder / "containers",
                    "yarn.nodemanager.log-dirs": self._folder / "logs",
                    # A disk of the machine that is nearly full is no matter.
                    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
                    "yarn.scheduler.minimum-allocation-mb": 256,
                }
            ),
            encoding="utf-8",
        )
        (conf / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
        self.url = "yarn"
        self._daemon("resource-manager", f"{_YARN}.resourcemanager.ResourceManager").find(
            r"(Transitioned to active state)"
        )
        self._daemon("node-manager", f"{_YARN}.nodemanager.NodeManager").find(r"(Registered with ResourceManager)")

    def _daemon(self, name, main_class):
        # What Hadoop takes from its own folder Spark has among its jars.
        class_path = [str(self._folder / "conf"), *self._jars, str(self.home / "jars/*")]
        return self._run(
            name,
            [self._java / "bin/java", "-Xmx256m", *JVM_OPTIONS.split()]
            + ["--add-opens=java.base/java.lang=ALL-UNNAMED", f"-Djava.io.tmpdir={self._folder}"]
            + ["-cp", ":".join(class_path), main_class],
        )

    def _settings(self, executors):
        settings = super()._settings(executors)
        del settings["spark.cores.max"]
        # Containers have class paths of their own, and so has a driver with the files of Hadoop.
        settings["spark.executor.extraJavaOptions"] = JVM_OPTIONS
        settings["spark.driver.extraJavaOptions"] = f"{JVM_OPTIONS} -Djava.io.tmpdir={self._folder}"
        if self._deploy_mode == "cluster":
            for name in ("host", "bindAddress", "extraJavaOptions"):  # its container has its own
                del settings[f"spark.driver.{name}"]
        else:
            settings |= {"spark.driver.host": self._host, "spark.driver.bindAddress": self._host}
        if self._files:
            settings["spark.files"] = ",".join(self._files)
        return settings | {
            "spark.submit.deployMode": self._deploy_mode,
            "spark.executor.instances": str(executors),
            "spark.yarn.jars": f"local:{self.home}/jars/*",
            "spark.yarn.stagingDir": str(self._folder / "staging"),
            "spark.yarn.am.memory": "256m",
            "spark.yarn.am.extraJavaOptions": JVM_OPTIONS,
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": self._host,
            "spark.executorEnv.SPARK_LOCAL_IP": self._host,
        }

    def run(self, *arguments, **options):
        code, output = super().run(*arguments, **options)
        if self._deploy_mode == "cluster":
            for log in sorted((self._folder / "logs").glob("*/*/std*")):
                output += f"\n==> {log.parent.name}/{log.name}\n" + log.read_text(encoding="utf-8", errors="replace")
        return code, output
