//! Images in prompts and in the results of tools. Every vendor gets them in its own form. A file
//! that is not an image within the limits is not sent as one.

use std::fs;
use std::future::ready;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ikigai_agent::{Session, Turn, TurnEnd, TurnEvent};
use ikigai_host::registry::Snapshot;
use ikigai_provider::{FailureKind, Image, Part};
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::agent::place::Place;
use crate::agent::rig::{Rig, envelopes};
use crate::agent::session::model;

/// The refusal of a model without image support, in Ollama's words.
const REFUSAL: &str = "this model does not support image input";

/// Returns the beginning of a PNG, because the host examines only that.
fn png(width: u32, height: u32) -> Vec<u8> {
    let (width, height) = (width.to_be_bytes(), height.to_be_bytes());
    [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".as_slice(), &width, &height, &[8, 2, 0, 0, 0]].concat()
}

/// Returns a reply for every request.
fn answers(count: usize) -> Vec<Reply> {
    (0..count).map(|_| Reply::answer().text("I see.")).collect()
}

#[test]
fn an_image_that_a_prompt_mentions_is_sent_as_one() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(vendor, answers(1));
        let picture = png(640, 480);
        rig.file("picture.data", &picture);
        let ran = rig.ask(&["--json", "what is on @picture.data?"]).expect_code(0);
        let line = "[image picture.data, 640 × 480, 1 kB]";
        assert!(ran.stderr().contains(line) && !ran.stderr().contains("warning"), "{ran}");
        let (request, base64) = (rig.request(0), STANDARD.encode(&picture));
        let sent = match vendor {
            Vendor::OpenAi => {
                format!(r#""type":"input_image","image_url":"data:image/png;base64,{base64}""#)
            }
            Vendor::OpenAiChat => {
                format!(
                    r#""type":"image_url","image_url":{{"url":"data:image/png;base64,{base64}"}}"#
                )
            }
            Vendor::Anthropic => {
                format!(r#""type":"base64","media_type":"image/png","data":"{base64}""#)
            }
            Vendor::Google => {
                format!(r#""inlineData":{{"mimeType":"image/png","data":"{base64}"}}"#)
            }
        };
        assert!(request.contains(&sent), "{vendor}: {sent}\n{request}");
        assert!(request.find("Image picture.data:") < request.find(&base64), "{vendor}: {request}");
        assert!(request.contains("what is on @picture.data?"), "{vendor}: {request}");
        let image = json!({
            "name": "picture.data", "media_type": "image/png", "width": 640, "height": 480,
            "bytes": picture.len(),
        });
        let parts = &ran.json()["messages"][0]["parts"];
        assert_eq!(parts[1], json!({ "image": image }), "{vendor}: {ran}");
        assert_eq!(parts[2], json!({ "text": "what is on @picture.data?" }), "{vendor}: {ran}");
        rig.assert_valid();
    }
}

#[test]
fn an_attached_image_is_a_line_of_the_stream() {
    let rig = Rig::new(Vendor::Anthropic, answers(1));
    rig.file("a.png", png(640, 480));
    let ran = rig.ask(&["--stream-json", "what is @a.png?"]).expect_code(0);
    let line = r#"{"event":"image","name":"a.png","width":640,"height":480,"bytes":29}"#;
    assert!(ran.stdout().lines().any(|it| it == line), "{ran}");
}

#[test]
fn what_is_no_image_within_the_limits_is_sent_as_it_is() {
    let rig = Rig::new(Vendor::Anthropic, answers(1));
    rig.file("bomb.png", png(100_000, 100_000));
    rig.file("cut.png", &png(1, 1)[..20]);
    rig.file("binary.png", b"a\0b");
    let mut large = png(1, 1);
    large.resize(usize::try_from(Image::MAX_BYTES).expect("a length") + 1, 0);
    rig.file("large.png", large);
    let outside = rig.host.write("outside.png", png(1, 1), 0o644);
    std::os::unix::fs::symlink(&outside, rig.host.workspace().join("link.png")).expect("a link");
    let prompt = "@bomb.png @cut.png @binary.png @large.png @link.png";
    let ran = rig.ask(&["--json", prompt]).expect_code(0);
    assert_eq!(ran.json()["messages"][0]["parts"], json!([{ "text": prompt }]), "{ran}");
    for (name, why) in [
        ("@bomb.png", "the image has 100000 × 100000 pixels, more than the limit of 8000 × 8000"),
        ("@cut.png", "it begins like an image, but its size in pixels cannot be read"),
        ("@binary.png", "it is neither text nor a PNG, JPEG, GIF or WebP image"),
        ("@large.png", "it has 3932161 bytes, more than the limit of 3932160"),
        ("@link.png", "it is outside the workspace"),
    ] {
        let line = format!("warning: `{name}` is sent as it is: {why}");
        assert!(ran.stderr().contains(&line), "{line}\n{ran}");
    }

    // A text file is sent as text, even if its name suggests an image.
    let rig = Rig::new(Vendor::Anthropic, answers(1));
    rig.file("text.png", "no picture");
    rig.file("empty.png", "");
    let ran = rig.ask(&["@text.png @empty.png"]).expect_code(0);
    assert!(rig.request(0).contains(r"File text.png:\n```\nno picture\n```"), "{ran}");
    assert!(!ran.stderr().contains("[image") && !ran.stderr().contains("warning"), "{ran}");
    rig.assert_valid();
}

#[test]
fn a_request_has_room_for_twenty_images() {
    let rig = Rig::new(Vendor::OpenAi, answers(1));
    let names: Vec<String> = (1..=21).map(|number| format!("{number}.png")).collect();
    for name in &names {
        rig.file(name, png(1, 1));
    }
    let prompt: Vec<String> = names.iter().map(|name| format!("@{name}")).collect();
    let ran = rig.ask(&[&prompt.join(" ")]).expect_code(0);
    let line = "warning: [image 21.png, 1 × 1, 1 kB] is not sent: the conversation has 20 images, \
        the most that a request may have";
    assert!(ran.stderr().contains(line), "{ran}");
    assert_eq!(rig.request(0).matches("\"input_image\"").count(), 20, "{ran}");
    rig.assert_valid();
}

#[test]
fn a_model_that_takes_no_images_is_named_with_the_image_and_a_way_out() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(vendor, [Reply::status(400, REFUSAL)]);
        rig.file("picture.png", png(640, 480));
        let ran = rig.ask(&["what is @picture.png?"]).expect_code(1);
        let said = format!("the provider did not take the image `picture.png`: {REFUSAL}");
        assert!(ran.stderr().contains(&said), "{vendor}: {ran}");
        assert!(ran.stderr().contains("choose a model that takes images"), "{vendor}: {ran}");
        assert_eq!(rig.server.requests().len(), 1, "{vendor}: it is not asked again");
    }
    // A refusal that does not mention images has another reason.
    let rig = Rig::new(Vendor::OpenAi, [Reply::status(400, "bad temperature")]);
    rig.file("picture.png", png(640, 480));
    let ran = rig.ask(&["what is @picture.png?"]).expect_code(1);
    assert!(
        ran.stderr().contains("the provider refused the request (400): bad temperature"),
        "{ran}"
    );
}

