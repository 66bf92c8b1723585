"""Results of a slow function, kept for an hour, over runs, and shared by all threads; at most a thousand."""

import durahash

with durahash.Cache("results.cache", max_entries=1000) as results:

    @results.memoize(expire=3600)
    def slow(n):
        return sum(1 / k for k in range(1, n))

    results.stats(enable=True)
    print(slow(1_000_000), slow(1_000_000))
    hits, misses = results.stats()
    print(f"{len(results)} results kept, {hits} found, {misses} made")
