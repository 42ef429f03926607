//! Runs every input of the corpus through its target, so that every bug that was once found stays
//! fixed.

use std::fs;
use std::path::Path;

use ikigai_fuzz::TARGETS;

#[test]
#[allow(clippy::print_stdout, reason = "the harness shows it where a target panics")]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("each target has a corpus") {
            let path = entry.expect("an entry").path();
            let input = fs::read(&path).expect("an input");
            println!("{}", path.display());
            (target.run)(&input);
            count += 1;
        }
        assert!(count > 0, "`{}` holds nothing", folder.display());
    }
}

#[test]
fn every_corpus_has_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let name = entry.expect("an entry").file_name();
        let known = TARGETS.iter().any(|target| *target.name == *name);
        assert!(known, "{} belongs to no target", name.display());
    }
}
