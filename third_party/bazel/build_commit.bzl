"""A source with the commit of which a program is built, for builds with --stamp.

    build_commit(
        name = "build_commit",
        out = "build_commit.cc",
        stamped = select({
            "//third_party/bazel:stamped": True,
            "//conditions:default": False,
        }),
    )

It defines `millrace::kBuildCommit`: what .ci/workspace_status says, and nothing in other builds, which then know of no
commit and stay as they are when there is a new one.
"""

_COMMAND = """\
commit="$(sed -n 's/^STABLE_MILLRACE_COMMIT //p' "$2")"
printf 'namespace millrace { extern const char kBuildCommit[]; }\\n' >"$1"
printf 'const char millrace::kBuildCommit[] = "%s";\\n' "$commit" >>"$1"
"""

def _build_commit_impl(ctx):
    status = [ctx.info_file] if ctx.attr.stamped else []
    ctx.actions.run_shell(
        command = _COMMAND,
        arguments = [ctx.outputs.out.path] + [file.path for file in status or [struct(path = "/dev/null")]],
        inputs = status,
        outputs = [ctx.outputs.out],
        mnemonic = "BuildCommit",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([ctx.outputs.out]))]

build_commit = rule(
    implementation = _build_commit_impl,
    attrs = {
        "out": attr.output(mandatory = True),
        "stamped": attr.bool(),
    },
)
