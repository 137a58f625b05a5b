"""A Python of some release of Debian in a root folder of its own, for tests: downloaded once with apt, and kept.

The repository holds `root.tar`, an archive of the root folder, or, where there is none, `unavailable.txt` with the
reason; `//:python` is what there is. Only `./bazelw test` and `run` download (bazelw says so in
MILLRACE_FETCH_PYTHONS), other commands take what is kept already. See debian_python.py.
"""

_BUILD = """\
filegroup(
    name = "python",
    srcs = ["%s"],
    visibility = ["//visibility:public"],
)
"""

def _debian_python_impl(ctx):
    ctx.report_progress("downloading Python %s if it is not kept yet" % ctx.attr.version)
    result = ctx.execute(
        [
            "/usr/bin/env",
            "python3",
            ctx.path(ctx.attr._provider),
            "--version=" + ctx.attr.version,
            "--suites=" + ",".join(ctx.attr.suites),
            "--into=.",
        ] + (["--fetch"] if ctx.os.environ.get("MILLRACE_FETCH_PYTHONS", "") == "1" else []) +
        ["--parts"] + ctx.attr.parts,
        timeout = 1800,
        quiet = False,
    )
    if result.return_code != 0:
        fail("\nPython %s cannot be provided:\n%s" % (ctx.attr.version, result.stderr))
    ctx.file("BUILD", _BUILD % ("root.tar" if ctx.path("root.tar").exists else "unavailable.txt"), executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

debian_python = repository_rule(
    implementation = _debian_python_impl,
    local = True,
    environ = ["MILLRACE_FETCH_PYTHONS"],
    attrs = {
        "version": attr.string(mandatory = True, doc = "3.14"),
        "suites": attr.string_list(mandatory = True, doc = "Debian's names: of each package the newest is taken."),
        "parts": attr.string_list(doc = "PACKAGE/SUITE: of Python, without what they depend on."),
        "_provider": attr.label(default = "//third_party/bazel:debian_python.py", allow_single_file = True),
    },
)
