"""A plugin of pytest: in diskcache's own tests ``diskcache.Cache`` is a ``durahash.Cache`` behind the same calls.

It turns a directory into the path of a pool, leaves out ``retry=``, sets the clock by ``time.time``, which the tests move,
and opens the pool anew for a setting. All else goes through as it is.
"""

import os
import tempfile
import time

import diskcache
import durahash
import pytest

# The tests that cannot pass, by the reason.
CANNOT = {
    "one process has a pool open, once: it is not opened twice, nor pickled": [
        "test_init_path", "test_with", "test_pickle",
    ],
    "a file object is no value, and a value is no file": [
        "test_getsetdel", "test_read", "test_read_keyerror", "test_set_twice", "test_raw", "test_path", "test_check",
        "test_cleanup_dirs", "test_custom_filename_disk",
    ],
    "there is no disk= nor its settings, but codec=, and no index of tags": [
        "test_init", "test_init_disk", "test_disk_reset", "test_disk_valueerror", "test_custom_disk",
        "test_tag_index",
    ],
    "it looks into SQLite, or at how diskcache calls it, the file system or itself": [
        "test_pragma_error", "test_close_error", "test_integrity_check", "test_get_ioerror_fast_path",
        "test_pop_ioerror", "test_pull_ioerror", "test_peek_ioerror", "test_peekitem_ioerror",
        "test_disk_write_os_error", "test_get_keyerror4", "test_custom_eviction_policy",
    ],
    "nothing waits for another process, so nothing times out": [
        "test_set_timeout", "test_add_timeout", "test_clear_timeout", "test_cull_timeout",
    ],
    "entries have no order": [
        "test_iter", "test_reversed", "test_reversed_error", "test_push_pull", "test_push_pull_prefix",
        "test_push_pull_extras", "test_push_pull_expire", "test_push_peek_expire", "test_push_pull_large_value",
        "test_push_peek_large_value", "test_peekitem_extras", "test_iterkeys",
    ],
    "what has expired is given to nobody, also not by an iterator; it is removed by a thread, and by expire(), not by set()": [
        "test_iter_expire", "test_expire_rows",
    ],
    "bounds hold at any time, without cull(), and the policies are others": [
        "test_least_recently_stored", "test_least_recently_used", "test_least_frequently_used",
        "test_size_limit_with_files", "test_size_limit_with_database", "test_cull_eviction_policy_none",
        "test_cull_size_limit_0",
    ],
}  # fmt: skip
# Those that would pass, and see nothing of the cache.
EMPTY = ["test_constant", "test_init_makedirs", "test_pragmas"]


class Cache:
    def __init__(self, directory=None, timeout=60, **settings):
        self.directory = tempfile.mkdtemp() if directory is None else os.fspath(directory)
        os.makedirs(self.directory, exist_ok=True)
        self.settings = settings
        self.open()

    def open(self):
        self.now = time.time()
        self.clock = durahash.Clock(self.now)
        self.cache = durahash.Cache(os.path.join(self.directory, "cache.pool"), clock=self.clock, **self.settings)

    def reset(self, key, value):
        if key == "statistics":
            self.cache.stats(enable=value)
        elif key in ("size_limit", "eviction_policy"):
            self.cache.close()
            self.settings[key] = value
            self.open()
        elif key != "cull_limit":
            raise AttributeError(key)

    def at(self):
        """The cache, at the time that it is now."""
        now = time.time()
        if now > self.now:
            self.clock.advance(now - self.now)
            self.now = now
        return self.cache

    def expire(self, now=None):
        return self.at().expire()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.cache.close()

    def __getattr__(self, name):
        method = getattr(self.at(), name)

        def call(*args, **options):
            options.pop("retry", None)
            return method(*args, **options)

        return call


Cache.__reversed__ = None
for name in ("getitem", "setitem", "delitem", "contains", "len", "iter"):

    def method(self, *args, name=f"__{name}__"):
        return getattr(self.at(), name)(*args)

    setattr(Cache, f"__{name}__", method)

diskcache.Cache = Cache


def pytest_collection_modifyitems(items):
    reasons = {test: reason for reason, tests in CANNOT.items() for test in tests}
    for item in items:
        if item.name in EMPTY:
            item.add_marker(pytest.mark.skip(reason="it sees nothing of the cache"))
        if item.name in reasons:
            item.add_marker(pytest.mark.xfail(reason=reasons.pop(item.name), strict=True))
    if reasons and len(items) > 1:
        raise pytest.UsageError(f"no such tests: {sorted(reasons)}")
