"""The repositories of repositories.bzl for MODULE.bazel."""

load(":repositories.bzl", "library_repositories")

def _libraries_impl(_):
    library_repositories()

libraries = module_extension(implementation = _libraries_impl)
