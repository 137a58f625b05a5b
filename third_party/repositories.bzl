"""Every repository that Millrace uses. See third_party/README.md for the reasons."""

load("//third_party/bazel:distribution.bzl", "distribution_rules", "unused_repository")
load("//third_party/bazel:go_programs.bzl", "go_programs")
load("//third_party/bazel:maven_jar.bzl", "maven_jar")
load("//third_party/bazel:pypi_source.bzl", "pypi_source")
load("//third_party/bazel:python_env.bzl", "python_env")
load("//third_party/bazel:spark_distribution.bzl", "spark_distribution")
load("//third_party/bazel:system_library.bzl", "system_library")

def _bazel_rules():
    distribution_rules(
        name = "rules_cc",
        path = "/usr/share/bazel/rules/cc",
        debian_package = "bazel-rules-cc",
        patch_use_cpp_toolchain = [
            "cc/private/rules_impl/cc_flags_supplier.bzl",
            "cc/private/rules_impl/compiler_flag.bzl",
        ],
    )
    distribution_rules(
        name = "rules_java",
        path = "/usr/share/bazel/rules/java",
        debian_package = "bazel-rules-java",
    )
    distribution_rules(
        name = "rules_proto",
        path = "/usr/share/bazel/rules/proto",
        debian_package = "bazel-rules-proto",
    )
    distribution_rules(
        name = "bazel_skylib",
        path = "/usr/share/bazel/tools/skylib",
        debian_package = "bazel-skylib",
    )
    distribution_rules(
        name = "platforms",
        path = "/usr/share/bazel/tools/platforms",
        debian_package = "bazel-platforms",
    )
    unused_repository(
        name = "remote_coverage_tools",
        targets = ["coverage_report_generator", "lcov_merger"],
    )

# Upstream's targets. They share one set of headers and of link flags: the linker records only the
# libraries that are used.
_ABSL_PACKAGES = {
    "absl/algorithm": ["algorithm", "container"],
    "absl/base": ["base", "config", "core_headers", "dynamic_annotations", "endian", "log_severity"],
    "absl/cleanup": ["cleanup"],
    "absl/container": [
        "btree",
        "fixed_array",
        "flat_hash_map",
        "flat_hash_set",
        "inlined_vector",
        "node_hash_map",
        "node_hash_set",
    ],
    "absl/debugging": ["failure_signal_handler", "leak_check", "stacktrace", "symbolize"],
    "absl/functional": ["any_invocable", "bind_front", "function_ref"],
    "absl/hash": ["hash"],
    "absl/memory": ["memory"],
    "absl/meta": ["type_traits"],
    "absl/numeric": ["bits", "int128"],
    "absl/random": ["bit_gen_ref", "distributions", "random", "seed_sequences"],
    "absl/status": ["status", "statusor"],
    "absl/strings": ["cord", "str_format", "strings"],
    "absl/synchronization": ["synchronization"],
    "absl/time": ["time"],
    "absl/types": ["any", "compare", "optional", "span", "variant"],
    "absl/utility": ["utility"],
}

# The modules behind them.
_ABSL_MODULES = [
    "algorithm_container",
    "any_invocable",
    "base",
    "bind_front",
    "bits",
    "btree",
    "cleanup",
    "cord",
    "core_headers",
    "dynamic_annotations",
    "failure_signal_handler",
    "fixed_array",
    "flat_hash_map",
    "flat_hash_set",
    "function_ref",
    "hash",
    "inlined_vector",
    "int128",
    "leak_check",
    "memory",
    "node_hash_map",
    "node_hash_set",
    "optional",
    "random_random",
    "span",
    "stacktrace",
    "status",
    "statusor",
    "str_format",
    "strings",
    "symbolize",
    "synchronization",
    "time",
    "type_traits",
    "utility",
    "variant",
]

