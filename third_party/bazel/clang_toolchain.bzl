"""Clang as Bazel's C++ toolchain, in a repository of its own.

    clang_toolchain(name = "clang_toolchain")      # @clang_toolchain//:toolchain

//third_party/bazel:compiler chooses between it and the system's compiler, which also takes its place where there is no
Clang, or where CC names another compiler (`--repo_env=CC=gcc`).
"""

load("@bazel_tools//tools/cpp:lib_cc_configure.bzl", "get_cpu_value")
load("@bazel_tools//tools/cpp:unix_cc_configure.bzl", "configure_unix_toolchain")

_SYSTEM = """\
alias(
    name = "toolchain",
    actual = "@bazel_tools//tools/cpp:toolchain",
    visibility = ["//visibility:public"],
)
"""

def _clang_toolchain_impl(ctx):
    clang = ctx.which("clang")
    if clang and "CC" not in ctx.os.environ:
        configure_unix_toolchain(ctx, get_cpu_value(ctx), {"gcc": str(clang)})
    else:
        ctx.file("BUILD", _SYSTEM)

clang_toolchain = repository_rule(
    implementation = _clang_toolchain_impl,
    configure = True,
    environ = ["CC", "MILLRACE_SYSTEM_PACKAGES"],
)
