//! Matching a path against the name of a granted directory.
//!
//! Paths are compared by whole components, on bytes, without touching the disk: this only chooses
//! the handle. The handle enforces that a path does not climb out of it again.

use std::collections::BTreeSet;

/// Returns the part of the absolute `path` beneath the absolute directory `dir`: empty if it is
/// `dir` itself, `None` if it lies elsewhere or its `..` lead out of `dir`. A slash at the end
/// stays.
#[must_use]
pub fn beneath<'p>(dir: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    words_beneath(dir, path).filter(|rest| !climbs(rest))
}

/// Makes a relative path absolute. `dir` is the canonical name of the directory that the path
/// starts from, so each leading `..` removes a component of that name.
#[must_use]
pub fn join(mut dir: &[u8], path: &[u8]) -> Vec<u8> {
    let mut rest = skip_separators(path);
    while first_component(rest) == b".." {
        dir = &dir[..dir.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        rest = skip_separators(&rest[2..]);
    }
    [dir, b"/", rest].concat()
}

/// Returns `true` if a relative path leads above its start, links aside.
fn climbs(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

fn words_beneath<'p>(dir: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let mut rest = path;
    let mut wanted = dir;
    loop {
        wanted = skip_separators(wanted);
        rest = skip_separators(rest);
        if wanted.is_empty() {
            return Some(rest);
        }
        let component = first_component(wanted);
        if first_component(rest) != component {
            return None;
        }
        wanted = &wanted[component.len()..];
        rest = &rest[component.len()..];
    }
}

/// Returns the names in the absolute directory `dir` that lead to granted directories. They are all
/// that a tool can see of a directory that is above some of `names` and beneath none. Empty if
/// `dir` leads to none.
#[must_use]
pub fn names_above<'n>(
    dir: &[u8],
    names: impl IntoIterator<Item = &'n [u8]>,
) -> BTreeSet<&'n [u8]> {
    let beneath = names.into_iter().filter_map(|name| beneath(dir, name));
    beneath.map(first_component).filter(|name| !name.is_empty()).collect()
}

fn first_component(path: &[u8]) -> &[u8] {
    &path[..path.iter().position(|byte| *byte == b'/').unwrap_or(path.len())]
}

/// Skips slashes and `.` components.
fn skip_separators(mut path: &[u8]) -> &[u8] {
    loop {
        path = match path {
            [b'/', rest @ ..] => rest,
            [b'.'] => &[],
            [b'.', b'/', rest @ ..] => rest,
            _ => return path,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_above_granted_ones_shows_the_ways_to_them() {
        let names = ["/w/docs", "/w/src/a", "/w/src/b", "/other"].map(str::as_bytes);
        let above = |dir: &str| -> Vec<_> {
            let found = names_above(dir.as_bytes(), names);
            found.into_iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        };
        assert_eq!(above("/w"), ["docs", "src"]);
        assert_eq!(above("/w/src/"), ["a", "b"]);
        assert_eq!(above("/"), ["other", "w"]);
        assert_eq!(above("/w/docs"), [""; 0]);
        assert_eq!(above("/elsewhere"), [""; 0]);
    }

    #[test]
    fn a_path_that_begins_with_dots_leads_beside_its_start() {
        let cases = [
            ("/w/here", "a/../b/", "/w/here/a/../b/"),
            ("/w/here", "./.", "/w/here/"),
            ("/w/here", "..", "/w/"),
            ("/w/here", ".././/../a", "/a"),
            ("/w/here", "../../../a", "/a"),
            ("/w/here", "..a", "/w/here/..a"),
            ("", "a", "/a"),
        ];
        for (dir, path, expected) in cases {
            let joined = join(dir.as_bytes(), path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&joined), expected, "{dir} {path}");
        }
    }

    #[test]
    fn whole_components_only() {
        let cases: [(&str, &str, Option<&str>); 12] = [
            ("/work", "/work/a", Some("a")),
            ("/work/", "/work", Some("")),
            ("/work", "/workshop/a", None),
            ("/work", "//./work//./a/", Some("a/")),
            ("/work", "/work/../etc", None),
            ("/work", "/work/a/../../etc", None),
            ("/work", "/work/a/../b", Some("a/../b")),
            ("/", "/work/../etc", Some("work/../etc")),
            ("/work", "/etc", None),
            ("/", "/etc/x", Some("etc/x")),
            ("/work", "/work/.hid", Some(".hid")),
            ("/a/b", "/a", None),
        ];
        for (dir, path, expected) in cases {
            assert_eq!(
                beneath(dir.as_bytes(), path.as_bytes()),
                expected.map(str::as_bytes),
                "{dir} {path}"
            );
        }
    }
}
