"""Counts words, over any number of runs. A kill loses no count that was printed."""

import collections

import durahash

TEXT = "the quick brown fox jumps over the lazy dog and the dog sleeps"

with durahash.Map("words.pool", key=str, value=int) as counts:
    for word in TEXT.split():
        counts.increment(word)
    for word, count in collections.Counter(dict(counts)).most_common(2):
        print(word, count)
