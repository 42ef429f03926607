//! The program `ikigai-supervisor`. The host starts it for one native call; people have no use
//! for it.
//!
//! On Linux it starts without Rust's runtime, which takes as long as the rest of its start. The
//! runtime installs handlers for stack overflows, for which the C library reads
//! `/proc/self/maps`, and ignores SIGPIPE. The supervisor resets both at once. The runtime also
//! prepares the standard descriptors, which the library does itself.

#![cfg_attr(target_os = "linux", no_main)]

// The functions that unwind the stack, from an archive instead of `libgcc_s.so.1`: loading that
// library takes a tenth of the start. Only in the release profile: there the linker gets one
// object, and takes all of these functions from the archive in any order of libraries.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(debug_assertions)
))]
#[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
unsafe extern "C" {}

/// The entry of the C library.
// SAFETY: no other function of this program has the name, and the C library calls it with these
// types.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
extern "C" fn main(
    count: std::ffi::c_int,
    arguments: *const *const std::ffi::c_char,
) -> std::ffi::c_int {
    /// The exit code of every Rust program that panics.
    const PANICKED: u8 = 101;

    // SAFETY: the C library passes as many strings as it says, the name of the program first.
    let argument =
        (count > 1).then(|| unsafe { std::ffi::CStr::from_ptr(*arguments.wrapping_add(1)) });
    std::panic::catch_unwind(|| ikigai_supervisor::main(argument)).unwrap_or(PANICKED).into()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(2)
}
