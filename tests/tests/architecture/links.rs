//! The links among the pages of the documentation, and the source files that the pages name. A link
//! must lead to an existing file, and to a heading in it if it names one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Returns the links that lead nowhere, each as `PAGE: TARGET`. `pages` are texts by their paths.
/// `exists` reports whether another file exists.
pub(crate) fn dead(
    pages: &BTreeMap<String, String>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let anchors: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut found = Vec::new();
    for (page, text) in pages {
        for target in targets(text) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => PathBuf::from(page),
                _ => beside(page, file),
            };
            let is_alive = match path.to_str().and_then(|path| anchors.get(path)) {
                Some(anchors) => anchor.is_empty() || anchors.iter().any(|it| it == anchor),
                None => anchor.is_empty() && exists(&path),
            };
            if !is_alive {
                found.push(format!("{page}: {target}"));
            }
        }
    }
    found
}

/// Returns the Rust files that the pages name in code and that do not exist, each as `PAGE: FILE`.
/// A name is the path from the repository, or the end of that path. `sources` are the paths of all
/// Rust files.
pub(crate) fn missing_files(
    pages: &BTreeMap<String, String>,
    sources: &BTreeSet<String>,
) -> Vec<String> {
    let exists = |name: &str| {
        let is_end = |path: &String| {
            path.strip_suffix(name).is_some_and(|start| start.is_empty() || start.ends_with('/'))
        };
        sources.iter().any(is_end)
    };
    let mut found = Vec::new();
    for (page, text) in pages {
        for event in parsed(text) {
            let Event::Code(name) = event else { continue };
            if name.ends_with(".rs") && !exists(&name) {
                found.push(format!("{page}: {name}"));
            }
        }
    }
    found
}

fn parsed(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Returns the targets of links and images that are not web addresses.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for event in parsed(text) {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
            && !dest_url.contains(':')
        {
            found.push(dest_url.into_string());
        }
    }
    found
}

/// Returns the anchors of the headings, as GitHub makes them: in lower case, without punctuation,
/// with hyphens for spaces.
fn anchors(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut heading: Option<String> = None;
    for event in parsed(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => found.extend(heading.take()),
            Event::Text(text) | Event::Code(text) => {
                let Some(heading) = &mut heading else { continue };
                let kept = text.chars().filter_map(|it| match it {
                    ' ' => Some('-'),
                    '-' | '_' => Some(it),
                    it => it.is_alphanumeric().then_some(it),
                });
                heading.extend(kept.flat_map(char::to_lowercase));
            }
            _ => {}
        }
    }
    found
}

/// Returns the path of a file that a page names from its own directory.
fn beside(page: &str, file: &str) -> PathBuf {
    let mut path = Path::new(page).parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(file).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path
}
