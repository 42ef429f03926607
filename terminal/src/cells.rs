//! The number of screen cells that a text takes.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the number of cells that `text` takes on any terminal. Some terminals draw joined emoji
/// as one, some draw their parts. The larger number is always enough.
pub(crate) fn width(text: &str) -> usize {
    let parts = text.chars().filter_map(|c| c.width()).sum();
    text.width().max(parts)
}

/// Returns the number of cells that `text` takes without the styles of this crate in it.
pub(crate) fn styled_width(text: &str) -> usize {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    width(&plain)
}

/// Returns `text`, or as much of its end as fits into `room` cells together with `…`.
pub(crate) fn truncated_before(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut start = text.len();
    for (at, _) in text.grapheme_indices(true).rev() {
        if width(&text[at..]) + 1 > room {
            break;
        }
        start = at;
    }
    let kept = format!("…{}", &text[start..]);
    if width(&kept) > room { String::new() } else { kept }
}

/// Returns `text`, or as much of its beginning as fits into `room` cells together with `…`.
pub(crate) fn truncated(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for grapheme in text.graphemes(true) {
        let end = kept.len();
        kept.push_str(grapheme);
        // Measured as a whole: a character that joins its neighbour may take more cells than the
        // two take apart.
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

    #[test]
    fn the_end_is_kept_where_that_is_asked_for() {
        assert_eq!(truncated_before("世界地図", 8), "世界地図");
        assert_eq!(truncated_before("世界地図", 7), "…界地図");
        assert_eq!(truncated_before("世界地図", 6), "…地図");
        assert_eq!(truncated_before("a", 0), "");
    }

    #[test]
    fn styles_take_no_cells() {
        assert_eq!(styled_width("a \u{1b}[1mbold\u{1b}[0m 世"), 9);
    }

    proptest! {
        #[test]
        fn what_is_truncated_fits(text in "\\PC*", room in 0_usize..40) {
            prop_assert!(width(&truncated(&text, room)) <= room);
            prop_assert!(width(&truncated_before(&text, room)) <= room);
        }
    }
}
