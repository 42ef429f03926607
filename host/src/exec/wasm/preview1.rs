//! WASI preview 1: the imports of core modules, over the files, streams and clocks of components.
//!
//! A core module brings its own memory and calls functions that take addresses in it. Each function
//! here reads its arguments from that memory, calls what `wasi:filesystem` and the other interfaces
//! of WASI 0.2 call, and writes the answer into the memory. So every check and every count is the
//! one of components. Owns the numbers and layouts of preview 1, and the table of descriptors.
//!
//! The specification is `wasi_snapshot_preview1.witx` of WASI.

mod call;
pub(super) mod descriptors;
mod errno;
mod files;
mod listing;
mod memory;
mod module;
mod opening;
mod paths;
mod poll;
mod process;
mod status;
#[cfg(all(test, feature = "compiler"))]
mod tests;

use wasmtime::{Caller, Engine, InstancePre, Linker, Store};

use self::call::ModuleCall;
use self::descriptors::ModuleState;
#[cfg(feature = "compiler")]
pub(super) use self::module::check_start;
pub(super) use self::module::{CoreModuleError, check, is_core_module};
use super::state::GuestState;

/// The module of all imports.
pub(super) const PREVIEW1: &str = "wasi_snapshot_preview1";

/// The function that a program starts with.
const START: &str = "_start";

/// The name under which a program exports its memory.
const MEMORY: &str = "memory";

/// Defines the functions of preview 1 that answer with an error number: their names, and the link
/// from each to the method of [`ModuleCall`] with the same name. `async` functions may wait.
macro_rules! functions {
    (
        async { $($waits:ident($($a:ident: $a_type:ty),*);)* }
        plain { $($plain:ident($($b:ident: $b_type:ty),*);)* }
    ) => {
        /// The names of the functions, except for `proc_exit`.
        const FUNCTIONS: &[&str] = &[$(stringify!($waits),)* $(stringify!($plain),)*];

        fn add_functions(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
            $(linker.func_wrap_async(
                PREVIEW1,
                stringify!($waits),
                |mut caller: Caller<'_, GuestState>, ($($a,)*): ($($a_type,)*)| {
                    Box::new(async move {
                        let mut call = ModuleCall::begin(&mut caller)?;
                        let result = call.$waits($($a),*).await;
                        call.end(result)
                    })
                },
            )?;)*
            $(linker.func_wrap(
                PREVIEW1,
                stringify!($plain),
                |mut caller: Caller<'_, GuestState>, $($b: $b_type),*| {
                    let mut call = ModuleCall::begin(&mut caller)?;
                    let result = call.$plain($($b),*);
                    call.end(result)
                },
            )?;)*
            Ok(())
        }
    };
}

functions! {
    async {
        fd_advise(fd: u32, offset: u64, length: u64, advice: u32);
        fd_datasync(fd: u32);
        fd_fdstat_get(fd: u32, at: u32);
        fd_filestat_get(fd: u32, at: u32);
        fd_filestat_set_size(fd: u32, size: u64);
        fd_filestat_set_times(fd: u32, accessed: u64, modified: u64, flags: u32);
        fd_pread(fd: u32, buffers: u32, count: u32, offset: u64, read: u32);
        fd_pwrite(fd: u32, buffers: u32, count: u32, offset: u64, written: u32);
        fd_read(fd: u32, buffers: u32, count: u32, read: u32);
        fd_readdir(fd: u32, buffer: u32, length: u32, cookie: u64, used: u32);
        fd_seek(fd: u32, offset: i64, whence: u32, position: u32);
        fd_sync(fd: u32);
        fd_write(fd: u32, buffers: u32, count: u32, written: u32);
        path_create_directory(fd: u32, path: u32, length: u32);
        path_filestat_get(fd: u32, lookup: u32, path: u32, length: u32, at: u32);
        path_filestat_set_times(fd: u32, lookup: u32, path: u32, length: u32,
            accessed: u64, modified: u64, flags: u32);
        path_link(fd: u32, lookup: u32, path: u32, length: u32,
            new_fd: u32, new_path: u32, new_length: u32);
        path_open(fd: u32, lookup: u32, path: u32, length: u32, open: u32,
            rights: u64, inherited: u64, flags: u32, opened: u32);
        path_readlink(fd: u32, path: u32, length: u32, buffer: u32, room: u32, used: u32);
        path_remove_directory(fd: u32, path: u32, length: u32);
        path_rename(fd: u32, path: u32, length: u32, new_fd: u32, new_path: u32, new_length: u32);
        path_symlink(target: u32, target_length: u32, fd: u32, path: u32, length: u32);
        path_unlink_file(fd: u32, path: u32, length: u32);
        poll_oneoff(subscriptions: u32, events: u32, count: u32, happened: u32);
        random_get(buffer: u32, length: u32);
    }
    plain {
        args_get(pointers: u32, texts: u32);
        args_sizes_get(count: u32, size: u32);
        clock_res_get(clock: u32, at: u32);
        clock_time_get(clock: u32, precision: u64, at: u32);
        environ_get(pointers: u32, texts: u32);
        environ_sizes_get(count: u32, size: u32);
        fd_allocate(fd: u32, offset: u64, length: u64);
        fd_close(fd: u32);
        fd_fdstat_set_flags(fd: u32, flags: u32);
        fd_fdstat_set_rights(fd: u32, base: u64, inherited: u64);
        fd_prestat_dir_name(fd: u32, name: u32, length: u32);
        fd_prestat_get(fd: u32, at: u32);
        fd_renumber(from: u32, to: u32);
        fd_tell(fd: u32, position: u32);
        proc_raise(signal: u32);
        sched_yield();
        sock_accept(fd: u32, flags: u32, accepted: u32);
        sock_recv(fd: u32, buffers: u32, count: u32, flags: u32, read: u32, answer: u32);
        sock_send(fd: u32, buffers: u32, count: u32, flags: u32, written: u32);
        sock_shutdown(fd: u32, how: u32);
    }
}

/// The function that ends the program, the only one without an answer.
const EXIT: &str = "proc_exit";

/// Returns a linker with all functions of preview 1.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    add_functions(&mut linker)?;
    linker.func_wrap(PREVIEW1, EXIT, process::exit)?;
    Ok(linker)
}

/// Runs a program to its end.
///
/// # Errors
///
/// Fails with the exit code of the program ([`wasmtime_wasi::I32Exit`]), or with a trap.
pub(super) async fn run(
    program: &InstancePre<GuestState>,
    store: &mut Store<GuestState>,
) -> wasmtime::Result<()> {
    let state = ModuleState::new(store.data_mut())?;
    store.data_mut().module = Some(Box::new(state));
    let instance = program.instantiate_async(&mut *store).await?;
    let memory = instance.get_memory(&mut *store, MEMORY);
    if let Some(module) = &mut store.data_mut().module {
        module.memory = memory;
    }
    let start = instance.get_typed_func::<(), ()>(&mut *store, START)?;
    start.call_async(&mut *store, ()).await
}
