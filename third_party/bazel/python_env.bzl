"""Python packages from wheels, pinned by version and sha256 in a requirements file.

The repository offers one py_library, `//:packages`. It is fetched when a target that needs it is
built, and not before. The wheels are looked for in ~/.cache/millrace/dist/<sha256>/ first and kept
there once downloaded, so that the next clone needs no network; see python_env.py.
"""

_BUILD = """\
py_library(
    name = "packages",
    srcs = glob(["site/**/*.py"]),
    data = glob(["site/**"], exclude = ["site/**/*.py", "site/**/* *"]),
    imports = ["site"],
    visibility = ["//visibility:public"],
)
"""

def _python_env_impl(ctx):
    # The interpreter that tests run with: theirs is the first in Bazel's strict PATH.
    result = ctx.execute(
        [
            "/usr/bin/env",
            "PATH=/bin:/usr/bin:/usr/local/bin",
            "python3",
            ctx.path(ctx.attr._installer),
            ctx.path(ctx.attr.requirements),
            "site",
            ctx.attr.keep,
        ],
        timeout = 1800,
    )
    if result.return_code != 0:
        fail("\nThe Python packages of %s cannot be installed:\n%s" % (ctx.attr.requirements, result.stderr))
    ctx.file("BUILD", _BUILD, executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

python_env = repository_rule(
    implementation = _python_env_impl,
    attrs = {
        "requirements": attr.label(mandatory = True, allow_single_file = True),
        "keep": attr.string(doc = "A folder, or a pattern of files, that is otherwise left out: bin, *.pyi."),
        "_installer": attr.label(default = "//third_party/bazel:python_env.py", allow_single_file = True),
    },
)
