//! The five tools of files as components of WASI 0.3, which the tests compare with those of 0.2.
//!
//! Each program in `examples` exports `wasi:cli/run@0.3.0`, and calls [`run`] with the name of its
//! tool. This crate has the streams and the port of files. `ikigai-tools` decides the answers.

mod files;

use ikigai_tools::ports::{NoAssets, Storage};
use wasip3::cli::environment::get_arguments;
use wasip3::cli::{stdin, stdout};

use crate::files::AsyncFiles;

/// Runs `tool` over the streams of the component: prints the schema for `--schema`, or reads one JSON
/// object and prints the answer.
///
/// # Errors
///
/// Fails if there are other arguments, or if a stream fails.
pub async fn run(tool: &str) -> Result<(), ()> {
    let args = get_arguments();
    match args.get(1..).unwrap_or_default() {
        [] => {}
        [arg] if arg == "--schema" => {
            let schema = ikigai_tools::schema(tool).ok_or(())?;
            return print(schema.as_bytes().to_vec()).await;
        }
        _ => return Err(()),
    }
    let (input, end) = stdin::read_via_stream();
    let input = input.collect().await;
    end.await.map_err(drop)?;
    let storage = Storage { files: AsyncFiles::preopened(), assets: NoAssets };
    print(ikigai_tools::answer(tool, &storage, &input).ok_or(())?).await
}

async fn print(bytes: Vec<u8>) -> Result<(), ()> {
    let (mut writer, reader) = wasip3::wit_stream::new();
    let end = stdout::write_via_stream(reader);
    let rest = writer.write_all(bytes).await;
    drop(writer);
    end.await.map_err(drop)?;
    if rest.is_empty() { Ok(()) } else { Err(()) }
}
