"""The link flags of a system library, as a target that other targets depend on."""

def _system_link_impl(ctx):
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        user_link_flags = depset(_shared(ctx.attr.linkopts) if ctx.attr.shared else ctx.attr.linkopts),
        additional_inputs = depset(ctx.files.inputs),
    )
    return [CcInfo(linking_context = cc_common.create_linking_context(
        linker_inputs = depset(
            [linker_input],
            transitive = [dep[CcInfo].linking_context.linker_inputs for dep in ctx.attr.deps],
            order = "topological",
        ),
    ))]

system_link = rule(
    implementation = _system_link_impl,
    attrs = {
        "linkopts": attr.string_list(),
        "shared": attr.bool(doc = "Whether the shared libraries are linked in place of archives."),
        "inputs": attr.label_list(
            allow_files = True,
            doc = "Files whose change relinks everything that uses the library.",
        ),
        "deps": attr.label_list(
            providers = [CcInfo],
            doc = "Links whose flags come after these wherever both are used.",
        ),
    },
)

def _shared(flags):
    """The flags with -lNAME in place of -l:libNAME.a."""
    return [
        "-l" + flag[len("-l:lib"):-len(".a")] if flag.startswith("-l:lib") and flag.endswith(".a") else flag
        for flag in flags
    ]

def _with_shared_libraries_impl(ctx):
    info = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    inputs = [
        cc_common.create_linker_input(
            owner = given.owner,
            libraries = depset(given.libraries),
            user_link_flags = depset(_shared(given.user_link_flags)),
            additional_inputs = depset(given.additional_inputs),
        )
        for given in info.linking_context.linker_inputs.to_list()
    ]
    return [CcInfo(
        compilation_context = info.compilation_context,
        linking_context = cc_common.create_linking_context(linker_inputs = depset(inputs, order = "topological")),
    )]

# C++ libraries for what is linked as a shared library: with the shared libraries of the system, since Debian's
# archives are compiled for executables.
with_shared_libraries = rule(
    implementation = _with_shared_libraries_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo], mandatory = True)},
)
