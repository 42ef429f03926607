//! A native call that is watched for what it reaches for, since a person can be asked about it.

use std::sync::Arc;

use anyhow::ensure;
use ikigai_host::audit::Requester;
use ikigai_host::consent::{Question, Reply, Respondent};
use ikigai_host::front_end::{Answer, FrontEnd};
use ikigai_host::policy::{BackendChoice, Override, Overrides};
use ikigai_host::{CancellationToken, Envelope};

use crate::rig::{self, Rig};
use crate::samples::{Samples, in_turn};
use crate::searches::grep;

/// Somebody who can be asked, and is not: the calls stay in their grant.
struct Person;

impl FrontEnd for Person {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a Question) -> Answer<'a, Reply> {
        Box::pin(std::future::pending())
    }

    fn can_widen(&self) -> bool {
        true
    }
}

/// Measures the native `grep` in its sandbox over the tree of small files, watched and not.
pub(crate) fn search(rig: &Rig) -> anyhow::Result<Samples> {
    let tree = rig.small_tree();
    let native = Override { value: BackendChoice::Native, from: "the benchmark".into() };
    let overrides = Overrides { backend: Some(native), ..Overrides::default() };
    let host = rig.host(&tree).overrides(overrides).build()?;
    let runtime = rig::runtime()?;
    let tools = runtime.block_on(host.refresh());
    let run = |person: Option<Arc<dyn FrontEnd>>| {
        let arguments = grep("this_is_nowhere_in_it").into();
        let (requester, cancel) = (Requester::default(), CancellationToken::new());
        let call = host.call_for(&requester, &tools, "grep", arguments, cancel, person);
        let envelope = runtime.block_on(call);
        ensure!(matches!(envelope, Envelope::Success(_)), "a search failed: {envelope}");
        Ok(())
    };
    in_turn(
        rig.rounds(200),
        &mut [
            ("unwatched", 1, &mut || run(None)),
            ("watched", 1, &mut || run(Some(Arc::new(Person)))),
        ],
    )
}
