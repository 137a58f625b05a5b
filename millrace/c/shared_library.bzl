"""A shared library that exports the symbols of a list and nothing else."""

load("//third_party/bazel:cc.bzl", "cc_binary")

def shared_library(name, symbols, deps, **kwargs):
    """lib<name>.so.

    Args:
      name: without "lib" and ".so".
      symbols: a file of names, one on each line; they get the version MILLRACE_1.
      deps: its sources; all of them are kept, whether something refers to them or not.
      **kwargs: visibility and the like.
    """
    script = name + ".lds"
    native.genrule(
        name = name + "_version_script",
        srcs = [symbols],
        outs = [script],
        cmd = "(echo 'MILLRACE_1 {'; echo '  global:'; sed 's/.*/    &;/' $<; " +
              "echo '  local: *;'; echo '};') > $@",
    )
    cc_binary(
        name = "lib%s.so" % name,
        additional_linker_inputs = [script],
        # Gold keeps what other libraries define too, such as members of std::string.
        features = ["-supports_start_end_lib"],
        linkopts = [
            "-fuse-ld=bfd",
            "-Wl,--version-script=$(location :%s)" % script,
            "-Wl,-soname,lib%s.so" % name,
            "-Wl,-z,now",
        ] + select({
            # The program has the sanitizers' runtime.
            "//third_party/bazel:sanitizer": [],
            "//conditions:default": ["-Wl,-z,defs"],
        }),
        linkshared = True,
        deps = deps,
        **kwargs
    )