def _system_libraries():
    system_library(
        name = "com_google_absl",
        modules = {"absl_" + module: "20220623" for module in _ABSL_MODULES},
        debian_package = "libabsl-dev",
        headers = ["absl"],
        packages = _ABSL_PACKAGES,
        packages_actual = "//:absl",
        static = True,
        build_file = "//third_party:absl.BUILD",
    )
    system_library(
        name = "com_google_protobuf",
        modules = {"protobuf": "3.21"},
        debian_package = "libprotobuf-dev",
        # At the root, so that the well-known protos need no import prefix.
        header_prefix = "",
        headers = ["google/protobuf"],
        tools = ["protoc"],
        tools_package = "protobuf-compiler",
        static = True,
        build_file = "//third_party:protobuf.BUILD",
    )
    system_library(
        name = "com_github_grpc_grpc",
        modules = {"grpc++": "1.51", "protobuf": ""},
        debian_package = "libgrpc++-dev",
        headers = ["grpc", "grpcpp"],
        tools = ["grpc_cpp_plugin"],
        tools_package = "protobuf-compiler-grpc",
        static = True,
        build_file = "//third_party:grpc.BUILD",
    )
    system_library(
        name = "openssl",
        modules = {"libssl": "3.0", "libcrypto": "3.0"},
        debian_package = "libssl-dev",
        headers = ["openssl"],
        static = True,
        build_file = "//third_party:openssl.BUILD",
    )
    system_library(
        name = "org_zeromq_libzmq",
        modules = {"libzmq": "4.3.4"},
        debian_package = "libzmq3-dev",
        headers = ["zmq.h", "zmq_utils.h"],
        build_file = "//third_party:libzmq.BUILD",
    )
    system_library(
        name = "org_zeromq_cppzmq",
        modules = {"cppzmq": "4.9"},
        debian_package = "cppzmq-dev",
        headers = ["zmq.hpp", "zmq_addon.hpp"],
        build_file = "//third_party:cppzmq.BUILD",
    )
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
        name = "com_github_gabime_spdlog",
        modules = {"spdlog": "1.10", "fmt": "9.1"},
        debian_package = "libspdlog-dev",
        headers = ["spdlog", "fmt"],
        build_file = "//third_party:spdlog.BUILD",
    )
    system_library(
        name = "com_github_cliutils_cli11",
        modules = {"CLI11": "2.1"},
        debian_package = "libcli11-dev",
        headers = ["CLI"],
        build_file = "//third_party:cli11.BUILD",
    )
    system_library(
        name = "com_github_nlohmann_json",
        modules = {"nlohmann_json": "3.11"},
        debian_package = "nlohmann-json3-dev",
        headers = ["nlohmann"],
        build_file = "//third_party:json.BUILD",
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
    system_library(
        name = "curl",
        modules = {"libcurl": "7.88"},
        debian_package = "libcurl4-openssl-dev",
        headers = ["curl"],
        build_file = "//third_party:curl.BUILD",
    )
    system_library(
        name = "com_github_simdjson_simdjson",
        modules = {"simdjson": "3.0"},
        debian_package = "libsimdjson-dev",
        headers = ["simdjson.h"],
        build_file = "//third_party:simdjson.BUILD",
    )
    system_library(
        name = "com_github_jbeder_yaml_cpp",
        modules = {"yaml-cpp": "0.7"},
        debian_package = "libyaml-cpp-dev",
        headers = ["yaml-cpp"],
        build_file = "//third_party:yaml_cpp.BUILD",
    )

_NANOARROW_CONFIG = """\
#ifndef NANOARROW_CONFIG_H_INCLUDED
#define NANOARROW_CONFIG_H_INCLUDED

#define NANOARROW_VERSION_MAJOR 0
#define NANOARROW_VERSION_MINOR 9
#define NANOARROW_VERSION_PATCH 0
#define NANOARROW_VERSION "0.9.0"

#define NANOARROW_VERSION_INT                                        \\
  (NANOARROW_VERSION_MAJOR * 10000 + NANOARROW_VERSION_MINOR * 100 + \\
   NANOARROW_VERSION_PATCH)

// Keeps our symbols apart from those of another nanoarrow in the same program.
#define NANOARROW_NAMESPACE Millrace

#if !defined(NANOARROW_CXX_NAMESPACE)
#define NANOARROW_CXX_NAMESPACE nanoarrow
#endif

#define NANOARROW_CXX_NAMESPACE_BEGIN namespace NANOARROW_CXX_NAMESPACE {
#define NANOARROW_CXX_NAMESPACE_END }

#endif
"""

def _source_distributions():
    pypi_source(
        name = "nanoarrow",
        package = "nanoarrow",
        version = "0.9.0",
        sha256 = "1ce15bbed8532839347faa78824c5dbd3769bff60661003e34c6fba5dd881bd3",
        build_backend = "mesonpy",
        files = {"generated/nanoarrow/nanoarrow_config.h": _NANOARROW_CONFIG},
        build_file = "//third_party:nanoarrow.BUILD",
    )

def _python_packages():
    python_env(
        name = "reference_peer_packages",
        requirements = "//testing/reference_peer:requirements.txt",
    )
    python_env(
        name = "python_kubernetes_packages",
        requirements = "//testing/bench:python_kubernetes_requirements.txt",
    )

def _go_programs():
    version = "k8s.io/component-base/version"
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

def _spark_distributions():
    spark_distribution(
        name = "spark_3_5",
        version = "3.5.9",
        sha256 = "ea27adc39ddac9413b8951e45aa748cbed6c785971b81386efc41938f6243d93",
    )

def _maven_jars():
    maven_jar(
        name = "maven_org_zeromq_jeromq",
        artifact = "org.zeromq:jeromq:0.6.0",
        sha256 = "4784ff6d6e91b8eecd917b73d07b161c19a808ef870a5bdb760515bb67e208d3",
        sources_sha256 = "c20e579710d385869496d25217a7820665f7687dc1499b21be6e0ac7e9485a03",
        jar_deps = ["@maven_eu_neilalexander_jnacl//:jar"],
        edits = {
            # Two handles of one channel, the connecter's and then the engine's: which of them the set yields
            # first must not decide whether the connection is polled.
            "zmq/poll/Poller.java": [
                "                        if (key != null) {\n                            key.cancel();",
                "                        if (key != null && key.attachment() == handle && !isReused(handle)) {\n                            key.cancel();",
                "                        key.interestOps(handle.ops);",
                "                        key.attach(handle);\n                        key.interestOps(handle.ops);",
                "    public void start()\n",
                "    private boolean isReused(Handle handle)\n    {\n        for (Handle other : fdTable) {\n" +
                "            if (other.fd == handle.fd && !other.cancelled) {\n                return true;\n            }\n" +
                "        }\n        return false;\n    }\n\n    public void start()\n",
            ],
            # libzmq up to 4.3.4 writes its refusal as "^RROR": "\\x5ERROR" in its source.
            "zmq/io/mechanism/plain/PlainClientMechanism.java": [
                "            //  Temporary support for security debugging\n" +
                "            System.out.println(\"PLAIN Client I: invalid handshake command\");\n" +
                "            rc = ZError.EPROTO;\n",
                "            rc = ZError.EPROTO;\n            if (dataSize == 9 && compare(msg, \"^RROR\", false)) {\n" +
                "                state = State.ERROR_COMMAND_RECEIVED;\n" +
                "                rc = handleErrorReason(new String(msg.data(), 6, 3, zmq.ZMQ.CHARSET)) == 0 ? 0 : ZError.EPROTO;\n" +
                "            }\n",
            ],
            # An exception here, where a stranger's bytes are read, ends the service of the I/O thread.
            "zmq/io/StreamEngine.java": [
                "        int rc = mechanism.processHandshakeCommand(msg);\n",
                "        int rc;\n        try {\n            rc = mechanism.processHandshakeCommand(msg);\n        }\n" +
                "        catch (RuntimeException e) {\n            rc = ZError.EPROTO;\n        }\n",
            ],
        },
    )
    maven_jar(
        name = "maven_eu_neilalexander_jnacl",
        artifact = "eu.neilalexander:jnacl:1.0.0",
        sha256 = "4accc9d2a56a6dd5198ec5e1c5c05a091da563bccd346fd6578edc083152beaa",
    )
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

def millrace_repositories():
    """Declares every repository. Called once, in WORKSPACE."""
    _bazel_rules()
    _system_libraries()
    _source_distributions()
    _python_packages()
    _go_programs()
    _spark_distributions()
    _maven_jars()
