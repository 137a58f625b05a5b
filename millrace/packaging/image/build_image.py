"""Builds an OCI image layout, as a tar archive, of programs and files. It needs no daemon, and its bytes depend on what
goes in alone.

    build_image.py --out=IMAGE.tar --version=0.2.0 [--strip] --program=PLACE=FILE... [--file=PLACE=FILE...]

A program that is dynamically linked brings the libraries that it finds on this machine. The image's user is 65532, and
its command is the agent's, which listens.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile

USER = 65532
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CREATED = "1970-01-01T00:00:00Z"
_PASSWD = f"root:x:0:0:root:/:/usr/sbin/nologin\nmillrace:x:{USER}:{USER}:millrace:/tmp:/usr/sbin/nologin\n"
_GROUP = f"root:x:0:\nmillrace:x:{USER}:\n"
_MERGED = ("lib", "lib64")  # to usr/


def _stripped(path, folder):
    out = pathlib.Path(folder, os.path.basename(path))
    subprocess.run(["strip", "--strip-all", "-o", out, path], check=True)
    return out.read_bytes()


def _libraries(program):
    """Place to file, of a program that is not static."""
    told = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if "not found" in told.stdout:
        raise SystemExit(f"{program} needs libraries that are not here:\n{told.stdout}")
    paths = re.findall(r"(/\S+) \(0x", told.stdout) if told.returncode == 0 else []
    # "/lib/x" and "/usr/lib/x" are the same place.
    return {re.sub(r"^/(lib(64)?)/", r"usr/\1/", path).lstrip("/"): path for path in paths}


def _contents(arguments):
    """Place to mode and bytes; a link is text."""
    files = {"etc/passwd": (0o644, _PASSWD.encode()), "etc/group": (0o644, _GROUP.encode())}
    libraries = {}
    with tempfile.TemporaryDirectory() as folder:
        for item in arguments.program:
            place, _, path = item.partition("=")
            found = _libraries(path)
            libraries |= found
            # A program is told by its stripped bytes; a library is as its package has it.
            content = _stripped(path, folder) if arguments.strip else pathlib.Path(path).read_bytes()
            files[place] = (0o755, content)
    for place, path in libraries.items():
        files[place] = (0o755, pathlib.Path(path).read_bytes())
    for item in arguments.file:
        place, _, path = item.partition("=")
        files[place] = (0o644, pathlib.Path(path).read_bytes())
    return files


def _member(name, kind, mode):
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def _tar(files, folders=(), links=()):
    """`files`: name to mode and bytes, in this order of names; `folders` and `links` are before them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, mode in folders:
            tar.addfile(_member(name, tarfile.DIRTYPE, mode))
        for name, target in links:
            member = _member(name, tarfile.SYMTYPE, 0o777)
            member.linkname = target
            tar.addfile(member)
        for name, (mode, content) in files:
            member = _member(name, tarfile.REGTYPE, mode)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _layer(files):
    folders = {"tmp": 0o1777, **{f"usr/{name}": 0o755 for name in _MERGED}}
    for name in [*files, *folders]:
        for parent in list(pathlib.PurePosixPath(name).parents)[:-1]:
            folders.setdefault(str(parent), 0o755)
    links = [(name, f"usr/{name}") for name in _MERGED]
    return _tar(sorted(files.items()), sorted(folders.items()), links)


def _json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def build(files, version):
    """The archive's bytes."""
    blobs = {}

    def blob(kind, content, **more):
        digest = _digest(content)
        blobs[f"blobs/sha256/{digest.partition(':')[2]}"] = (0o644, content)
        return {"mediaType": kind, "digest": digest, "size": len(content), **more}

    said = {
        "org.opencontainers.image.title": "millrace",
        "org.opencontainers.image.description": "Millrace's agent and command line",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    layer = _layer(files)
    config = {
        "created": _CREATED,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"],
            "Cmd": ["millrace-agent", "agent", "--listen", "0.0.0.0:7077", "--secret-dir", "/etc/millrace"],
            "WorkingDir": "/",
            "ExposedPorts": {"7077/tcp": {}},
            "Labels": said,
        },
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        "history": [{"created": _CREATED, "created_by": "build_image.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": blob(_CONFIG, _json(config)),
        "layers": [blob(_LAYER, gzip.compress(layer, compresslevel=6, mtime=0))],
        "annotations": said,
    }
    # By which Podman, and Docker and containerd, know it once they have loaded it.
    name = f"millrace:{version}"
    named = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": f"docker.io/library/{name}"}
    platform = {"architecture": "amd64", "os": "linux"}
    described = blob(_MANIFEST, _json(manifest), platform=platform, annotations=named)
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]}
    layout = {
        "oci-layout": (0o644, _json({"imageLayoutVersion": "1.0.0"})),
        "index.json": (0o644, _json(index)),
    }
    folders = [("blobs", 0o755), ("blobs/sha256", 0o755)]
    return _tar([*layout.items(), *sorted(blobs.items())], folders)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--strip", action="store_true")
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--file", action="append", default=[])
    arguments = parser.parse_args()
    arguments.out.write_bytes(build(_contents(arguments), arguments.version))


if __name__ == "__main__":
    main()
