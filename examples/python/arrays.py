"""An index from hashes to rows of an array, filled and asked a million keys at a time, without an object for a key."""

import time

import durahash
import numpy

COUNT = 1_000_000
hashes = numpy.random.default_rng(1).integers(0, 2**64, COUNT, dtype="u8")
rows = numpy.arange(COUNT, dtype="u4")

with durahash.Map("rows.pool", key="u64", value="u32") as index:
    begin = time.perf_counter()
    index.put_many(hashes, rows)
    wanted = numpy.concatenate([hashes[::2], numpy.arange(10, dtype="u8")])
    found, missing = numpy.zeros(len(wanted), "u4"), numpy.zeros(len(wanted), bool)
    there = index.get_many(wanted, out=found, missing=missing)
    seconds = time.perf_counter() - begin
    assert (found[~missing] == rows[::2]).all()
    print(f"{there} of {len(wanted)} keys are there; {seconds:.2f} s")
