//! Hints for slash commands that fail, with the commands and flags of this program.

use ikigai_agent::assets::NotNamed;
use ikigai_agent::command::CommandError;

use crate::remedy;

/// Returns the hint for a command that failed, if the message does not imply it.
pub(super) fn of_command(error: &CommandError) -> Option<String> {
    let text = match error {
        CommandError::NoAssets => "set HOME or XDG_DATA_HOME, or specify a store with --store",
        CommandError::NotNamed(NotNamed { nearest: None, .. }) => "`/blocks` lists the assets",
        CommandError::NoTool { nearest: None, .. } => "`/tool` lists the tools",
        CommandError::Store(error)
        | CommandError::NotNamed(NotNamed { error, nearest: Some(_) }) => {
            remedy::asset::hint(error)?
        }
        CommandError::Changed { .. } => "look at it and try again",
        CommandError::Provider(failure) => return remedy::provider::hint(failure),
        CommandError::Malformed(_)
        | CommandError::NotGranted(_)
        | CommandError::NoTool { nearest: Some(_), .. }
        | CommandError::NoTools
        | CommandError::NoModel
        | CommandError::Refused { .. }
        | CommandError::Cancelled => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use ikigai_assets::{AssetPath, Error};

    use super::*;

    #[test]
    fn the_hint_names_a_command_that_helps() {
        let missing = |nearest: Option<&str>| {
            let error = Error::NotFound(AssetPath::parse("x").expect("a path"));
            CommandError::NotNamed(NotNamed { error, nearest: nearest.map(str::to_owned) })
        };
        let hint = |error: &CommandError| of_command(error).unwrap_or_default();
        assert_eq!(hint(&missing(None)), "`/blocks` lists the assets");
        assert_eq!(hint(&missing(Some("y"))), "`ikigai asset list` shows the assets");
        assert_eq!(hint(&CommandError::Store(Error::EmptyString)), "");
        assert!(hint(&CommandError::NoAssets).contains("--store"));
        assert_eq!(of_command(&CommandError::Cancelled), None);
    }
}
