//! The interfaces that a component may import (`wit/` in the repository), for compilers that read
//! them.

/// Returns the path of a file in a project, and its contents.
macro_rules! wit {
    ($($path:literal),+ $(,)?) => {
        &[$((
            concat!("wit/", $path),
            include_str!(concat!("../../../../../wit/", $path)),
        )),+]
    };
}

/// The files, by their paths in a project.
pub(super) const FILES: &[(&str, &str)] = wit![
    "deps/LICENSE",
    "deps/wasi-cli-0.2.12/package.wit",
    "deps/wasi-clocks-0.2.12/package.wit",
    "deps/wasi-filesystem-0.2.12/package.wit",
    "deps/wasi-io-0.2.12/package.wit",
    "deps/wasi-random-0.2.12/package.wit",
    "deps/wasi-sockets-0.2.12/package.wit",
    "tool.wit",
];
