from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Generic, TypeVar, Union, overload

from durahash import Stats

_K = TypeVar("_K")
_V = TypeVar("_V")

_Path = Union[str, PathLike[str]]
_Kind = Union[str, type, tuple[Callable[[Any], bytes], Callable[[bytes], Any]], Any]
# An array of numpy.
_Array = Any

__all__ = ["ShardedMap"]

class ShardedMap(Generic[_K, _V]):
    @overload
    def __init__(
        self,
        volumes: _Path | dict[str, _Path],
        shards: int | None = None,
        key: type[_K] = ...,
        value: type[_V] = ...,
        *,
        actor_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self,
        volumes: _Path | dict[str, _Path],
        shards: int | None = None,
        key: _Kind | None = None,
        value: _Kind | None = None,
        *,
        actor_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None: ...
    def __getitem__(self, key: _K) -> _V: ...
    def __setitem__(self, key: _K, value: _V) -> None: ...
    def __delitem__(self, key: _K) -> None: ...
    def __contains__(self, key: _K) -> bool: ...
    def __iter__(self) -> Iterator[_K]: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> ShardedMap[_K, _V]: ...
    def __exit__(self, *exception: object) -> None: ...
    def get(self, key: _K, default: Any = None) -> Any: ...
    def get_many(
        self,
        keys: Iterable[_K] | _Array,
        default: Any = None,
        *,
        out: _Array | None = None,
        missing: _Array | None = None,
    ) -> Any: ...
    def put_many(
        self,
        keys: Mapping[_K, _V] | Iterable[tuple[_K, _V]] | Iterable[_K] | _Array,
        values: Iterable[_V] | _Array | None = None,
    ) -> None: ...
    def contains_many(self, keys: Iterable[_K] | _Array) -> list[bool]: ...
    def remove_many(self, keys: Iterable[_K] | _Array) -> list[bool]: ...
    def items(self) -> Iterator[tuple[_K, _V]]: ...
    def sync(self) -> None: ...
    def stats(self) -> list[Stats]: ...
    def reshard(self, shards: int) -> None: ...
    def close(self) -> None: ...
