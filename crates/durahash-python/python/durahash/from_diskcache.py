"""Copies a cache of diskcache into a new ``durahash.Cache``: ``python -m durahash.from_diskcache FROM TO``.

``FROM`` is the directory of a ``diskcache.Cache`` or ``FanoutCache``, and stays as it is; ``TO`` is the new file. Nobody
may write to the cache meanwhile. Keys, values, expiry and tags are copied; what has expired is not. diskcache itself is
not needed.

What diskcache has pickled, which is all keys and values but texts, bytes and numbers, is left out, since whoever could
write the files could run code here: ``--allow-pickle`` reads it. A value that is no plain object then needs ``--codec``.
"""

import argparse
import contextlib
import math
import pathlib
import pickle
import sqlite3
import sys
import time

from . import Cache

# How diskcache keeps a value: in the row or a file of bytes, in a file of text, as a pickle.
_RAW, _BINARY, _TEXT, _PICKLE = 1, 2, 3, 4
# The newest last: those stay where the new cache has a bound.
_ROWS = "SELECT key, raw, expire_time, tag, mode, filename, value FROM Cache ORDER BY store_time"


class _Left(Exception):
    """Why an entry is left out."""


def _unpickled(data, allow_pickle):
    if not allow_pickle:
        raise _Left("a pickle, see --allow-pickle")
    try:
        return pickle.loads(data)
    except Exception as e:  # whatever its classes raise
        raise _Left(f"a pickle that cannot be read: {e}") from e


def _value(folder, mode, filename, value, allow_pickle):
    try:
        if filename is not None:
            value = (folder / filename).read_bytes()
        if mode == _TEXT:
            return value.decode()
    except (OSError, UnicodeDecodeError) as e:
        raise _Left("its file is gone, or no text") from e
    if mode == _PICKLE:
        return _unpickled(value, allow_pickle)
    if mode not in (_RAW, _BINARY):
        raise _Left("kept in a way that is not known here")
    return value


def copy(source, cache, allow_pickle=False, now=None):
    """Copies the entries below the directory ``source`` into ``cache``; returns how many, and a dict from reasons to how
    many were left out for them."""
    now = time.time() if now is None else now
    source = pathlib.Path(source)
    databases = [source / "cache.db"] if (source / "cache.db").exists() else sorted(source.glob("[0-9]*/cache.db"))
    if not databases:
        raise FileNotFoundError(f"{source}: no cache.db of diskcache is there")
    copied, left = 0, {}
    for path in databases:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            for key, raw, expires, tag, mode, filename, value in database.execute(_ROWS):
                lifetime = None if expires is None or math.isinf(expires) else expires - now
                try:
                    if lifetime is not None and lifetime <= 0:
                        raise _Left("has expired")
                    key = key if raw else _unpickled(key, allow_pickle)
                    value = _value(path.parent, mode, filename, value, allow_pickle)
                    cache.set(key, value, lifetime, tag=tag)
                    copied += 1
                except (_Left, TypeError) as e:
                    left[str(e)] = left.get(str(e), 0) + 1
    return copied, left


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m durahash.from_diskcache", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="FROM", help="the directory of diskcache")
    parser.add_argument("target", metavar="TO", help="the new file")
    parser.add_argument("--allow-pickle", action="store_true", help="read pickles, which run whatever code they say")
    parser.add_argument("--codec", choices=["json", "msgpack", "pickle"], help="as codec= of durahash.Cache")
    parser.add_argument("--size-limit", type=int, metavar="BYTES", help="as size_limit= of durahash.Cache")
    options = parser.parse_args(arguments)
    with Cache(options.target, create=True, codec=options.codec, size_limit=options.size_limit) as cache:
        copied, left = copy(options.source, cache, options.allow_pickle)
    print(f"{copied} entries copied")
    for reason, count in left.items():
        print(f"{count} left out: {reason}", file=sys.stderr)
    return 1 if set(left) - {"has expired"} else 0


if __name__ == "__main__":
    sys.exit(main())
