"""Libraries of this repository, all of each, for a shared library that nothing of its own asks for them."""

load(":toolchain.bzl", "TOOLCHAINS", "TOOLCHAIN_ATTRS", "toolchain_of")

def _always_linked_impl(ctx):
    toolchain, features = toolchain_of(ctx)
    info = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    inputs = []
    for given in info.linking_context.linker_inputs.to_list():
        ours = given.owner.workspace_name == ctx.label.workspace_name
        libraries = [
            cc_common.create_library_to_link(
                actions = ctx.actions,
                feature_configuration = features,
                cc_toolchain = toolchain,
                static_library = library.static_library,
                pic_static_library = library.pic_static_library,
                alwayslink = True,
            ) if ours else library
            for library in given.libraries
        ]
        inputs.append(cc_common.create_linker_input(
            owner = given.owner,
            libraries = depset(libraries),
            user_link_flags = depset(given.user_link_flags),
            additional_inputs = depset(given.additional_inputs),
        ))
    return [CcInfo(
        compilation_context = info.compilation_context,
        linking_context = cc_common.create_linking_context(linker_inputs = depset(inputs, order = "topological")),
    )]

always_linked = rule(
    implementation = _always_linked_impl,
    attrs = dict(
        TOOLCHAIN_ATTRS,
        deps = attr.label_list(providers = [CcInfo], mandatory = True),
    ),
    fragments = ["cpp"],
    toolchains = TOOLCHAINS,
)
