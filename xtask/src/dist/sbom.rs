//! The bill of materials of a release: CycloneDX 1.5 as JSON, which scanners of vulnerabilities
//! read. It contains no time of the build and no random number, so two builds have the same one.

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use crate::dist::inventory::{Inventory, ShippedCrate};
use crate::dist::release::Release;

/// Returns the bill of materials for the crates of an inventory.
pub(crate) fn sbom(inventory: &Inventory, release: &Release) -> anyhow::Result<String> {
    let main = inventory.crates.get(&inventory.main).context("the host is missing")?;
    let mut program = component(&inventory.main, main);
    program.insert("type".to_owned(), json!("application"));
    program.insert("version".to_owned(), json!(release.version));
    let others = inventory.crates.iter().filter(|(url, _)| **url != inventory.main);
    let components: Vec<_> = others.map(|(url, it)| component(url, it)).collect();
    let uses = |(url, it): (&String, &ShippedCrate)| json!({ "ref": url, "dependsOn": it.uses });
    let dependencies: Vec<_> = inventory.crates.iter().map(uses).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": timestamp(release.time), "component": program },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&bill)?))
}

fn component(url: &str, shipped: &ShippedCrate) -> Map<String, Value> {
    let mut component = Map::new();
    let mut set = |key: &str, value: Value| component.insert(key.to_owned(), value);
    set("type", json!("library"));
    set("bom-ref", json!(url));
    set("name", json!(shipped.name));
    set("version", json!(shipped.version));
    if let Some(checksum) = &shipped.checksum {
        set("hashes", json!([{ "alg": "SHA-256", "content": checksum }]));
    }
    if let Some(licence) = &shipped.licence {
        set("licenses", json!([{ "expression": licence }]));
    }
    set("purl", json!(url));
    component
}

/// Returns a time as RFC 3339.
pub(crate) fn timestamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 1 March of year 0, so that leap days end a year (Howard Hinnant,
    // "chrono-compatible low-level date algorithms").
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;

    use super::*;
    use crate::dist::compress::CompressionEffort;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(timestamp(1_795_997_039), "2026-11-30T00:03:59Z");
    }

    #[test]
    fn each_crate_is_a_component_and_a_row_of_the_graph() {
        let shipped = |name: &str, checksum: Option<&str>, uses: &[&str]| ShippedCrate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            checksum: checksum.map(str::to_owned),
            folder: PathBuf::new(),
            uses: uses.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>(),
        };
        let (host, library) = ("pkg:cargo/ikigai@1.0.0", "pkg:cargo/b@1.0.0");
        let crates = BTreeMap::from([
            (host.to_owned(), shipped("ikigai", None, &[library])),
            (library.to_owned(), shipped("b", Some("12ab"), &[])),
        ]);
        let inventory = Inventory { crates, main: host.to_owned() };
        let release = Release {
            version: "2.0.0".to_owned(),
            time: 0,
            effort: CompressionEffort::Low,
            is_final: false,
            out: PathBuf::new(),
        };
        let bill = sbom(&inventory, &release).expect("a bill");
        let bill: Value = serde_json::from_str(&bill).expect("JSON");
        assert_eq!(bill["metadata"]["component"]["version"], "2.0.0");
        assert_eq!(bill["components"][0]["purl"], library);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "12ab");
        assert_eq!(bill["dependencies"][1], json!({ "ref": host, "dependsOn": [library] }));
    }
}
