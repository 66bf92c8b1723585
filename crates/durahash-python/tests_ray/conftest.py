"""One Ray on this machine, with two volumes, for all tests."""

import pytest
import ray

VOLUMES = ("disk1", "disk2")


@pytest.fixture(scope="session", autouse=True)
def cluster():
    ray.init(
        num_cpus=4,
        resources={name: 1000 for name in VOLUMES},
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=256 << 20,
    )
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture
def volumes(tmp_path):
    """Directories by the names of volumes."""
    return {name: tmp_path / name for name in VOLUMES}
