//! The server answers. No process of it is left when it is dropped, or when the process that
//! started it is killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ikigai_assets_testing::Server;

/// Returns the processes that have the directory in their command line.
fn processes(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().expect("UTF-8");
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(directory)).collect()
}

#[test]
fn a_server_answers_and_goes() {
    let Some(server) = Server::start().expect("a server") else { return };
    let directory = server.directory().to_owned();
    assert_eq!(server.psql("postgres", "SELECT 6 * 7").expect("an answer"), "42");
    assert!(!processes(&directory).is_empty(), "the check for processes sees them");
    drop(server);
    assert_eq!(processes(&directory), [""; 0]);
    assert!(!directory.exists());
}

#[test]
fn a_server_ends_when_its_test_is_killed() {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "holder", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let started = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("server in ").map(|(_, directory)| directory.to_owned()));
    child.kill().expect("killed");
    child.wait().expect("waited for");
    let Some(directory) = started.filter(|directory| directory != "none") else { return };
    let directory = Path::new(&directory);
    let begun = Instant::now();
    while !processes(directory).is_empty() || directory.join("data").exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:#?}", processes(directory));
        std::thread::sleep(Duration::from_millis(10));
    }
    // The keeper may not write to the parent, and leaves the directory empty.
    let _ = std::fs::remove_dir(directory);
}

#[test]
#[ignore = "started by the test above as a process of its own"]
fn holder() {
    let server = Server::start().expect("a server");
    let directory =
        server.as_ref().map_or("none".into(), |server| server.directory().display().to_string());
    let mut stdout = std::io::stdout();
    writeln!(stdout, "server in {directory}").expect("written");
    stdout.flush().expect("written");
    // Waits to be killed; the test holds the other end of the pipe.
    let _ = std::io::stdin().read(&mut [0]);
}
