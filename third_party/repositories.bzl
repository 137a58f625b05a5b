"""The repositories that Millrace's libraries and programs are built with. versions.bzl pins their versions, and
README.md has the reasons.

    local_repository(name = "millrace", path = "...")
    load("@millrace//third_party:repositories.bzl", "millrace_repositories")
    millrace_repositories()

What only its tests and examples need is in development_repositories.bzl.
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "maybe")
load("//third_party/bazel:debian_source.bzl", "debian_source")
load("//third_party/bazel:distribution.bzl", "distribution_rules", "unused_repository")
load("//third_party/bazel:maven_jar.bzl", "maven_jar")
load("//third_party/bazel:pypi_source.bzl", "pypi_source")
load("//third_party/bazel:python_env.bzl", "python_env")
load("//third_party/bazel:system_library.bzl", "system_library")
load(":curl_config.bzl", "CURL_CONFIG")
load(":httplib_edits.bzl", "HTTPLIB_EDITS")
load(":jeromq_edits.bzl", "JEROMQ_EDITS")
load(":libzmq_edits.bzl", "LIBZMQ_EDITS", "LIBZMQ_PLATFORM")
load(":versions.bzl", "DEBIAN_SOURCES", "JEROMQ", "JNACL", "PYPI_SOURCES", "SPARK_JARS", "SYSTEM_LIBRARIES")

def _bazel_rules():
    maybe(
        distribution_rules,
        name = "rules_cc",
        path = "/usr/share/bazel/rules/cc",
        debian_package = "bazel-rules-cc",
        patch_use_cpp_toolchain = [
            "cc/private/rules_impl/cc_flags_supplier.bzl",
            "cc/private/rules_impl/compiler_flag.bzl",
        ],
    )
    maybe(
        distribution_rules,
        name = "rules_java",
        path = "/usr/share/bazel/rules/java",
        debian_package = "bazel-rules-java",
    )
    maybe(
        distribution_rules,
        name = "rules_proto",
        path = "/usr/share/bazel/rules/proto",
        debian_package = "bazel-rules-proto",
    )
    maybe(
        distribution_rules,
        name = "bazel_skylib",
        path = "/usr/share/bazel/tools/skylib",
        debian_package = "bazel-skylib",
    )
    maybe(
        distribution_rules,
        name = "platforms",
        path = "/usr/share/bazel/tools/platforms",
        debian_package = "bazel-platforms",
    )
    maybe(
        unused_repository,
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

def _system_library(name, **kwargs):
    library = SYSTEM_LIBRARIES[name]
    maybe(
        system_library,
        name = name,
        modules = library.modules,
        debian_package = library.debian_package,
        **kwargs
    )

def _system_libraries():
    _system_library(
        name = "com_google_absl",
        headers = ["absl"],
        packages = _ABSL_PACKAGES,
        packages_actual = "//:absl",
        static = True,
        archives = ["absl_"],
        build_file = Label("//third_party:absl.BUILD"),
    )
    _system_library(
        name = "com_google_protobuf",
        # At the root, so that the well-known protos need no import prefix.
        header_prefix = "",
        headers = ["google/protobuf"],
        tools = ["protoc"],
        tools_package = "protobuf-compiler",
        static = True,
        build_file = Label("//third_party:protobuf.BUILD"),
    )
    _system_library(
        name = "com_github_grpc_grpc",
        headers = ["grpc", "grpcpp"],
        tools = ["grpc_cpp_plugin"],
        tools_package = "protobuf-compiler-grpc",
        static = True,
        build_file = Label("//third_party:grpc.BUILD"),
    )
    _system_library(
        name = "millrace_openssl",
        headers = ["openssl"],
        static = True,
        build_file = Label("//third_party:openssl.BUILD"),
    )
    _system_library(
        name = "millrace_libsodium",
        headers = ["sodium.h", "sodium"],
        archives = ["sodium"],
        build_file = Label("//third_party:libsodium.BUILD"),
    )
    _system_library(
        name = "com_github_gabime_spdlog",
        headers = ["spdlog", "fmt"],
        build_file = Label("//third_party:spdlog.BUILD"),
    )
    _system_library(
        name = "com_github_cliutils_cli11",
        headers = ["CLI"],
        build_file = Label("//third_party:cli11.BUILD"),
    )
    _system_library(
        name = "com_github_nlohmann_json",
        headers = ["nlohmann"],
        build_file = Label("//third_party:json.BUILD"),
    )
    _system_library(
        name = "millrace_cares",
        headers = ["ares.h"] + ["ares_%s.h" % part for part in ["build", "dns", "nameser", "rules", "version"]],
        build_file = Label("//third_party:cares.BUILD"),
    )
    _system_library(
        name = "com_github_jbeder_yaml_cpp",
        headers = ["yaml-cpp"],
        build_file = Label("//third_party:yaml_cpp.BUILD"),
    )
    _system_library(
        name = "millrace_glfw",
        headers = ["GLFW"],
        build_file = Label("//third_party:glfw.BUILD"),
    )
    _system_library(
        name = "millrace_freetype",
        headers = ["freetype2"],
        build_file = Label("//third_party:freetype.BUILD"),
    )
    _system_library(
        name = "millrace_zlib",
        headers = ["zlib.h", "zconf.h"],
        build_file = Label("//third_party:zlib.BUILD"),
    )
    for name, folder in [("inter", "opentype/inter"), ("jetbrains-mono", "truetype/jetbrains-mono")]:
        maybe(
            system_library,
            name = "millrace_font_" + name.replace("-", "_"),
            modules = {},
            debian_package = "fonts-" + name,
            include_dir = "/usr/share/fonts/" + folder.split("/")[0],
            headers = [folder.split("/")[1]],
            header_prefix = "fonts",
            build_file = Label("//third_party:font.BUILD"),
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

_IMGUI_CONFIG = """\
#ifndef MILLRACE_IMGUI_CONFIG_H_
#define MILLRACE_IMGUI_CONFIG_H_

