"""Manual pages of programs, in a folder: which ones there are, the programs themselves say."""

def _man_pages_impl(ctx):
    pages = ctx.actions.declare_directory(ctx.label.name)
    programs = ctx.files.programs
    ctx.actions.run(
        executable = ctx.executable._tool,
        arguments = [pages.path, "--changelog", ctx.file.changelog.path, "--programs"] +
                    [program.path for program in programs],
        inputs = programs + [ctx.file.changelog],
        outputs = [pages],
        mnemonic = "ManPages",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([pages]), runfiles = ctx.runfiles([pages]))]

man_pages = rule(
    implementation = _man_pages_impl,
    attrs = {
        "programs": attr.label_list(
            allow_files = True,
            mandatory = True,
            doc = "As they are built for whoever installs them: they run here too.",
        ),
        "changelog": attr.label(allow_single_file = True, mandatory = True),
        "_tool": attr.label(
            default = "//millrace/packaging:build_man_pages",
            executable = True,
            cfg = "host",
        ),
    },
)
