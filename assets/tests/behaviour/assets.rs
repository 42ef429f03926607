//! Writing, reading, editing, listing.

use ikigai_assets::{Budget, Error, MAX_ASSET_BYTES, PathError, Precondition, StoreOptions};
use ikigai_protocol::ToolCode;

use crate::{Fixture, agent, ann, path};

pub(crate) async fn written_and_read(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("ikigai:///blocks/x.md");
    let written = store.write(&x, b"12345", &ann(), Precondition::Any).await.expect("written");
    assert_eq!((written.version, written.tokens), (1, 2));
    let asset = store.read(&x).await.expect("read");
    assert_eq!(asset.content, b"12345");
    let metadata = store.metadata(&x).await.expect("metadata");
    assert_eq!(asset.metadata, metadata);
    assert_eq!((metadata.size, metadata.tokens, metadata.read_only), (5, 2, false));
    assert_eq!(metadata.path, x);
    let age = metadata.updated_at.elapsed().expect("in the past");
    assert!(age.as_secs() < 60, "{age:?}");
    let written = store.write(&x, b"", &ann(), Precondition::Any).await.expect("written");
    assert_eq!((written.version, written.tokens), (2, 0));
    assert_eq!(store.read(&x).await.expect("read").content, b"");
}

pub(crate) async fn any_bytes(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let content: Vec<u8> = (0..=255).cycle().take(100_003).collect();
    let x = path("bytes");
    store.write(&x, &content, &ann(), Precondition::Any).await.expect("written");
    assert!(store.read(&x).await.expect("read").content == content);
    let edited = store.edit(&x, b"\xff\0\x01", b"\0'\"$1", true, &ann()).await.expect("edited");
    assert_eq!(edited.replacements, 390);
    assert!(store.read(&x).await.expect("read").content != content);
}

pub(crate) async fn not_there(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    let by = agent("ann@host");
    let errors = [
        store.read(&x).await.expect_err("read"),
        store.metadata(&x).await.expect_err("metadata"),
        store.edit(&x, b"a", b"b", true, &ann()).await.expect_err("edit"),
        store.remove(&x, &by, Precondition::Any).await.expect_err("remove"),
        store.set_read_only(&x, true).await.expect_err("set_read_only"),
        store.pin(&by, &x).await.expect_err("pin"),
        store.log(&x).await.expect_err("log"),
    ];
    for error in errors {
        assert!(matches!(&error, Error::NotFound(found) if *found == x), "{error:?}");
        assert_eq!((error.code(), &*error.to_string()), (ToolCode::FileNotFound, "no asset `x`"));
    }
    for error in [
        store.version(&x, 1).await.expect_err("version"),
        store.restore(&x, u64::MAX, &by).await.expect_err("restore"),
    ] {
        assert!(matches!(error, Error::NoVersion { .. }), "{error:?}");
        assert_eq!(error.code(), ToolCode::FileNotFound);
    }
    assert!(!store.unpin(&by, &x).await.expect("nothing to do"));
}

pub(crate) async fn edits(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    store.write(&x, b"one two two", &ann(), Precondition::Any).await.expect("written");
    let error = store.edit(&x, b"three", b"", false, &ann()).await.expect_err("0 times");
    assert_eq!(
        (error.code(), &*error.to_string()),
        (ToolCode::NotFound, "String not found in file")
    );
    let error = store.edit(&x, b"two", b"", false, &ann()).await.expect_err("2 times");
    let words = "String found 2 times, use replace_all to replace all";
    assert_eq!((error.code(), &*error.to_string()), (ToolCode::NotUnique, words));
    let error = store.edit(&x, b"", b"a", true, &ann()).await.expect_err("empty");
    assert_eq!(error.code(), ToolCode::InvalidArg);
    assert_eq!(store.metadata(&x).await.expect("there").version, 1, "nothing was changed");

    let edited = store.edit(&x, b"three", b"", true, &ann()).await.expect("0 of all");
    assert_eq!((edited.replacements, edited.version, edited.tokens), (0, 1, 3));
    let edited = store.edit(&x, b"one", b"1", false, &ann()).await.expect("the one");
    assert_eq!((edited.replacements, edited.version), (1, 2));
    let edited = store.edit(&x, b"two", b"", true, &ann()).await.expect("all");
    assert_eq!((edited.replacements, edited.version, edited.tokens), (2, 3, 1));
    assert_eq!(store.read(&x).await.expect("read").content, b"1  ");
}

