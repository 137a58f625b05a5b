"""The licences of what is given to others: this project's, and those of all that is in it besides."""

import pathlib
import re
import subprocess

_COMMON = pathlib.Path("/usr/share/common-licenses")


def version_of(package):
    return subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Version}", package], capture_output=True, text=True, check=True
    ).stdout


def write(folder, notice, files, packages):
    """NOTICE, which names each work, and the texts that it names.

    `files` are texts by their places below `folder`; `packages` are Debian's, a list under each title.
    """
    lines = []
    for title, names in packages.items():
        lines += ["", f"{title}:", ""]
        lines += [f"    {package} {version_of(package)}" for package in sorted(names)]
    _write(folder / "NOTICE", (pathlib.Path(notice).read_text(encoding="utf-8") + "\n".join(lines) + "\n").encode())
    texts = {"MPL-2.0"}
    for package in {package for names in packages.values() for package in names}:
        copyright = pathlib.Path("/usr/share/doc", package, "copyright").read_bytes()
        _write(folder / "debian" / package, copyright)
        texts.update(re.findall(r"/usr/share/common-licenses/([A-Z][A-Za-z0-9.-]*[A-Za-z0-9])", copyright.decode()))
    for text in texts:
        _write(folder / "common-licenses" / text, (_COMMON / text).read_bytes())
    for place, source in files.items():
        _write(folder / place, pathlib.Path(source).read_bytes())


def _write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
