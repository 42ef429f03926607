//! The session of docs/reference/mcp-server.md, exactly as the page shows it.

use std::fs;
use std::path::Path;

use ikigai_tests::host::Host;
use ikigai_tests::mcp::Client;

use crate::mcp::server;

/// The mark for text that the page leaves out.
const LEFT_OUT: char = '…';

/// Returns the lines of the session: the client's after `→`, and the answers after `←`.
fn session() -> Vec<(char, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/mcp-server.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, section) = page.split_once("\n## A session\n").expect("the section");
    let block = section.split("```").nth(1).expect("a block");
    // The command comes before the messages.
    let lines = block.lines().skip(2).filter(|line| !line.is_empty());
    let parted = lines.map(|line| {
        let (side, message) = line.split_once(' ').expect("a side and a message");
        (side.parse().expect("an arrow"), message.to_owned())
    });
    parted.collect()
}

/// Returns whether a line matches the line on the page, which may leave text out.
fn matches(line: &str, written: &str) -> bool {
    let pieces: Vec<&str> = written.split(LEFT_OUT).collect();
    let [first, middle @ .., last] = &pieces[..] else { return line == written };
    let inner = line.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let Some(mut rest) = inner else { return false };
    middle.iter().all(|piece| {
        let found = rest.split_once(piece);
        rest = found.map_or(rest, |(_, after)| after);
        found.is_some()
    })
}

#[test]
fn the_session_of_the_page_is_what_happens() {
    let host = Host::new();
    host.write("workspace/notes.txt", "Mend the roof.\nTODO: call Ada\n", 0o644);
    let mut command = server(&host);
    command.args(["--tools", "file_edit,grep", "--approve", "changes"]);
    let mut client = Client::start(&mut command);
    let session = session();
    assert!(session.iter().any(|(side, _)| *side == '←'), "there is no session");
    for (side, message) in session {
        match side {
            '→' => client.send_line(&message),
            '←' => {
                let line = client.any_line();
                assert!(matches(&line, &message), "the page:\n{message}\nthe server:\n{line}");
            }
            other => panic!("`{other}` is no side"),
        }
    }
    let (ran, left) = client.wait();
    ran.expect_code(0);
    assert!(left.is_empty(), "the page has less: {left:?}");
    let text = fs::read_to_string(host.workspace().join("notes.txt")).expect("the file");
    assert_eq!(text, "Mend the roof.\nDONE: call Ada\n");
}

#[test]
fn a_line_is_compared_with_what_the_page_leaves_in() {
    for (line, written, is_same) in [
        ("abc", "abc", true),
        ("abc", "ab", false),
        ("abc", "a…", true),
        ("abc", "a…c", true),
        ("abc", "…c", true),
        ("abcd", "a…c", false),
        ("abcc", "a…c", true),
        ("abc", "a…x…c", false),
        ("abc", "b…", false),
    ] {
        assert_eq!(matches(line, written), is_same, "{line} {written}");
    }
}
