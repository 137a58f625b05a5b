"""Unpacks an OCI image layout and checks it, as whatever runs containers does."""

import gzip
import hashlib
import io
import json
import pathlib
import tarfile

from container_image import Image

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


class BadImage(Exception):
    """The layout is not what the image specification says; the text says where."""


class Layout:
    """An archive of a layout. `read` takes what it gives from the blobs that it checks."""

    def __init__(self, archive):
        with tarfile.open(archive) as tar:
            self.files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
        if json.loads(self.files["oci-layout"]) != {"imageLayoutVersion": "1.0.0"}:
            raise BadImage("oci-layout is not of version 1.0.0")
        self.read_blobs = set()

    def _blob(self, descriptor, media_type):
        if descriptor["mediaType"] != media_type:
            raise BadImage(f"{descriptor['mediaType']} where {media_type} belongs")
        algorithm, _, digest = descriptor["digest"].partition(":")
        name = f"blobs/{algorithm}/{digest}"
        if algorithm != "sha256" or name not in self.files:
            raise BadImage(f"no blob {descriptor['digest']}")
        content = self.files[name]
        if hashlib.sha256(content).hexdigest() != digest or len(content) != descriptor["size"]:
            raise BadImage(f"{name} has another digest or size than its descriptor says")
        self.read_blobs.add(name)
        return content

    def read(self):
        """The only manifest, its config, and the layers as tar archives."""
        index = json.loads(self.files["index.json"])
        if index["schemaVersion"] != 2 or index["mediaType"] != _INDEX or len(index["manifests"]) != 1:
            raise BadImage("index.json is not an index of one manifest")
        manifest = json.loads(self._blob(index["manifests"][0], _MANIFEST))
        if manifest["schemaVersion"] != 2 or manifest["mediaType"] != _MANIFEST:
            raise BadImage("the manifest says that it is something else")
        config = json.loads(self._blob(manifest["config"], _CONFIG))
        layers = [gzip.decompress(self._blob(layer, _LAYER)) for layer in manifest["layers"]]
        if config["rootfs"] != {
            "type": "layers",
            "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers],
        }:
            raise BadImage("the config's diff_ids are not those of the layers")
        return index["manifests"][0], config, layers


def unpack(archive, folder):
    """The image, with its root in `folder`, which is made."""
    _, config, layers = Layout(archive).read()
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            tar.extractall(folder, numeric_owner=True)
    run = config["config"]
    return Image(
        root=folder,
        entrypoint=run.get("Entrypoint") or [],
        command=run.get("Cmd") or [],
        environment=dict(variable.split("=", 1) for variable in run.get("Env", [])),
        user=int(run["User"].partition(":")[0]),
    )
