//! The lines in which two files differ, by Myers' algorithm, and their output by `diff`.

use std::ops::Range;

const NO_NEWLINE: &[u8] = b"\n\\ No newline at end of file\n";

/// Lines of the old file that became lines of the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineChange {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// Splits contents into lines, each with its newline.
pub(super) fn lines(contents: &[u8]) -> Vec<&[u8]> {
    contents.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the changes that lead from one file to the other. `alike` returns the form of a line
/// that is compared.
pub(super) fn compare(
    old: &[&[u8]],
    new: &[&[u8]],
    alike: &dyn Fn(&[u8]) -> Vec<u8>,
) -> Vec<LineChange> {
    let left: Vec<Vec<u8>> = old.iter().map(|line| alike(line)).collect();
    let right: Vec<Vec<u8>> = new.iter().map(|line| alike(line)).collect();
    let start = left.iter().zip(&right).take_while(|(one, other)| one == other).count();
    let tails = left[start..].iter().rev().zip(right[start..].iter().rev());
    let end = tails.take_while(|(one, other)| one == other).count();
    let kept = shared(&left[start..left.len() - end], &right[start..right.len() - end]);
    let mut changes = Vec::new();
    let (mut from, mut to) = (start, start);
    let kept = kept.into_iter().map(|(one, other)| (one + start, other + start));
    for (one, other) in kept.chain([(left.len() - end, right.len() - end)]) {
        if from < one || to < other {
            changes.push(LineChange { old: from..one, new: to..other });
        }
        (from, to) = (one + 1, other + 1);
    }
    changes
}

/// Returns the pairs of lines that a shortest edit script keeps.
fn shared(old: &[Vec<u8>], new: &[Vec<u8>]) -> Vec<(usize, usize)> {
    let (height, width) = (old.len(), new.len());
    let most = height + width;
    // The reach of each diagonal, diagonal `x - y` at `x - y + most + 1`.
    let mut reach = vec![0_usize; 2 * most + 3];
    let mut trace: Vec<Vec<usize>> = Vec::new();
    let middle = most + 1;
    'search: for depth in 0..=most {
        trace.push(reach[middle - depth - 1..=middle + depth + 1].to_vec());
        for step in (0..=2 * depth).step_by(2) {
            let diagonal = middle + step - depth;
            let down = step == 0 || step != 2 * depth && reach[diagonal - 1] < reach[diagonal + 1];
            let mut x = if down { reach[diagonal + 1] } else { reach[diagonal - 1] + 1 };
            let mut y = x + middle - diagonal;
            while x < height && y < width && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            reach[diagonal] = x;
            if x >= height && y >= width {
                break 'search;
            }
        }
    }
    let mut kept = Vec::new();
    let (mut x, mut y) = (height, width);
    for (depth, reach) in trace.iter().enumerate().rev() {
        // The same diagonal within the part that was kept of this depth.
        let diagonal = x + depth + 1 - y;
        let down =
            diagonal == 1 || diagonal != 2 * depth + 1 && reach[diagonal - 1] < reach[diagonal + 1];
        let before = if down { diagonal + 1 } else { diagonal - 1 };
        let (from_x, from_y) =
            if depth == 0 { (0, 0) } else { (reach[before], reach[before] + depth + 1 - before) };
        while x > from_x && y > from_y {
            (x, y) = (x - 1, y - 1);
            kept.push((x, y));
        }
        (x, y) = (from_x, from_y);
    }
    kept.reverse();
    kept
}

fn write_line(out: &mut Vec<u8>, mark: &[u8], line: &[u8]) {
    out.extend_from_slice(mark);
    out.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        out.extend_from_slice(NO_NEWLINE);
    }
}

impl LineChange {
    /// Writes the change in the form of `ed`, as in `3,4c5`.
    pub(super) fn write_normal(&self, out: &mut Vec<u8>, old: &[&[u8]], new: &[&[u8]]) {
        let lines = |range: &Range<usize>| match range.len() {
            0 => range.start.to_string(),
            1 => range.end.to_string(),
            _ => format!("{},{}", range.start + 1, range.end),
        };
        let verb = match (self.old.is_empty(), self.new.is_empty()) {
            (true, _) => 'a',
            (_, true) => 'd',
            _ => 'c',
        };
        out.extend(format!("{}{verb}{}\n", lines(&self.old), lines(&self.new)).bytes());
        self.old.clone().for_each(|at| write_line(out, b"< ", old[at]));
        if verb == 'c' {
            out.extend_from_slice(b"---\n");
        }
        self.new.clone().for_each(|at| write_line(out, b"> ", new[at]));
    }
}

/// Changes that are shown together, with the lines around them.
#[derive(Debug)]
pub(super) struct Hunk<'c> {
    changes: &'c [LineChange],
    old: Range<usize>,
    new: Range<usize>,
}

impl<'c> Hunk<'c> {
    /// Joins changes that have no more than twice `around` lines between them.
    pub(super) fn gather(
        changes: &'c [LineChange],
        around: usize,
        old: usize,
        new: usize,
    ) -> Vec<Self> {
        let apart =
            |pair: &LineChange, next: &LineChange| next.old.start - pair.old.end > 2 * around;
        let groups = changes.chunk_by(|one, next| !apart(one, next));
        let hunk = |group: &'c [LineChange]| {
            let (first, last) = (group.first()?, group.last()?);
            let before = around.min(first.old.start);
            let after = around.min(old - last.old.end).min(new - last.new.end);
            Some(Self {
                changes: group,
                old: first.old.start - before..last.old.end + after,
                new: first.new.start - before..last.new.end + after,
            })
        };
        groups.filter_map(hunk).collect()
    }

    pub(super) fn write_unified(&self, out: &mut Vec<u8>, old: &[&[u8]], new: &[&[u8]]) {
        let lines = |range: &Range<usize>| match range.len() {
            0 => format!("{},0", range.start),
            1 => range.end.to_string(),
            length => format!("{},{length}", range.start + 1),
        };
        out.extend(format!("@@ -{} +{} @@\n", lines(&self.old), lines(&self.new)).bytes());
        let mut at = self.old.start;
        for change in self.changes {
            (at..change.old.start).for_each(|at| write_line(out, b" ", old[at]));
            change.old.clone().for_each(|at| write_line(out, b"-", old[at]));
            change.new.clone().for_each(|at| write_line(out, b"+", new[at]));
            at = change.old.end;
        }
        (at..self.old.end).for_each(|at| write_line(out, b" ", old[at]));
    }
}
