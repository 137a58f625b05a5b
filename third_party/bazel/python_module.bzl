"""A module of the system's Python that a few tests use where it is there.

The repository holds `version.txt`, its version or "none": tests that use the module depend on `//:version`, so that
they run again once it is installed. With the environment variable `required` set to 1, it is an error if it is not.
"""

_VERSION = """\
import importlib.metadata, importlib.util
print(importlib.metadata.version("{0}") if importlib.util.find_spec("{0}") else "none")
"""

_BUILD = """\
filegroup(
    name = "version",
    srcs = ["version.txt"],
    visibility = ["//visibility:public"],
)
"""

def _python_module_impl(ctx):
    # The interpreter of the tests (python_rules.bzl).
    result = ctx.execute(
        ["/usr/bin/env", "PATH=/bin:/usr/bin:/usr/local/bin", "python3", "-s", "-c", _VERSION.format(ctx.attr.module)],
    )
    version = result.stdout.strip() if result.return_code == 0 else "none"
    if version == "none" and ctx.os.environ.get(ctx.attr.required, "") == "1":
        fail("\n%s=1, but the module %s is not installed (Debian package %s). %s" %
             (ctx.attr.required, ctx.attr.module, ctx.attr.debian_package, result.stderr))
    ctx.file("version.txt", version + "\n", executable = False)
    ctx.file("BUILD", _BUILD, executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

python_module = repository_rule(
    implementation = _python_module_impl,
    local = True,
    environ = ["MILLRACE_REQUIRE_TORCH", "MILLRACE_SYSTEM_PACKAGES"],
    attrs = {
        "module": attr.string(mandatory = True),
        "debian_package": attr.string(mandatory = True),
        "required": attr.string(mandatory = True, doc = "An environment variable, one of `environ` above."),
    },
)
