//! Runs the same cases over every kind of store: in memory, an SQLite file, a PostgreSQL
//! database. Each case has its own empty store.

mod behaviour {
    pub(crate) mod assets;
    pub(crate) mod budgets;
    pub(crate) mod history;
    pub(crate) mod leases;
    pub(crate) mod model;
    pub(crate) mod pins;
    pub(crate) mod sessions;
    pub(crate) mod spending;
}

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use behaviour::{assets, budgets, history, leases, model, pins, sessions, spending};
use ikigai_assets::{Agent, AssetPath, Author, ChangeCause, Store, StoreOptions, StoreUrl};
use ikigai_assets_testing::Server;
use tokio::task::coop;

/// The kind of the stores of a run.
enum Kind {
    Memory,
    Sqlite(tempfile::TempDir),
    Postgres(Server),
}

/// Makes the stores of the cases.
struct Fixture<'a> {
    kind: &'a Kind,
    number: AtomicU32,
}

impl Fixture<'_> {
    /// Opens a new store with the default options.
    async fn store(&self) -> Store {
        self.store_with(&StoreOptions::default()).await
    }

    /// Opens a new store with other options.
    async fn store_with(&self, options: &StoreOptions) -> Store {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let url = match self.kind {
            Kind::Memory => StoreUrl::memory(),
            Kind::Sqlite(dir) => StoreUrl::sqlite(dir.path().join(format!("{number}.db"))),
            Kind::Postgres(server) => {
                let url = server.create_database(&format!("store{number}")).expect("a database");
                StoreUrl::parse(&url).expect("an address")
            }
        };
        Store::open(&url, options).await.expect("an empty store opens")
    }

    /// Polls `work` at most this many times, then drops it, and returns whether it ended.
    async fn ended_within<T>(&self, polls: u32, work: impl Future<Output = T>) -> bool {
        // SQLite never waits here, but each statement spends one unit of the budget of a poll.
        let spent = match self.kind {
            Kind::Postgres(_) => 0,
            Kind::Memory | Kind::Sqlite(_) => units_of_a_poll().await - 1,
        };
        let mut work = pin!(work);
        let mut left = polls;
        poll_fn(|context| {
            left -= 1;
            for _ in 0..spent {
                assert!(pin!(coop::consume_budget()).poll(context).is_ready(), "there are more");
            }
            match work.as_mut().poll(context) {
                Poll::Ready(_) => Poll::Ready(true),
                Poll::Pending if left == 0 => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// Returns the units that the runtime lets a task spend in a poll. The next poll begins
/// immediately.
async fn units_of_a_poll() -> u32 {
    tokio::task::yield_now().await;
    let units = poll_fn(|context| {
        let spend = |_: &u32| pin!(coop::consume_budget()).poll(context).is_ready();
        Poll::Ready((0..).take_while(spend).count())
    });
    let units = units.await;
    tokio::task::yield_now().await;
    u32::try_from(units).expect("few")
}

fn path(text: &str) -> AssetPath {
    AssetPath::parse(text).expect(text)
}

fn agent(name: &str) -> Agent {
    Agent::new(name).expect(name)
}

/// Returns `ann`, who writes.
fn ann() -> Author {
    Author { agent: agent("ann@host"), cause: ChangeCause::Write }
}

/// Returns a text of this many tokens.
fn text(tokens: usize) -> Vec<u8> {
    vec![b'x'; tokens * 4]
}

type Case = for<'a> fn(&'a Fixture<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

macro_rules! cases {
    ($($module:ident::$name:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($name)),
            (|fixture| Box::pin($module::$name(fixture))) as Case)),*]
    };
}

/// Runs all cases, and then fails with the names of those that failed.
fn run(kind: &Kind) {
    let cases = cases![
        budgets::an_asset_others_have_pinned,
        budgets::an_edit_is_a_write,
        budgets::all_assets_fit_the_capacity,
        budgets::outputs_are_outside,
        budgets::pinning_checks_the_same_sum,
        budgets::restoring_checks_it_too,
        budgets::a_smaller_content_always_passes,
        budgets::the_dialogue_of_the_specification,
        assets::a_dropped_future_leaves_all_or_nothing,
        assets::any_bytes,
        assets::edits,
        assets::expectations,
        assets::listing_by_prefix,
        assets::no_larger_than_the_largest,
        assets::not_there,
        assets::paths_are_distinguished,
        assets::put_decides_the_flag,
        assets::read_only,
        assets::written_and_read,
        history::a_removed_asset_comes_back,
        history::bounded_by_age,
        history::bounded_by_count,
        history::outputs_are_pruned_by_age,
        history::outputs_are_pruned_by_size,
        history::each_version_has_its_author_and_its_end,
        leases::a_dropped_append_leaves_all_or_nothing,
        leases::an_expired_lease_is_taken_over,
        leases::an_expired_lease_that_nobody_took_goes_on,
        leases::appended_only_after_the_last,
        leases::no_budget_and_no_capacity_bounds_them,
        leases::of_many_who_want_it_one_gets_it,
        leases::one_holds_a_session,
        leases::two_writers_with_one_lease_do_not_mix,
        model::random_operations_agree_with_a_model,
        pins::belong_to_an_agent,
        pins::go_with_the_asset,
        pins::keep_their_order,
        pins::usage,
        sessions::a_list_says_what_each_session_says,
        sessions::a_turn_ends_where_the_next_begins,
        sessions::counts_are_those_of_the_events,
        sessions::described_anew,
        sessions::events_are_read_in_parts,
        sessions::every_text_is_kept_exactly,
        sessions::forks_leave_the_original_as_it_was,
        sessions::found_by_id_or_title,
        sessions::pruned_by_age,
        sessions::removed_with_all_events,
        sessions::the_newest_is_listed_first,
        sessions::times_are_of_now,
        sessions::unfit_texts_are_refused,
        spending::belongs_to_an_agent_and_a_day,
        spending::none_of_many_at_once_is_lost,
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let fixture = Fixture { kind, number: AtomicU32::new(0) };
    let failed: Vec<_> = cases
        .into_iter()
        .filter(|(_, case)| {
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(case(&fixture)))).is_err()
        })
        .map(|(name, _)| name)
        .collect();
    assert!(failed.is_empty(), "these cases failed, as said above: {failed:#?}");
}

#[test]
fn in_memory() {
    run(&Kind::Memory);
}

#[test]
fn in_sqlite() {
    run(&Kind::Sqlite(tempfile::tempdir().expect("a directory")));
}

#[test]
fn in_postgres() {
    if let Some(server) = Server::start().expect("a server") {
        run(&Kind::Postgres(server));
    }
}
