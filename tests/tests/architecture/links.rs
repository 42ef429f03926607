//! The links among the pages of the documentation: each leads to a file that is there, and to a heading
//! of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Returns the pages in a folder of the repository and in all folders below it, each by its path in the repository.
pub(crate) fn pages_below(root: &Path, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = format!("{folder}/{}", entry.file_name().into_string().expect("UTF-8"));
        if entry.file_type().expect("a type").is_dir() {
            found.extend(pages_below(root, &path));
        } else if path.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// Returns the links that lead nowhere, each as `PAGE: TARGET`. `pages` are texts by their paths;
/// `exists` says whether there is another file.
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

fn parsed(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Returns the targets of links and images that are no addresses.
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

/// Returns the anchors of the headings, as GitHub makes them: in lower case, without punctuation, with
/// hyphens for spaces.
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
