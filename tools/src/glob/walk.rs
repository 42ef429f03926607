//! Finding the paths that match a pattern of several components.
//!
//! All components that could apply to a directory are followed at once, so each directory is read
//! at most once, however many `**` the pattern has. Memory and time depend on the tree, not on the
//! pattern. Directories that cannot be read, and links that lead outside the grant, are skipped.

use super::component::Wildcard;
use crate::ports::{Directory, FileKind, Files};

/// A path that matches. Sorts by the bytes of the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathMatch {
    /// The path for the answer.
    pub(crate) path: Vec<u8>,
    /// The position of the last component in `path`.
    pub(crate) name_at: usize,
}

/// A parsed pattern.
#[derive(Debug)]
pub(crate) struct GlobPattern {
    /// The text before the first component: empty, `/`, or a directory and `/`.
    prefix: Vec<u8>,
    components: Vec<PatternComponent>,
    /// `true` if the pattern ends in a slash: only directories match.
    directories_only: bool,
}

#[derive(Debug)]
enum PatternComponent {
    Literal(Vec<u8>),
    Wildcard(Wildcard),
    /// `**`: any number of directories.
    AnyDepth,
}

impl GlobPattern {
    /// Parses a whole pattern; `None` for an empty one, which matches nothing.
    pub(crate) fn parse(pattern: &[u8]) -> Option<Self> {
        let prefix = if pattern.first() == Some(&b'/') { b"/".to_vec() } else { Vec::new() };
        if pattern.is_empty() { None } else { Some(Self::with_prefix(prefix, pattern)) }
    }

    /// Parses a pattern beneath a directory that is taken literally.
    pub(crate) fn beneath(path: &[u8], pattern: &[u8]) -> Option<Self> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let prefix = [&path[..end], b"/"].concat();
        Some(Self::with_prefix(prefix, pattern))
    }

    fn with_prefix(prefix: Vec<u8>, pattern: &[u8]) -> Self {
        let mut components: Vec<PatternComponent> = Vec::new();
        for text in pattern.split(|byte| *byte == b'/').filter(|text| !text.is_empty()) {
            let component = match text {
                b"**" => PatternComponent::AnyDepth,
                _ => Wildcard::parse(text)
                    .map_or_else(PatternComponent::Literal, PatternComponent::Wildcard),
            };
            // A row of `**` is one `**`.
            let again = matches!(component, PatternComponent::AnyDepth)
                && matches!(components.last(), Some(PatternComponent::AnyDepth));
            if !again {
                components.push(component);
            }
        }
        Self { prefix, components, directories_only: pattern.last() == Some(&b'/') }
    }

    /// Returns whether the pattern is absolute or begins with `..`.
    pub(crate) fn leaves_workspace(&self) -> bool {
        let climbs = matches!(self.components.first(), Some(PatternComponent::Literal(name)) if name == b"..");
        self.prefix.first() == Some(&b'/') || (self.prefix.is_empty() && climbs)
    }

    /// Returns the part before the first wildcard, or `.` if the pattern begins with a wildcard.
    pub(crate) fn fixed(&self) -> Vec<u8> {
        let mut fixed = self.prefix.clone();
        for component in &self.components {
            let PatternComponent::Literal(name) = component else { break };
            if !fixed.is_empty() && fixed.last() != Some(&b'/') {
                fixed.push(b'/');
            }
            fixed.extend_from_slice(name);
        }
        if fixed.is_empty() { b".".to_vec() } else { fixed }
    }
}

/// The paths that a pattern matches, in no order.
#[derive(Debug, Default)]
pub(crate) struct PathMatches {
    pub(crate) found: Vec<PathMatch>,
    /// The number of names that were left out, because the port cannot express them.
    pub(crate) left_out: u64,
}

/// Returns every path that `pattern` matches.
pub(crate) fn walk<F: Files>(
    files: &F,
    pattern: &GlobPattern,
    wanted: &dyn Fn(FileKind) -> bool,
) -> PathMatches {
    let matches = PathMatches::default();
    let mut walk = GlobWalk { files, pattern, wanted, matches, waiting: Vec::new() };
    if pattern.components.is_empty() {
        // Only `/`, or a directory with nothing after it.
        if files.kind(&pattern.prefix, true) == Ok(FileKind::Directory)
            && wanted(FileKind::Directory)
        {
            let (path, name_at) = (pattern.prefix.clone(), pattern.prefix.len());
            walk.matches.found.push(PathMatch { path, name_at });
        }
        return walk.matches;
    }
    walk.enter(pattern.prefix.clone(), vec![0]);
    while let Some((prefix, states)) = walk.waiting.pop() {
        walk.visit(&prefix, &states);
    }
    walk.matches
}

struct GlobWalk<'w, F> {
    files: &'w F,
    pattern: &'w GlobPattern,
    wanted: &'w dyn Fn(FileKind) -> bool,
    matches: PathMatches,
    /// The directories still to visit: the path with its slash (empty for the current directory),
    /// and the components that apply to its entries.
    waiting: Vec<(Vec<u8>, Vec<usize>)>,
}

