//! Finds out if the processor's caches survive power failure (eADR), from what the system knows about
//! the device under a file.

use std::path::Path;

/// True if the caches belong to the persistence domain of block device `dev`, by the tree at
/// `sysfs`. A file that cannot be read counts as no: flushes are then made, which is always right.
pub(super) fn caches_survive(sysfs: &Path, dev: u64) -> bool {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    sysfs
        .join(format!("dev/block/{major}:{minor}"))
        .canonicalize()
        .is_ok_and(|device| device_says_so(&device))
}

/// The region of an NVDIMM is a directory above its block device. A device that is put together
/// from others (device mapper) lists them under `slaves`, and is no better than the worst of them.
fn device_says_so(device: &Path) -> bool {
    let slaves: Vec<_> = std::fs::read_dir(device.join("slaves")).into_iter().flatten().collect();
    if !slaves.is_empty() {
        return slaves.into_iter().all(|slave| {
            slave
                .and_then(|slave| slave.path().canonicalize())
                .is_ok_and(|slave| device_says_so(&slave))
        });
    }
    device
        .ancestors()
        .find_map(|dir| std::fs::read_to_string(dir.join("persistence_domain")).ok())
        .is_some_and(|domain| domain.trim() == "cpu_cache")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// A tree like the kernel's: two regions with a block device each, and devices over them.
    #[test]
    fn the_region_above_the_device_decides() {
        let dir = tempfile::tempdir().unwrap();
        let sysfs = dir.path();
        create_dir_all(sysfs.join("dev/block")).unwrap();
        let add = |number: &str, device: &str, slaves: &[&str]| {
            let device = sysfs.join("devices").join(device);
            create_dir_all(device.join("slaves")).unwrap();
            for slave in slaves {
                let target = sysfs.join("devices").join(slave);
                symlink(target, device.join("slaves").join(slave.replace('/', "!"))).unwrap();
            }
            symlink(device, sysfs.join("dev/block").join(number)).unwrap();
        };
        let (eadr, adr) = ("region0/namespace0.0/block/pmem0", "region1/namespace1.0/block/pmem1");
        add("259:0", eadr, &[]);
        add("259:1", adr, &[]);
        add("259:2", &format!("{eadr}/pmem0p1"), &[]);
        add("252:0", "virtual/block/dm-0", &[eadr]);
        add("252:1", "virtual/block/dm-1", &[eadr, adr]);
        add("8:0", "pci/sda", &[]);
        write(sysfs.join("devices/region0/persistence_domain"), "cpu_cache\n").unwrap();
        write(sysfs.join("devices/region1/persistence_domain"), "memory_controller\n").unwrap();

        let ask = |major, minor| caches_survive(sysfs, rustix::fs::makedev(major, minor));
        assert!(ask(259, 0));
        assert!(!ask(259, 1));
        assert!(ask(259, 2), "a partition lies in its disk");
        assert!(ask(252, 0));
        assert!(!ask(252, 1), "one of two regions needs flushes");
        assert!(!ask(8, 0), "no region at all");
        assert!(!ask(1, 2), "no such device");
    }
}
