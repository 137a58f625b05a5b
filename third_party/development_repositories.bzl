"""The repositories that Millrace's own tests, benchmarks and examples need. See README.md for the reasons."""

load("//third_party:repositories.bzl", "spark_jars")
load("//third_party/bazel:clang_toolchain.bzl", "clang_toolchain")
load("//third_party/bazel:debian_python.bzl", "debian_python")
load("//third_party/bazel:debian_root.bzl", "debian_root")
load("//third_party/bazel:go_programs.bzl", "go_programs")
load("//third_party/bazel:maven_jar.bzl", "maven_jar")
load("//third_party/bazel:python_env.bzl", "python_env")
load("//third_party/bazel:python_module.bzl", "python_module")
load("//third_party/bazel:spark_distribution.bzl", "spark_distribution")
load("//third_party/bazel:system_go.bzl", "system_go")
load("//third_party/bazel:system_library.bzl", "system_library")

def _system_libraries():
    system_library(
        name = "com_google_googletest",
        modules = {"gtest": "1.12", "gmock": "1.12"},
        debian_package = "libgmock-dev",
        headers = ["gtest", "gmock"],
        build_file = "//third_party:googletest.BUILD",
    )
    system_library(
        name = "com_github_google_benchmark",
        modules = {"benchmark": "1.7"},
        debian_package = "libbenchmark-dev",
        headers = ["benchmark"],
        build_file = "//third_party:benchmark.BUILD",
    )
    system_library(
        name = "com_github_facebookincubator_gloo",
        modules = {},  # it has no pkg-config file
        debian_package = "libgloo-dev",
        headers = ["gloo"],
        extra_libraries = ["-lgloo"],
        build_file = "//third_party:gloo.BUILD",
    )
    system_library(
        name = "com_gitlab_libeigen_eigen",
        modules = {"eigen3": "3.4"},
        debian_package = "libeigen3-dev",
        headers = ["eigen3/Eigen", "eigen3/unsupported"],
        build_file = "//third_party:eigen.BUILD",
    )

def _python_packages():
    python_env(
        name = "reference_peer_packages",
        requirements = "//testing/reference_peer:requirements.txt",
    )
    python_env(
        name = "dnslib_packages",
        requirements = "//resolver/dns:dnslib_requirements.txt",
    )
    python_env(
        name = "duckdb_packages",
        requirements = "//testing/arrow_interop:duckdb_requirements.txt",
    )
    python_env(
        name = "mypy_packages",
        keep = "*.pyi",
        requirements = "//millrace/python:mypy_requirements.txt",
    )
    python_env(
        name = "polars_packages",
        requirements = "//millrace/python:polars_requirements.txt",
    )
    python_env(
        name = "pyright_packages",
        keep = "*.pyi",
        requirements = "//millrace/python:pyright_requirements.txt",
    )
    python_env(
        name = "python_examples_packages",
        requirements = "//examples/python:requirements.txt",
    )
    python_env(
        name = "python_torch_examples_packages",
        requirements = "//examples/python:torch_requirements.txt",
    )
    python_env(
        name = "python_feed_packages",
        requirements = "//testing/bench:python_feed_requirements.txt",
    )
    python_env(
        name = "python_kubernetes_packages",
        requirements = "//testing/bench:python_kubernetes_requirements.txt",
    )
    python_env(
        name = "tensorboard_packages",
        requirements = "//spark_connector/testing:tensorboard_requirements.txt",
    )
    python_env(
        name = "tensorflow_packages",
        requirements = "//millrace/python:tensorflow_requirements.txt",
    )
    python_env(
        name = "peer_suite_packages",
        requirements = "//testing/peer_suite:requirements.txt",
    )
    python_env(
        name = "scorers_packages",
        requirements = "//millrace/python:scorers_requirements.txt",
    )
    python_env(
        name = "spark_feed_packages",
        requirements = "//testing/bench:spark_feed_requirements.txt",
    )
    python_module(
        name = "system_torch",
        debian_package = "python3-torch",
        module = "torch",
        required = "MILLRACE_REQUIRE_TORCH",
    )
    python_env(
        name = "tensorflowonspark_packages",
        requirements = "//testing/bench:drop_in_requirements.txt",
    )
    python_env(
        name = "wheel_test_packages",
        requirements = "//millrace/packaging:wheel_test_requirements.txt",
    )

    # With bookworm's glibc, since the wheel needs a newer one than bullseye's.
    debian_python(
        name = "debian_python_3_9",
        parts = ["python3-distutils/bullseye"],
        suites = [
            "bookworm",
            "bullseye",
        ],
        version = "3.9",
    )
    debian_python(
        name = "debian_python_3_13",
        suites = ["trixie"],
        version = "3.13",
    )
    debian_python(
        name = "debian_python_3_14",
        suites = ["sid"],
        version = "3.14",
    )

