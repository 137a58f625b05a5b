"""Programs and tests whose threads are scheduled (core/base/thread_scheduler.h)."""

load("//testing/simulation:planted_bug.bzl", "planted_copy")
load("//third_party/bazel:cc.bzl", "cc_test")

def _transition_impl(_settings, _attr):
    return {"//core/base:scheduled_threads": True}

_transition = transition(
    implementation = _transition_impl,
    inputs = [],
    outputs = ["//core/base:scheduled_threads"],
)

def _impl(ctx):
    target = ctx.attr.target[0]
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = ctx.executable.target, is_executable = True)
    return [
        DefaultInfo(executable = program, runfiles = target[DefaultInfo].default_runfiles),
        testing.TestEnvironment(ctx.attr.env),
    ]

_ATTRS = {
    "target": attr.label(cfg = _transition, executable = True, mandatory = True),
    "env": attr.string_dict(),
    "_allowlist_function_transition": attr.label(
        default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
    ),
}

scheduled_binary = rule(implementation = _impl, executable = True, attrs = _ATTRS)
scheduled_test = rule(implementation = _impl, test = True, attrs = _ATTRS)

def planted_schedule_bug(name, source, world, deps):
    """A test `<name>_is_found`: bug `name` of plant.py, in `source`, whose deps are `deps`, by seeds of `world`."""
    cc_test(
        name = name + "_program",
        srcs = [
            "planted_schedule_test.cc",
            planted_copy(name, source),
        ],
        tags = ["manual"],
        deps = [
            world,
            "//core/base:thread_scheduler",
            "@com_google_googletest//:gtest_main",
        ] + deps,
    )
    scheduled_test(
        name = name + "_is_found",
        size = "medium",
        env = {"MILLRACE_LOG": "error"},
        target = ":" + name + "_program",
    )
