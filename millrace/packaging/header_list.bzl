"""The headers of C++ targets: a list of them, and the files beside it."""

def _header_list_impl(ctx):
    # Besides this repository's own, those of what is built from source and installed nowhere.
    repositories = [ctx.label.workspace_name] + [
        library.label.workspace_name
        for library in ctx.attr.with_headers_of
    ]
    headers = [
        header
        for header in depset(transitive = [
            dep[CcInfo].compilation_context.headers
            for dep in ctx.attr.deps
        ]).to_list()
        if header.owner.workspace_name in repositories
    ]
    names = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(names, "".join([header.short_path + "\n" for header in headers]))
    return [DefaultInfo(files = depset([names]), runfiles = ctx.runfiles([names] + headers))]

header_list = rule(
    implementation = _header_list_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], mandatory = True),
        "with_headers_of": attr.label_list(providers = [CcInfo]),
    },
)
