"""Values that are more than bytes."""

import json
import pickle

json_decode = json.loads


def json_encode(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# A fixed protocol: the bytes do not depend on the version of Python.
def pickle_encode(value):
    return pickle.dumps(value, protocol=5)


pickle_decode = pickle.loads


def msgpack():
    """Both functions of the module msgpack, which is imported when they are asked for."""
    import msgpack

    def decode(data):
        try:
            return msgpack.unpackb(data, strict_map_key=False)
        except TypeError:  # keys that are lists: they were tuples
            return msgpack.unpackb(data, strict_map_key=False, object_pairs_hook=_with_tuples)

    return msgpack.packb, decode


def _with_tuples(pairs):
    return {_tuple(key): value for key, value in pairs}


def _tuple(key):
    return tuple(map(_tuple, key)) if isinstance(key, list) else key
