//! The operations on descriptors and paths.

use wasip3::filesystem::types::Advice;

use super::{Actor, choices, keep, pick, take};
use crate::waits::within;

/// Performs an operation with a number from 16 to 31.
pub(super) async fn perform(actor: &mut Actor, number: u8) {
    if number == 16 {
        return drop(take(&mut actor.input, &mut actor.handles));
    }
    let Some(place) = pick(&mut actor.input, &actor.handles) else { return };
    match number {
        17..=20 => open(actor, place).await,
        21 | 22 => look(actor, place).await,
        23 => set(actor, place).await,
        24 | 25 => make(actor, place).await,
        26 | 27 => remove(actor, place).await,
        28 => read_link(actor, place).await,
        _ => move_or_link(actor, place).await,
    }
}

async fn open(actor: &mut Actor, place: usize) {
    let Actor { input, handles, .. } = actor;
    let (follow, path) = (choices::follow(input), choices::path(input));
    let (open, access) = (choices::open(input), choices::access(input));
    if let Some(Ok(opened)) = within(handles[place].open_at(follow, path, open, access)).await {
        keep(handles, opened);
    }
}

/// Asks about a descriptor or about a path.
async fn look(actor: &mut Actor, place: usize) {
    let Actor { input, handles, .. } = actor;
    let dir = &handles[place];
    match input.argument() % 8 {
        0 => drop(within(dir.stat()).await),
        1 => drop(within(dir.get_flags()).await),
        2 => drop(within(dir.get_type()).await),
        3 => drop(within(dir.metadata_hash()).await),
        4 => {
            let (follow, path) = (choices::follow(input), choices::path(input));
            drop(within(dir.metadata_hash_at(follow, path)).await);
        }
        5 => {
            let Some(other) = pick(input, handles) else { return };
            within(dir.is_same_object(&handles[other])).await;
        }
        _ => {
            let (follow, path) = (choices::follow(input), choices::path(input));
            drop(within(dir.stat_at(follow, path)).await);
        }
    }
}

/// Changes a file in place: its length, its times, its state on the disk.
async fn set(actor: &mut Actor, place: usize) {
    let Actor { input, handles, .. } = actor;
    let file = &handles[place];
    match input.argument() % 6 {
        0 => drop(within(file.set_size(choices::offset(input))).await),
        1 => drop(within(file.set_times(choices::time(input), choices::time(input))).await),
        2 => drop(within(file.sync()).await),
        3 => drop(within(file.sync_data()).await),
        4 => {
            let advice = input.choose(&[Advice::WillNeed, Advice::DontNeed, Advice::NoReuse]);
            let (from, length) = (choices::offset(input), choices::offset(input));
            drop(within(file.advise(from, length, advice)).await);
        }
        _ => {
            let (follow, path) = (choices::follow(input), choices::path(input));
            let (accessed, modified) = (choices::time(input), choices::time(input));
            drop(within(file.set_times_at(follow, path, accessed, modified)).await);
        }
    }
}

async fn make(actor: &mut Actor, place: usize) {
    let Actor { input, handles, .. } = actor;
    match input.argument() % 2 {
        0 => drop(within(handles[place].create_directory_at(choices::path(input))).await),
        _ => {
            let (target, path) = (choices::path(input), choices::path(input));
            drop(within(handles[place].symlink_at(target, path)).await);
        }
    }
}

async fn remove(actor: &mut Actor, place: usize) {
    let Actor { input, handles, .. } = actor;
    match input.argument() % 2 {
        0 => drop(within(handles[place].unlink_file_at(choices::path(input))).await),
        _ => drop(within(handles[place].remove_directory_at(choices::path(input))).await),
    }
}

async fn read_link(actor: &mut Actor, place: usize) {
    let path = choices::path(&mut actor.input);
    if let Some(Ok(target)) = within(actor.handles[place].readlink_at(path)).await {
        actor.see(target.as_bytes());
    }
}

/// Renames or links between two descriptors.
async fn move_or_link(actor: &mut Actor, place: usize) {
    let Actor { input, handles, .. } = actor;
    let Some(other) = pick(input, handles) else { return };
    let (from, to) = (choices::path(input), choices::path(input));
    match input.argument() % 2 {
        0 => drop(within(handles[place].rename_at(from, &handles[other], to)).await),
        _ => {
            let follow = choices::follow(input);
            drop(within(handles[place].link_at(follow, from, &handles[other], to)).await);
        }
    }
}
