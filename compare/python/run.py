"""Measures durahash and other stores from Python; see README.md beside this file."""

import argparse
import importlib.util
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import drawing
from stores import STORES, Store

BATCH = 1000
# Of what is compared between one thread and four: one after the other, and the median counts.
REPEATS = 5


def make(count):
    """Keys of 16 bytes, and values of 100."""
    r = random.Random(1)
    keys = [r.getrandbits(128).to_bytes(16, "little") for _ in range(count)]
    r = random.Random(2)
    values = [r.getrandbits(800).to_bytes(100, "little") for _ in range(BATCH)]
    return keys, values


def rate(count, seconds, f):
    """Calls a second of `f(from, to)`, which does so many, in slices until the time is over; and how many it did."""
    done, begin = 0, time.perf_counter()
    step = max(1, min(1000, count))
    while done < count:
        f(done, min(count, done + step))
        done = min(count, done + step)
        if time.perf_counter() - begin > seconds:
            break
    return done / (time.perf_counter() - begin), done


def in_threads(threads, count, f):
    """Calls a second of `f(from, to)`, by several threads that share the work."""
    share = count // threads
    begin = time.perf_counter()
    running = [threading.Thread(target=f, args=(n * share, (n + 1) * share)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return threads * share / (time.perf_counter() - begin)


def size(folder):
    return sum(os.stat(os.path.join(at, name)).st_blocks * 512 for at, _, names in os.walk(folder) for name in names)


def measure(cls, folder, count, seconds):
    """A row of one store."""
    keys, values = make(count)
    store = cls(folder)
    own_set, own_get = type(store).__dict__.get("__setitem__"), cls.get is not Store.get
    items = store if own_set else store.items
    # As a user writes it: items[key], where a store has that; get where a key may be absent.
    read = store.get if own_get else None
    get = read or store.items.get
    row = {"store": cls.name, "mode": cls.mode}

    def sets(begin, end):
        for i in range(begin, end):
            items[keys[i]] = values[i % BATCH]

    def gets(begin, end):
        if read:
            for key in order[begin:end]:
                if read(key) is None:
                    raise SystemExit(f"{cls.name} lost a key")
            return
        for key in order[begin:end]:
            if items[key] is None:
                raise SystemExit(f"{cls.name} lost a key")

    row["set"], there = rate(count, seconds, sets)
    row["keys"] = there
    order = random.Random(2).sample(keys[:there], there)
    row["get"], _ = rate(there, seconds, gets)
    absent = [bytes(reversed(key)) for key in order]

    def misses(begin, end):
        for key in absent[begin:end]:
            if get(key) is not None:
                raise SystemExit(f"{cls.name} found a key that is absent")

    row["miss"], _ = rate(there, seconds, misses)
    if cls.threads:
        for what, f in [("get", gets), ("set again", sets)]:
            count = int(max(4, min(there, seconds / REPEATS * row[what.split()[0]])))
            rates = [[in_threads(threads, count, f) for threads in (1, 4)] for _ in range(REPEATS)]
            row[f"{what}, 1 thread"], row[f"{what}, 4 threads"] = map(statistics.median, zip(*rates))
    if cls.get_many:
        lookups = [order[i : i + BATCH] for i in range(0, there, BATCH)]
        found = []
        per, _ = rate(len(lookups), seconds, lambda a, b: found.extend(map(store.get_many, lookups[a:b])))
        row["get, batch"] = BATCH * per
        del found
    store.close()
    row["bytes"] = size(folder) / there if cls.survives else None
    if cls.set_many:
        other = tempfile.mkdtemp(dir=os.path.dirname(folder))
        store = cls(other)
        pairs = [[(keys[j], values[j % BATCH]) for j in range(i, min(there, i + BATCH))] for i in range(0, there, BATCH)]

        def batches(begin, end):
            for batch in pairs[begin:end]:
                store.set_many(batch)

        per, _ = rate(len(pairs), seconds, batches)
        row["set, batch"] = BATCH * per
        store.close()
        shutil.rmtree(other)
    return row


def fill(cls, folder, count, seconds):
    """Sets keys, tells how many, and waits to be killed."""
    keys, values = make(count)
    store = cls(folder)
    items = store if "__setitem__" in cls.__dict__ else store.items

    def sets(begin, end):
        for i in range(begin, end):
            items[keys[i]] = values[i % BATCH]

    print(rate(count, seconds, sets)[1], flush=True)
    signal.pause()


def reopen(cls, folder, count):
    """Opens what a kill left: the time until the first key was read, and if the first and the last are there."""
    keys, values = make(count)
    if cls.package:
        importlib.import_module(cls.package)
    begin = time.perf_counter()
    store = cls(folder)
    get = store.get if cls.get is not Store.get else store.items.get
    first = get(keys[0])
    seconds = time.perf_counter() - begin
    whole = first == values[0] and get(keys[count - 1]) == values[(count - 1) % BATCH]
    print(json.dumps([seconds, whole]), flush=True)
    os._exit(0)


def arrays(folder, count):
    """durahash with arrays of numpy, in batches of 1,000 and of all keys: rates of keys a second."""
    import durahash
    import numpy

    r = numpy.random.default_rng(1)
    words = r.integers(0, 2**64, count, dtype="u8")
    rows = r.integers(0, 256, (count, 16), dtype="u1").view("S16").reshape(-1)
    longs = r.integers(1, 256, (count, 100), dtype="u1").view("S100").reshape(-1)
    table = []
    for mode in ("process", "interval"):
        for key, value, keys, values in [("u64", "u64", words, words[::-1].copy()), ("S16", "u64", rows, words), ("S16", "bytes", rows, longs)]:
            for batch in (1000, count):
                path = os.path.join(folder, "arrays.pool")
                m = durahash.Map(path, key=key, value=value, mode=mode)
                begin = time.perf_counter()
                for i in range(0, count, batch):
                    m.put_many(keys[i : i + batch], values[i : i + batch])
                put = count / (time.perf_counter() - begin)
                order = r.permutation(count)
                wanted, out = keys[order].copy(), numpy.zeros_like(values)
                times = []
                for _ in range(3):
                    begin = time.perf_counter()
                    for i in range(0, count, batch):
                        m.get_many(wanted[i : i + batch], out=out[i : i + batch])
                    times.append(time.perf_counter() - begin)
                assert (out == values[order]).all()
                m.close()
                os.remove(path)
                get = count / sorted(times)[1]
                table.append({"mode": mode, "key": key, "value": value, "batch": batch, "put_many": put, "get_many": get})
    return table


def child(arguments, **options):
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )


def run(options):
    rows = []
    for number, cls in enumerate(STORES):
        if options.only and cls.name not in options.only:
            continue
        if cls.package and not importlib.util.find_spec(cls.package):
            print(f"{cls.name}: not installed", file=sys.stderr)
            continue
        base = tempfile.mkdtemp(dir=options.dir)
        common = ["--store", number, "--keys", options.keys, "--seconds", options.seconds]
        folder = os.path.join(base, "a")
        os.mkdir(folder)
        with child([*common, "--step", "measure", "--dir", folder]) as process:
            out = process.communicate()[0]
        if process.returncode:
            print(f"{cls.name}: failed", file=sys.stderr)
            shutil.rmtree(base)
            continue
        row = json.loads(out)
        if cls.survives:
            folder = os.path.join(base, "b")
            os.mkdir(folder)
            with child([*common, "--step", "fill", "--dir", folder]) as process:
                there = int(process.stdout.readline())
                process.kill()
            steps = ["--store", number, "--keys", there, "--step", "reopen", "--dir", folder]
            with child(steps) as process:
                out = process.communicate()[0]
            row["open after kill, s"], row["whole after kill"] = json.loads(out) if out else (None, False)
        shutil.rmtree(base)
        print(f"{cls.name} ({row['mode']}): {row['set']:,.0f} sets, {row['get']:,.0f} gets", file=sys.stderr)
        rows.append(row)
    base = tempfile.mkdtemp(dir=options.dir)
    table = [] if options.only else arrays(base, options.keys)
    shutil.rmtree(base)
    machine = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "keys": options.keys,
        "seconds": options.seconds,
        "time": time.strftime("%Y-%m-%d"),
    }
    return {"machine": machine, "stores": rows, "arrays": table}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5, help="the most that one column of one store takes")
    parser.add_argument("--dir", help="where the stores are made; the system's folder for temporary files")
    parser.add_argument("--only", nargs="*", help="stores by their names")
    parser.add_argument("--json", help="where the rows go")
    parser.add_argument("--svg", help="where the picture goes")
    parser.add_argument("--from", dest="saved", help="rows of an earlier run, which are shown again")
    parser.add_argument("--store", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        cls = STORES[options.store]
        if options.step == "measure":
            print(json.dumps(measure(cls, options.dir, options.keys, options.seconds)))
        elif options.step == "fill":
            fill(cls, options.dir, options.keys, options.seconds)
        else:
            reopen(cls, options.dir, options.keys)
        return
    if options.saved:
        with open(options.saved) as file:
            result = json.load(file)
    else:
        result = run(options)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    print(drawing.tables(result))
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(drawing.picture(result))


if __name__ == "__main__":
    main()
