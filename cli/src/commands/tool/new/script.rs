//! `ikigai tool new --lang script`: a native script among the user's tools, which runs without
//! changes.

use std::path::PathBuf;
use std::process::ExitCode;

use ikigai_host::policy::{WasiVersion, shell_quoted};
use serde_json::json;

use super::place::{self, ToolDirectory};
use super::template::ToolLanguage;
use super::{LANG_SCRIPT, check_name};
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{print, print_json};

/// The permissions of a script: all users may run it.
const EXECUTABLE: u32 = 0o755;

pub(super) async fn run(
    options: &SharedOptions,
    name: &str,
    dir: Option<PathBuf>,
    json: bool,
) -> Result<ExitCode, CliError> {
    check_name(name, LANG_SCRIPT)?;
    let host = options.host()?;
    let place = ToolDirectory::new(&host, dir)?;
    place.check_free(&host, name, LANG_SCRIPT).await?;
    let path = place.dir.join(name);
    for file in ToolLanguage::Script.files(WasiVersion::V0_2, name) {
        place::write(&path, &file.text, EXECUTABLE)?;
    }
    let word = shell_quoted(&path.to_string_lossy());
    let check = format!("ikigai tool check {word}");
    let edit = format!("${{EDITOR:-vi}} {word}");
    let next = match place.is_among_tools {
        true => vec![format!("ikigai tool call {name} --text 'one two'"), edit, check],
        false => vec![edit, check, format!("install -D -m 755 -t ~/.ikigai/tools {word}")],
    };
    if json {
        print_json(&json!({
            "name": name,
            "lang": <&str>::from(ToolLanguage::Script),
            "path": path.to_string_lossy(),
            "next": next,
        }))?;
    } else {
        let path = path.display();
        print(&format!("created the script {path}\n\nnext:\n  {}\n", next.join("\n  ")))?;
    }
    Ok(ExitCode::SUCCESS)
}
