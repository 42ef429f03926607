//! The tokens of a text in a model's context, estimated without asking the model.

/// The average number of bytes per token, in English text and in code.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// Returns the tokens that `bytes` bytes of text count as: a quarter, rounded up.
#[must_use]
pub fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn a_quarter_rounded_up() {
        assert_eq!([0, 1, 4, 5, 8, 9, 400_000].map(tokens), [0, 1, 1, 2, 2, 3, 100_000]);
    }
}
