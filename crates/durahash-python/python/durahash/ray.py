"""A map in several pools, each in an actor of Ray: for more entries than one machine holds, or one process serves.

Ray places the actors, starts again those that die, and carries the batches; a pool keeps its entries through the
death of its actor. This module says which shard a key belongs to, and which shards are in use.

*Reshard.* The catalog, a pool of its own, names the generation of shards that is in use, and one put to it is the
switch. Before it the shards in use are frozen: they refuse writes, which wait, and send their entries to the new ones
in batches. When all are on the disk, and their number is right, the old shards refuse reads, too, and the switch
follows. So at each instant one generation answers, and no write goes to one that is left. An actor that is started
again asks the catalog whether its shard is in use, and answers nothing while it is moved. If the process that
reshards dies, the actors die with it; the next open finds in the catalog the old generation or the new one, and removes
the pools of the other.
"""

import os
import time
import uuid

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ._errors import ClosedError, Error, OptionsError
from ._maps import DELETE
from ._shards import STEP, Catalog, Shard, as_column, rows_at, split

__all__ = ["ShardedMap"]

_NAMESPACE = "durahash"
_CATALOG, _SHARD = ray.remote(Catalog), ray.remote(Shard)
# What an actor was asked when it died it is asked again: all that is asked may be done twice. It takes no part of a
# node's processors: how many shards there are does not depend on these.
_ACTOR = {"max_restarts": -1, "max_task_retries": -1, "num_cpus": 0}


