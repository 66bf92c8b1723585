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

    return msgpack.packb, msgpack.unpackb
