"""C++ stubs of gRPC services.

    proto_library(name = "cluster_proto", srcs = ["cluster.proto"], deps = [...])
    cc_proto_library(name = "cluster_cc_proto", deps = [":cluster_proto"])
    cc_grpc_library(
        name = "cluster_cc_grpc",
        srcs = [":cluster_proto"],
        deps = [":cluster_cc_proto"],
    )

gives `#include "<package>/cluster.grpc.pb.h"`.
"""

load("@rules_proto//proto:defs.bzl", "ProtoInfo")
load(":cc.bzl", "cc_library")
load(":cc_proto_library.bzl", "proto_imports")

def _grpc_sources_impl(ctx):
    headers = []
    sources = []
    for library in ctx.attr.protos:
        info = library[ProtoInfo]
        imports = proto_imports(ctx, info)
        outputs = []
        for stem in imports.stems:
            header = ctx.actions.declare_file(stem + ".grpc.pb.h")
            source = ctx.actions.declare_file(stem + ".grpc.pb.cc")
            headers.append(header)
            sources.append(source)
            outputs += [header, source]
            if ctx.attr.generate_mock:
                mock = ctx.actions.declare_file(stem + "_mock.grpc.pb.h")
                headers.append(mock)
                outputs.append(mock)
        arguments = ctx.actions.args()
        arguments.add("--plugin=protoc-gen-grpc=" + ctx.executable._plugin.path)
        arguments.add("--grpc_out=%s:%s" % (
            "generate_mock_code=true" if ctx.attr.generate_mock else "",
            imports.output,
        ))
        arguments.add_joined(
            info.transitive_descriptor_sets,
            join_with = ":",
            format_joined = "--descriptor_set_in=%s",
        )
        arguments.add_all(imports.names)
        ctx.actions.run(
            executable = ctx.executable._protoc,
            tools = [ctx.executable._plugin],
            inputs = info.transitive_descriptor_sets,
            outputs = outputs,
            arguments = [arguments],
            mnemonic = "GrpcCpp",
            progress_message = "Generating gRPC stubs of %s" % library.label,
        )
    return [
        DefaultInfo(files = depset(headers + sources)),
        OutputGroupInfo(headers = depset(headers), sources = depset(sources)),
    ]

_grpc_sources = rule(
    implementation = _grpc_sources_impl,
    attrs = {
        "protos": attr.label_list(providers = [ProtoInfo], mandatory = True),
        "generate_mock": attr.bool(),
        "_protoc": attr.label(
            default = "@com_google_protobuf//:protoc",
            executable = True,
            cfg = "exec",
        ),
        "_plugin": attr.label(
            default = "@com_github_grpc_grpc//:grpc_cpp_plugin",
            executable = True,
            cfg = "exec",
        ),
    },
)

def cc_grpc_library(name, srcs, deps, generate_mock = False, **kwargs):
    """The gRPC stubs of proto_library targets.

    Args:
      name: the cc_library.
      srcs: proto_library targets of the same package that declare services.
      deps: the cc_proto_library targets of srcs.
      generate_mock: also generate <file>_mock.grpc.pb.h.
      **kwargs: visibility, testonly, ...
    """
    sources = name + "_sources"
    generator = {key: kwargs[key] for key in ("testonly",) if key in kwargs}
    _grpc_sources(
        name = sources,
        protos = srcs,
        generate_mock = generate_mock,
        visibility = ["//visibility:private"],
        **generator
    )
    for group in ("headers", "sources"):
        native.filegroup(
            name = "%s_%s" % (name, "hdrs" if group == "headers" else "srcs"),
            srcs = [":" + sources],
            output_group = group,
            visibility = ["//visibility:private"],
            **generator
        )
    cc_library(
        name = name,
        srcs = [":%s_srcs" % name],
        hdrs = [":%s_hdrs" % name],
        deps = deps + [Label("@com_github_grpc_grpc//:grpc++")],
        **kwargs
    )
