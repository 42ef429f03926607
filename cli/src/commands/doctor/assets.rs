//! The check of the asset store: its address, and whether it answers.

use super::DoctorCheck;
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::remedy;

const SECTION: &str = "assets";

pub(super) async fn checks(options: &SharedOptions) -> Result<Vec<DoctorCheck>, CliError> {
    let agent = options.agent()?;
    let Ok(assets) = options.assets() else {
        let check = DoctorCheck::new(SECTION, "store", "none");
        return Ok(vec![check.warn("set HOME or XDG_DATA_HOME, or specify a store with --store")]);
    };
    let url = match assets.url() {
        Ok(url) => url,
        Err(error) => {
            let check = DoctorCheck::new(SECTION, "store", error.to_string());
            return Ok(vec![
                check.warn("correct IKIGAI_STORE, or specify another store with --store"),
            ]);
        }
    };
    // The check must not create a store.
    if url.file().is_some_and(|file| !file.exists()) {
        return Ok(vec![DoctorCheck::new(SECTION, "store", format!("{url}, not created yet"))]);
    }
    let usage = match assets.open().await {
        Ok(store) => store.usage(&agent).await,
        Err(error) => Err(error),
    };
    Ok(match usage {
        Ok(usage) => {
            let assets = format!("{url}, {} assets", usage.assets);
            let (pinned, budget) = (usage.pinned_tokens, usage.budget.0);
            let pinned = format!("{pinned} of {budget} tokens by `{agent}`");
            vec![
                DoctorCheck::new(SECTION, "store", assets),
                DoctorCheck::new(SECTION, "pinned", pinned),
            ]
        }
        Err(error) => {
            let advice = remedy::asset::hint(&error);
            let advice = advice.unwrap_or("check its URL, or specify another store with --store");
            vec![DoctorCheck::new(SECTION, "store", error.to_string()).warn(advice)]
        }
    })
}