pub(crate) async fn expectations(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    let by = agent("ann@host");
    store.write(&x, b"1", &ann(), Precondition::Absent).await.expect("it was absent");
    store.write(&x, b"2", &ann(), Precondition::Version(1)).await.expect("it was at 1");
    for expected in
        [Precondition::Absent, Precondition::Version(1), Precondition::Version(u64::MAX)]
    {
        let error = store.write(&x, b"3", &ann(), expected).await.expect_err("changed");
        assert!(matches!(error, Error::Changed { found: Some(2), .. }), "{error:?}");
        let error = store.remove(&x, &by, expected).await.expect_err("changed");
        assert_eq!(error.code(), ToolCode::WriteFailed, "{error:?}");
    }
    assert_eq!(store.read(&x).await.expect("there").content, b"2");
    let error = store.write(&path("y"), b"", &ann(), Precondition::Version(1)).await;
    let error = error.expect_err("absent");
    assert_eq!(error.to_string(), "asset `y` has changed: it does not exist");
    store.remove(&x, &by, Precondition::Version(2)).await.expect("it was at 2");
}

pub(crate) async fn read_only(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    let by = agent("ann@host");
    store.write(&x, b"a", &ann(), Precondition::Any).await.expect("written");
    store.set_read_only(&x, true).await.expect("set");
    assert!(store.metadata(&x).await.expect("there").read_only);
    for error in [
        store.write(&x, b"", &ann(), Precondition::Any).await.expect_err("write"),
        store.edit(&x, b"a", b"b", false, &ann()).await.expect_err("edit"),
        store.restore(&x, 1, &by).await.expect_err("restore"),
        store.remove(&x, &by, Precondition::Any).await.expect_err("remove"),
    ] {
        assert_eq!(
            (error.code(), &*error.to_string()),
            (ToolCode::ReadOnly, "asset `x` is read-only")
        );
    }
    store.pin(&by, &x).await.expect("it can still be pinned");
    store.set_read_only(&x, false).await.expect("set");
    store.write(&x, b"b", &ann(), Precondition::Any).await.expect("written");
}

pub(crate) async fn put_decides_the_flag(fixture: &Fixture<'_>) {
    let budget = Budget(10);
    let store = fixture.store_with(&StoreOptions { budget, ..StoreOptions::default() }).await;
    let x = path("x");
    let put = async |content: &[u8], expected, read_only| {
        let put = store.put(&x, content, &ann(), expected, read_only).await;
        put.map(|written| written.version)
    };
    let now = async || {
        let asset = store.read(&x).await.expect("there");
        (asset.content, asset.metadata.version, asset.metadata.read_only)
    };
    assert_eq!(put(b"a", Precondition::Absent, true).await.expect("a new one"), 1);
    assert_eq!(now().await, (b"a".to_vec(), 1, true));
    assert_eq!(put(b"b", Precondition::Any, true).await.expect("a protected one"), 2);
    assert_eq!(now().await, (b"b".to_vec(), 2, true));
    let error = store.write(&x, b"", &ann(), Precondition::Any).await.expect_err("protected");
    assert!(matches!(error, Error::ReadOnly(_)), "{error:?}");
    let error = put(&[b'x'; 41], Precondition::Any, false).await.expect_err("too much");
    assert!(matches!(error, Error::BudgetExceeded(_)), "{error:?}");
    let error = put(b"c", Precondition::Version(1), false).await.expect_err("changed");
    assert!(matches!(error, Error::Changed { .. }), "{error:?}");
    assert_eq!(now().await, (b"b".to_vec(), 2, true), "a refusal leaves it protected");
    assert_eq!(put(b"c", Precondition::Version(2), false).await.expect("lifted"), 3);
    assert_eq!(now().await, (b"c".to_vec(), 3, false));
    store.write(&x, b"d", &ann(), Precondition::Any).await.expect("it takes changes");
    assert_eq!(store.log(&x).await.expect("a log").len(), 4, "each left a version");
}

