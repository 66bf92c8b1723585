"""Copies a cache of diskcache into a new ``durahash.Cache``: ``python -m durahash.from_diskcache FROM TO``.

``FROM`` is the directory of a ``diskcache.Cache`` or ``FanoutCache``, whose entries stay as they are; ``TO`` is the new
file. Nobody may write to the cache meanwhile. Where it was not closed, SQLite may leave its files -wal and -shm beside the
database. Keys, values, expiry and tags are copied; what has expired is not. diskcache itself is not needed.

What diskcache has pickled, which is all keys and values but texts, bytes and numbers, is left out, since a program that could
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
from ._errors import ClosedError, Error, IoError, PoisonedError, ReadOnlyError

# How diskcache keeps a value: in the row or a file of bytes, in a file of text, as a pickle.
_RAW, _BINARY, _TEXT, _PICKLE = 1, 2, 3, 4
_ROWS = "SELECT key, raw, expire_time, tag, mode, filename, value FROM Cache"


class _Left(Exception):
    """Why an entry is left out."""


def _unpickled(data, allow_pickle):
    if not allow_pickle:
        raise _Left("a pickle, see --allow-pickle")
    try:
        return pickle.loads(data)
    except Exception as e:  # whatever its classes raise
        raise _Left(f"a pickle that cannot be read: {type(e).__name__}") from e


def _bytes(folder, filename):
    """What is in a file. A row may name any, and so one that is not of the cache."""
    try:
        path = (folder / filename).resolve()
        if folder.resolve() not in path.parents:
            raise _Left("its file is outside of the folder")
        if path.is_file():
            return path.read_bytes()
    except (OSError, RuntimeError):  # a loop of links
        pass
    raise _Left("its file is gone, or is none that can be read")


def _value(folder, mode, filename, value, allow_pickle):
    if filename is not None:
        value = _bytes(folder, filename)
    if mode == _TEXT:
        return value.decode()
    if mode == _PICKLE:
        return _unpickled(value, allow_pickle)
    if mode not in (_RAW, _BINARY):
        raise _Left("kept in a way that is not known here")
    return value


def _databases(source):
    source = pathlib.Path(source)
    found = [source / "cache.db"] if (source / "cache.db").exists() else sorted(source.glob("[0-9]*/cache.db"))
    if not found:
        raise FileNotFoundError(f"{source}: no cache.db of diskcache is there")
    return found


def _opened(path):
    beside = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    is_closed = not any(other.exists() and other.stat().st_size for other in beside)
    # Without a log SQLite needs no file beside it.
    options = "mode=ro&immutable=1" if is_closed else "mode=ro"
    database = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)
    # What is no UTF-8 is left out where it is encoded.
    database.text_factory = lambda data: data.decode(errors="surrogateescape")
    return contextlib.closing(database)


def copy(source, cache, allow_pickle=False, now=None):
    """Copies the entries below the directory ``source`` into ``cache``; returns how many, and a dict from reasons to how
    many were left out for them."""
    copied, left, errors = 0, {}, {}
    for path in _databases(source):
        with _opened(path) as database:
            for key, raw, expires, tag, mode, filename, value in database.execute(_ROWS):
                try:
                    at = time.time() if now is None else now
                    lifetime = None if expires is None or math.isinf(expires) else expires - at
                    if lifetime is not None and lifetime <= 0:
                        raise _Left("has expired")
                    key = key if raw else _unpickled(key, allow_pickle)
                    value = _value(path.parent, mode, filename, value, allow_pickle)
                    cache.set(key, value, lifetime, tag=tag)
                    copied += 1
                except (ClosedError, IoError, PoisonedError, ReadOnlyError):
                    raise  # so would be the next one
                except (_Left, TypeError) as e:
                    left[str(e)] = left.get(str(e), 0) + 1
                except Exception as e:  # whatever is wrong with it, or the codec raises
                    reason = errors.setdefault(type(e), f"{type(e).__name__}, the first: {e}")
                    left[reason] = left.get(reason, 0) + 1
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
    made = False
    try:
        _databases(options.source)
        with Cache(options.target, create=True, codec=options.codec, size_limit=options.size_limit) as cache:
            made = True
            copied, left = copy(options.source, cache, options.allow_pickle)
    except (Error, OSError, sqlite3.Error) as e:
        text = f"{options.source}: {e}" if isinstance(e, sqlite3.Error) else str(e)
        if made:
            text += f"\n{options.target} has only a part of the entries: remove it before you try again"
        print(text, file=sys.stderr)
        return 1
    print(f"{copied} entries copied")
    for reason, count in left.items():
        print(f"{count} left out: {reason}", file=sys.stderr)
    return 1 if set(left) - {"has expired"} else 0


if __name__ == "__main__":
    sys.exit(main())
