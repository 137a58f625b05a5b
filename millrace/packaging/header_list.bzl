"""This repository's headers of C++ targets: a list of them, and the files beside it."""

def _header_list_impl(ctx):
    headers = [
        header
        for header in depset(transitive = [
            dep[CcInfo].compilation_context.headers
            for dep in ctx.attr.deps
        ]).to_list()
        if header.owner.workspace_name == ctx.label.workspace_name
    ]
    names = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(names, "".join([header.short_path + "\n" for header in headers]))
    return [
        DefaultInfo(files = depset([names]), runfiles = ctx.runfiles([names] + headers)),
        OutputGroupInfo(headers = depset(headers)),
    ]

header_list = rule(
    implementation = _header_list_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], mandatory = True),
    },
)
