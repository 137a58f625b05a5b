"""The link flags of a system library, as a target that other targets depend on."""

def _system_link_impl(ctx):
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        user_link_flags = depset(ctx.attr.linkopts),
        additional_inputs = depset(ctx.files.inputs),
    )
    return [CcInfo(linking_context = cc_common.create_linking_context(
        linker_inputs = depset([linker_input]),
    ))]

system_link = rule(
    implementation = _system_link_impl,
    attrs = {
        "linkopts": attr.string_list(),
        "inputs": attr.label_list(
            allow_files = True,
            doc = "Files whose change relinks everything that uses the library.",
        ),
    },
)
