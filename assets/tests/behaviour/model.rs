//! Random operations, compared with a model that is a map.

use std::collections::BTreeMap;

use ikigai_assets::{Agent, Budget, Error, Precondition, Store, StoreOptions, tokens};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::{Fixture, agent, ann, path};

const BUDGET: u64 = 40;

#[derive(Clone, Debug)]
enum Step {
    Write(u8, String),
    Edit(u8, String, String, bool),
    Remove(u8),
    Restore(u8, u64),
    Pin(u8),
    Unpin(u8),
}

/// The expected state of the store.
#[derive(Default)]
struct Model {
    /// The contents of each asset, by version from 1, and true if it exists.
    assets: BTreeMap<u8, (Vec<String>, bool)>,
    pins: Vec<u8>,
}

impl Model {
    fn now(&self, name: u8) -> Option<&String> {
        self.assets.get(&name).filter(|(_, there)| *there).and_then(|(said, _)| said.last())
    }

    fn fits(&self, name: u8, content: &str) -> bool {
        let others = self.pins.iter().filter(|pinned| **pinned != name);
        let others: u64 =
            others.filter_map(|name| self.now(*name)).map(|said| tokens(said.len())).sum();
        others + tokens(content.len()) <= BUDGET
    }

    /// Writes a content if it fits, and returns whether it does.
    fn put(&mut self, name: u8, content: String) -> bool {
        let grows = self.now(name).is_none_or(|now| tokens(now.len()) < tokens(content.len()));
        if grows && !self.fits(name, &content) {
            return false;
        }
        let (said, there) = self.assets.entry(name).or_default();
        said.push(content);
        *there = true;
        true
    }

    /// Takes a step if it is possible, and returns whether it was.
    fn take(&mut self, step: &Step) -> bool {
        match step {
            Step::Write(name, content) => self.put(*name, content.clone()),
            Step::Edit(name, old, new, all) => {
                let Some(now) = self.now(*name).cloned() else { return false };
                match now.matches(old.as_str()).count() {
                    0 => *all,
                    2.. if !all => false,
                    _ => self.put(*name, now.replace(old.as_str(), new)),
                }
            }
            Step::Restore(name, version) => {
                let said = self.assets.get(name).and_then(|(said, _)| {
                    said.get(usize::try_from(*version).ok()?.checked_sub(1)?).cloned()
                });
                said.is_some_and(|said| self.put(*name, said))
            }
            Step::Remove(name) => {
                let there = self.now(*name).is_some();
                self.pins.retain(|pinned| pinned != name);
                if let Some((_, now)) = self.assets.get_mut(name) {
                    *now = false;
                }
                there
            }
            Step::Pin(name) => {
                let Some(now) = self.now(*name) else { return false };
                if self.pins.contains(name) {
                    return true;
                }
                let fits = self.fits(*name, now);
                if fits {
                    self.pins.push(*name);
                }
                fits
            }
            Step::Unpin(name) => {
                self.pins.retain(|pinned| pinned != name);
                true
            }
        }
    }
}

async fn take(store: &Store, by: &Agent, step: &Step) -> Result<(), Error> {
    let named = |name: &u8| path(&format!("d{name}"));
    match step {
        Step::Write(name, content) => {
            let content = content.as_bytes();
            store.write(&named(name), content, &ann(), Precondition::Any).await.map(|_| ())
        }
        Step::Edit(name, old, new, all) => {
            let (old, new) = (old.as_bytes(), new.as_bytes());
            store.edit(&named(name), old, new, *all, &ann()).await.map(|_| ())
        }
        Step::Remove(name) => store.remove(&named(name), by, Precondition::Any).await,
        Step::Restore(name, version) => store.restore(&named(name), *version, by).await.map(|_| ()),
        Step::Pin(name) => store.pin(by, &named(name)).await.map(|_| ()),
        Step::Unpin(name) => store.unpin(by, &named(name)).await.map(|_| ()),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0u8..4;
    prop_oneof![
        3 => (name.clone(), "[ab]{0,90}").prop_map(|(name, content)| Step::Write(name, content)),
        3 => (name.clone(), "[ab]{1,4}", "[abc]{0,9}", any::<bool>())
            .prop_map(|(name, old, new, all)| Step::Edit(name, old, new, all)),
        1 => name.clone().prop_map(Step::Remove),
        1 => (name.clone(), 0u64..9).prop_map(|(name, version)| Step::Restore(name, version)),
        3 => name.clone().prop_map(Step::Pin),
        1 => name.prop_map(Step::Unpin),
    ]
}

pub(crate) async fn random_operations_agree_with_a_model(fixture: &Fixture<'_>) {
    let options = StoreOptions { budget: Budget(BUDGET), ..StoreOptions::default() };
    let store = fixture.store_with(&options).await;
    let by = agent("ann@host");
    let mut model = Model::default();
    // Deterministic, so that a failure can be repeated. The steps make fewer versions of an
    // asset than the hundred that are kept.
    let mut runner = TestRunner::deterministic();
    let steps = proptest::collection::vec(step(), 300).new_tree(&mut runner).expect("steps");
    let mut taken = 0;
    for (number, step) in steps.current().iter().enumerate() {
        let expected = model.take(step);
        let found = take(&store, &by, step).await;
        assert_eq!(found.is_ok(), expected, "step {number}: {step:?} gave {found:?}");
        taken += u32::from(expected);
        let mut there = BTreeMap::new();
        for asset in store.list("", None).await.expect("listed") {
            let content = store.read(&asset.path).await.expect("read").content;
            there.insert(asset.path.to_string(), content);
        }
        let names = model.assets.keys().copied();
        let expected: BTreeMap<_, _> = names
            .filter_map(|name| Some((format!("d{name}"), model.now(name)?.clone().into_bytes())))
            .collect();
        assert_eq!(there, expected, "after step {number}: {step:?}");
        let pins = store.pins(&by).await.expect("pins");
        let pins: Vec<_> = pins.iter().map(|pin| pin.metadata.path.to_string()).collect();
        let expected: Vec<_> = model.pins.iter().map(|name| format!("d{name}")).collect();
        assert_eq!(pins, expected, "after step {number}: {step:?}");
    }
    assert!((60..300).contains(&taken), "some are possible and some are not: {taken}");
}
