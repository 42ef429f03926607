//! `patch`: the interpreter's, extended by the file and the patch as operands.

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::options::OptionSpec;
use super::{absolute, fail, inner, reason};

const OPTIONS: OptionSpec = OptionSpec {
    words: "d,directory= ,dry-run i,input= p,strip= R,reverse s,quiet ,silent u,unified",
    refusal: 2,
};

/// `patch [-Rsu] [-p NUMBER] [-d DIRECTORY] [-i PATCH] [FILE [PATCH]]`
pub(super) struct Patch;

#[async_trait]
impl Command for Patch {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match OPTIONS.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let (file, operand) = match parsed.operands.as_slice() {
            [] => (None, None),
            [file] => (Some(file), None),
            [file, patch] => (Some(file), Some(patch.as_str())),
            [_, _, extra, ..] => {
                return OPTIONS.misused(&context, &format!("{extra}: extra operand")).await;
            }
        };
        let directory = absolute(context.cwd, parsed.value("directory").unwrap_or("."));
        let contents = match operand.or_else(|| parsed.value("input")) {
            None | Some("-") => inner::input(&context).await?,
            Some(patch) => match context.fs.read_file(&absolute(&directory, patch)).await {
                Ok(contents) => contents,
                Err(error) => {
                    let text = format!("**** Can't open patch file {patch} : {}", reason(&error));
                    fail(&context, &text).await?;
                    return Ok(CommandStatus::with_code(OPTIONS.refusal));
                }
            },
        };
        let strip = match parsed.value("strip").map(str::parse::<usize>) {
            Some(Ok(strip)) => Some(strip),
            Some(Err(_)) => return OPTIONS.misused(&context, "strip count is not a number").await,
            None => None,
        };
        let text = String::from_utf8_lossy(&contents).into_owned();
        let text = headed(&context, &directory, &text, file.map(String::as_str), strip).await;
        let mut arguments = vec!["-p0".to_owned()];
        arguments.extend(parsed.has("dry-run").then(|| "--dry-run".to_owned()));
        arguments.extend(parsed.has("reverse").then(|| "-R".to_owned()));
        let mut ended = inner::run(&context, "patch", &arguments, text.into_bytes()).await?;
        if (parsed.has("quiet") || parsed.has("silent")) && ended.exit_code == 0 {
            ended.stdout = bashkit::StreamData::new();
        }
        inner::emit(&context, &ended).await
    }
}

/// Writes the name of the patched file into each header of the patch: the operand, or whichever of
/// the header's two names exists.
async fn headed(
    context: &CommandContext<'_>,
    directory: &std::path::Path,
    text: &str,
    file: Option<&str>,
    strip: Option<usize>,
) -> String {
    let mut out = String::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let new = lines.peek().and_then(|next| next.strip_prefix("+++ "));
        let (Some(old), Some(new)) = (line.strip_prefix("--- "), new) else {
            out.push_str(line);
            continue;
        };
        let (old, new) = (name(old, strip), name(new, strip));
        let mut meant = [old.clone(), new.clone()];
        let candidates: Vec<String> = match file {
            Some(file) => vec![file.to_owned()],
            None => [old, new].into_iter().filter(|name| name != "/dev/null").collect(),
        };
        let mut chosen = candidates.last().cloned();
        for name in candidates.iter().rev() {
            if context.fs.stat(&absolute(directory, name)).await.is_ok() {
                chosen = Some(name.clone());
            }
        }
        if let Some(chosen) = chosen {
            let place = absolute(directory, &chosen);
            let shown = place.strip_prefix(context.cwd).unwrap_or(&place).display().to_string();
            for name in &mut meant {
                if name != "/dev/null" || file.is_some() {
                    name.clone_from(&shown);
                }
            }
        }
        out.push_str(&format!("--- {}\n+++ {}\n", meant[0], meant[1]));
        lines.next();
    }
    out
}

/// Returns the name in a header, without its time and without `strip` leading components. If no
/// number is given, only the last component is left.
fn name(header: &str, strip: Option<usize>) -> String {
    let name =
        header.trim_end_matches(['\n', '\r']).split('\t').next().unwrap_or_default().trim_end();
    if name == "/dev/null" {
        return name.to_owned();
    }
    match strip {
        Some(strip) => name.splitn(strip + 1, '/').last().unwrap_or_default().to_owned(),
        None => name.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}
