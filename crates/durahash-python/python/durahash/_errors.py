"""Errors, one class for each kind that the library has."""


class Error(Exception):
    """Whatever goes wrong with a pool. An operation that raises it has changed nothing, but for the earlier part of a
    batch, and but for an IoError behind a log, after which the next open may find the operation or not."""

    __module__ = "durahash"


class IoError(Error, OSError):
    """A system call failed; ``errno`` says how. Behind a log every operation fails from then on: open the pool anew."""

    __module__ = "durahash"


class NotFoundError(IoError, FileNotFoundError):
    """There is no such file."""

    __module__ = "durahash"


class ExistsError(Error, FileExistsError):
    """The file is there, and ``create=True`` was asked for."""

    __module__ = "durahash"


class LockedError(Error):
    """Another process, or another map in this one, has the pool open. One process writes a pool at a time; several
    may read it, each with ``read_only=True``, while none writes, or beside a program in Rust that allows it, until that
    closes it."""

    __module__ = "durahash"


class FullError(Error):
    """The disk, or the pool's ``max_bytes``, is used up. Lookups and removals still work."""

    __module__ = "durahash"


class ReadOnlyError(Error):
    """A change of a pool that was opened with ``read_only=True``."""

    __module__ = "durahash"


class ClosedError(Error, ValueError):
    """The map was closed."""

    __module__ = "durahash"


class ForkedError(Error):
    """The map belongs to the process that forked this one."""

    __module__ = "durahash"


class PoisonedError(Error):
    """An earlier failure closed the pool for writing: open it again, which recovers it."""

    __module__ = "durahash"


class TypesError(Error, TypeError):
    """The pool holds keys or values of other types, or is a multimap and not a map, or the other way round."""

    __module__ = "durahash"


class TooLargeError(Error, ValueError):
    """A key of more than 1 MiB, or a value of more than 1 GiB."""

    __module__ = "durahash"


class OptionsError(Error, ValueError):
    """The options contradict each other, or the machine."""

    __module__ = "durahash"


class NotAPoolError(Error):
    """The file is no pool."""

    __module__ = "durahash"


class VersionError(NotAPoolError):
    """The pool was written by another version, or on a machine of the other byte order, and this one cannot read it."""

    __module__ = "durahash"


class CorruptError(Error):
    """The pool is damaged. ``check`` tells where."""

    __module__ = "durahash"


class TruncatedError(CorruptError):
    """The file is shorter than the pool in it."""

    __module__ = "durahash"


class PowerLossError(Error):
    """The machine went down with the pool open in the mode ``process``."""

    __module__ = "durahash"


class CopiedError(Error):
    """The file is a copy that was made while the pool was open."""

    __module__ = "durahash"


class NoLiveImageError(Error):
    """The pool was not closed, and its live image is gone."""

    __module__ = "durahash"
