"""What class files say of what they use and what they offer; the format is that of the JVM specification, 4."""

import struct
import zipfile

ACC_PRIVATE = 0x0002
ACC_STATIC = 0x0008
ACC_INTERFACE = 0x0200
ACC_ABSTRACT = 0x0400

_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_KINDS = {9: "field", 10: "method", 11: "interface method"}


class ClassFile:
    """One class: `uses` are (kind, class, name, descriptor), members are (name, descriptor) to flags."""

    def __init__(self, data):
        self._data = data
        self.major = struct.unpack_from(">H", data, 6)[0]
        self._pool, at = self._read_pool()
        self.flags, this, parent, count = struct.unpack_from(">4H", data, at)
        self.name = self._class(this)
        self.parent = self._class(parent) if parent else None
        at += 8
        self.interfaces = [self._class(i) for i in struct.unpack_from(f">{count}H", data, at)]
        at += 2 * count
        self.fields, at = self._members(at)
        self.methods, at = self._members(at)

    def _read_pool(self):
        pool = {}
        (count,) = struct.unpack_from(">H", self._data, 8)
        at, i = 10, 1
        while i < count:
            tag = self._data[at]
            if tag == 1:
                (size,) = struct.unpack_from(">H", self._data, at + 1)
                pool[i] = (tag, self._data[at + 3 : at + 3 + size].decode("latin-1"))
                at += 3 + size
            else:
                pool[i] = (tag, self._data[at + 1 : at + 1 + _SIZES[tag]])
                at += 1 + _SIZES[tag]
            i += 2 if tag in (5, 6) else 1
        return pool, at

    def _class(self, i):
        return self._pool[struct.unpack(">H", self._pool[i][1])[0]][1]

    def _members(self, at):
        members = {}
        (count,) = struct.unpack_from(">H", self._data, at)
        at += 2
        for _ in range(count):
            flags, name, descriptor, attributes = struct.unpack_from(">4H", self._data, at)
            members[self._pool[name][1], self._pool[descriptor][1]] = flags
            at += 8
            for _ in range(attributes):
                at += 6 + struct.unpack_from(">I", self._data, at + 2)[0]
        return members, at

    def uses(self):
        found = set()
        for tag, value in self._pool.values():
            if tag in _KINDS:
                owner, name_and_type = struct.unpack(">2H", value)
                name, descriptor = struct.unpack(">2H", self._pool[name_and_type][1])
                found.add((_KINDS[tag], self._class(owner), self._pool[name][1], self._pool[descriptor][1]))
            elif tag == 7:
                name = self._pool[struct.unpack(">H", value)[0]][1].lstrip("[")
                name = name[1:-1] if name.endswith(";") else name
                if len(name) > 1:
                    found.add(("class", name, "", ""))
        return found


class ClassPath:
    """The classes of some jars, read when they are asked for."""

    def __init__(self, jars):
        self._jars = [zipfile.ZipFile(jar) for jar in jars]
        self._places = {}
        for jar in reversed(self._jars):  # the first jar wins
            for name in jar.namelist():
                if name.endswith(".class"):
                    self._places[name[: -len(".class")]] = jar
        self._read = {}

    def names(self):
        return self._places.keys()

    def find(self, name):
        """None if it is not there."""
        if name not in self._read:
            jar = self._places.get(name)
            self._read[name] = None if jar is None else ClassFile(jar.read(name + ".class"))
        return self._read[name]

    def close(self):
        for jar in self._jars:
            jar.close()
