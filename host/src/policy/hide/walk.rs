//! A walk along a path from the root, which shows at each name whether the path is hidden. It looks
//! up each name once, even if the path goes up again.

use std::ffi::OsStr;
use std::path::{Component, Path};

use super::Hide;
use super::patterns::{Patterns, States};

/// A walk along a path, through one or several granted directories.
pub(crate) struct HideWalk<'a> {
    patterns: &'a Patterns,
    ways: Vec<AnchoredWalk<'a>>,
    depth: usize,
}

/// The part of a walk that belongs to one granted directory. The directory decides where patterns
/// begin.
struct AnchoredWalk<'a> {
    granted: Anchor<'a>,
    others: Vec<Anchor<'a>>,
    /// The states at the root and at each name of the path.
    states: Vec<States>,
}

/// The directories at which patterns begin: the directories on the path to `names`, from the depth
/// `from` on.
struct Anchor<'a> {
    names: Vec<&'a OsStr>,
    from: usize,
    /// The number of leading names that the path of the walk has in common with it.
    matched: usize,
}

impl<'a> HideWalk<'a> {
    /// Starts at the root.
    pub(super) fn new(hide: &'a Hide, granted: impl Iterator<Item = &'a Path>) -> Self {
        let ways = granted.map(|granted| AnchoredWalk::new(hide, granted)).collect();
        Self { patterns: &hide.patterns, ways, depth: 0 }
    }

    /// Moves on to a name.
    pub(crate) fn push(&mut self, name: &OsStr) {
        let is_needed = self.ways.iter().any(|way| !way.state().is_empty());
        let found = if is_needed { self.patterns.look_up(name) } else { Vec::new() };
        for way in &mut self.ways {
            way.push(self.patterns, self.depth, name, &found);
        }
        self.depth += 1;
    }

    /// Moves on through all names of a path.
    pub(crate) fn follow(&mut self, path: &Path) {
        names(path).for_each(|name| self.push(name));
    }

    /// Moves back from the last name.
    pub(crate) fn pop(&mut self) {
        let Some(depth) = self.depth.checked_sub(1) else { return };
        self.depth = depth;
        for way in &mut self.ways {
            way.states.truncate(depth + 1);
            way.anchors_mut().for_each(|it| it.matched = it.matched.min(depth));
        }
    }

    /// Returns whether the path is hidden in a granted directory that contains it, or lies outside
    /// of the first granted directory.
    pub(crate) fn is_hidden_or_outside(&self) -> bool {
        let is_outside = |way: &AnchoredWalk<'_>| !way.granted.is_complete();
        self.ways.first().is_none_or(is_outside) || self.is_hidden()
    }

    /// Returns whether the path is hidden in a granted directory that contains it.
    pub(crate) fn is_hidden(&self) -> bool {
        let hides = |way: &AnchoredWalk<'_>| self.patterns.is_hidden(way.state());
        self.ways.iter().any(|way| way.granted.is_complete() && hides(way))
    }

    /// Returns whether the patterns hide the path, inside or outside of the granted directories.
    pub(super) fn is_hidden_anywhere(&self) -> bool {
        self.ways.iter().any(|way| self.patterns.is_hidden(way.state()))
    }

    /// Returns whether everything that would be hidden below this path would also be hidden below
    /// another.
    pub(super) fn hides_no_more_than(&self, other: &HideWalk<'_>) -> bool {
        let begins_beneath = |it: &Anchor<'_>| it.matched == self.depth && !it.is_complete();
        let mut anchors = self.ways.iter().flat_map(AnchoredWalk::anchors);
        if !self.patterns.begin_anywhere() && anchors.any(begins_beneath) {
            return false;
        }
        let mut own = self.ways.iter().flat_map(AnchoredWalk::state);
        own.all(|state| other.ways.iter().any(|way| way.state().contains(state)))
    }
}

impl<'a> AnchoredWalk<'a> {
    fn new(hide: &'a Hide, granted: &'a Path) -> Self {
        let workspace = hide.workspace.as_deref();
        // In a workspace, the names above the workspace don't count.
        let highest =
            workspace.filter(|it| granted.starts_with(it)).map_or(0, |it| names(it).count());
        // A grant of a directory above the workspace must not show more of the workspace.
        let others = workspace.into_iter().chain(hide.named.iter().map(|it| &**it));
        let mut way = Self {
            granted: Anchor { from: highest, ..Anchor::at(granted) },
            others: others.map(Anchor::at).collect(),
            states: vec![States::new()],
        };
        way.begin(&hide.patterns, 0);
        way
    }

    fn anchors(&self) -> impl Iterator<Item = &Anchor<'a>> {
        std::iter::once(&self.granted).chain(&self.others)
    }

    fn anchors_mut(&mut self) -> impl Iterator<Item = &mut Anchor<'a>> {
        std::iter::once(&mut self.granted).chain(&mut self.others)
    }

    fn state(&self) -> &States {
        // The list is never empty, because it has a state for the root.
        self.states.last().unwrap_or(const { &States::new() })
    }

    fn push(&mut self, patterns: &Patterns, depth: usize, name: &OsStr, found: &[usize]) {
        self.anchors_mut().for_each(|it| it.push(depth, name));
        self.states.push(patterns.after(self.state(), found));
        self.begin(patterns, depth + 1);
    }

    /// Lets the patterns begin at the last directory, if they begin there.
    fn begin(&mut self, patterns: &Patterns, depth: usize) {
        if self.anchors().any(|it| it.matched == depth && depth >= it.from)
            && let Some(last) = self.states.last_mut()
        {
            *last = patterns.with_starts(last);
        }
    }
}

impl<'a> Anchor<'a> {
    /// Lets patterns begin at a directory, but not above it.
    fn at(path: &'a Path) -> Self {
        let names: Vec<_> = names(path).collect();
        Self { from: names.len(), names, matched: 0 }
    }

    fn push(&mut self, depth: usize, name: &OsStr) {
        if self.matched == depth && self.names.get(depth) == Some(&name) {
            self.matched += 1;
        }
    }

    /// Returns whether the path lies in the directory, or is the directory.
    fn is_complete(&self) -> bool {
        self.matched == self.names.len()
    }
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter(|it| *it != Component::RootDir).map(Component::as_os_str)
}
