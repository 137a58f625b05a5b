"""Headers that most sources include, parsed once instead of once in each source.

    precompiled_header(
        name = "common_headers",
        hdr = "common_headers.h",
        deps = ["@com_google_absl//absl/strings"],
    )

A source that is compiled with `-include <folder>/common_headers.precompiled.h` and depends on the target begins with
what common_headers.h includes. The file of that name is empty: the compiler takes `common_headers.precompiled.h.gch` in
its place where that was made with the same options, and the source is compiled as it stands where it was not. A
source still includes all that it needs: optimised builds and those of other repositories have nothing else.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load(":cc_standard.bzl", "CXX_STANDARD")

# Templates are instantiated once, too. The paths in it are relative to the folder in which it is made, and dates are
# of no account: it serves every clone that has the same headers.
_CLANG_COPTS = ["-fpch-instantiate-templates", "-Xclang", "-fno-pch-timestamp", "--relocatable-pch"]
_CLANG_ROOT = " -isysroot \"$PWD\""

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    needed = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    stem = ctx.label.name + ".precompiled.h"
    header = ctx.actions.declare_file(stem)
    ctx.actions.write(header, "// Empty: see third_party/bazel/precompiled_header.bzl.\n")
    precompiled = ctx.actions.declare_file(stem + ".gch")
    clang = toolchain.compiler == "clang"
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = ctx.file.hdr.path,
        output_file = precompiled.path,
        user_compile_flags = (
            ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + CXX_STANDARD +
            (_CLANG_COPTS if clang else []) + ["-x", "c++-header"]
        ),
        include_directories = needed.includes,
        quote_include_directories = needed.quote_includes,
        system_include_directories = needed.system_includes,
        preprocessor_defines = needed.defines,
        use_pic = True,
    )
    compiler = cc_common.get_tool_for_action(feature_configuration = features, action_name = "c++-compile")
    ctx.actions.run_shell(
        command = "exec \"$@\"" + (_CLANG_ROOT if clang else ""),
        arguments = [compiler] + cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        inputs = depset([ctx.file.hdr], transitive = [toolchain.all_files, needed.headers]),
        outputs = [precompiled],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % ctx.label,
    )
    root = header.root.path + ("/" + ctx.label.workspace_root if ctx.label.workspace_root else "")
    return [
        DefaultInfo(files = depset([precompiled])),
        # No linking: the sources name what they need themselves.
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset([header, precompiled, ctx.file.hdr], transitive = [needed.headers]),
            quote_includes = depset([root]),
        )),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "hdr": attr.label(allow_single_file = True, mandatory = True),
        "deps": attr.label_list(providers = [CcInfo], doc = "What `hdr` includes."),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    provides = [CcInfo],
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
