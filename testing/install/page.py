"""The commands of docs/install.md, by section, and the root folders in which they are typed."""

import os
import re
import shutil
import tempfile
import time

import root_folder

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/install.md")


def sections():
    """The scripts of each section: what stands in ```sh blocks."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    found = {}
    for section in re.split(r"(?m)^##+ ", text)[1:]:
        title, _, body = section.partition("\n")
        found[title] = re.findall(r"(?ms)^```sh\n(.*?)^```$", body)
    return found


def rows():
    """The table's lines: the first link of each, and the columns."""
    with open(PAGE, encoding="utf-8") as file:
        lines = re.findall(r"(?m)^\| (\[.*) \|$", file.read())
    return {re.match(r"\[(.*?)\]", line)[1]: line.split(" | ") for line in lines}


class Way:
    """A section's first script, in a root of its own."""

    def __init__(self, section, row, root, files, shows, script=0, settings=()):
        self.section = section
        self.row = row  # of the table; None: it is none of its own
        self.root = root  # of ROOTS
        self._files = files  # that were downloaded before
        self._shows = shows  # a regular expression
        self.script = script
        self._settings = settings  # (path in the root, text)

    def files(self, products):
        return [products[name] for name in self._files]

    def run(self, roots, products, change=lambda script: script):
        """(what it shows, seconds). Raises root_folder.Unavailable, AssertionError."""
        script = change(sections()[self.section][self.script])
        folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        try:
            root = root_folder.RootFolder(folder, roots[self.root])
            root.put(*self.files(products))
            for path, text in self._settings:
                with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                    file.write(text)
            began = time.monotonic()
            told = root.run("sh", "-euc", script)
            took = time.monotonic() - began
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not re.search(self._shows, told):
            raise AssertionError(f"nothing like {self._shows!r} is shown by {self.section}:\n{told}")
        return told, took


# A container in a root that is not the machine's has neither a bridge nor a control group of its own.
_IN_A_ROOT = ("etc/containers/containers.conf", '[containers]\nnetns = "none"\ncgroups = "disabled"\n')
_ACCURACY = r"(?m)^accuracy: 0\.9[6-9]$"
WAYS = [
    Way("Archive", "archive", "bookworm", ["archive"], _ACCURACY),
    Way("Debian packages", "Debian package", "bookworm", ["millrace.deb"], _ACCURACY),
    Way("Wheel", "wheel", "development", ["wheel"], r"(?m)^accuracy: 0\.9[0-9]$"),
    Way("Headers and libraries", "headers and libraries", "development", ["libmillrace-dev.deb", "millrace.deb"],
        r"(?m)^worker:1\| rank 1 of Millrace 0\."),
    Way("Container image", "container image", "podman", ["image"], r"(?m)^worker:1\| millrace 0\.",
        settings=[_IN_A_ROOT]),
    Way("Debian packages", None, "development", ["millrace-dashboard.deb"], '"verdict"', script=1),
    # The oldest Debian that there is.
    Way("Archive", None, "bullseye", ["archive"], _ACCURACY),
]  # fmt: skip

# Sections whose scripts other tests type: their rows, the files, and how the tests tell the seconds.
ELSEWHERE = {
    "Kubernetes": ("Kubernetes", ["image", "chart"], r"docs/install.md: agents are ready after ([0-9.]+) s"),
    "Maven": ("Maven", ["maven"], r"docs/install.md: the digits after ([0-9.]+) s"),
    "An agent as a service": (None, [], None),  # debs_test.py
}


def products_of(paths):
    """What was built, by what it is."""
    products = {}
    for path in paths:
        name = os.path.basename(path)
        if name.endswith(".tar.gz"):
            products["maven" if "-maven-" in name else "archive"] = path
        elif name.endswith(".tgz"):
            products["chart"] = path
        elif name.endswith("-image.tar"):
            products["image"] = path
        elif name.endswith(".deb"):
            products[name.partition("_")[0] + ".deb"] = path
        elif name.startswith("millrace-") and name.endswith(".whl"):
            products["wheel"] = path
    return products
