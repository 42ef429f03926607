//! The number of screen cells that a text takes.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the number of cells that `text` takes on any terminal: some draw joined emoji as one,
/// some as their parts, and the larger number always fits.
pub(crate) fn width(text: &str) -> usize {
    let parts = text.chars().filter_map(|c| c.width()).sum();
    text.width().max(parts)
}

/// Returns `text`, or as much of its beginning as fits `room` cells together with `…`.
pub(crate) fn truncated(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for grapheme in text.graphemes(true) {
        let end = kept.len();
        kept.push_str(grapheme);
        // Measured as a whole: a character that joins its neighbour may take more cells than both
        // alone.
        if width(&kept) + 1 > room {
            kept.truncate(end);
            break;
        }
    }
    if room > 0 {
        kept.push('…');
    }
    if width(&kept) > room { String::new() } else { kept }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_characters_are_kept() {
        assert_eq!(truncated("世界地図", 8), "世界地図");
        assert_eq!(truncated("世界地図", 7), "世界地…");
        assert_eq!(truncated("世界地図", 6), "世界…");
        assert_eq!(truncated("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!(truncated("a", 0), "");
    }

    proptest! {
        #[test]
        fn what_is_truncated_fits(text in "\\PC*", room in 0_usize..40) {
            prop_assert!(width(&truncated(&text, room)) <= room);
        }
    }
}
