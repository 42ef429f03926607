//! The values that operations choose from.

use wasip3::clocks::system_clock::Instant;
use wasip3::filesystem::types::{DescriptorFlags, NewTimestamp, OpenFlags, PathFlags};

use super::Input;

/// The paths. The fuzz target makes the files and links with these names. `canary` is not in the
/// granted directory.
const PATHS: &[&str] = &[
    "file",
    "dir",
    "dir/inner",
    "link",
    "out",
    "up",
    "up/canary",
    "up/beside",
    "loop",
    ".",
    "..",
    "",
    "/",
    "../canary",
    "../beside/new",
    "dir/..",
    "dir/../..",
    "dir/../../canary",
    "/etc/passwd",
    "new",
    "dir/new",
    "new/deeper",
    "./././file",
    "file/",
    "dir//inner",
    "file\0",
    "\u{e4}\u{2028}",
    "absolute",
];

/// The lengths of paths that are too long, or almost.
const LENGTHS: &[usize] = &[255, 256, 4_095, 4_096, 70_000];

pub(super) fn path(input: &mut Input) -> String {
    let argument = usize::from(input.argument());
    match argument % (PATHS.len() + LENGTHS.len()) {
        number if number < PATHS.len() => PATHS[number].to_owned(),
        number => "n".repeat(LENGTHS[number - PATHS.len()]),
    }
}

/// Returns a place in a file, or the length of one.
pub(super) fn offset(input: &mut Input) -> u64 {
    input.choose(&[0, 1, 4_096, 1 << 20, (1 << 63) - 1, 1 << 63, u64::MAX])
}

/// Returns a number of bytes for a buffer.
pub(super) fn size(input: &mut Input) -> usize {
    input.choose(&[0, 1, 100, 4_096, 64 << 10])
}

pub(super) fn time(input: &mut Input) -> NewTimestamp {
    let at = |seconds, nanoseconds| NewTimestamp::Timestamp(Instant { seconds, nanoseconds });
    input.choose(&[
        NewTimestamp::NoChange,
        NewTimestamp::Now,
        at(0, 0),
        at(1, 999_999_999),
        at(1, 1_000_000_000),
        at(1, u32::MAX),
        at(-1, 0),
        at(i64::MIN, 0),
        at(i64::MIN, u32::MAX),
        at(i64::MAX, 999_999_999),
        at(i64::MAX, u32::MAX),
    ])
}

pub(super) fn follow(input: &mut Input) -> PathFlags {
    input.choose(&[PathFlags::empty(), PathFlags::SYMLINK_FOLLOW])
}

pub(super) fn open(input: &mut Input) -> OpenFlags {
    let none = OpenFlags::empty();
    input.choose(&[
        none,
        OpenFlags::DIRECTORY,
        OpenFlags::CREATE,
        OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
        OpenFlags::CREATE | OpenFlags::TRUNCATE,
        OpenFlags::CREATE | OpenFlags::DIRECTORY,
        OpenFlags::TRUNCATE,
        OpenFlags::EXCLUSIVE,
    ])
}

pub(super) fn access(input: &mut Input) -> DescriptorFlags {
    let both = DescriptorFlags::READ | DescriptorFlags::WRITE;
    input.choose(&[
        DescriptorFlags::READ,
        both,
        DescriptorFlags::WRITE,
        DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY,
        both | DescriptorFlags::MUTATE_DIRECTORY | DescriptorFlags::FILE_INTEGRITY_SYNC,
        DescriptorFlags::empty(),
    ])
}
