//! The calls of `wasi:filesystem/types@0.3.0` that take a path, instead of wasmtime's own.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p3::bindings::filesystem::types::{
    DescriptorFlags, NewTimestamp, OpenFlags, PathFlags,
};

use super::translation::{
    answer, descriptor_flags, metadata_hash, open_flags, path_flags, stat, timestamp,
};
use super::{FILES, attempts};
use crate::exec::wasm::paths;
use crate::exec::wasm::paths::location::MAX_PATH;
use crate::exec::wasm::places::Handle;
use crate::exec::wasm::state::GuestState;

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut types = linker.instance(FILES)?;
    // Each call is a call of the core. It may be made several times, so it keeps its arguments.
    macro_rules! serve {
        ($name:literal($state:ident, $($argument:ident: $kind:ty),*) $call:block) => {
            types.func_wrap_concurrent(
                concat!("[method]descriptor.", $name),
                |accessor, ($($argument,)*): ($($kind,)*)| {
                    Box::pin(async move {
                        let call = async |$state: &mut GuestState| $call;
                        answer(attempts::call(accessor, call).await)
                    })
                },
            )?;
        };
    }
    serve! { "open-at"(state, dir: Handle, follow: PathFlags, path: String, open: OpenFlags,
        flags: DescriptorFlags) {
        let (follow, open, flags) = (path_flags(follow), open_flags(open), descriptor_flags(flags));
        paths::open_at(state, again(&dir), follow, path.clone(), open, flags).await
    } }
    serve! { "stat-at"(state, dir: Handle, follow: PathFlags, path: String) {
        paths::stat_at(state, again(&dir), path_flags(follow), path.clone()).await.map(stat)
    } }
    serve! { "metadata-hash-at"(state, dir: Handle, follow: PathFlags, path: String) {
        let hash = paths::metadata_hash_at(state, again(&dir), path_flags(follow), path.clone());
        hash.await.map(metadata_hash)
    } }
    serve! { "set-times-at"(state, dir: Handle, follow: PathFlags, path: String,
        accessed: NewTimestamp, modified: NewTimestamp) {
        let (accessed, modified) = (timestamp(accessed)?, timestamp(modified)?);
        let (follow, path) = (path_flags(follow), path.clone());
        paths::set_times_at(state, again(&dir), follow, path, accessed, modified).await
    } }
    serve! { "readlink-at"(state, dir: Handle, path: String) {
        paths::readlink_at(state, again(&dir), path.clone()).await
    } }
    serve! { "create-directory-at"(state, dir: Handle, path: String) {
        paths::create_directory_at(state, again(&dir), path.clone()).await
    } }
    serve! { "remove-directory-at"(state, dir: Handle, path: String) {
        paths::remove_directory_at(state, again(&dir), path.clone()).await
    } }
    serve! { "unlink-file-at"(state, dir: Handle, path: String) {
        paths::unlink_file_at(state, again(&dir), path.clone()).await
    } }
    serve! { "symlink-at"(state, dir: Handle, target: String, path: String) {
        fit([&target, &path])?;
        paths::symlink_at(state, again(&dir), target.clone(), path.clone()).await
    } }
    serve! { "link-at"(state, dir: Handle, follow: PathFlags, path: String, new_dir: Handle,
        new_path: String) {
        fit([&path, &new_path])?;
        let (follow, path) = (path_flags(follow), path.clone());
        paths::link_at(state, again(&dir), follow, path, again(&new_dir), new_path.clone()).await
    } }
    serve! { "rename-at"(state, dir: Handle, path: String, new_dir: Handle, new_path: String) {
        fit([&path, &new_path])?;
        let (new_dir, new_path) = (again(&new_dir), new_path.clone());
        paths::rename_at(state, again(&dir), path.clone(), new_dir, new_path).await
    } }
    Ok(())
}

/// Fails if a path is longer than any path. A call that waits for an answer about one path keeps the
/// other, and a guest may make many calls.
fn fit(paths: [&str; 2]) -> FsResult<()> {
    let fit = paths.iter().all(|path| path.len() <= MAX_PATH);
    if fit { Ok(()) } else { Err(ErrorCode::NameTooLong.into()) }
}

/// Returns the handle for one more attempt. The guest cannot drop it during the call.
fn again(handle: &Handle) -> Handle {
    Resource::new_borrow(handle.rep())
}
