//! Compiles the C shim against the UCX of the system, if the feature `ucx` is on.

#[cfg(feature = "ucx")]
fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    let ucx = pkg_config::Config::new()
        .atleast_version("1.13")
        .probe("ucx")
        .expect("the feature `ucx` needs UCX 1.13 and its headers (Debian: libucx-dev)");
    cc::Build::new()
        .file("src/shim.c")
        .includes(ucx.include_paths)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("durahash_ucx_shim");
    // After the shim, which needs them.
    for lib in ["ucp", "ucs"] {
        println!("cargo::rustc-link-lib={lib}");
    }
}

#[cfg(not(feature = "ucx"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
