"""A test that the simulator finds a bug."""

load("//third_party/bazel:cc.bzl", "cc_test")

_PLANT = Label("//testing/simulation:plant")

def planted_copy(name, source):
    """Returns a copy of `source` with bug `name` of plant.py.

    It is linked in place of the library's own object, which the linker leaves in its archive since
    all that it defines is there already.
    """
    copy = name + "/" + Label(source).name
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [source],
        outs = [copy],
        cmd = "$(execpath %s) %s $< > $@" % (_PLANT, name),
        tools = [_PLANT],
    )
    return copy

def planted_bug(name, source, deps, first_seed = 1):
    """A cc_test `<name>_is_found`: bug `name` of plant.py, in `source`, whose deps are `deps`.

    `first_seed`: from which on it is looked for, so that few do.
    """
    cc_test(
        name = name + "_is_found",
        size = "medium",
        srcs = [
            "planted_bug_test.cc",
            planted_copy(name, source),
        ],
        env = {
            "FIRST_SEED": str(first_seed),
            "MILLRACE_LOG": "error",
        },
        deps = [
            ":simulation",
            "@com_google_googletest//:gtest_main",
        ] + deps,
    )
