"""The real program: run it, give it a virtual screen, read the pictures it draws."""

import contextlib
import os
import struct
import subprocess
import zlib

from eventually import WAIT_S

ROOT = os.path.join(os.environ["TEST_SRCDIR"], "millrace")
PROGRAM = os.path.join(ROOT, "dashboard/app/millrace-dashboard")


def read_png(path):
    """Returns (width, height, rows of RGB bytes) of a picture that png.cc wrote."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    at, packed, size = 8, b"", None
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    width, height = size
    raw, rows, above = zlib.decompress(packed), [], bytes(width * 3)
    for y in range(height):
        line = raw[y * (width * 3 + 1) : (y + 1) * (width * 3 + 1)]
        assert line[0] == 2
        above = bytes((a + b) & 0xFF for a, b in zip(line[1:], above))
        rows.append(above)
    return width, height, rows


def colors(rows, x0, y0, x1, y1):
    found = set()
    for row in rows[y0:y1]:
        found.update(row[x * 3 : x * 3 + 3] for x in range(x0, x1))
    return found


def count_of(rows, color, within=24):
    """Pixels of about this colour, 0xRRGGBB."""
    red, green, blue = color >> 16, color >> 8 & 0xFF, color & 0xFF
    near, total = {}, 0
    for row in rows:
        for x in range(0, len(row), 3):
            pixel = row[x : x + 3]
            if pixel not in near:
                near[pixel] = max(abs(pixel[0] - red), abs(pixel[1] - green), abs(pixel[2] - blue)) <= within
            total += near[pixel]
    return total


@contextlib.contextmanager
def display(size="640x480", folder=None):
    """A virtual screen of its own; yields the value of DISPLAY. read_screen() sees it through `folder`."""
    read_end, write_end = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write_end), "-screen", "0", size + "x24", "-nolisten", "tcp"]
        + (["-fbdir", folder] if folder else []),
        pass_fds=[write_end],
        stderr=subprocess.DEVNULL,
    )
    os.close(write_end)
    try:
        with os.fdopen(read_end) as pipe:
            number = pipe.readline().strip()
        assert number, "Xvfb did not start"
        yield ":" + number
    finally:
        server.terminate()
        server.wait()


def read_screen(folder):
    """Rows of RGB bytes of what is on the screen now. The file is a window dump: a header, colours, pixels."""
    with open(os.path.join(folder, "Xvfb_screen0"), "rb") as file:
        data = file.read()
    header = struct.unpack(">25I", data[:100])
    width, height, line = header[4], header[5], header[12]
    begin = header[0] + 12 * header[19]
    rows = []
    for y in range(height):
        pixels = data[begin + y * line : begin + y * line + width * 4]
        row = bytearray(width * 3)
        row[0::3], row[1::3], row[2::3] = pixels[2::4], pixels[1::4], pixels[0::4]
        rows.append(bytes(row))
    return rows


def environment(screen=None, **more):
    env = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    # Mesa takes the home for its cache from the password database, not from HOME.
    env.update({name: os.environ["TEST_TMPDIR"] for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")})
    env["LIBGL_ALWAYS_SOFTWARE"] = "1"
    if screen:
        env["DISPLAY"] = screen
    env.update(more)
    return env


def run(arguments, screen=None, **more):
    return subprocess.run(
        [PROGRAM] + arguments, env=environment(screen, **more), capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )
