//! Bytes in pieces, as a network may deliver them.

/// Returns three ways to cut the bytes: one piece per byte, the same with empty pieces between, and
/// pieces whose sizes are taken from the bytes. The last lets a fuzzer move the cuts.
pub(crate) fn cuts(data: &[u8]) -> [Vec<&[u8]>; 3] {
    let single = data.chunks(1);
    let with_empty = single.clone().flat_map(|byte| [byte, &[]]);
    [single.collect(), with_empty.collect(), sized(data)]
}

fn sized(mut data: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some(first) = data.first() {
        let (piece, rest) = data.split_at(data.len().min(1 + usize::from(*first)));
        pieces.push(piece);
        data = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::cuts;

    #[test]
    fn every_cut_keeps_the_bytes() {
        let data: Vec<u8> = (0..=255).chain([7, 0, 1]).collect();
        for cut in cuts(&data) {
            assert!(cut.len() > 2, "{cut:?}");
            assert_eq!(cut.concat(), data);
        }
    }
}
