//! Flags whose value is an enum of a library: the enum has the names, and the flag has the help
//! text for each.

use std::error::Error;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Returns a parser that accepts those of `values` that have a help text, and lists them with it.
pub(crate) fn parser<T>(
    values: &'static [T],
    help: fn(T) -> Option<&'static str>,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Into<&'static str> + FromStr<Err: Error + Send + Sync> + Send + Sync + 'static,
{
    let listed = values.iter().filter_map(|value| {
        let name: &'static str = (*value).into();
        Some(PossibleValue::new(name).help(help(*value)?))
    });
    PossibleValuesParser::new(listed).try_map(|name| name.parse::<T>())
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{Arg, Command};
    use ikigai_host::policy::AssetAccess;
    use strum::VariantArray as _;

    use super::*;

    fn command() -> Command {
        let help = |access| match access {
            AssetAccess::None => None,
            AssetAccess::Read => Some("Read them"),
            AssetAccess::Write => Some("Write them"),
        };
        let parser = parser(AssetAccess::VARIANTS, help);
        Command::new("test").arg(Arg::new("assets").long("assets").value_parser(parser))
    }

    #[test]
    fn a_name_becomes_its_value() {
        let matches = command().try_get_matches_from(["test", "--assets", "write"]);
        let value = matches.expect("a value").get_one::<AssetAccess>("assets").copied();
        assert_eq!(value, Some(AssetAccess::Write));
    }

    #[test]
    fn help_and_mistakes_list_the_values_with_a_help_text() {
        let help = command().render_long_help().to_string();
        assert!(help.contains("- read:  Read them\n"), "{help}");
        assert!(help.contains("- write: Write them\n") && !help.contains("none"), "{help}");
        for word in ["none", "wirte", ""] {
            let error = command().try_get_matches_from(["test", "--assets", word]);
            let error = error.expect_err("a mistake");
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
            assert!(error.to_string().contains("[possible values: read, write]"), "{error}");
        }
        let error = command().try_get_matches_from(["test", "--assets", "wirte"]);
        let text = error.expect_err("a mistake").to_string();
        assert!(text.contains("a similar value exists: 'write'"), "{text}");
    }
}
