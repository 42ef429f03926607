//! The modes that begin waits, lookups and HTTP requests in large numbers, or with long texts.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem;

use ikigai_test_guests::Attempts;
use wasip3::clocks::monotonic_clock::wait_for;
use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
use wasip3::http::client::send;
use wasip3::http::types::{ErrorCode, Fields, Method, Request, Scheme};
use wasip3::sockets::ip_name_lookup::resolve_addresses;
use wasip3::wit_bindgen::{FutureReader, FutureWriter};
use wasip3::{wit_future, wit_stream};

use crate::waits::{Wait, begin};
use crate::workspace::name;

/// The number of waits, lookups and requests that are begun and dropped.
const DROPPED: usize = 30_000;

/// An hour, in nanoseconds.
const HOUR: u64 = 3_600_000_000_000;

/// The end of a request's body.
type Trailers = Result<Option<Fields>, ErrorCode>;

/// A request, with what it shares with the host.
struct Made {
    request: Request,
    trailers: FutureWriter<Trailers>,
    sent: FutureReader<Result<(), ErrorCode>>,
}

fn make(headers: Fields) -> Made {
    let (trailers, end) = wit_future::new::<Trailers>(|| Ok(None));
    let (request, sent) = Request::new(headers, None, end, None);
    Made { request, trailers, sent }
}

impl Made {
    fn to(self, authority: &str) -> Self {
        self.request.set_scheme(Some(&Scheme::Http)).expect("a scheme");
        self.request.set_authority(Some(authority)).expect("an authority");
        self.request.set_path_with_query(Some("/")).expect("a path");
        self
    }

    /// Begins to send the request, and drops it. Returns its state.
    async fn send_and_drop(self) -> String {
        let begun = match begin(send(self.request)).await {
            Wait::Done(Ok(_)) => "an answer".to_owned(),
            Wait::Done(Err(code)) => name(code),
            Wait::Pending(_) => "waits".to_owned(),
        };
        drop(self.sent);
        // The host has dropped the other side, and this write ends the future before the next one
        // is made.
        let _ = self.trailers.write(Ok(None)).await;
        begun
    }
}

/// Begins waits, lookups and requests without waiting for them. The path is a granted host with its
/// port, if there is one.
pub(crate) async fn drop_all(attempts: &mut Attempts, granted: &str) {
    let mut count = 0;
    for _ in 0..DROPPED {
        count += usize::from(begin(wait_for(HOUR)).await.is_pending());
    }
    attempts.observe("waits", &count.to_string());
    let host = granted.split(':').next().unwrap_or_default();
    for name in ["a.test", host] {
        let (mut waits, mut other) = (0, 0);
        for _ in 0..DROPPED {
            match begin(resolve_addresses(name.to_owned())).await {
                Wait::Pending(_) => waits += 1,
                Wait::Done(_) => other += 1,
            }
        }
        attempts.observe(&format!("lookups of '{name}'"), &format!("{waits} {other}"));
    }
    for authority in ["a.test", granted] {
        let mut states = States::default();
        for _ in 0..DROPPED {
            states.count(make(Fields::new()).to(authority).send_and_drop().await);
        }
        attempts.observe(&format!("requests to '{authority}'"), &states.show());
    }
    // Without a path, the host cannot make a URL of the request.
    let mut states = States::default();
    for _ in 0..1_000 {
        let made = make(Fields::new());
        made.request.set_authority(Some("a.test")).expect("short");
        states.count(made.send_and_drop().await);
    }
    attempts.observe("malformed", &states.show());
}

/// The number of requests in each state.
#[derive(Default)]
struct States(BTreeMap<String, usize>);

impl States {
    fn count(&mut self, state: String) {
        *self.0.entry(state).or_default() += 1;
    }

