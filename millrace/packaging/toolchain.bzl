"""The C++ toolchain, for rules of this package that link.

    rule(..., attrs = dict(TOOLCHAIN_ATTRS, ...), fragments = ["cpp"], toolchains = TOOLCHAINS)
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

TOOLCHAIN_ATTRS = {"_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain")}
TOOLCHAINS = ["@bazel_tools//tools/cpp:toolchain_type"]

def toolchain_of(ctx):
    """Returns the toolchain and its feature configuration for the target."""
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    return toolchain, features
