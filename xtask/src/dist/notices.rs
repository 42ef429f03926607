//! The licences of the crates in the programs, as those licences ask for. Texts that several crates
//! have in common are written once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;

use crate::dist::inventory::{Inventory, ShippedCrate};

/// The beginnings of the names of files with a licence, in capital letters.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Returns the texts, each with the crates that it applies to.
pub(crate) fn notices(inventory: &Inventory) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::new();
    for shipped in inventory.crates.values().filter(|shipped| shipped.checksum.is_some()) {
        let name = format!("{} {}", shipped.name, shipped.version);
        let licence = shipped.licence.as_deref().unwrap_or("see its text below");
        writeln!(list, "{name}: {licence}")?;
        for text in files(shipped)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut whole = format!("The programs of ikigai contain these crates.\n\n{list}");
    let rule = "-".repeat(80);
    for (text, names) in texts {
        write!(whole, "\n{rule}\n{}\n{rule}\n\n{}\n", names.join(", "), text.trim_end())?;
    }
    Ok(whole)
}

/// Returns the texts of the licences in the folder of a crate.
fn files(shipped: &ShippedCrate) -> anyhow::Result<Vec<String>> {
    let list = || format!("cannot list `{}`", shipped.folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&shipped.folder).with_context(list)? {
        let entry = entry.with_context(list)?;
        let name = entry.file_name().to_string_lossy().to_ascii_uppercase();
        if entry.path().is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    };
    paths.iter().map(read).collect()
}