impl<F: Files> GlobWalk<'_, F> {
    /// Adds a directory to the list; `**` also matches no directory at all.
    fn enter(&mut self, prefix: Vec<u8>, mut states: Vec<usize>) {
        let mut at = 0;
        while at < states.len() {
            let state = states[at];
            if matches!(self.pattern.components[state], PatternComponent::AnyDepth)
                && state + 1 < self.pattern.components.len()
                && !states.contains(&(state + 1))
            {
                states.push(state + 1);
            }
            at += 1;
        }
        self.waiting.push((prefix, states));
    }

    fn is_last(&self, state: usize) -> bool {
        state + 1 == self.pattern.components.len()
    }

    fn visit(&mut self, prefix: &[u8], states: &[usize]) {
        let literal = |state: &usize| match &self.pattern.components[*state] {
            PatternComponent::Literal(name) => Some(name.clone()),
            _ => None,
        };
        // If only names are wanted, the directory need not be readable. `.` and `..` are never
        // among a directory's entries.
        let all_literal = states.iter().all(|state| literal(state).is_some());
        let mut looked_up: Vec<(Vec<u8>, Vec<usize>)> = Vec::new();
        for (state, name) in states.iter().filter_map(|state| Some((*state, literal(state)?))) {
            if all_literal || name == b"." || name == b".." {
                match looked_up.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, states)) => states.push(state),
                    None => looked_up.push((name, vec![state])),
                }
            }
        }
        for (name, states) in looked_up {
            self.look_up(prefix, &name, &states);
        }
        if !all_literal {
            self.list(prefix, states);
        }
    }

    /// Follows one literal name.
    fn look_up(&mut self, prefix: &[u8], name: &[u8], states: &[usize]) {
        let path = [prefix, name].concat();
        if states.iter().any(|state| self.is_last(*state))
            && let Ok(kind) = self.files.kind(&path, false)
        {
            self.take(prefix, name, kind);
        }
        let next: Vec<usize> =
            states.iter().filter(|state| !self.is_last(**state)).map(|state| state + 1).collect();
        if !next.is_empty() {
            self.enter([&path[..], b"/"].concat(), next);
        }
    }

    /// Reads a directory and follows each entry that a component matches.
    fn list(&mut self, prefix: &[u8], states: &[usize]) {
        let Ok(dir) = self.files.open_dir(if prefix.is_empty() { b"." } else { prefix }) else {
            return;
        };
        let mut matched: Vec<(Vec<u8>, FileKind, Vec<usize>)> = Vec::new();
        let mut taken: Vec<(Vec<u8>, FileKind)> = Vec::new();
        let mut each = |name: &[u8], kind: FileKind| {
            let (mut result, mut next) = (false, Vec::new());
            for state in states {
                self.step(*state, name, kind, &mut result, &mut next);
            }
            if result {
                taken.push((name.to_vec(), kind));
            }
            if !next.is_empty() {
                matched.push((name.to_vec(), kind, next));
            }
        };
        // The C library reports these two if a pattern spells their dot.
        for (name, kind) in [(&b"."[..], FileKind::Directory), (b"..", FileKind::Directory)] {
            each(name, kind);
        }
        // Entries that were listed before a failure are valid.
        self.matches.left_out += dir.entries(&mut each).unwrap_or(0);
        for (name, kind) in taken {
            self.take(prefix, &name, kind);
        }
        for (name, _, next) in matched {
            self.enter([prefix, &name, b"/"].concat(), next);
        }
    }

    /// Applies component `state` to one entry: sets `result` if the entry matches, and adds the
    /// components that apply to its own entries to `next`.
    fn step(
        &self,
        state: usize,
        name: &[u8],
        kind: FileKind,
        result: &mut bool,
        next: &mut Vec<usize>,
    ) {
        let dots = name == b"." || name == b"..";
        let matches = match &self.pattern.components[state] {
            PatternComponent::Literal(wanted) => !dots && wanted == name,
            PatternComponent::Wildcard(wildcard) => wildcard.matches(name),
            PatternComponent::AnyDepth => {
                let visible = name.first() != Some(&b'.');
                if visible && kind == FileKind::Directory && !next.contains(&state) {
                    next.push(state);
                }
                *result |= visible && self.is_last(state);
                false
            }
        };
        if matches && self.is_last(state) {
            *result = true;
        } else if matches
            && matches!(kind, FileKind::Directory | FileKind::Symlink)
            && !next.contains(&(state + 1))
        {
            next.push(state + 1);
        }
    }

    /// Adds a result, if it is of a wanted kind.
    fn take(&mut self, prefix: &[u8], name: &[u8], kind: FileKind) {
        let mut path = [prefix, name].concat();
        if self.pattern.directories_only {
            let followed =
                if kind == FileKind::Symlink { self.files.kind(&path, true) } else { Ok(kind) };
            if followed != Ok(FileKind::Directory) {
                return;
            }
            path.push(b'/');
        }
        if (self.wanted)(kind) {
            self.matches.found.push(PathMatch { path, name_at: prefix.len() });
        }
    }
}
