//! A guest that performs file operations of different kinds, and reports the result of each.

use std::hint::black_box;

use ikigai_test_guests::{Attempts, Order, std_step};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};

use self::bindings::ikigai::tool::workspace::replace;

/// The schema; `trespass` explains the name.
const SCHEMA: &str = r#"{"name":"_walker","description":"Walks among files",
"parameters":{"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string","enum":[
"steps"]}}}}"#;

/// The bindings. The library of the tools does not publish its bindings.
mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "
            package ikigai:guest;
            world walking {
                import ikigai:tool/workspace@0.1.0;
            }
        ",
        world: "ikigai:guest/walking",
        with: {
            "ikigai:tool/workspace@0.1.0": generate,
            "wasi:clocks/wall-clock@0.2.12": wasip2::clocks::wall_clock,
            "wasi:filesystem/types@0.2.12": wasip2::filesystem::types,
            "wasi:io/error@0.2.12": wasip2::io::error,
            "wasi:io/poll@0.2.12": wasip2::io::poll,
            "wasi:io/streams@0.2.12": wasip2::io::streams,
        },
    });
}

const FOLLOW: PathFlags = PathFlags::SYMLINK_FOLLOW;
const NONE: PathFlags = PathFlags::empty();

fn main() {
    let order = Order::read(SCHEMA);
    let mut attempts = Attempts::default();
    match order.mode.as_str() {
        "steps" => {
            let preopens = get_directories();
            for step in order.path.split(';').map(str::trim) {
                let words: Vec<&str> = step.split(' ').collect();
                let seen = match words[..] {
                    ["std", verb, ..] => std_step(verb, &words[2..]),
                    [verb, preopen, ..] => {
                        let dir = preopens.iter().find(|(_, name)| name == preopen);
                        let raw = |(dir, _): &(Descriptor, String)| raw(dir, verb, &words[2..]);
                        dir.map_or_else(|| "no such preopen".to_owned(), raw)
                    }
                    _ => "no such step".to_owned(),
                };
                attempts.observe(step, &seen);
            }
        }
        other => attempts.observe("error", &format!("there is no mode '{other}'")),
    }
    attempts.print();
}

/// Takes a step on a descriptor.
fn raw(dir: &Descriptor, verb: &str, words: &[&str]) -> String {
    let now = NewTimestamp::Now;
    let file = OpenFlags::empty();
    let done = match (verb, words) {
        ("open", [path]) => return read(dir.open_at(FOLLOW, path, file, DescriptorFlags::READ)),
        ("open-link", [path]) => {
            return read(dir.open_at(NONE, path, file, DescriptorFlags::READ));
        }
        ("create", [path]) => {
            let flags = OpenFlags::CREATE | OpenFlags::TRUNCATE;
            dir.open_at(FOLLOW, path, flags, DescriptorFlags::WRITE).map(drop)
        }
        ("create-new", [path]) => {
            let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
            dir.open_at(NONE, path, flags, DescriptorFlags::WRITE).map(drop)
        }
        ("write", [path, text]) => {
            let opened = dir.open_at(FOLLOW, path, file, DescriptorFlags::WRITE);
            opened.and_then(|it| it.write(text.as_bytes(), 0).map(drop))
        }
        ("stat", [path]) => dir.stat_at(FOLLOW, path).map(drop),
        ("stat-link", [path]) => dir.stat_at(NONE, path).map(drop),
        ("hash", [path]) => dir.metadata_hash_at(FOLLOW, path).map(drop),
        ("touch", [path]) => dir.set_times_at(NONE, path, now, now),
        ("readlink", [path]) => return dir.readlink_at(path).unwrap_or_else(name),
        ("mkdir", [path]) => dir.create_directory_at(path),
        ("rmdir", [path]) => dir.remove_directory_at(path),
        ("unlink", [path]) => dir.unlink_file_at(path),
        ("symlink", [target, path]) => dir.symlink_at(target, path),
        ("link", [from, to]) => dir.link_at(NONE, from, dir, to),
        ("rename", [from, to]) => dir.rename_at(from, dir, to),
        ("replace", [path, text]) => replace(dir, path, text.as_bytes()),
        ("list", [path]) => return list(dir, path),
        ("streams", [path, count]) => return streams(dir, path, count.parse().unwrap_or_default()),
        // Starts from a handle on a directory below.
        ("open-in", [sub, path]) => {
            let sub = dir.open_at(FOLLOW, sub, OpenFlags::DIRECTORY, DescriptorFlags::READ);
            return sub.map_or_else(name, |sub| {
                read(sub.open_at(FOLLOW, path, file, DescriptorFlags::READ))
            });
        }
        // Starts from a handle that was opened before the directory was renamed.
        ("open-in-moved", [sub, to, path]) => {
            let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
            let sub = dir.open_at(FOLLOW, sub, OpenFlags::DIRECTORY, flags).map(|it| (it, *sub));
            return sub.map_or_else(name, |(opened, sub)| {
                let moved = dir.rename_at(sub, dir, to).err().map(name);
                let seen = read(opened.open_at(FOLLOW, path, file, DescriptorFlags::READ));
                moved.map_or(seen.clone(), |moved| format!("{moved}, {seen}"))
            });
        }
        _ => return "no such step".to_owned(),
    };
    done.map_or_else(name, |()| "done".to_owned())
}

fn read(opened: Result<Descriptor, ErrorCode>) -> String {
    let contents = opened.and_then(|file| file.read(1024, 0));
    contents.map_or_else(name, |(bytes, _)| String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens as many streams of a file at once, and returns how many there are.
fn streams(dir: &Descriptor, path: &str, count: usize) -> String {
    let file = match dir.open_at(FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ) {
        Ok(file) => file,
        Err(code) => return name(code),
    };
    // The result needs memory, too.
    drop(black_box(Vec::<u8>::with_capacity(32 << 10)));
    let mut opened = Vec::with_capacity(count);
    for _ in 0..count {
        match file.read_via_stream(0) {
            Ok(stream) => opened.push(stream),
            Err(code) => return format!("{}, {}", opened.len(), name(code)),
        }
    }
    opened.len().to_string()
}

fn list(dir: &Descriptor, path: &str) -> String {
    let opened = dir.open_at(FOLLOW, path, OpenFlags::DIRECTORY, DescriptorFlags::READ);
    let entries = match opened.and_then(|it| it.read_directory()) {
        Ok(entries) => entries,
        Err(code) => return name(code),
    };
    let mut names = Vec::new();
    loop {
        match entries.read_directory_entry() {
            Ok(Some(entry)) => names.push(entry.name),
            Ok(None) => break,
            Err(code) => return name(code),
        }
    }
    names.sort();
    names.join(" ")
}

fn name(code: ErrorCode) -> String {
    code.name().to_owned()
}
