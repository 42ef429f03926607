//! A guest that misuses `ikigai:tool/workspace.replace`.

use ikigai_test_guests::{Attempts, Order};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};

use self::bindings::ikigai::tool::workspace::replace;

/// The schema; `trespass` explains the name.
const SCHEMA: &str = r#"{"name":"_replacer","description":"Replaces what is not its own",
"parameters":{"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string","enum":[
"replace","replace_in_file","replace_many","replace_huge","replace_race"]}}}}"#;

/// The bindings. The library of the tools does not publish its bindings.
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
        attempts.observe("error", "nothing is preopened");
        return attempts.print();
    };
    match order.mode.as_str() {
        // The names are separated by colons.
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
        // In the meantime, the test exchanges a directory on the path for a link that leads out.
        "replace_race" => {
            let done = (0..3000).filter(|_| replace(&dir, &order.path, b"inside").is_ok()).count();
            attempts.observe("inside", &done.to_string());
            attempts.observe("refused", &(3000 - done).to_string());
        }
        "replace_huge" => {
            let contents = vec![b'x'; (256 << 20) + (2 << 20)];
            attempts.note("huge", replace(&dir, &order.path, &contents));
        }
        other => attempts.observe("error", &format!("there is no mode '{other}'")),
    }
    attempts.print();
}

const FLAGS: DescriptorFlags = DescriptorFlags::READ;
