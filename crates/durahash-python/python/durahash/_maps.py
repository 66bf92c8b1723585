"""The classes of maps: those of the native module, with what a mapping of Python has."""

import atexit
import weakref
from collections.abc import Collection, ItemsView, KeysView, MutableMapping, ValuesView

from . import _native
from ._errors import Error


class _Delete:
    """What a function for ``Map.update`` returns to remove the key."""

    __slots__ = ()

    def __repr__(self):
        return "durahash.DELETE"

    def __reduce__(self):
        return "DELETE"  # there is one, also in a copy and in another process


DELETE = _Delete()

_open: dict = {}


def _opened(map_):
    """Has the map closed when the interpreter ends, so that the next open has nothing to recover."""
    number = id(map_)
    _open[number] = weakref.ref(map_, lambda _: _open.pop(number, None))


@atexit.register
def _close_all():
    for ref in list(_open.values()):
        map_ = ref()
        if map_ is not None:
            try:
                map_.close()
            except Error:
                pass


class _Keys(KeysView):
    __slots__ = ()


class _Values(ValuesView):
    __slots__ = ()

    def __iter__(self):
        return self._mapping._values()

    def __contains__(self, value):
        return value in iter(self)  # ValuesView looks up each key, which may be gone by then


class _Items(ItemsView):
    __slots__ = ()

    def __iter__(self):
        return self._mapping._items()


class Map(_native.Map, MutableMapping):
    """A dictionary in a file, or in memory.

    ``Map(path, key=..., value=...)`` opens the pool at ``path``, or makes it where there is none. Without ``path`` the
    map is in memory. A pool knows its types, so that ``Map(path)`` opens one that is there.

    ``key`` and ``value`` say what they are:

    - ``int`` (that is ``"i64"``), ``"u8"`` to ``"u64"``, ``"i8"`` to ``"i64"``; ``float`` (``"f64"``), ``"f32"``;
      ``bool``
    - ``str``, ``bytes``
    - ``"S16"`` (or any length): bytes of that length, as digests are; smaller and faster than ``bytes``
    - for values also ``"json"``, ``"pickle"``, or ``(encode, decode)``, two functions to bytes and back. ``"pickle"``
      runs whatever code the file says: only for files that nobody else can write.

    Options, all by name:

    - ``create``: True to refuse a file that is there, False to refuse to make one
    - ``mode``: ``"interval"``, the default (a kill loses nothing, loss of power the last 0.1 to 0.2 s, or
      more where the disk cannot keep up; ``"interval:20"`` is 20 ms in place of 100), ``"strict"`` (loss of power loses
      nothing), ``"process"`` (loss of power loses the pool)
    - ``read_only``: the file is not changed, and several processes may read it at once
    - ``readers``: True to let them read it beside this map: in the mode ``process``, or with a live image
    - ``live_image``: in the mode interval or strict, False for a log of lines in place of a live image, which a new
      pool on ext4 or XFS has: half the space, slower inserts, and a slower open after a kill
    - ``max_bytes``, ``design``, ``verify``, ``accept_suspect``: as the library's options of these names

    Every operation may be called from any thread. One on a single key takes effect at one instant. Iteration goes on
    while others write: a key that is there all the time comes exactly once.

    >>> ages = durahash.Map(key=str, value=int)
    >>> ages["Ada"] = 36
    >>> ages["Ada"], ages.get("Grace"), "Grace" in ages, len(ages)
    (36, None, False, 1)
    """

    __slots__ = ("__weakref__",)
    __module__ = "durahash"

    def __init__(
        self,
        path=None,
        key=None,
        value=None,
        *,
        create=None,
        mode=None,
        read_only=False,
        readers=False,
        max_bytes=None,
        design=None,
        live_image=None,
        verify=False,
        accept_suspect=False,
    ):
        # The class's __new__ has opened it; help() and editors show this list.
        _opened(self)

    def keys(self):
        """A view of the keys."""
        return _Keys(self)

    def values(self):
        """A view of the values, which goes over the map once."""
        return _Values(self)

    def items(self):
        """A view of the pairs, which goes over the map once."""
        return _Items(self)

    def update(self, /, *args, **options):
        """``update(key, f)`` gives ``key`` the value that ``f`` makes of the one it has, and returns it.

        ``f`` gets ``default``, which is None, where there is no value. It returns ``durahash.DELETE`` to remove the
        key. Where another thread changes the key meanwhile, ``f`` is called again.

        ``update(mapping)`` and ``update(pairs)`` are those of dict, and ``put_many``.

        >>> words = durahash.Map(key=str, value="json")
        >>> words.update("a", lambda list: list + [1], default=[])
        [1]
        >>> words.update("a", lambda list: list + [2], default=[])
        [1, 2]
        >>> words.update("a", lambda _: durahash.DELETE)
        durahash.DELETE
        >>> words.update({"b": [3]})
        >>> dict(words)
        {'b': [3]}
        """
        if len(args) == 2 and callable(args[1]):
            default = options.pop("default", None)
            if options:
                raise TypeError(f"update(key, f) takes default= only, not {', '.join(options)}")
            return self._update(args[0], args[1], default, DELETE)
        if len(args) > 1:
            raise TypeError("update takes a key and a function, or one mapping or iterable of pairs")
        if args:
            self.put_many(args[0])
        if options:
            self.put_many(options)
        return None

    def __ior__(self, other):
        self.put_many(other)
        return self


class MultiMap(_native.MultiMap, Collection):
    """A dictionary, in a file or in memory, of any number of values for each key.

    It is made and opened as a Map is. The values of a key have no order, and equal ones are kept apart. Iteration
    gives a key once for each of its values.

    >>> edges = durahash.MultiMap(key=int, value=int)
    >>> edges.add_many([1, 1, 2], [2, 3, 4])
    >>> sorted(edges.get_all(1)), edges.count(2), 3 in edges, len(edges)
    ([2, 3], 1, False, 3)
    >>> sorted(edges.items())
    [(1, 2), (1, 3), (2, 4)]
    """

    __slots__ = ("__weakref__",)
    __module__ = "durahash"

    def __init__(
        self,
        path=None,
        key=None,
        value=None,
        *,
        create=None,
        mode=None,
        read_only=False,
        readers=False,
        max_bytes=None,
        live_image=None,
        verify=False,
        accept_suspect=False,
    ):
        # The class's __new__ has opened it; help() and editors show this list.
        _opened(self)

    def keys(self):
        """An iterator over the keys, each as often as it has values."""
        return iter(self)

    def values(self):
        """An iterator over the values."""
        return self._values()

    def items(self):
        """An iterator over the pairs."""
        return self._items()