class ShardedMap:
    """A map in several pools, each in an actor of Ray.

    ``volumes`` is the directory of the pools on this node, or a dictionary from names to directories. A name is a
    resource of Ray that the node with this volume declares (``ray start --resources='{"disk1": 1000}'``), and its
    shards are on that node, also after a restart. The first volume has the catalog, and is the first at each open.

    ``key`` and ``value`` are those of a Map, ``shards`` is the number of pools; a map that is there knows all three.
    Further options by name (``mode``, ``live_image``, ``max_bytes``, ``design``) go to each pool, and
    ``actor_options`` to Ray.

    The map is open as long as the process that made it does not close it, nor ends. It may be passed to tasks and
    actors, which use it, too. A call waits for shards that are started again, and asks them again what it had asked;
    so there is nothing here that must not be done twice, as an increment. A removal that was done twice says that the
    key was absent.

    >>> from durahash.ray import ShardedMap
    >>> with ShardedMap("index", shards=4, key=str, value=int) as m:  # doctest: +SKIP
    ...     m.put_many({"one": 1, "two": 2})
    ...     m.get_many(["one", "three"])
    [1, None]
    """

    def __init__(self, volumes, shards=None, key=None, value=None, *, actor_options=None, **options):
        volumes = volumes if isinstance(volumes, dict) else {"": volumes}
        volumes = {name: os.path.abspath(path) for name, path in volumes.items()}
        if not ray.is_initialized():
            ray.init()
        there = ray.cluster_resources()
        for name in volumes:
            if name and name not in there:
                raise OptionsError(f"no node has the volume {name!r}: ray start --resources='{{\"{name}\": 1000}}'")
        self._volumes, self._actor_options, self._is_owner = volumes, actor_options or {}, True
        first = next(iter(volumes))
        self._catalog = self._actor(_CATALOG, first).remote(volumes[first])
        started = []
        try:
            places = self._places(shards or max(4, len(volumes)))
            state = ray.get(self._catalog.begin.remote(key, value, places))
            places, self._key, self._file = state["places"], state["key"], f"shard-{state['id']}"
            if shards not in (None, len(places)):
                raise OptionsError(f"the map has {len(places)} shards: reshard({shards}) changes that")
            self._options = {**options, "key": self._key, "value": value or state["value"]}
            generation = state["generation"] or 1
            name, started = self._start(generation, places)
            if not state["generation"]:
                ray.get([shard.make.remote() for shard in started])
            ray.get(self._catalog.switch.remote({**state, "generation": generation, "name": name}))
            ray.get([shard.begin.remote() for shard in started])
            ray.get([shard.allow.remote(True, True) for shard in started])
        except BaseException:
            for actor in [*started, self._catalog]:
                ray.kill(actor)
            raise
        self._view = generation, started

    def _places(self, count):
        """The volumes of so many shards."""
        if count < 1:
            raise OptionsError("a map has one shard at least")
        names = list(self._volumes)
        return [names[i % len(names)] for i in range(count)]

    def _actor(self, actor, volume, **options):
        """The actor, to be started on the node of a volume."""
        if volume:
            place = {"resources": {volume: 0.001}}
        else:
            node = ray.get_runtime_context().get_node_id()
            place = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
        return actor.options(**{**_ACTOR, **place, **options, **self._actor_options})

    def _start(self, generation, places):
        """Starts the actors of shards; the beginning of their names, and these."""
        name, shards = uuid.uuid4().hex, []
        for i, volume in enumerate(places):
            if volume not in self._volumes:
                raise OptionsError(f"shards of this map are on the volume {volume!r}, which is not named")
            path = os.path.join(self._volumes[volume], f"{self._file}-{generation}-{i}.pool")
            # With threads reads go on beside a batch that waits for the disk.
            actor = self._actor(_SHARD, volume, name=f"{name}-{i}", namespace=_NAMESPACE, max_concurrency=8)
            shards.append(actor.remote(self._catalog, generation, path, self._options))
        return name, shards

    def __reduce__(self):
        return _attach, (self._catalog, self._key, self._now())

    def _now(self):
        if self._view is None:
            raise ClosedError("this map was closed; open another")
        return self._view

    def _look(self):
        """Finds the shards that are in use now."""
        generation, name, count = ray.get(self._catalog.current.remote())
        if generation > self._now()[0]:
            self._view = generation, [ray.get_actor(f"{name}-{i}", _NAMESPACE) for i in range(count)]

    def _gather(self, ask):
        """The answers of shards to what ``ask`` asks them; of those after a reshard, where one comes between."""
        while True:
            generation, shards = self._now()
            try:
                answers = ray.get(ask(shards))
                if all(answer is not None for answer in answers):
                    return answers
                time.sleep(0.02)
                self._look()
            except RayActorError:
                self._look()
                if self._now()[0] == generation:
                    raise

    def _scatter(self, ask, columns):
        """The answers to many keys, the first column, each with the positions of its keys."""
        parts = []

        def each(shards):
            parts[:] = split(self._key, columns[0], len(shards))
            if any(sum(map(len, parts)) != len(column) for column in columns):
                raise ValueError("as many values as keys are wanted, and an array of one row for each")
            parts[:] = [part for part in zip(parts, shards) if part[0]]
            return [ask(shard, *(rows_at(column, part) for column in columns)) for part, shard in parts]

        answers = self._gather(each)
        return [(part, answer) for (part, _), answer in zip(parts, answers)]

    def _many(self, what, method, keys, *more):
        """A list of answers, of one for each key."""
        keys = as_column(keys)
        all_ = [None] * len(keys)
        for positions, answers in self._scatter(lambda to, keys: getattr(to, what).remote(method, keys, *more), [keys]):
            for position, answer in zip(positions, answers):
                all_[position] = answer
        return all_

    def get_many(self, keys, default=None, *, out=None, missing=None):
        """The values of many keys, as a list with ``default`` for keys that are absent.

        With ``out``, an array of numpy with a row for each key, the values are written there, rows of absent keys stay
        as they are, ``missing``, an array of bools, gets True for these, and the number of the others is returned.
        """
        if out is None:
            found = self._many("read", "get_many", keys, None, None, DELETE)
            return [default if value is DELETE else value for value in found]
        import numpy

        there = 0
        shape, dtype = out.shape[1:], out.dtype
        for positions, (rows, absent) in self._scatter(lambda to, keys: to.rows.remote(keys, shape, dtype), [keys]):
            positions, found = numpy.frombuffer(positions, "i8"), ~absent
            out[positions[found]] = rows[found]
            if missing is not None:
                missing[positions] = absent
            there += int(found.sum())
        return there

    def put_many(self, keys, values=None):
        """Inserts or replaces many pairs: of two iterables or arrays of numpy, of a mapping, or of pairs.

        When it returns they survive the death of every actor. After an error a part of them is there.
        """
        if values is None:
            pairs = list(keys.items() if hasattr(keys, "items") else keys)
            keys, values = [key for key, _ in pairs], [value for _, value in pairs]
        columns = [as_column(keys), as_column(values)]
        self._scatter(lambda to, *columns: to.write.remote("put_many", *columns), columns)

    def contains_many(self, keys):
        """A list that has True for each key that is there."""
        return self._many("read", "contains_many", keys)

    def remove_many(self, keys):
        """Removes many keys. Returns a list that has True for each that was there."""
        return self._many("write", "remove_many", keys)

    def get(self, key, default=None):
        """The value of ``key``, or ``default``."""
        return self.get_many([key], default)[0]

    def __getitem__(self, key):
        value = self.get(key, DELETE)
        if value is DELETE:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value):
        self.put_many([key], [value])

    def __delitem__(self, key):
        if not self.remove_many([key])[0]:
            raise KeyError(key)

    def __contains__(self, key):
        return self.contains_many([key])[0]

    def __len__(self):
        return sum(self._gather(lambda shards: [shard.read.remote("__len__") for shard in shards]))

    def items(self):
        """Goes over the pairs, in no order. A key that is there all the time comes exactly once."""
        generation, shards = self._now()
        for shard in shards:
            at = 0
            while at is not None:
                try:
                    step = ray.get(shard.read.remote("_scan", at, STEP))
                except RayActorError:
                    step = None
                if step is None:
                    raise Error("the map was resharded, or closed, while it was iterated: begin again")
                keys, values, at = step
                yield from zip(keys, values)

    def __iter__(self):
        return (key for key, _ in self.items())

    def sync(self):
        """Puts everything that has returned on the disks."""
        self._gather(lambda shards: [shard.sync.remote() for shard in shards])

    def stats(self):
        """A ``durahash.Stats`` of each shard."""
        return self._gather(lambda shards: [shard.stats.remote() for shard in shards])

    def __repr__(self):
        state = "closed" if self._view is None else f"{len(self._view[1])} shards"
        return f"<durahash.ray.ShardedMap {state}, key={self._key!r}>"

    def reshard(self, shards):
        """Puts the entries into so many shards, on the volumes that the map was opened with.

        Lookups go on, and writes wait. Only the process that made the map does so. Cut off at any moment, it leaves the
        old shards in use, or the new ones.
        """
        self._own()
        generation, old = self._now()
        places = self._places(shards)
        name, new = self._start(generation + 1, places)
        try:
            ray.get([shard.make.remote() for shard in new])
            self._send(old, new)
            self._switch(old, {"generation": generation + 1, "name": name, "places": places})
        except BaseException:
            # The catalog answers in the order in which it is asked, and so knows of a switch.
            if ray.get(self._catalog.move.remote(False)) == generation:
                # Without a wait for the new ones, of which some may be those that cannot be started.
                for shard in new:
                    ray.kill(shard)
                ray.get([shard.allow.remote(True, True) for shard in old])
                ray.get([shard.begin.remote() for shard in old])
            else:
                self._use(generation + 1, new, old)
            raise
        self._use(generation + 1, new, old)

    def _send(self, old, new):
        """Has frozen shards send their entries to the new ones, until these have them on the disk."""
        ray.get(self._catalog.move.remote(True))
        ray.get([shard.allow.remote(True, False) for shard in old])
        sent = sum(ray.get([shard.send.remote(self._key, new) for shard in old]))
        kept = sum(ray.get([shard.sync.remote() for shard in new]))
        if sent != kept:
            raise Error(f"of {sent} entries {kept} are in the new shards; a machine went down meanwhile: try again")

    def _switch(self, old, state):
        ray.get([shard.allow.remote(False, False) for shard in old])
        ray.get(self._catalog.switch.remote(state))

    def _use(self, generation, shards, old):
        ray.get([shard.allow.remote(True, True) for shard in shards])
        self._view = generation, shards
        self._discard(old)

    def _discard(self, shards):
        ray.get([shard.remove.remote() for shard in shards])
        for shard in shards:
            ray.kill(shard)

    def _own(self):
        if not self._is_owner:
            raise Error("only the process that made the map reshards and closes it")

    def close(self):
        """Closes the pools, and ends the actors. Only the process that made the map does so."""
        self._own()
        if self._view is None:
            return
        (_, shards), self._view = self._view, None
        ray.get([actor.close.remote() for actor in [*shards, self._catalog]])
        for actor in [*shards, self._catalog]:
            ray.kill(actor)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _attach(catalog, key, view):
    """The map in another process."""
    map_ = ShardedMap.__new__(ShardedMap)
    map_._catalog, map_._key, map_._view, map_._is_owner = catalog, key, view, False
    return map_
