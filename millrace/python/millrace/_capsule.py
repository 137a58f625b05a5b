"""PyCapsules of C structs, as the Arrow PyCapsule interface and DLPack ask for them, by ctypes."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, PYFUNCTYPE, Structure, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64
from ctypes import c_void_p, py_object
from typing import Any, Callable, Tuple

from millrace._library import ArrowArray, ArrowSchema
from millrace.error import error_of

_INVALID_ARGUMENT = 3


class DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class ArrowArrayStream(Structure):
    _fields_ = [
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]


# A destructor gets a capsule whose last reference is gone: as a pointer, or ctypes would count it again.
_DESTRUCTOR = PYFUNCTYPE(None, c_void_p)
_RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
_python = ctypes.PyDLL(None)
_new = _python.PyCapsule_New
_new.restype, _new.argtypes = py_object, [c_void_p, c_char_p, _DESTRUCTOR]
_is_valid = _python.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c_int, [c_void_p, c_char_p]
_pointer = _python.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [c_void_p, c_char_p]
_allocate = _python.PyMem_RawCalloc
_allocate.restype, _allocate.argtypes = c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_free = _python.PyMem_RawFree
_free.restype, _free.argtypes = None, [c_void_p]


def _destructor_of_struct(name: bytes, struct: Any) -> Any:
    def destroy(capsule: int) -> None:
        address = _pointer(capsule, name)
        release = struct.from_address(address).release
        if release:  # nobody has taken it over
            _RELEASE(release)(address)
        _free(address)

    return _DESTRUCTOR(destroy)


def _destroy_tensor(capsule: int) -> None:
    if not _is_valid(capsule, b"dltensor"):
        return  # its consumer has renamed it, and calls the deleter
    address = _pointer(capsule, b"dltensor")
    _RELEASE(DLManagedTensor.from_address(address).deleter)(address)


# They live as long as the process: capsules may be the last to go.
_DESTROY_SCHEMA = _destructor_of_struct(b"arrow_schema", ArrowSchema)
_DESTROY_ARRAY = _destructor_of_struct(b"arrow_array", ArrowArray)
_DESTROY_STREAM = _destructor_of_struct(b"arrow_array_stream", ArrowArrayStream)
_DESTROY_TENSOR = _DESTRUCTOR(_destroy_tensor)


def arrow_capsules(fill: Callable[[int, int], None]) -> Tuple[object, object]:
    """The capsules of a schema and an array, which `fill` fills at their addresses."""
    schema = _allocate(1, ctypes.sizeof(ArrowSchema))
    array = _allocate(1, ctypes.sizeof(ArrowArray))
    try:
        fill(schema, array)
    except BaseException:
        _free(schema)
        _free(array)
        raise
    return _new(schema, b"arrow_schema", _DESTROY_SCHEMA), _new(array, b"arrow_array", _DESTROY_ARRAY)


def stream_capsule(fill: Callable[[int], None]) -> object:
    """The capsule of a stream, which `fill` fills at its address."""
    stream = _allocate(1, ctypes.sizeof(ArrowArrayStream))
    try:
        fill(stream)
    except BaseException:
        _free(stream)
        raise
    return _new(stream, b"arrow_array_stream", _DESTROY_STREAM)


def move(struct: Any, source: int, target: int) -> None:
    """Moves an Arrow struct of this type from one address to the other."""
    ctypes.memmove(target, source, ctypes.sizeof(struct))
    struct.from_address(source).release = None


def dlpack_capsule(address: int) -> object:
    """The capsule of a DLManagedTensor."""
    return _new(address, b"dltensor", _DESTROY_TENSOR)


_pointer_of = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _python))


def address_of(capsule: object, name: bytes) -> int:
    """The struct that a capsule of somebody else's holds; it stays the capsule's."""
    return int(_pointer_of(capsule, name))


class ArrowStream:
    """Reads the capsule of an ArrowArrayStream: pairs of addresses of a schema and an array, which who
    takes them over releases."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule  # releases the stream
        self._address = address_of(capsule, b"arrow_array_stream")
        stream = ArrowArrayStream.from_address(self._address)
        fill = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
        self._get_schema, self._get_next = fill(stream.get_schema), fill(stream.get_next)
        self._get_error = ctypes.CFUNCTYPE(c_char_p, c_void_p)(stream.get_last_error)

    def next(self, schema: ArrowSchema, array: ArrowArray) -> bool:
        """Fills both; False at the end."""
        for get, struct in ((self._get_next, array), (self._get_schema, schema)):
            if get(self._address, ctypes.addressof(struct)) != 0:
                text = (self._get_error(self._address) or b"").decode("utf-8", "replace")
                raise error_of(_INVALID_ARGUMENT, f"the Arrow stream fails: {text}")
            if not array.release:
                return False
        return True
