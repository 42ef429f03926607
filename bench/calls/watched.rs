//! A native call that the host watches for refused accesses, because a person can be asked about
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use ikigai_host::audit::Requester;
use ikigai_host::consent::{
    ConsentQuestion, ConsentReply, Respondent, Widen, WidenAnswer, WidenReply,
};
use ikigai_host::front_end::{AnswerFuture, FrontEnd};
use ikigai_host::policy::{BackendChoice, Override, Overrides};
use ikigai_host::{CancellationToken, Envelope};

use crate::rig::{self, Rig};
use crate::samples::{Samples, in_turn};
use crate::searches::grep;

/// A person who always says no. The measured searches stay inside their grant.
#[derive(Default)]
struct Person {
    /// The questions about a tool that ran.
    asked: AtomicUsize,
}

impl FrontEnd for Person {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        Box::pin(std::future::pending())
    }

    fn can_widen(&self) -> bool {
        true
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> AnswerFuture<'a, WidenReply> {
        self.asked.fetch_add(usize::from(question.again), Ordering::Relaxed);
        let answer = WidenReply { answer: WidenAnswer::No, waited: Duration::ZERO };
        Box::pin(std::future::ready(answer))
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
    let call = |tool: &str, arguments: String, person: Option<Arc<dyn FrontEnd>>| {
        let (requester, cancel) = (Requester::default(), CancellationToken::new());
        let call = host.call_for(&requester, &tools, tool, arguments.into(), cancel, person);
        let envelope = runtime.block_on(call);
        ensure!(matches!(envelope, Envelope::Success(_)), "a call of {tool} failed: {envelope}");
        Ok(())
    };
    // The search tries nothing outside its tree, so it never causes a question. To show that
    // questions are asked, a command looks outside it, under the same host and with the same kind
    // of person.
    let person = Arc::new(Person::default());
    let arguments = format!(r#"{{"command":"ls '{}'"}}"#, rig.corpus().display());
    call("bash", arguments, Some(Arc::clone(&person) as Arc<dyn FrontEnd>))?;
    ensure!(person.asked.load(Ordering::Relaxed) > 0, "the calls of a person are not watched");
    let run =
        |person: Option<Arc<dyn FrontEnd>>| call("grep", grep("this_is_nowhere_in_it"), person);
    in_turn(
        rig.rounds(200),
        &mut [
            ("unwatched", 1, &mut || run(None)),
            ("watched", 1, &mut || run(Some(Arc::new(Person::default())))),
        ],
    )
}
