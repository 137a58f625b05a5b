"""What the tests of this folder have in common."""

load("//third_party/bazel:cc.bzl", "cc_test")

# What nearly all of them include.
_DEPS = [
    "//core/base:status_matchers",
    "@com_google_googletest//:gtest_main",
]

def attack_test(name, deps, srcs = None, size = "medium", as_other_user = False, **kwargs):
    """A cc_test of <name>.cc.

    `as_other_user`: it runs programs as another user (other_user.h). Such a test is "local", since a
    sandbox's user namespace does not let it.
    """
    cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        tags = ["local"] if as_other_user else [],
        deps = _DEPS + deps + ([":other_user"] if as_other_user else []),
        **kwargs
    )