#define IMGUI_DISABLE_OBSOLETE_FUNCTIONS
#define IMGUI_DISABLE_DEFAULT_FONT
#define IMGUI_ENABLE_FREETYPE
// More than 65,536 vertices in one plot or heat map.
#define ImDrawIdx unsigned int

#endif
"""

def _source_distributions():
    maybe(
        pypi_source,
        name = "millrace_nanoarrow",
        package = "nanoarrow",
        version = PYPI_SOURCES["nanoarrow"].version,
        sha256 = PYPI_SOURCES["nanoarrow"].sha256,
        build_backend = "mesonpy",
        files = {"generated/nanoarrow/nanoarrow_config.h": _NANOARROW_CONFIG},
        build_file = Label("//third_party:nanoarrow.BUILD"),
    )

    # libzmq as its Python binding carries it, unchanged but for these edits.
    maybe(
        pypi_source,
        name = "millrace_libzmq",
        package = "pyzmq",
        version = PYPI_SOURCES["pyzmq"].version,
        sha256 = PYPI_SOURCES["pyzmq"].sha256,
        build_backend = "setuptools.build_meta",
        include = [
            "LICENSE.LESSER",
            "bundled/zeromq/*",
        ],
        links = {"include": "bundled/zeromq/include"},
        files = {"bundled/zeromq/src/platform.hpp": LIBZMQ_PLATFORM},
        edits = LIBZMQ_EDITS,
        build_file = Label("//third_party:libzmq.BUILD"),
    )

    # Debian's libcurl.a needs Kerberos, LDAP, SSH and RTMP, some of which have no archives: no static program links it.
    maybe(
        debian_source,
        name = "millrace_curl",
        package = "curl",
        version = DEBIAN_SOURCES["curl"].version,
        sha256 = DEBIAN_SOURCES["curl"].sha256,
        include = [
            "COPYING",
            "include/curl/*",
            "lib/*",
        ],
        files = {"generated/curl_config.h": CURL_CONFIG},
        build_file = Label("//third_party:curl.BUILD"),
    )

    # An HTTP server in one header. Debian's package for bookworm is older, and a shared library.
    maybe(
        debian_source,
        name = "millrace_cpp_httplib",
        package = "cpp-httplib",
        version = DEBIAN_SOURCES["cpp-httplib"].version,
        sha256 = DEBIAN_SOURCES["cpp-httplib"].sha256,
        compression = "xz",
        include = [
            "LICENSE",
            "httplib.h",
        ],
        edits = {"httplib.h": HTTPLIB_EDITS},
        build_file = Label("//third_party:cpp_httplib.BUILD"),
    )

    # simdjson as its Python binding carries it; Debian's package has no archive.
    maybe(
        pypi_source,
        name = "com_github_simdjson_simdjson",
        package = "pysimdjson",
        version = PYPI_SOURCES["pysimdjson"].version,
        sha256 = PYPI_SOURCES["pysimdjson"].sha256,
        build_backend = "setuptools.build_meta",
        include = [
            "LICENSE",
            "simdjson/simdjson.cpp",
            "simdjson/simdjson.h",
        ],
        build_file = Label("//third_party:simdjson.BUILD"),
    )

    # ISA-L as its Python binding carries it; Debian's package has no archive.
    maybe(
        pypi_source,
        name = "millrace_isal",
        package = "isal",
        version = PYPI_SOURCES["isal"].version,
        sha256 = PYPI_SOURCES["isal"].sha256,
        build_backend = "setuptools.build_meta",
        include = [
            "src/isal/isa-l/LICENSE",
            "src/isal/isa-l/crc/*.asm",
            "src/isal/isa-l/crc/crc64_base.c",
            "src/isal/isa-l/crc/crc_base.c",
            "src/isal/isa-l/include/*",
        ],
        links = {"include/isa-l": "src/isal/isa-l/include"},
        build_file = Label("//third_party:isal.BUILD"),
    )

    # Dear ImGui and ImPlot as the Python binding carries them: the docking branch, and an ImPlot that
    # fits it.
    maybe(
        pypi_source,
        name = "millrace_imgui_bundle",
        package = "imgui-bundle",
        version = PYPI_SOURCES["imgui-bundle"].version,
        sha256 = PYPI_SOURCES["imgui-bundle"].sha256,
        build_backend = "scikit_build_core.build",
        include = [
            "external/imgui/imgui/*",
            "external/implot/implot/*",
            "bindings/imgui_bundle/assets/fonts/Font_Awesome_6_Free-Solid-900.otf",
        ],
        files = {"generated/millrace_imgui_config.h": _IMGUI_CONFIG},
        build_file = Label("//third_party:imgui.BUILD"),
    )

# What makes the wheel of the Python package.
def _wheel_packages():
    maybe(
        python_env,
        name = "millrace_wheel_packages",
        keep = "bin",
        requirements = Label("//millrace/packaging:wheel_requirements.txt"),
    )

def _maven_jars():
    maybe(
        maven_jar,
        name = "maven_org_zeromq_jeromq",
        artifact = JEROMQ.artifact,
        sha256 = JEROMQ.sha256,
        sources_sha256 = JEROMQ.sources_sha256,
        jar_deps = ["@maven_eu_neilalexander_jnacl//:jar"],
        edits = JEROMQ_EDITS,
    )
    maybe(
        maven_jar,
        name = "maven_eu_neilalexander_jnacl",
        artifact = JNACL.artifact,
        sha256 = JNACL.sha256,
    )

def spark_jars(jars, suffix = ""):
    """Declares the jars, given as artifact to sha256, each as maven_<group>_<name><suffix>."""
    for artifact, sha256 in jars.items():
        group, jar, _ = artifact.split(":")
        maybe(
            maven_jar,
            name = "maven_" + (group + "_" + jar + suffix).replace(".", "_").replace("-", "_"),
            artifact = artifact,
            sha256 = sha256,
        )

def library_repositories():
    """Declares what Millrace's libraries and programs are built with, but for Bazel's own rules."""
    _system_libraries()
    _source_distributions()
    _wheel_packages()
    _maven_jars()
    spark_jars(SPARK_JARS)

def millrace_repositories():
    """Declares what Millrace's libraries and programs are built with, and its Python toolchain.

    Called once, in the WORKSPACE of whoever builds them. A repository under its usual name that is declared
    already stays as it is; what is named millrace_... is ours."""
    _bazel_rules()
    library_repositories()
    native.register_toolchains("@millrace//third_party/bazel:python3")
