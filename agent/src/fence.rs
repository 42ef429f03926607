//! Fences around a quoted text. Nothing in the text can end them.

/// Returns a fence that does not occur in the text.
pub(super) fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat((longest + 1).max(3))
}

/// Returns the text between fences.
pub(super) fn fenced(text: &str) -> String {
    let fence = fence(text);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::fenced;

    #[test]
    fn nothing_in_a_text_ends_its_fence() {
        assert_eq!(fenced("a"), "```\na\n```");
        assert_eq!(fenced(""), "```\n```");
        assert_eq!(fenced("a\n```\nb\n"), "````\na\n```\nb\n````");
    }
}
