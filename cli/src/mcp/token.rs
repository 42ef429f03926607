//! The token of a server over HTTP: its file, and how it is read.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::options;
use ikigai_host::Paths;
use ikigai_host::paths::{read_secret, secret_of_user};
use ikigai_host::policy::EarlierReach;
use ikigai_mcp::SharedToken;

/// The name of the file.
const NAME: &str = "mcp.token";

/// The random bytes of a token.
const BYTES: usize = 32;

/// Returns the token of this user's servers and its file. Creates the file unless it exists.
pub(crate) fn of_user(paths: &Paths) -> anyhow::Result<(SharedToken, PathBuf)> {
    let dir = options::runtime_dir().or_else(|| paths.state.clone());
    let dir =
        dir.context("there is no directory for it: neither `XDG_RUNTIME_DIR` nor `HOME` is set")?;
    let file = dir.join(NAME);
    // A tool could have chosen the token in such a place.
    EarlierReach::from_paths(paths).check(&file)?;
    let text = fresh().and_then(|fresh| secret_of_user(&dir, NAME, &fresh));
    Ok((parsed(&file, text)?, file))
}

/// Reads a token from a file that must belong to the user.
pub(crate) fn read(file: &Path) -> anyhow::Result<SharedToken> {
    parsed(file, read_secret(file))
}

fn parsed(file: &Path, text: io::Result<String>) -> anyhow::Result<SharedToken> {
    let place = || format!("the token in `{}` cannot be used", file.display());
    let text = text.with_context(place)?;
    SharedToken::new(text.trim_end()).with_context(place)
}

/// Returns a text that cannot be guessed.
fn fresh() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
