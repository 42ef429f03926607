//! Calls about files, made of functions that may have to ask the user in the middle.
//!
//! A call of WASI 0.2 waits there, and its guest with it. A call of WASI 0.3 cannot: its other tasks
//! use the state meanwhile. So the call is made with the answers that it has. If it needs another,
//! it is refused and leaves the question behind. The question is asked without the state, and the
//! call is made anew. Nothing changes before all answers are there: a change comes after its checks.
//! The calls of one guest ask one after the other, as those of 0.2 do. Otherwise a guest could put
//! any number of questions before those of other tools.

use std::mem;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::Mutex;
use wasmtime::component::Accessor;
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::runtime::poll_noop;

use crate::exec::wasm::path_widening::CallAnswers;
use crate::exec::wasm::state::GuestState;
use crate::exec::widening::Widening;
use crate::policy::RequestedAccess;

/// The result of making a call with the answers that it has.
enum Attempt<T> {
    Done(FsResult<T>),
    Asks(Question),
}

/// A question that a call has left behind.
struct Question {
    reached: RequestedAccess,
    widening: Arc<Widening>,
    turn: Arc<Mutex<()>>,
}

/// Makes a call, and asks what it has to ask.
pub(super) async fn call<T>(
    accessor: &Accessor<GuestState>,
    call: impl AsyncFn(&mut GuestState) -> FsResult<T>,
) -> FsResult<T> {
    let mut answers = Vec::new();
    let mut turn = None;
    loop {
        let made = accessor.with(|mut access| attempt(access.get(), &mut answers, &call));
        let question = match made {
            Attempt::Done(result) => return result,
            Attempt::Asks(question) => question,
        };
        if turn.is_none() {
            turn = Some(question.turn.lock_owned().await);
            // The question before may have answered this one.
            continue;
        }
        let may = question.widening.may(question.reached.clone()).await;
        accessor.with(|mut access| access.get().renew_grant());
        answers.push((question.reached, may));
    }
}

fn attempt<T>(
    state: &mut GuestState,
    answers: &mut Vec<(RequestedAccess, bool)>,
    call: impl AsyncFn(&mut GuestState) -> FsResult<T>,
) -> Attempt<T> {
    if let Some(held) = &mut state.held {
        held.answers = Some(CallAnswers { given: mem::take(answers), open: None });
    }
    let done = poll_noop(pin!(call(state)));
    let asked = state.held.as_mut().and_then(|held| {
        let CallAnswers { given, open } = held.answers.take()?;
        *answers = given;
        let (widening, turn) = (Arc::clone(&held.widening), Arc::clone(&held.turn));
        Some(Question { reached: open?, widening, turn })
    });
    match (done, asked) {
        (Some(Err(_)), Some(question)) => Attempt::Asks(question),
        (Some(result), _) => Attempt::Done(result),
        // Files are used on the guest's own thread, and questions are left behind.
        (None, _) => {
            let reason = wasmtime::Error::msg("a call about files did not end at once");
            Attempt::Done(Err(FsError::trap(reason)))
        }
    }
}
