"""Errors, one class for each kind that the library has."""


class Error(Exception):
    """Whatever goes wrong with a pool. An operation that raises it has changed nothing, but for the earlier part of a
    batch, and but for an IoError behind a log, after which the next open may find the operation or not."""


class IoError(Error, OSError):
    """A system call failed; ``errno`` says how. Behind a log every operation fails from then on: open the pool anew."""


class NotFoundError(IoError, FileNotFoundError):
    """There is no such file."""


class ExistsError(Error, FileExistsError):
    """The file is there, and ``create=True`` was asked for."""


class LockedError(Error):
    """Another process, or another map in this one, has the pool open. One process writes a pool at a time; several
    may read it, each with ``read_only=True``, while none writes, or beside one that opened it with ``readers=True``, until
    that closes it."""


class FullError(Error):
    """The disk, or the pool's ``max_bytes``, is used up. Lookups and removals still work."""


class ReadOnlyError(Error):
    """A change of a pool that was opened with ``read_only=True``."""


class ClosedError(Error, ValueError):
    """The map was closed."""


class ForkedError(Error):
    """The map belongs to the process that forked this one."""


class PoisonedError(Error):
    """An earlier failure closed the pool for writing: open it again, which recovers it."""


class TypesError(Error, TypeError):
    """The pool holds keys or values of other types, or is a multimap and not a map, or the other way round; or bytes of an
    array are no value of the type."""


class TooLargeError(Error, ValueError):
    """A key of more than 1 MiB, or a value of more than 1 GiB."""


class OptionsError(Error, ValueError):
    """The options contradict each other, or the machine."""


class NotAPoolError(Error):
    """The file is no pool."""


class VersionError(NotAPoolError):
    """The pool was written by another version, or on a machine of the other byte order, and this one cannot read it."""


class CorruptError(Error):
    """The pool is damaged. ``check`` tells where."""


class TruncatedError(CorruptError):
    """The file is shorter than the pool in it."""


class PowerLossError(Error):
    """The machine went down with the pool open in the mode ``process``."""


class CopiedError(Error):
    """The file is a copy that was made while the pool was open."""


class NoLiveImageError(Error):
    """The pool was not closed, and its live image is gone."""


for _error in [e for e in vars().values() if isinstance(e, type)]:
    _error.__module__ = "durahash"
