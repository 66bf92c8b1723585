"""Stores each block of a file once: an index from digests to where the block is."""

import hashlib
import os

import durahash

BLOCK_BYTES = 4096


def add(name, index, store):
    """Stores the blocks of a file that are not there yet; how many they were, of how many."""
    with open(name, "rb") as file:
        blocks = list(iter(lambda: file.read(BLOCK_BYTES), b""))
    digests = b"".join(hashlib.sha256(block).digest() for block in blocks)
    new = 0
    for i, known in enumerate(index.contains_many(digests)):
        place = store.seek(0, os.SEEK_END)
        if known or not index.add_if_absent(digests[32 * i :][:32], place):
            continue
        store.write(blocks[i])
        new += 1
    return new, len(blocks)


with open("a.bin", "wb") as file:
    file.write(b"".join(bytes([n % 50]) * BLOCK_BYTES for n in range(100)))

with durahash.Map("blocks.pool", key="S32", value="u64") as index, open("blocks.store", "ab") as store:
    for _ in range(2):
        new, blocks = add("a.bin", index, store)
        print(f"{blocks} blocks, {new} of them new")
