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
    if not clang or "CC" in ctx.os.environ:
        ctx.file("BUILD", _SYSTEM)
        return
    configure_unix_toolchain(ctx, get_cpu_value(ctx), {"gcc": str(clang)})

    # LLVM's linker takes a third of gold's time, and every test is linked.
    gold, lld = ctx.which("ld.gold"), ctx.which("ld.lld")
    if gold and lld:
        ctx.file("BUILD", ctx.read("BUILD").replace("-fuse-ld=%s" % gold, "-fuse-ld=%s" % lld), executable = False)

clang_toolchain = repository_rule(
    implementation = _clang_toolchain_impl,
    configure = True,
    environ = ["CC", "MILLRACE_SYSTEM_PACKAGES"],
)
