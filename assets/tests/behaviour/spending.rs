//! The tokens that were spent in conversations that are not kept.

use crate::{Fixture, agent};

/// A day.
const TODAY: u32 = 20_260_507;

pub(crate) async fn none_of_many_at_once_is_lost(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let ann = agent("ann@host");
    let add = async |tokens| {
        for _ in 0..10 {
            store.add_spent(&ann, TODAY, tokens).await.expect("added");
        }
    };
    tokio::join!(add(1), add(2), add(3), add(4));
    assert_eq!(store.spent(&ann, TODAY).await.expect("read"), 100);
    // A provider may report any number.
    store.add_spent(&ann, TODAY, u64::MAX).await.expect("added");
    store.add_spent(&ann, TODAY, u64::MAX).await.expect("added");
    assert_eq!(store.spent(&ann, TODAY).await.expect("read"), 100 + (2 << 40));
}

pub(crate) async fn belongs_to_an_agent_and_a_day(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let (ann, bob) = (agent("ann@host"), agent("bob@host"));
    let spent = async |who, day| store.spent(who, day).await.expect("read");
    store.add_spent(&ann, TODAY, 7).await.expect("added");
    assert_eq!((spent(&ann, TODAY).await, spent(&bob, TODAY).await), (7, 0));
    store.add_spent(&ann, TODAY + 1, 5).await.expect("added");
    assert_eq!((spent(&ann, TODAY).await, spent(&ann, TODAY + 1).await), (7, 5));
    store.add_spent(&bob, TODAY + 200, 1).await.expect("added");
    assert_eq!(spent(&ann, TODAY).await, 7, "that of another agent stays");
    store.add_spent(&ann, TODAY + 200, 1).await.expect("added");
    assert_eq!(spent(&ann, TODAY).await, 0, "old days are forgotten");
}
