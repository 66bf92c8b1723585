"""Dictionaries in a file that survive kill -9.

A Map is a file, a *pool*, that the threads of one process read and write through a memory mapping. There is no server
and no save: when an assignment has returned, the entry survives the death of the process.

>>> import durahash, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "visits.pool")
>>> with durahash.Map(path, key=str, value=int) as visits:
...     visits["home"] = 1
...     visits.increment("home")
2
>>> with durahash.Map(path) as visits:
...     dict(visits)
{'home': 2}
"""

from ._cache import Cache
from ._errors import (
    ClosedError,
    CopiedError,
    CorruptError,
    Error,
    ExistsError,
    ForkedError,
    FullError,
    IoError,
    LockedError,
    NoLiveImageError,
    NotAPoolError,
    NotFoundError,
    OptionsError,
    PoisonedError,
    PowerLossError,
    ReadOnlyError,
    TooLargeError,
    TruncatedError,
    TypesError,
    VersionError,
)
from ._maps import DELETE, Map, MultiMap
from ._native import Clock, __version__
from ._types import CacheStats, Finding, Stats

__all__ = [
    "DELETE",
    "Cache",
    "CacheStats",
    "Clock",
    "ClosedError",
    "CopiedError",
    "CorruptError",
    "Error",
    "ExistsError",
    "Finding",
    "ForkedError",
    "FullError",
    "IoError",
    "LockedError",
    "Map",
    "MultiMap",
    "NoLiveImageError",
    "NotAPoolError",
    "NotFoundError",
    "OptionsError",
    "PoisonedError",
    "PowerLossError",
    "ReadOnlyError",
    "Stats",
    "TooLargeError",
    "TruncatedError",
    "TypesError",
    "VersionError",
    "__version__",
]
