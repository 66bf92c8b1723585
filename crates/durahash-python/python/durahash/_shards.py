"""The actors of ``durahash.ray``: shards, and the catalog that names those in use."""

import contextlib
import errno
import glob
import os
import threading
import time
import uuid

import ray

from . import _native
from ._errors import LockedError, NotFoundError, OptionsError, TypesError
from ._maps import Map

# Entries that are sent, or gone over, at a time.
STEP = 1024
# What a map of the library says of values that two functions make bytes of.
_CODED = "(encode, decode)"


def _open(path, **options):
    """Opens a pool, whose lock a process that was killed may hold for a moment more."""
    until = time.monotonic() + 10
    while True:
        try:
            return Map(path, **options)
        except LockedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


class Catalog:
    """Knows which shards are in use."""

    def __init__(self, directory):
        self._directory, self._path, self._pool = directory, os.path.join(directory, "catalog.pool"), None

    def _state(self):
        """What there is to know; None before a map is made. Opens the pool, also in an actor that was started again."""
        if self._pool is None:
            if not os.path.exists(self._path):
                return None
            self._pool = _open(self._path, value="json", create=False)
        return self._pool.get("map")

    def _put(self, **changes):
        state = {**(self._state() or {}), **changes}
        self._pool["map"] = state
        self._pool.sync()
        return state

    def begin(self, key, value, places):
        """The state for the process that opens the map: what a reshard that was cut off had begun is over."""
        state = self._state()
        if state is None and (key is None or value is None):
            raise OptionsError("a new map needs its key= and its value=")
        if state is not None:
            if value is None and state["value"] == _CODED:
                raise OptionsError("this map needs its value=, the two functions")
            key, value = key or state["key"], value or state["value"]
        with Map(key=key, value=value) as m:
            kinds = {"key": m.key, "value": m.value}
        if state is None:
            if self._pool is None:
                if glob.glob(os.path.join(glob.escape(self._directory), "shard-*.pool")):
                    text = f"{self._directory} has shards and no catalog: the volume that has it is the first"
                    raise OptionsError(text)
                os.makedirs(self._directory, exist_ok=True)
                self._pool = _open(self._path, key=str, value="json")
            # It is put by the switch, when the pools are there.
            return {"id": uuid.uuid4().hex[:12], "generation": 0, "places": places, **kinds}
        found = {name: state[name] for name in kinds}
        if found != kinds:
            raise TypesError(f"the map has {found}, not {kinds}")
        return self._put(moving=False)

    def current(self):
        state = self._state()
        return state["generation"], state["name"], len(state["places"])

    def is_in_use(self, generation):
        state = self._state()
        return state is not None and state["generation"] == generation and not state["moving"]

    def move(self, is_moving):
        """Says that a reshard begins or was given up; the generation in use."""
        return self._put(moving=is_moving)["generation"]

    def switch(self, state):
        """Has other shards in use, whose actors have names with this beginning."""
        self._put(**{**state, "moving": False})

    def pid(self):
        return os.getpid()

    def close(self):
        if self._pool is not None:
            self._pool.close()


class Shard:
    """A pool, and what may be done with it. An answer of None says that the shard is not in use (now)."""

    def __init__(self, catalog, generation, path, options):
        self._path, self._options = path, options
        self._map = _open(path, create=False, **options) if os.path.exists(path) else None
        # Held by a write, so that none is under way when they are refused.
        self._writing = threading.Lock()
        self._writes = self._reads = ray.get(catalog.is_in_use.remote(generation))

    def make(self):
        """Makes the pool; removes what is in it if an earlier reshard has made it."""
        if self._map is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._map = _open(self._path, **self._options)
        self._map.clear()

    def begin(self):
        """Removes pools of other generations, which a reshard that was cut off has left beside this one."""
        if self._map is None:
            raise NotFoundError(errno.ENOENT, f"{self._path}: the pool of this shard is gone")
        head, generation, _ = self._path.rsplit("-", 2)
        for path in glob.glob(glob.escape(head) + "-*.pool"):
            if path.rsplit("-", 2)[1] != generation:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def allow(self, reads, writes):
        with self._writing:
            self._reads, self._writes = reads, writes

    def read(self, method, *args):
        return getattr(self._map, method)(*args) if self._reads else None

    def rows(self, keys, shape, dtype):
        """Values as rows of an array, and which are missing."""
        import numpy

        if not self._reads:
            return None
        out, missing = numpy.zeros((len(keys), *shape), dtype), numpy.zeros(len(keys), bool)
        self._map.get_many(keys, out=out, missing=missing)
        return out, missing

    def write(self, method, *args):
        with self._writing:
            if not self._writes:
                return None
            answer = getattr(self._map, method)(*args)
            return True if answer is None else answer

    def send(self, key, shards):
        """Sends all entries to other shards; how many they are."""
        at = 0
        while at is not None:
            keys, values, at = self._map._scan(at, STEP)
            parts = zip(shards, split(key, keys, len(shards)))
            ray.get([to.fill.remote(rows_at(keys, part), rows_at(values, part)) for to, part in parts if part])
        return len(self._map)

    def fill(self, keys, values):
        self._map.put_many(keys, values)

    def sync(self):
        self._map.sync()
        return len(self._map)

    def stats(self):
        return self._map.stats()

    def pid(self):
        return os.getpid()

    def close(self):
        if self._map is not None:
            self._map.close()

    def remove(self):
        self.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


def split(key, keys, count):
    """The positions of the keys of each of so many shards."""
    return [memoryview(part).cast("q") for part in _native.split(key, keys, count)]


def as_column(rows):
    """Rows that may be asked for by their positions."""
    return rows if _is_array(rows) else list(rows)


def rows_at(column, positions):
    return column.take(positions, axis=0) if _is_array(column) else [column[i] for i in positions]


def _is_array(rows):
    return hasattr(rows, "dtype") and hasattr(rows, "take")
