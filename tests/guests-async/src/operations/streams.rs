//! The operations on streams, and on their ends.

use std::pin::pin;

use wasip3::cli::{stderr, stdin, stdout};
use wasip3::wit_bindgen::StreamResult;
use wasip3::wit_stream;

use super::{Actor, choices, keep, pick, take};
use crate::waits::{begin, poll_once, within};

/// Performs an operation with a number below 16.
pub(super) async fn perform(actor: &mut Actor, number: u8) {
    match number {
        0 => begin_to_read(actor),
        1 => read(actor).await,
        2 => cancel_read(actor).await,
        3 => drop(take(&mut actor.input, &mut actor.readers)),
        4 => begin_to_write(actor),
        5 => write(actor).await,
        6 => cancel_write(actor).await,
        7 => drop(take(&mut actor.input, &mut actor.writers)),
        8 => await_end(actor).await,
        9 => drop(take(&mut actor.input, &mut actor.ends)),
        10 => begin_to_list(actor),
        11 => list(actor).await,
        12 => drop(take(&mut actor.input, &mut actor.listings)),
        13 => pass_on(actor).await,
        14 => loop_back(actor).await,
        _ => drop(stdin::read_via_stream()),
    }
}

fn begin_to_read(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.handles) else { return };
    let (bytes, end) = actor.handles[place].read_via_stream(choices::offset(&mut actor.input));
    keep(&mut actor.readers, bytes);
    keep(&mut actor.ends, end);
}

async fn read(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.readers) else { return };
    let room = Vec::with_capacity(choices::size(&mut actor.input));
    if let Some((result, found)) = within(actor.readers[place].read(room)).await {
        drop_ended(&mut actor.readers, place, result);
        actor.see(&found);
    }
}

async fn cancel_read(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.readers) else { return };
    let room = Vec::with_capacity(choices::size(&mut actor.input));
    let (result, found) = {
        let mut read = pin!(actor.readers[place].read(room));
        match poll_once(read.as_mut()).await {
            Some(done) => done,
            None => read.as_mut().cancel(),
        }
    };
    drop_ended(&mut actor.readers, place, result);
    actor.see(&found);
}

/// Drops a stream whose other side is gone: its next use would end the guest.
fn drop_ended<T>(of: &mut Vec<T>, place: usize, result: StreamResult) {
    if result == StreamResult::Dropped {
        of.swap_remove(place);
    }
}

/// Begins to write to a file, at a place or at its end.
fn begin_to_write(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.handles) else { return };
    let (writer, stream) = wit_stream::new();
    let appends = actor.input.argument().is_multiple_of(3);
    let file = &actor.handles[place];
    let end = match appends {
        true => file.append_via_stream(stream),
        false => file.write_via_stream(stream, choices::offset(&mut actor.input)),
    };
    keep(&mut actor.writers, writer);
    keep(&mut actor.ends, end);
}

async fn write(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.writers) else { return };
    let bytes = vec![b'w'; choices::size(&mut actor.input)];
    if let Some((result, _)) = within(actor.writers[place].write(bytes)).await {
        drop_ended(&mut actor.writers, place, result);
    }
}

async fn cancel_write(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.writers) else { return };
    let bytes = vec![b'c'; choices::size(&mut actor.input)];
    let (result, _) = {
        let mut write = pin!(actor.writers[place].write(bytes));
        match poll_once(write.as_mut()).await {
            Some(done) => done,
            None => write.as_mut().cancel(),
        }
    };
    drop_ended(&mut actor.writers, place, result);
}

async fn await_end(actor: &mut Actor) {
    if let Some(end) = take(&mut actor.input, &mut actor.ends) {
        within(end.into_future()).await;
    }
}

fn begin_to_list(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.handles) else { return };
    let (entries, end) = actor.handles[place].read_directory();
    keep(&mut actor.listings, entries);
    keep(&mut actor.ends, end);
}

async fn list(actor: &mut Actor) {
    let Some(place) = pick(&mut actor.input, &actor.listings) else { return };
    let room = Vec::with_capacity(actor.input.choose(&[0, 1, 100, 1_000]));
    if let Some((result, entries)) = within(actor.listings[place].read(room)).await {
        drop_ended(&mut actor.listings, place, result);
        for entry in entries {
            actor.see(entry.name.as_bytes());
        }
    }
}

/// Passes the stream of a file on to an output. The host moves the bytes.
async fn pass_on(actor: &mut Actor) {
    let Some(bytes) = take(&mut actor.input, &mut actor.readers) else { return };
    let end = match actor.input.argument() % 2 {
        0 => stdout::write_via_stream(bytes),
        _ => stderr::write_via_stream(bytes),
    };
    within(end.into_future()).await;
}

/// Makes a stream, writes to it, and reads from it.
async fn loop_back(actor: &mut Actor) {
    let (mut writer, mut reader) = wit_stream::new::<u8>();
    let bytes = vec![b'l'; choices::size(&mut actor.input)];
    let room = Vec::with_capacity(choices::size(&mut actor.input));
    let written = begin(writer.write(bytes)).await;
    within(reader.read(room)).await;
    drop(reader);
    drop(written);
}