# Where people install: the release that the packages are for, bare, with what two of them need and a compiler, and
# with Podman; and the oldest that debootstrap can make from a server of today.
def _debian_roots():
    debian_root(
        name = "debian_bookworm_root",
        suite = "bookworm",
    )
    debian_root(
        name = "debian_bookworm_browser_root",
        packages = [
            "chromium-headless-shell",
            "fonts-dejavu-core",
        ],
        suite = "bookworm",
    )
    debian_root(
        name = "debian_bookworm_development_root",
        packages = [
            "adduser",
            "g++",
            "libabsl-dev",
            "libfreetype6",
            "libgl1",
            "libglfw3",
            "libgrpc++1.51",
            "libsodium-dev",
            "libyaml-cpp0.7",
            "pkg-config",
            "python3-venv",
        ],
        suite = "bookworm",
    )
    debian_root(
        name = "debian_bookworm_podman_root",
        packages = [
            "crun",
            "netavark",
            "podman",
        ],
        suite = "bookworm",
    )
    debian_root(
        name = "debian_bookworm_prometheus_root",
        packages = ["prometheus"],
        suite = "bookworm",
    )
    debian_root(
        name = "debian_bookworm_slurm_root",
        packages = [
            "munge",
            "slurm-client",
            "slurmctld",
            "slurmd",
        ],
        suite = "bookworm",
    )
    debian_root(
        name = "debian_bullseye_root",
        suite = "bullseye",
    )

def _go_programs():
    system_go(name = "system_go")
    version = "k8s.io/component-base/version"
    helm = "helm.sh/helm/v3"
    go_programs(
        name = "kube_apiserver_programs",
        module = "//testing/kube_apiserver:go.mod",
        srcs = [
            "//testing/kube_apiserver:cmd/etcd/main.go",
            "//testing/kube_apiserver:cmd/kube-apiserver/main.go",
            "//testing/kube_apiserver:go.sum",
        ],
        packages = ["./cmd/etcd", "./cmd/kube-apiserver"],
        # Without these the server reports version 0.0.0.
        ldflags = "-s -w -X {0}.gitVersion=v1.33.13 -X {0}.gitMajor=1 -X {0}.gitMinor=33".format(version),
    )

    go_programs(
        name = "kube_tools_programs",
        module = "//testing/kube_tools:go.mod",
        srcs = [
            "//testing/kube_tools:cmd/kubectl/main.go",
            "//testing/kube_tools:go.sum",
        ],
        packages = ["helm.sh/helm/v3/cmd/helm", "./cmd/kubectl"],
        # Without these Helm takes charts for ones of Kubernetes 1.20.
        ldflags = "-s -w -X {0}/internal/version.version=v3.18.6 ".format(helm) +
                  "-X {0}/pkg/lint/rules.k8sVersionMajor=1 -X {0}/pkg/lint/rules.k8sVersionMinor=33 ".format(helm) +
                  "-X {0}/pkg/chartutil.k8sVersionMajor=1 -X {0}/pkg/chartutil.k8sVersionMinor=33 ".format(helm) +
                  "-X {0}.gitVersion=v1.33.13 -X {0}.gitMajor=1 -X {0}.gitMinor=33".format(version),
    )

    go_programs(
        name = "grafana_programs",
        module = "//testing/grafana:go.mod",
        srcs = [
            "//testing/grafana:cmd/grafana-queries/main.go",
            "//testing/grafana:go.sum",
        ],
        packages = ["./cmd/grafana-queries"],
        ldflags = "-s -w",
    )

