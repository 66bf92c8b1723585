"""The stores, each behind the same few methods, in a mode that survives the death of the process."""

import os


class Store:
    """A mapping in a folder. `items` is what a loop of single operations uses; batches are for those that have them."""

    name = mode = ""
    package = None
    survives = True
    threads = True

    def __init__(self, folder):
        self.items = self.open(folder)

    def get(self, key):
        return self.items.get(key)

    set_many = get_many = None

    def close(self):
        self.items.close()


class Dict(Store):
    name, mode = "dict", "in memory"
    survives = False

    def open(self, folder):
        return {}

    def close(self):
        pass


class Durahash(Store):
    package = name = "durahash"
    options = {"mode": "interval", "live_image": False}
    mode = "interval, lines"

    def open(self, folder):
        import durahash

        return durahash.Map(os.path.join(folder, "map.pool"), key=bytes, value=bytes, **self.options)

    def set_many(self, pairs):
        self.items.put_many(pairs)

    def get_many(self, keys):
        return self.items.get_many(keys)


class DurahashLive(Durahash):
    mode = "interval, live image"
    options = {"mode": "interval", "live_image": True}


class DurahashProcess(Durahash):
    mode = "process"
    options = {"mode": "process"}


class DurahashCache(Durahash):
    name = "durahash.Cache"
    mode = "interval, live image"
    set_many = get_many = None

    def open(self, folder):
        import durahash

        return durahash.Cache(os.path.join(folder, "cache.pool"), mode="interval", live_image=True)


class Lmdb(Store):
    package = name = "lmdb"
    mode = "sync=False, writemap, a transaction each"

    def open(self, folder):
        import lmdb

        self.env = lmdb.open(folder, map_size=8 << 30, sync=False, writemap=True, max_readers=64)
        return self

    def __setitem__(self, key, value):
        with self.env.begin(write=True) as txn:
            txn.put(key, value)

    def get(self, key):
        with self.env.begin() as txn:
            return txn.get(key)

    def set_many(self, pairs):
        with self.env.begin(write=True) as txn:
            with txn.cursor() as cursor:
                cursor.putmulti(pairs)

    def get_many(self, keys):
        with self.env.begin() as txn, txn.cursor() as cursor:
            found = dict(cursor.getmulti(keys))
            return [found.get(key) for key in keys]

    def close(self):
        self.env.close()


class Rocksdict(Store):
    package = name = "rocksdict"
    mode = "log not synced"

    def open(self, folder):
        import rocksdict

        return rocksdict.Rdict(folder, rocksdict.Options(raw_mode=True))

    def set_many(self, pairs):
        import rocksdict

        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self.items.write(batch)

    def get_many(self, keys):
        return self.items[keys]


class Diskcache(Store):
    package = name = "diskcache"
    mode = "default"

    def open(self, folder):
        import diskcache

        return diskcache.Cache(folder, eviction_policy="none", size_limit=1 << 40)

    def set_many(self, pairs):
        with self.items.transact():
            for key, value in pairs:
                self.items[key] = value


class DiskcacheRs(Store):
    package, name = "diskcache_rs", "diskcache-rs"
    mode = "default"

    def open(self, folder):
        import diskcache_rs

        return diskcache_rs.Cache(folder, size_limit=1 << 40)

    # It does not find keys that are bytes.
    def __setitem__(self, key, value):
        self.items[key.hex()] = value

    def get(self, key):
        return self.items.get(key.hex())


class PysciqlopCache(Store):
    package, name = "pysciqlop_cache", "pysciqlop-cache"
    mode = "default"

    def open(self, folder):
        import pysciqlop_cache

        return pysciqlop_cache.Cache(folder, max_size=0)

    def set_many(self, pairs):
        with self.items.transact():
            for key, value in pairs:
                self.items[key] = value


class Diskstore(Store):
    package = name = "diskstore"
    mode = "default"

    def open(self, folder):
        import diskstore

        return diskstore.DiskStore(os.path.join(folder, "map.sqlite"))


class Sqlitedict(Store):
    package = name = "sqlitedict"
    mode = "autocommit, WAL"
    threads = False

    def open(self, folder):
        import sqlitedict

        same = {"encode": bytes, "decode": bytes}
        return sqlitedict.SqliteDict(
            os.path.join(folder, "map.sqlite"), autocommit=True, journal_mode="WAL", **same
        )

    # Its keys are texts.
    def __setitem__(self, key, value):
        self.items[key.hex()] = value

    def get(self, key):
        return self.items.get(key.hex())


class Shelve(Store):
    name = "shelve"
    threads = False

    def open(self, folder):
        import dbm

        path = os.path.join(folder, "map.dbm")
        items = dbm.open(path, "c")
        type(self).mode = "dbm, " + (dbm.whichdb(path) or type(items).__module__)
        return items


STORES = [
    Dict, Durahash, DurahashLive, DurahashProcess, DurahashCache, Lmdb, Rocksdict,
    DiskcacheRs, Diskcache, PysciqlopCache, Diskstore, Sqlitedict, Shelve,
]
