"""The class of caches: that of the native module, with what takes functions."""

import functools
import operator

from . import _native
from ._errors import Error, FullError, ReadOnlyError, TypesError
from ._maps import _opened

_ABSENT = object()


class Cache(_native.Cache):
    """A dictionary in a file, or in memory, that forgets: entries may expire, and go for others where it has a bound.

    ``Cache(path)`` opens the pool at ``path``, or makes it where there is none. Without ``path`` the cache is in memory.
    Its methods have the names that diskcache has.

    Keys are ``str``, ``bytes``, ``int``, ``float``, ``bool``, ``None``, and tuples and lists of these. They are equal if
    their types and values are: 1, 1.0, True and "1" are four keys.

    Values are of the same types, and dicts. They come back as they were. ``codec`` makes bytes of others: ``"json"``,
    ``"msgpack"`` (if that is installed), ``"pickle"``, or ``(encode, decode)``, two functions to bytes and back. With a
    codec all tuples, lists and dicts go through it. Nothing is pickled unless you ask for it: a pickle runs whatever code
    it says when it is read, so a program that can write the file could run code in this process. Ask for ``"pickle"`` only where
    nobody else can write the file. A value that is pickled is not read by a cache that was opened without.

    Options, all by name:

    - ``size_limit``: the most bytes of all entries; ``max_entries``: how many they are. The pool keeps both; 2**64 - 1
      takes a bound away. Without a bound nothing goes but what expires.
    - ``eviction_policy``: which entry goes for another: ``"tinylfu"``, the default (about the one that was used least
      often of late), ``"lru"`` (least recently), ``"s3fifo"``, ``"sieve"``, ``"random"``, ``"soonest"`` (expires first), ``"none"`` (a set is a
      FullError)
    - ``codec``: see above
    - ``clock``: a ``durahash.Clock``, for tests
    - ``create``, ``mode``, ``read_only``, ``readers``, ``live_image``, ``max_bytes`` (of the file), ``verify``,
      ``accept_suspect``: as of ``Map``

    Every operation may be called from any thread. One on a single key takes effect at one instant.

    >>> pages = durahash.Cache(max_entries=1000)
    >>> pages["/"] = "<h1>"
    >>> pages.set("/now", {"at": 12.5}, expire=60, tag="news")
    True
    >>> pages["/"], pages.get("/now"), "/other" in pages, len(pages)
    ('<h1>', {'at': 12.5}, False, 2)
    >>> pages.evict("news"), list(pages)
    (1, ['/'])
    """

    __slots__ = ("__weakref__",)
    __module__ = "durahash"
    __reversed__ = None  # there is no order

    def __init__(
        self,
        path=None,
        *,
        size_limit=None,
        max_entries=None,
        eviction_policy=None,
        codec=None,
        create=None,
        mode=None,
        read_only=False,
        readers=False,
        max_bytes=None,
        live_image=None,
        verify=False,
        accept_suspect=False,
        clock=None,
    ):
        # The class's __new__ has opened it; help() and editors show this list.
        _opened(self)

    def decr(self, key, delta=1, default=0):
        """Takes ``delta`` from the number at ``key``, as ``incr`` adds it.

        >>> c = durahash.Cache()
        >>> c.decr("left", default=10)
        9
        """
        # Of an int: an unsigned one of numpy has no negative.
        return self.incr(key, -delta if isinstance(delta, float) else -operator.index(delta), default)

    def memoize(self, name=None, typed=False, expire=None, tag=None, ignore=()):
        """A decorator that keeps the results of a function, by its arguments, which must be keys.

        ``name`` is in the keys, and is that of the function unless it is given, as it must be for a lambda. ``typed=True`` tells arguments apart whose
        class is a subclass of another. ``ignore`` has places and names of arguments that do not count. ``expire`` and
        ``tag`` are those of ``set``; with ``expire=0`` nothing is kept. ``f.__cache_key__(...)`` is the key for a call,
        ``f.__wrapped__`` the function. Several threads that miss the same key at once all call the function. A result that
        cannot be decoded is a miss, and one that has no room is returned and not kept.

        >>> c = durahash.Cache()
        >>> @c.memoize(expire=60)
        ... def double(n):
        ...     print("doubled")
        ...     return 2 * n
        >>> double(2), double(2)
        doubled
        (4, 4)
        >>> c[double.__cache_key__(2)]
        4
        """
        if callable(name):
            raise TypeError("call it: @cache.memoize()")
        if isinstance(ignore, (str, bytes)):
            raise TypeError(f"ignore= has places and names, as in ignore={{{ignore!r}}}")
        ignore = frozenset(ignore)

        def decorate(f):
            own = getattr(f, "__qualname__", "<lambda>")
            if name is None and own.endswith("<lambda>"):
                raise TypeError(f"{f!r} has no name of its own: give one with name=")
            base = name if name is not None else f"{f.__module__}.{own}"

            def cache_key(*args, **kwargs):
                args = tuple(arg for n, arg in enumerate(args) if n not in ignore)
                named = tuple(sorted((key, arg) for key, arg in kwargs.items() if key not in ignore))
                if not typed:
                    return base, args, named
                classes = [type(arg).__qualname__ for arg in (*args, *(arg for _, arg in named))]
                return base, args, named, tuple(classes)

            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                key = cache_key(*args, **kwargs)
                try:
                    result = self.get(key, _ABSENT)
                except Exception as e:
                    if isinstance(e, Error) and not isinstance(e, TypesError):
                        raise
                    key in self  # raises the same if it was the key that is none
                    result = _ABSENT
                if result is _ABSENT:
                    result = f(*args, **kwargs)
                    if expire is None or expire > 0:
                        try:
                            self.set(key, result, expire, tag=tag)
                        except (FullError, ReadOnlyError):
                            pass
                return result

            wrapper.__cache_key__ = cache_key
            return wrapper

        return decorate
