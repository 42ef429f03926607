//! Matching an absolute path against the name of a granted directory.
//!
//! By whole components, on bytes, without touching the disk: this only chooses
//! the handle to ask. That a path does not climb out of it again is enforced by
//! the handle.

/// The part of the absolute `path` beneath the absolute directory `dir`: empty
/// if it is `dir` itself, `None` if it lies elsewhere. A slash at the end stays.
#[must_use]
pub fn beneath<'p>(dir: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
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
    fn whole_components_only() {
        let cases: [(&str, &str, Option<&str>); 9] = [
            ("/work", "/work/a", Some("a")),
            ("/work/", "/work", Some("")),
            ("/work", "/workshop/a", None),
            ("/work", "//./work//./a/", Some("a/")),
            ("/work", "/work/../etc", Some("../etc")),
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
