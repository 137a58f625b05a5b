"""The C++ code of proto_library targets.

    proto_library(name = "cluster_proto", srcs = ["cluster.proto"], deps = [...])
    cc_proto_library(name = "cluster_cc_proto", deps = [":cluster_proto"])

gives `#include "<package>/cluster.pb.h"`. It does what Bazel's own rule does, which cannot be told the
language standard of what it compiles.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_proto//proto:defs.bzl", "ProtoInfo")
load(":cc_standard.bzl", "CXX_STANDARD")

def proto_imports(ctx, info):
    """How protoc is told the direct sources of a proto_library, and where it writes.

    Args:
      ctx: of the rule or aspect.
      info: its ProtoInfo.
    Returns:
      A struct: `names`, as they are imported; `stems`, the same below ctx's package and without
      `.proto`, for declare_file; `output`, the folder that --cpp_out and its like are given.
    """
    workspace = ctx.label.workspace_root
    root = workspace + "/" if workspace else ""
    package = ctx.label.package + "/" if ctx.label.package else ""
    names = []
    for proto in info.direct_sources:
        if not proto.path.startswith(root + package):
            fail("%s is not in the package of %s" % (proto.path, ctx.label))
        names.append(proto.path[len(root):])
    return struct(
        names = names,
        stems = [name[len(package):-len(".proto")] for name in names],
        output = ctx.bin_dir.path + ("/" + workspace if workspace else ""),
    )

_CcProtoInfo = provider(fields = {
    "cc": "CcInfo of the generated code and of what it needs.",
    "headers": "Those of the proto_library's own sources.",
})

def _generate(ctx, info):
    imports = proto_imports(ctx, info)
    headers = [ctx.actions.declare_file(stem + ".pb.h") for stem in imports.stems]
    sources = [ctx.actions.declare_file(stem + ".pb.cc") for stem in imports.stems]
    arguments = ctx.actions.args()
    arguments.add("--cpp_out=" + imports.output)
    arguments.add_all(info.transitive_proto_path, format_each = "--proto_path=%s")
    arguments.add_all(imports.names)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        inputs = info.transitive_sources,
        outputs = headers + sources,
        arguments = [arguments],
        mnemonic = "GenProto",
        progress_message = "Generating C++ of %s" % ctx.label,
    )
    return headers, sources

def _cc_proto_aspect_impl(target, ctx):
    runtime = ctx.attr._runtime[CcInfo]

    # The code of the well-known protos is part of the library.
    if target.label.workspace_name == ctx.attr._runtime.label.workspace_name:
        return [_CcProtoInfo(cc = runtime, headers = [])]
    headers, sources = _generate(ctx, target[ProtoInfo])
    deps = [runtime] + [dep[_CcProtoInfo].cc for dep in ctx.rule.attr.deps]
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compilation, objects = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = toolchain,
        srcs = sources,
        public_hdrs = headers,
        user_compile_flags = CXX_STANDARD,
        compilation_contexts = [dep.compilation_context for dep in deps],
    )
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name,
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = objects,
        linking_contexts = [dep.linking_context for dep in deps],
    )
    return [_CcProtoInfo(
        cc = CcInfo(compilation_context = compilation, linking_context = linking),
        headers = headers,
    )]

_cc_proto_aspect = aspect(
    implementation = _cc_proto_aspect_impl,
    attr_aspects = ["deps"],
    attrs = {
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_protoc": attr.label(
            default = "@com_google_protobuf//:protoc",
            executable = True,
            cfg = "exec",
        ),
        "_runtime": attr.label(default = "@com_google_protobuf//:protobuf"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _cc_proto_library_impl(ctx):
    libraries = [dep[_CcProtoInfo] for dep in ctx.attr.deps]
    return [
        DefaultInfo(files = depset([header for library in libraries for header in library.headers])),
        cc_common.merge_cc_infos(cc_infos = [library.cc for library in libraries]),
    ]

cc_proto_library = rule(
    implementation = _cc_proto_library_impl,
    attrs = {
        "deps": attr.label_list(
            providers = [ProtoInfo],
            aspects = [_cc_proto_aspect],
            mandatory = True,
            doc = "proto_library targets.",
        ),
    },
    provides = [CcInfo],
)
