"""Programs of a Go module, for tests: built once with the Go of this machine and kept.

The repository holds `bin/<program>` for each package or, where they cannot be built, `unavailable.txt`
with the reason; `//:programs` is what there is. Only `./bazelw test` and `run` build (bazelw says so in
MILLRACE_BUILD_GO), other commands take what is kept already: building the tests of a repository whose
programs take minutes needs neither Go nor a network. With MILLRACE_REQUIRE_GO=1 a program that cannot be
built is an error. See go_programs.py.
"""

_BUILD = """\
exports_files(glob(["**"]))

filegroup(
    name = "programs",
    srcs = glob(["bin/*", "unavailable.txt"]),
    visibility = ["//visibility:public"],
)
"""

def _go_programs_impl(ctx):
    # A change of any of them builds again.
    for source in ctx.attr.srcs:
        ctx.path(source)
    may_build = ctx.os.environ.get("MILLRACE_BUILD_GO", "") == "1"
    ctx.report_progress("building with Go what is not kept yet: minutes, once")
    result = ctx.execute(
        [
            "/usr/bin/env",
            "python3",
            ctx.path(ctx.attr._builder),
            "--module=" + str(ctx.path(ctx.attr.module).dirname),
            "--ldflags=" + ctx.attr.ldflags,
            "--into=.",
        ] + (["--build"] if may_build else []) + ctx.attr.packages,
        timeout = 7200,
        quiet = False,
    )
    if result.return_code != 0:
        fail("\nThe Go programs of %s cannot be provided:\n%s" % (ctx.attr.module, result.stderr))
    if may_build and ctx.os.environ.get("MILLRACE_REQUIRE_GO", "") == "1" and ctx.path("unavailable.txt").exists:
        fail("\nMILLRACE_REQUIRE_GO=1, but the Go programs of %s are not available: %s" %
             (ctx.attr.module, ctx.read("unavailable.txt")))
    ctx.file("BUILD", _BUILD, executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

go_programs = repository_rule(
    implementation = _go_programs_impl,
    local = True,
    environ = ["MILLRACE_BUILD_GO", "MILLRACE_REQUIRE_GO"],
    attrs = {
        "module": attr.label(mandatory = True, allow_single_file = True, doc = "Its go.mod."),
        "srcs": attr.label_list(mandatory = True, allow_files = True, doc = "Its other files."),
        "packages": attr.string_list(mandatory = True, doc = "Main packages, such as ./cmd/etcd."),
        "ldflags": attr.string(),
        "_builder": attr.label(default = "//third_party/bazel:go_programs.py", allow_single_file = True),
    },
)
