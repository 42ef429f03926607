//! The steps of the guest `walker` for WASI 0.3: it takes the same ones, and reports the same results.
//!
//! The standard library and the imports of `ikigai:tool` use WASI 0.2.

use ikigai_test_guests::{Attempts, std_step};
use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};

use crate::workspace::name;

const FOLLOW: PathFlags = PathFlags::SYMLINK_FOLLOW;

/// Takes steps, which are separated by semicolons, and reports the result of each.
pub(crate) async fn walk(attempts: &mut Attempts, steps: &str) {
    let preopens = get_directories();
    for step in steps.split(';').map(str::trim) {
        let seen = take(&preopens, step).await;
        attempts.observe(step, &seen);
    }
}

async fn take(preopens: &[(Descriptor, String)], step: &str) -> String {
    let words: Vec<&str> = step.split(' ').collect();
    match words[..] {
        ["std", verb, ..] => std_step(verb, &words[2..]),
        [verb, preopen, ..] => match preopens.iter().find(|(_, name)| name == preopen) {
            Some((dir, _)) => raw(dir, verb, &words[2..]).await.unwrap_or_else(name),
            None => "no such preopen".to_owned(),
        },
        _ => "no such step".to_owned(),
    }
}

/// Takes a step on a descriptor.
async fn raw(dir: &Descriptor, verb: &str, words: &[&str]) -> Result<String, ErrorCode> {
    let now = NewTimestamp::Now;
    let (file, none) = (OpenFlags::empty(), PathFlags::empty());
    let owned = |text: &str| text.to_owned();
    match (verb, words) {
        ("open", [path]) => {
            let opened = dir.open_at(FOLLOW, owned(path), file, DescriptorFlags::READ).await?;
            return read(&opened).await;
        }
        ("open-link", [path]) => {
            let opened = dir.open_at(none, owned(path), file, DescriptorFlags::READ).await?;
            return read(&opened).await;
        }
        ("create", [path]) => {
            let flags = OpenFlags::CREATE | OpenFlags::TRUNCATE;
            drop(dir.open_at(FOLLOW, owned(path), flags, DescriptorFlags::WRITE).await?);
        }
        ("create-new", [path]) => {
            let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
            drop(dir.open_at(none, owned(path), flags, DescriptorFlags::WRITE).await?);
        }
        ("write", [path, text]) => {
            let opened = dir.open_at(FOLLOW, owned(path), file, DescriptorFlags::WRITE).await?;
            let (mut bytes, stream) = wasip3::wit_stream::new();
            let end = opened.write_via_stream(stream, 0);
            bytes.write_all(text.as_bytes().to_vec()).await;
            drop(bytes);
            end.await?;
        }
        ("stat", [path]) => drop(dir.stat_at(FOLLOW, owned(path)).await?),
        ("stat-link", [path]) => drop(dir.stat_at(none, owned(path)).await?),
        ("hash", [path]) => drop(dir.metadata_hash_at(FOLLOW, owned(path)).await?),
        ("touch", [path]) => dir.set_times_at(none, owned(path), now, now).await?,
        ("readlink", [path]) => return dir.readlink_at(owned(path)).await,
        ("mkdir", [path]) => dir.create_directory_at(owned(path)).await?,
        ("rmdir", [path]) => dir.remove_directory_at(owned(path)).await?,
        ("unlink", [path]) => dir.unlink_file_at(owned(path)).await?,
        ("symlink", [target, path]) => dir.symlink_at(owned(target), owned(path)).await?,
        ("link", [from, to]) => dir.link_at(none, owned(from), dir, owned(to)).await?,
        ("rename", [from, to]) => dir.rename_at(owned(from), dir, owned(to)).await?,
        ("list", [path]) => return list(dir, path).await,
        // Starts from a handle on a directory below.
        ("open-in", [sub, path]) => {
            let flags = DescriptorFlags::READ;
            let sub = dir.open_at(FOLLOW, owned(sub), OpenFlags::DIRECTORY, flags).await?;
            let opened = sub.open_at(FOLLOW, owned(path), file, flags).await?;
            return read(&opened).await;
        }
        // Starts from a handle that was opened before the directory was renamed.
        ("open-in-moved", [sub, to, path]) => {
            let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
            let opened = dir.open_at(FOLLOW, owned(sub), OpenFlags::DIRECTORY, flags).await?;
            let moved = dir.rename_at(owned(sub), dir, owned(to)).await.err().map(name);
            let seen = opened.open_at(FOLLOW, owned(path), file, DescriptorFlags::READ).await;
            let seen = match seen {
                Ok(opened) => read(&opened).await.unwrap_or_else(name),
                Err(code) => name(code),
            };
            return Ok(moved.map_or(seen.clone(), |moved| format!("{moved}, {seen}")));
        }
        _ => return Ok("no such step".to_owned()),
    }
    Ok("done".to_owned())
}

async fn read(file: &Descriptor) -> Result<String, ErrorCode> {
    let (bytes, end) = file.read_via_stream(0);
    let bytes = bytes.collect().await;
    end.await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn list(dir: &Descriptor, path: &str) -> Result<String, ErrorCode> {
    let flags = OpenFlags::DIRECTORY;
    let opened = dir.open_at(FOLLOW, path.to_owned(), flags, DescriptorFlags::READ).await?;
    let (entries, end) = opened.read_directory();
    let mut names: Vec<String> =
        entries.collect().await.into_iter().map(|entry| entry.name).collect();
    end.await?;
    names.sort();
    Ok(names.join(" "))
}
