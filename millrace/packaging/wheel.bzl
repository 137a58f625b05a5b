"""The wheel of the Python package."""

def wheel(name, out, package, files, linked, **kwargs):
    """Builds a wheel with auditwheel.

    Args:
      name: of the target.
      out: the wheel's file name, which says on what it runs.
      package: a target with the sources of the package `millrace`.
      files: targets of one file each, to their places in the wheel (build_wheel.py).
      linked: packages of Debian of which something is in the programs themselves.
      **kwargs: visibility and the like.
    """
    native.genrule(
        name = name,
        srcs = files.keys() + [package],
        outs = [out],
        cmd = " ".join(
            ["$(location :build_wheel) $@", "--package $(locations %s)" % package, "--files"] +
            ["$(location %s)=%s" % pair for pair in files.items()] +
            ["--linked"] + linked,
        ),
        tools = [":build_wheel"],
        **kwargs
    )