pub(crate) async fn listing_by_prefix(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let paths = ["B", "a%", "a/b", "a/c", "a0", "a_", "ab", "b", "é/x", "\u{10ffff}/x", "日"];
    for name in paths {
        store.write(&path(name), b"12345", &ann(), Precondition::Any).await.expect("written");
    }
    let listed = async |prefix: &str| -> Vec<String> {
        let found = store.list(prefix, None).await.expect("listed");
        assert!(found.iter().all(|asset| (asset.size, asset.tokens) == (5, 2)));
        found.iter().map(|asset| asset.path.to_string()).collect()
    };
    let mut sorted = paths;
    sorted.sort_unstable();
    assert_eq!(listed("").await, sorted);
    assert_eq!(listed("ikigai:///").await, sorted);
    assert_eq!(listed("a").await, ["a%", "a/b", "a/c", "a0", "a_", "ab"]);
    assert_eq!(listed("ikigai://a/").await, ["a/b", "a/c"]);
    assert_eq!(listed("a%").await, ["a%"], "no wildcard");
    assert_eq!(listed("a_").await, ["a_"], "no wildcard");
    assert_eq!(listed("b").await, ["b"], "case counts");
    assert_eq!(listed("é").await, ["é/x"]);
    assert_eq!(listed("\u{10ffff}").await, ["\u{10ffff}/x"], "the last of all");
    assert_eq!(listed("a\0").await, [""; 0]);
    assert_eq!(listed("c").await, [""; 0]);
    for (limit, expected) in [(0, 0), (1, 1), (6, 6), (7, 6), (u32::MAX, 6)] {
        let found = store.list("a", Some(limit)).await.expect("listed");
        let found: Vec<_> = found.iter().map(|asset| asset.path.as_str()).collect();
        assert_eq!(found, ["a%", "a/b", "a/c", "a0", "a_", "ab"][..expected], "at most {limit}");
    }
    assert_eq!(store.list("\u{10ffff}", Some(0)).await.expect("listed"), []);
    assert_eq!(store.list("", Some(2)).await.expect("listed").len(), 2);
}

pub(crate) async fn paths_are_distinguished(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    // A database that normalizes or folds would mix these up: composed and decomposed, two cases.
    let names = ["\u{e9}", "e\u{301}", "E\u{301}", "a b", "a  b", "a%20b", "a?b", "a#b"];
    for name in names {
        store.write(&path(name), name.as_bytes(), &ann(), Precondition::Absent).await.expect(name);
    }
    for name in names {
        assert_eq!(store.read(&path(name)).await.expect(name).content, name.as_bytes());
    }
    let longest = "é".repeat(512);
    store.write(&path(&longest), b"", &ann(), Precondition::Any).await.expect("1,024 bytes");
    let error = Error::from(ikigai_assets::AssetPath::parse("a//b").expect_err("refused"));
    assert!(matches!(error, Error::Path(PathError::EmptySegment)));
    assert_eq!(error.code(), ToolCode::InvalidArg);
}

pub(crate) async fn no_larger_than_the_largest(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("outputs/x");
    let size = usize::try_from(MAX_ASSET_BYTES).expect("fits") + 1;
    let content = vec![b'x'; size];
    let error = store.write(&x, &content, &ann(), Precondition::Any).await.expect_err("too large");
    assert_eq!(
        error.to_string(),
        "asset `outputs/x` would have 67108865 bytes; the largest has 67108864"
    );
    assert_eq!(error.code(), ToolCode::InvalidArg);
    store.write(&x, &content[1..], &ann(), Precondition::Any).await.expect("the largest");
    assert_eq!(store.metadata(&x).await.expect("there").size, MAX_ASSET_BYTES);
    let error = store.edit(&x, b"x", &content[..1000], true, &ann()).await.expect_err("too large");
    assert!(matches!(error, Error::TooLarge { size: 67_108_864_000, .. }), "{error:?}");
}

pub(crate) async fn a_dropped_future_leaves_all_or_nothing(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    store.write(&x, b"0 end", &ann(), Precondition::Any).await.expect("written");
    let by = ann();
    let mut dropped = 0;
    for step in 0..150 {
        // Dropped at another point of the transaction each time.
        let edit = store.edit(&x, b"end", b"1 end", false, &by);
        dropped += u32::from(!fixture.ended_within(1 + step % 40, edit).await);
    }
    assert!((1..150).contains(&dropped), "some were dropped and some were not: {dropped}");
    store.edit(&x, b"end", b"2", false, &ann()).await.expect("the store still works");
    let asset = store.read(&x).await.expect("read");
    // Each edit that was made has left its version and its words, dropped or not.
    let words = String::from_utf8(asset.content).expect("UTF-8");
    let ones = words.matches('1').count() as u64;
    assert_eq!(asset.metadata.version, ones + 2, "{words}");
    let kept = store.log(&x).await.expect("a log").len() as u64;
    assert_eq!(kept, asset.metadata.version.min(101));
}