/// Returns a place whose directory contains an image.
fn with_picture() -> Place {
    let place = Place::new();
    fs::write(place.scratch.path().join("picture.png"), png(640, 480)).expect("written");
    place
}

async fn turn(session: &mut Session, prompt: &str) -> Turn {
    let tools = ready(Some(Arc::new(Snapshot::default())));
    let cancel = CancellationToken::new();
    let mut on_event = |event: TurnEvent<'_>| {
        if let TurnEvent::Warning(text) = event {
            panic!("{prompt}: {text}");
        }
    };
    let turn = session.turn(tools, prompt.into(), &cancel, &mut on_event).await;
    turn.expect("there is a model")
}

/// Returns the images of a conversation.
fn images(session: &Session) -> Vec<Image> {
    let parts = session.messages().iter().flat_map(|message| &message.parts);
    let images = parts.filter_map(|part| match part {
        Part::Image(image) => Some(image.clone()),
        _ => None,
    });
    images.collect()
}

#[tokio::test]
async fn a_prompt_whose_image_was_refused_is_taken_back() {
    for vendor in Vendor::ALL {
        let place = with_picture();
        let replies = [Reply::status(400, REFUSAL)].into_iter().chain(answers(1));
        let server = FakeServer::start(vendor, replies);
        let mut session = place.session(&server);
        let end = turn(&mut session, "what is @picture.png?").await.end;
        let TurnEnd::Failed(failure) = end else { panic!("{vendor}: {end:?}") };
        let images = "the image `picture.png`".to_owned();
        assert_eq!(failure.kind, FailureKind::Images { images }, "{vendor}");
        assert_eq!(session.messages(), [], "{vendor}");
        assert_eq!(turn(&mut session, "hello").await.end, TurnEnd::Answered, "{vendor}");
        assert_eq!(server.violations(), Vec::<String>::new(), "{vendor}");
    }
}

#[tokio::test]
async fn every_provider_goes_on_with_an_image_that_was_kept() {
    for vendor in Vendor::ALL {
        let place = with_picture();
        let server = FakeServer::start(vendor, answers(1));
        let mut session = place.session(&server);
        session.keep();
        assert_eq!(turn(&mut session, "what is @picture.png?").await.end, TurnEnd::Answered);
        let id = session.kept().expect("it is kept");
        let sent = images(&session);
        assert_eq!(sent.len(), 1, "{vendor}");
        assert_eq!(session.release().await, None);
        for other in Vendor::ALL {
            let server = FakeServer::start(other, answers(1));
            let mut session = place.session(&server);
            session.resume(&id).await.expect("a conversation");
            assert_eq!(images(&session), sent, "{vendor} to {other}");
            assert_eq!(turn(&mut session, "and now?").await.end, TurnEnd::Answered);
            let request = server.requests()[0].body.to_string();
            assert!(request.contains(sent[0].base64()), "{vendor} to {other}: {request}");
            assert_eq!(server.violations(), Vec::<String>::new(), "{vendor} to {other}");
            assert_eq!(session.release().await, None);
        }
    }
}