def _spark_distributions():
    spark_distribution(
        name = "spark_3_5",
        version = "3.5.9",
        sha256 = "ea27adc39ddac9413b8951e45aa748cbed6c785971b81386efc41938f6243d93",
    )
    spark_distribution(
        name = "spark_4",
        version = "4.3.0",
        sha256 = "e8c517948eff7088a7aa07449aa8eafa4a15a8d50319de2525a6fd26622476c6",
    )

def _maven_jars():
    maven_jar(
        name = "maven_junit_junit",
        artifact = "junit:junit:4.13.2",
        sha256 = "8e495b634469d64fb8acfa3495a065cbacc8a0fff55ce1e31007be4c16dc57d3",
        jar_deps = ["@maven_org_hamcrest_hamcrest_core//:jar"],
    )
    maven_jar(
        name = "maven_org_hamcrest_hamcrest_core",
        artifact = "org.hamcrest:hamcrest-core:1.3",
        sha256 = "66fdef91e9739348df7a096aa384a5685f4e875584cce89386a7a47251c4d8e9",
    )
    # YARN's servers, of the Hadoop that Spark 3.5 has the client of, and what they take from Hadoop's own folder.
    maven_jar(
        name = "maven_org_apache_hadoop_hadoop_client_minicluster",
        artifact = "org.apache.hadoop:hadoop-client-minicluster:3.3.4",
        sha256 = "cd8a1703393946c302bb3a52d0fcd23f6f8ded4554bc0dac5d2ee673dbe2b40e",
    )
    maven_jar(
        name = "maven_org_bouncycastle_bcpkix_jdk15on",
        artifact = "org.bouncycastle:bcpkix-jdk15on:1.68",
        sha256 = "fb8d0f8f673ad6e16c604732093d7aa31b26ff4e0bd9cae1d7f99984c06b8a0f",
    )
    maven_jar(
        name = "maven_org_bouncycastle_bcprov_jdk15on",
        artifact = "org.bouncycastle:bcprov-jdk15on:1.68",
        sha256 = "f732a46c8de7e2232f2007c682a21d1f4cc8a8a0149b6b7bd6aa1afdc65a0f8d",
    )

# The same Spark for Scala 2.13, against which a test links the connector.
_SPARK_JARS_SCALA_2_13 = {
    "org.apache.spark:spark-catalyst_2.13:3.5.9": "5e01ef8962473f8b160fffc38a0c3fec275203d012793c818cbb5a6b9daa4b28",
    "org.apache.spark:spark-common-utils_2.13:3.5.9":
        "a53071e2eb1006d0e926f4b85bb3e2d6f4edef54c8f872d234fcb508cf7a4630",
    "org.apache.spark:spark-core_2.13:3.5.9": "8406ce2ca4a61081f725b3fbe45f8ba3244a4757aa08049b4a9235db5dc1e446",
    "org.apache.spark:spark-mllib_2.13:3.5.6": "9bf991b88d6809edb2546bf0e473481f6b711764a26a62490707182f4f99263a",
    "org.apache.spark:spark-sql-api_2.13:3.5.9": "872ac346794e1a718fa2c11ed284a1df9761e06a49d8efbd12a4fb818c334ac4",
    "org.apache.spark:spark-sql_2.13:3.5.9": "2563c1330a0cb62556022b90a67eda2e2a8710330bf1d736d22feb7594b10795",
    "org.apache.spark:spark-streaming_2.13:3.5.6": "dfa5f1485ea3500035ed2bf2a31095c5339b24546d337447c07c9e0a08d59134",
    "org.apache.spark:spark-tags_2.13:3.5.9": "f5357404436065c89d1e2bf2d68ed5433c9a51f61ae72340a8991eda7523926a",
    "org.apache.spark:spark-unsafe_2.13:3.5.9": "e7900b09f5126a555a6bda2dbf931dd569241466ea25bf3ed82ed06d25a872ce",
    "org.scala-lang:scala-library:2.13.8": "a0882b82514190c2bac7d1a459872a75f005fc0f3e88b2bc0390367146e35db7",
}

def millrace_development_repositories():
    """Declares them. Called once, in Millrace's own WORKSPACE."""
    clang_toolchain(name = "clang_toolchain")
    _system_libraries()
    _python_packages()
    _debian_roots()
    _go_programs()
    _spark_distributions()
    _maven_jars()
    spark_jars(_SPARK_JARS_SCALA_2_13, "_scala_2_13")
