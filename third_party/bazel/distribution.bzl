"""Bazel's own rule sets, copied from the distribution instead of being downloaded."""

# Debian's rules_cc is newer than its Bazel 4.2.3, whose toolchain_utils.bzl has no
# use_cpp_toolchain. To be dropped when the oldest supported distribution ships Bazel 5 or later.
_USE_CPP_TOOLCHAIN = [
    (", \"use_cpp_toolchain\"", ""),
    ("use_cpp_toolchain()", "[\"@bazel_tools//tools/cpp:toolchain_type\"]"),
]

def _distribution_rules_impl(ctx):
    source = ctx.path(ctx.attr.path)
    if not source.exists:
        fail("\n%s does not exist: install the Debian package %s (./bazelw does it).\n" %
             (ctx.attr.path, ctx.attr.debian_package))
    result = ctx.execute(["cp", "-rL", ctx.attr.path + "/.", "."])
    if result.return_code != 0:
        fail("Cannot copy %s: %s" % (ctx.attr.path, result.stderr))
    for path in ctx.attr.patch_use_cpp_toolchain:
        text = ctx.read(path)
        for old, new in _USE_CPP_TOOLCHAIN:
            text = text.replace(old, new)
        ctx.file(path, text, executable = False)

distribution_rules = repository_rule(
    implementation = _distribution_rules_impl,
    doc = "A copy of a rule set that the distribution installs at a fixed place.",
    local = True,
    environ = ["MILLRACE_SYSTEM_PACKAGES"],
    attrs = {
        "path": attr.string(mandatory = True),
        "debian_package": attr.string(mandatory = True),
        "patch_use_cpp_toolchain": attr.string_list(
            doc = "Files in which use_cpp_toolchain is replaced on Bazel 4.",
        ),
    },
)

def _unused_repository_impl(ctx):
    ctx.file("unused.sh", "#!/bin/sh\necho 'not available: %s' >&2\nexit 1\n" % ctx.name)
    ctx.file("BUILD", """\
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "unused",
    srcs = ["unused.sh"],
)

%s
""" % "\n".join([
        "alias(name = \"%s\", actual = \":unused\")" % target
        for target in ctx.attr.targets
    ]))

unused_repository = repository_rule(
    implementation = _unused_repository_impl,
    doc = """Stands in for a repository that Bazel declares and would download.

Built-in test rules name it in implicit dependencies that only coverage uses; with this in its
place, `bazel query 'deps(//...)'` needs no network.""",
    attrs = {"targets": attr.string_list()},
)
