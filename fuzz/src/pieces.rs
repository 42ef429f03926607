//! Bytes in pieces, as a network may deliver them.

/// Returns ways to cut the bytes: each byte by itself, with empty pieces between, and in pieces
/// whose sizes are taken from the bytes themselves, so that a fuzzer can move the cuts.
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