    fn show(&self) -> String {
        let each = self.0.iter().map(|(state, count)| format!("{state} {count}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Begins as many waits as the host allows, ends them, and begins them once more.
pub(crate) async fn wait_for_all(attempts: &mut Attempts) {
    for round in ["first", "again"] {
        let mut waits = Vec::new();
        for _ in 0..400 {
            waits.push(begin(wait_for(HOUR)).await);
        }
        let count = waits.iter().filter(|wait| wait.is_pending()).count();
        attempts.observe(round, &count.to_string());
    }
}

/// Makes the host take long texts, in many calls at once and in requests that are never sent.
pub(crate) async fn offer_texts(attempts: &mut Attempts) {
    let text = "a".repeat(1 << 20);
    let preopens = get_directories();
    let mut refused = Refusals::default();
    let mut lookups = Vec::new();
    for _ in 0..400 {
        lookups.push(begin(resolve_addresses(text.clone())).await);
    }
    for lookup in &lookups {
        refused.see("resolve-addresses", lookup);
    }
    // A guest with a grant has two names of the workspace.
    for (dir, _) in preopens.iter().take(1) {
        let mut calls = Vec::new();
        for _ in 0..400 {
            let (open, access) = (OpenFlags::empty(), DescriptorFlags::READ);
            calls.push(begin(dir.open_at(PathFlags::empty(), text.clone(), open, access)).await);
        }
        for call in &calls {
            refused.see("open-at", call);
        }
        for _ in 0..100 {
            let short = || "a".to_owned();
            refused.see("symlink-at", &begin(dir.symlink_at(text.clone(), short())).await);
            refused.see("rename-at", &begin(dir.rename_at(short(), dir, text.clone())).await);
            let none = PathFlags::empty();
            refused.see("link-at", &begin(dir.link_at(none, text.clone(), dir, short())).await);
            refused.see("stat-at", &begin(dir.stat_at(none, text.clone())).await);
        }
    }
    for (call, seen) in &refused.0 {
        attempts.observe(call, seen);
    }
    attempts.observe("taken", &take_texts().to_string());
}

/// The results of calls, each kind once.
#[derive(Default)]
struct Refusals(Vec<(String, String)>);

impl Refusals {
    fn see<F: Future<Output = Result<T, E>>, T, E: Debug>(&mut self, call: &str, begun: &Wait<F>) {
        let seen = match begun {
            Wait::Pending(_) => "waits".to_owned(),
            Wait::Done(Ok(_)) => "REACHED".to_owned(),
            Wait::Done(Err(code)) => name(code),
        };
        let seen = (call.to_owned(), seen);
        if !self.0.contains(&seen) {
            self.0.push(seen);
        }
    }
}

/// Returns the number of requests that took a long text.
fn take_texts() -> usize {
    let text = "a".repeat(4 << 20);
    let mut kept = Vec::new();
    let mut taken = 0;
    for _ in 0..25 {
        let made = make(Fields::new());
        let other = Fields::new();
        let took = [
            made.request.set_authority(Some(&text)).is_ok(),
            made.request.set_method(&Method::Other(text.clone())).is_ok(),
            made.request.set_scheme(Some(&Scheme::Other(text.clone()))).is_ok(),
            made.request.set_path_with_query(Some(&text)).is_ok(),
            other.append("x", text.as_bytes()).is_ok(),
            Fields::from_list(&[("x".to_owned(), text.clone().into_bytes())]).is_ok(),
        ];
        taken += usize::from(took.contains(&true));
        kept.push((made, other));
    }
    // Dropping the ends would take turns of the host.
    mem::forget(kept);
    taken
}

/// Makes the host keep requests with bodies, until it refuses.
pub(crate) fn keep_requests(attempts: &mut Attempts) {
    let mut kept = Vec::new();
    for _ in 0..600 {
        let (trailers, end) = wit_future::new::<Trailers>(|| Ok(None));
        let (body, contents) = wit_stream::new::<u8>();
        let made = Request::new(Fields::new(), Some(contents), end, None);
        kept.push((made, trailers, body));
    }
    attempts.observe("kept", &kept.len().to_string());
    mem::forget(kept);
}

/// Looks up names that are longer than any name.
pub(crate) async fn look_up_long_names(attempts: &mut Attempts) {
    let names = [
        ("at the bound", "a".repeat(1_024)),
        ("beyond the bound", "a".repeat(1_025)),
        ("other letters", "é".repeat(512)),
        ("labels", "a.".repeat(512)),
        ("long", "é".repeat(5 << 20)),
        ("nothing", String::new()),
        ("a zero", "a\0b".to_owned()),
    ];
    for (what, text) in names {
        let found = resolve_addresses(text).await;
        attempts.observe(what, &found.map_or_else(name, |_| "REACHED".to_owned()));
    }
}

/// Looks up a name that is longer than the host copies for one call.
pub(crate) async fn look_up_the_longest_name(attempts: &mut Attempts) {
    let found = resolve_addresses("a".repeat(100 << 20)).await;
    attempts.observe("found", &format!("{found:?}"));
}
