"""What maps answer with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """Figures about a map and its pool."""

    entries: int
    """How many there are."""
    file_bytes: int
    """Size of the file."""
    bytes_per_entry: float
    """Bytes of the file in use for entries, for each."""
    dram_bytes_per_entry: float
    """Bytes of memory beside the file, for each entry."""
    load_factor: float
    """Slots in use, as a part of all."""
    design: str
    """The design of the index."""
    key_type: str
    """Type of the keys, as the library names it."""
    value_type: str
    """Type of the values."""
    mode: str
    """The mode that the pool is opened in if no other is asked for."""
    durability: str
    """What an operation that has returned survives."""
    recovered: bool
    """True if the pool had not been closed before this open."""
    suspect: bool
    """True if the pool was ever opened although pages may have been missing."""
    open_seconds: float
    """How long the open took."""


@dataclass(frozen=True)
class CacheStats(Stats):
    """Figures about a cache and its pool. What was evicted or has expired counts since the cache was made, but for what
    an open counted that ended by a kill."""

    size_limit: "int | None"
    """The most bytes of all entries, if there is such a bound."""
    max_entries: "int | None"
    """The most entries."""
    eviction_policy: "str | None"
    """Which entry goes for another, where there is a bound."""
    evicted: int
    """How many entries went for others."""
    expired: int
    """How many had expired and were removed."""


@dataclass(frozen=True)
class Finding:
    """A fault that a check found."""

    invariant: str
    """The rule that does not hold."""
    offset: int
    """Where, in bytes from the beginning of the file."""
    what: str
    """The fault in words."""