#[tokio::test]
async fn of_an_image_in_a_turn_that_is_left_out_a_line_stays() {
    let place = with_picture();
    // The answers are long, so that notes about them are shorter.
    let answer = "It is a cat. ".repeat(200);
    let replies = (0..5).map(|_| Reply::answer().text(&answer));
    let server = FakeServer::start(Vendor::Anthropic, replies);
    let mut session = place.session(&server);
    for prompt in ["what is @picture.png?", "and this?", "why?"] {
        assert_eq!(turn(&mut session, prompt).await.end, TurnEnd::Answered);
    }
    let server_of_notes = FakeServer::start(Vendor::Anthropic, [Reply::answer().text("A cat.")]);
    session.set_model(Some(model(&server_of_notes)));
    let cancel = CancellationToken::new();
    let compacted = session.compact(None, &cancel, &mut |_| {}).await.expect("a model");
    assert!(compacted.is_some_and(|it| it.messages > 0), "{compacted:?}");
    let asked = server_of_notes.requests()[0].body.to_string();
    assert!(asked.contains("User: [image picture.png, 640 × 480, 1 kB]"), "{asked}");
    assert_eq!(images(&session), []);
    session.set_model(Some(model(&server)));
    assert_eq!(turn(&mut session, "thanks").await.end, TurnEnd::Answered);
    let request = server.requests()[3].body.to_string();
    let left = r"what is @picture.png?\n[image picture.png, 640 × 480, 1 kB]";
    assert!(request.contains(left), "{request}");
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// Adds a tool to a host that answers with these images.
fn tool(rig: &Rig, images: &[&[u8]]) {
    let block = |data: &&[u8]| json!({ "type": "image", "data": STANDARD.encode(data), "mimeType": "image/png" });
    let blocks = images.iter().map(block);
    let text = json!({ "type": "text", "text": "as it looks:" });
    let answer = json!({ "content": std::iter::once(text).chain(blocks).collect::<Vec<_>>() });
    let schema = r#"{"name":"shot","description":"","parameters":{},"result":"content"}"#;
    rig.host.program(
        "shot",
        format!(
            "#!/bin/sh\nif [ \"$1\" = --schema ]; then echo '{schema}'; else echo '{answer}'; fi\n"
        ),
    );
}

#[test]
fn the_images_of_a_result_are_sent_with_it() {
    for vendor in Vendor::ALL {
        let call = Reply::answer().call("shot", &json!({}));
        let rig = Rig::new(vendor, [call].into_iter().chain(answers(1)));
        let (picture, bomb) = (png(640, 480), png(100_000, 100_000));
        tool(&rig, &[&picture, &bomb]);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        let request = rig.request(1);
        assert_eq!(request.matches(&STANDARD.encode(&picture)).count(), 1, "{vendor}: {request}");
        assert!(!request.contains(&STANDARD.encode(&bomb)), "{vendor}: {request}");
        let why =
            "image 2: the image has 100000 × 100000 pixels, more than the limit of 8000 × 8000";
        assert_eq!(envelopes(&ran.json())[0]["images_left_out"], json!([why]), "{vendor}: {ran}");
        assert!(request.contains(why), "{vendor}: {request}");
        let result = &ran.json()["messages"][2]["parts"][0]["result"];
        assert_eq!(result["images"][0]["name"], "1 of shot", "{vendor}: {ran}");
        rig.assert_valid();
    }
}

#[test]
fn a_model_that_refuses_the_images_of_a_result_is_asked_without_them() {
    for vendor in Vendor::ALL {
        let calls = || Reply::answer().call("shot", &json!({}));
        let replies = [calls(), Reply::status(400, REFUSAL), calls(), Reply::answer().text("So.")];
        let rig = Rig::new(vendor, replies);
        let picture = png(640, 480);
        tool(&rig, &[&picture]);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        let warning = "the provider did not take the images of results; asking without them";
        assert_eq!(ran.stderr().matches(warning).count(), 1, "{vendor}: {ran}");
        let base64 = STANDARD.encode(&picture);
        assert!(rig.request(1).contains(&base64), "{vendor}: {}", rig.request(1));
        for number in [2, 3] {
            let request = rig.request(number);
            assert!(!request.contains(&base64), "{vendor}: {request}");
            assert!(request.contains("the model takes no images"), "{vendor}: {request}");
        }
        rig.assert_valid();
    }
}
