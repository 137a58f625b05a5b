"""Python objects as rows: each is pickled by itself, in the row's one column."""

from __future__ import annotations

import pickle
from typing import Any, Iterable, List, Union

__all__ = ["COLUMN", "dumps", "loads"]

COLUMN = "python_object"  # io.millrace.spark.internal.rows.Pickles


def dumps(objects: Iterable[Any]) -> List[bytes]:
    return [pickle.dumps(each, pickle.HIGHEST_PROTOCOL) for each in objects]


def loads(rows: Iterable[Union[bytes, memoryview]]) -> List[Any]:
    return [pickle.loads(row) for row in rows]
