//! A guest that misuses `ikigai:tool/workspace.replace`.

use ikigai_test_guests::{Attempts, Order};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};

use self::bindings::ikigai::tool::workspace::replace;

/// See `trespass` for the name.
const SCHEMA: &str = r#"{"name":"_replacer","description":"Replaces what is not its own",
"parameters":{"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string","enum":[
"replace","replace_in_file","replace_many","replace_huge","replace_race"]}}}}"#;

/// Its own, because the library of the tools keeps its bindings to itself.
mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "
            package ikigai:guest;
            world replacing {
                import ikigai:tool/workspace@0.1.0;
            }
        ",
        world: "ikigai:guest/replacing",
        with: {
            "ikigai:tool/workspace@0.1.0": generate,
            "wasi:clocks/wall-clock@0.2.12": wasip2::clocks::wall_clock,
            "wasi:filesystem/types@0.2.12": wasip2::filesystem::types,
            "wasi:io/error@0.2.12": wasip2::io::error,
            "wasi:io/poll@0.2.12": wasip2::io::poll,
            "wasi:io/streams@0.2.12": wasip2::io::streams,
        },
    });
}

fn main() {
    let order = Order::read(SCHEMA);
    let mut attempts = Attempts::default();
    let Some((dir, _)) = get_directories().into_iter().find(|(_, name)| name == ".") else {
        attempts.tell("error", "nothing is preopened");
        return attempts.say();
    };
    match order.mode.as_str() {
        // Each of the names, separated by colons.
        "replace" => {
            for name in order.path.split(':') {
                attempts.note(&format!("<{name}>"), replace(&dir, name, b"replaced"));
            }
        }
        "replace_in_file" => {
            let file = dir.open_at(PathFlags::empty(), "kept", OpenFlags::empty(), FLAGS);
            let replaced = file.and_then(|file: Descriptor| replace(&file, "kept", b"replaced"));
            attempts.note("a file as the directory", replaced);
        }
        "replace_many" => {
            let all = (0..100).try_for_each(|_| replace(&dir, &order.path, b"replaced"));
            attempts.note("many", all);
        }
        // While the test exchanges a directory on the way for a link that leads out.
        "replace_race" => {
            let done = (0..3000).filter(|_| replace(&dir, &order.path, b"inside").is_ok()).count();
            attempts.tell("inside", &done.to_string());
            attempts.tell("refused", &(3000 - done).to_string());
        }
        "replace_huge" => {
            let contents = vec![b'x'; (256 << 20) + (2 << 20)];
            attempts.note("huge", replace(&dir, &order.path, &contents));
        }
        other => attempts.tell("error", &format!("there is no mode '{other}'")),
    }
    attempts.say();
}

const FLAGS: DescriptorFlags = DescriptorFlags::READ;
