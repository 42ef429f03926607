//! The component's shell, compared with GNU bash. Each command has the same result, or is listed
//! here with the reason for the difference.
//!
//! A listed case that agrees is a failure as well. If the machine has GNU bash, its answers are
//! compared with the record. `cargo test --test components -- --ignored` writes a new record.

use std::process::Command;

use ikigai_tests::fidelity::{self, Case, Made, cases, component, reference, run_all};
use ikigai_tests::left_out;

/// The reasons why the component's shell answers differently, each with the ids of its cases. A
/// reason that begins with `wrong` is a wrong result without an error message.
const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "wrong: `xargs` ends with the status of the last command, not with 123",
        &["pipe/xargs-status"],
    ),
    ("refused: descriptors that are swapped through a third one", &["redirect/swap"]),
    ("wrong: EPOCHSECONDS is empty", &["expand/random-set"]),
    (
        "wrong: a copy on the disk loses its executable bit, which WASI cannot set",
        &["file/copy-mode"],
    ),
    ("wrong: bytes that are NUL end no line of a binary file in `grep -c`", &["file/binary"]),
    ("refused: functions nest no deeper than 16", &["flow/deep-recursion"]),
    ("refused: WASI has no modes and no mask", &["file/script-chmod", "process/umask-ulimit"]),
    ("refused: options that the interpreter's command lacks", &["process/bash-s"]),
    ("the exit code is 1 where bash has 127 for an unset variable", &["error/set-u"]),
    (
        "no `Terminated` for a child that a signal ended: there are no children",
        &["error/exit-codes"],
    ),
    ("refused: `-nt` between `[[` and `]]`", &["test/newer-than-missing"]),
    (
        "other words in a message",
        &["error/missing-files", "file/diff", "find/missing", "test/cmp", "coding/getopts-message"],
    ),
];

fn excuse<'e>(excuses: &'e [(&str, &[&str])], case: &Case) -> Option<&'e str> {
    excuses.iter().find(|(_, ids)| ids.contains(&case.id())).map(|(reason, _)| *reason)
}

/// Compares results with the record, and the differences with the listed ones.
#[track_caller]
fn check(cases: &[Case], made: &[Made], excuses: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (case, made) in cases.iter().zip(made) {
        let recorded = case.recorded();
        match (excuse(excuses, case), recorded == *made) {
            (None, false) => wrong.push(format!(
                "{}: {}\n--- recorded\n{recorded:#?}\n--- made\n{made:#?}",
                case.id(),
                case.command()
            )),
            (Some(reason), true) => {
                wrong.push(format!("{}: agrees, but is excused: {reason}", case.id()));
            }
            _ => {}
        }
    }
    let unknown = excuses
        .iter()
        .flat_map(|(_, ids)| *ids)
        .filter(|id| !cases.iter().any(|case| case.id() == **id));
    wrong.extend(unknown.map(|id| format!("{id}: excused, but there is no such case")));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

/// Returns whether this machine has the programs behind the record: GNU bash 5, coreutils and jq.
fn has_gnu() -> bool {
    let says = |program: &str, words: &str| {
        let ran = Command::new(program).arg("--version").output();
        ran.is_ok_and(|ran| String::from_utf8_lossy(&ran.stdout).contains(words))
    };
    says("bash", "GNU bash, version 5") && says("sort", "GNU coreutils") && says("jq", "jq-")
}

fn gnu(what: &str) -> Option<()> {
    if has_gnu() { Some(()) } else { left_out(what, "GNU bash 5, coreutils and jq") }
}

#[test]
fn the_component_answers_as_gnu_bash_did() {
    let cases = cases();
    check(&cases, &run_all(&cases, &component), DIFFERENCES);
}

#[test]
fn the_posix_shell_answers_the_same_where_the_command_is_posix() {
    let Some(()) = gnu("the shell of POSIX") else { return };
    let cases: Vec<Case> = cases().into_iter().filter(Case::is_posix).collect();
    check(&cases, &run_all(&cases, &|case, dir| reference("/bin/sh", case, dir)), &[]);
}

#[test]
fn gnu_bash_answers_as_it_did() {
    let Some(()) = gnu("GNU bash") else { return };
    let cases = cases();
    check(&cases, &run_all(&cases, &|case, dir| reference("bash", case, dir)), &[]);
}

/// The programs that take every word as an operand, as GNU's do.
const WITHOUT_OPTIONS: &[&str] = &["[", "echo", "expr", "false", "test", "true"];

/// A script that calls each command of `/usr/bin` and each shell builtin with a long and a short
/// option that no command has, once without and once before an operand.
const UNKNOWN_OPTIONS: &str = "\
    builtins='alias cd disown enable export hash jobs kill mapfile popd pushd readarray \
        readonly set shopt source trap type umask unalias unset wait'
    for command in $(ls /usr/bin); do
        for words in --no-such-option -% '--no-such-option words.txt' '-% words.txt'; do
            said=$(\"$command\" $words 2>&1 < /dev/null)
            printf '%s %s\\t%s\\t%s\\n' \"$command\" \"$words\" $? \"${said//$'\\n'/ }\"
        done
    done
    for command in $builtins; do
        said=$($command -% 2>&1 < /dev/null)
        printf '%s -%%\\t%s\\t%s\\n' \"$command\" $? \"${said//$'\\n'/ }\"
    done";

#[test]
fn every_command_refuses_an_option_that_it_does_not_know_by_its_name() {
    let scratch = tempfile::TempDir::new().expect("a temporary directory");
    std::fs::write(scratch.path().join("words.txt"), "1\n").expect("a file");
    let case = Case::new("options/unknown", UNKNOWN_OPTIONS);
    let (output, exit) = component(&case, scratch.path());
    assert_eq!(exit, 0, "{output}");
    let answers: Vec<Vec<&str>> =
        output.lines().map(|line| line.splitn(3, '\t').collect()).collect();
    let count = |name: &str| answers.iter().filter(|answer| answer[0].starts_with(name)).count();
    assert!(answers.len() > 400 && count("mv ") == 4 && count("unset ") == 1, "{output}");
    let wrong: Vec<String> = answers
        .iter()
        .filter(|answer| {
            let command = answer[0].split(' ').next().unwrap_or_default();
            let names = answer[2].contains("no-such-option")
                || answer[2].contains('%')
                // For `--no-such-option`, bash's builtins report the option `--`.
                || answer[2].contains("--: invalid option");
            !WITHOUT_OPTIONS.contains(&command) && (answer[1] == "0" || !names)
        })
        .map(|answer| answer.join(" | "))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
    let kept = std::fs::read_to_string(scratch.path().join("words.txt")).expect("still there");
    assert_eq!(kept, "1\n");
}

/// Scripts that the interpreter would silently run wrongly. Each comes with a part of the form that
/// works.
const REFUSED: &[(&str, &str)] = &[
    ("ls | while read -r x; do cp \"$x\" \"c-$x\"; done", "`while …; done < <(…)`"),
    ("seq 3 | while read -r x; do echo \"<$x>\"; cat; done", "`cat`"),
    ("ls | { ls src; cat; }", "`ls`"),
    ("ls | (grep words; wc -l)", "`grep`"),
    ("each() { while read -r x; do touch \"$x.new\"; done; }; ls | each", "`touch`"),
    ("echo $(ls | for x in 1 2; do sort; done)", "`sort`"),
    ("eval 'ls | while read -r x; do rm \"$x\"; done'", "`rm`"),
    ("bash -ec 'ls | while read -r x; do rm \"$x\"; done'", "`rm`"),
    ("while read -r x; do cat > \"$x\"; done < blank.txt", "`cat < FILE`"),
    ("{ wc -l; sort; } < words.txt", "`wc < FILE`"),
    ("[[ -L words.txt ]] && rm words.txt", "with `[` and `]`"),
    ("if [[ ! -h words.txt && -p link ]]; then rm words.txt; fi", "`-h`"),
    ("[[ -S words.txt ]] && rm words.txt", "`-S`"),
    ("[[ -f words.txt && -x words.txt ]] && rm words.txt", "`-x`"),
    ("[[ words.txt -nt tabs.txt ]] || rm words.txt", "`-nt`"),
    ("[[ words.txt -ot tabs.txt ]] || rm words.txt", "`-ot`"),
    ("[ link -ef words.txt ] || rm words.txt", "`realpath`"),
    ("trap 'exit 3' ERR; false; rm words.txt", "`COMMAND || exit`"),
    ("die() { echo died; exit 1; }; trap 'echo failed; die' ERR; false; rm words.txt", "`exit`"),
    ("f() { trap 'return 1' ERR; false; rm words.txt; }; f", "`COMMAND || return`"),
    ("echo hi > words.txt > new.txt", "`: > FILE`"),
    ("{ echo hi; } &> words.txt 2>> new.txt", "`: > FILE`"),
    ("{ echo out; echo err >&2; } 3>&1 1>&2 2>&3 | cat > new.txt", "`COMMAND > OUT 2> ERR`"),
    ("case a in a) echo 1\nb) rm words.txt;; esac", "`;;`"),
    ("f() { case a in a) rm words.txt; b) echo 2;; esac; }; f", "`;;`"),
];

#[test]
fn what_would_go_wrong_without_a_word_is_refused_before_anything_runs() {
    // The line before the refused one does not run either.
    let case = |(command, _): &(&str, &str)| Case::new(command, &format!("rm tabs.txt\n{command}"));
    let cases: Vec<Case> = REFUSED.iter().map(case).collect();
    for ((command, word), made) in REFUSED.iter().zip(run_all(&cases, &component)) {
        assert_eq!((made.exit, made.output.lines().count()), (2, 1), "{command}: {}", made.output);
        assert!(made.output.starts_with("bash: "), "{command}: {}", made.output);
        assert!(made.output.contains(word), "{command}: {}", made.output);
        assert!(made.files.is_empty(), "{command}: {:?}", made.files);
    }
}

/// The forms that work, and others that resemble the refused ones.
const WORKING: &[&str] = &[
    "while read -r x; do cp \"$x\" \"c-$x\"; touch t; done < <(ls *.txt)",
    "for x in $(ls *.txt); do cp \"$x\" \"c-$x\"; done",
    "ls *.txt | while read -r x; do echo \"<$x>\"; [ -f \"$x\" ] && printf '%s\\n' \"$x\"; done",
    "cat words.txt | { read -r first; cat > rest; }; cat rest",
    "ls *.txt | if grep -q words; then echo there; fi",
    "seq 3 | (cat; ls missing 2> /dev/null; echo end)",
    "while read -r x; do grep -c \"${x%% *}\" words.txt; wc -l < blank.txt; done < words.txt",
    "[ -L link ] && [ ! -L words.txt ] && [ ! -p link ] && [ ! -x words.txt ] && echo as expected",
    "[[ -f link && ! -d link ]] && echo as expected",
    "trap 'echo failed' ERR; f() { return 1; }; false; f || exit 4",
    "echo hi 2>&1 > new.txt; { echo a; echo b >&2; } > o 2> e; cat o e new.txt",
    "case b in (a) echo 1;; b) echo 2; esac; case a in a) ;; esac",
];

#[test]
fn the_forms_that_are_named_instead_work() {
    let Some(()) = gnu("GNU bash") else { return };
    let cases: Vec<Case> = WORKING.iter().map(|it| Case::new(it, it)).collect();
    let expected = run_all(&cases, &|case, dir| reference("bash", case, dir));
    for (case, (made, expected)) in
        cases.iter().zip(run_all(&cases, &component).iter().zip(&expected))
    {
        assert_eq!(made, expected, "{}", case.command());
    }
}

/// Commands with an empty operand, as an empty variable leaves one. Each command fails, and changes
/// nothing.
const EMPTY: &[&str] = &[
    "find \"\"",
    "find \"\" -name '*.txt' -delete",
    "rm \"\"",
    "rm -r \"\"",
    "rmdir \"\"",
    "ls \"\"",
    "ls -l \"\"",
    "cat \"\"",
    "wc -l \"\"",
    "head -n 1 \"\"",
    "tail \"\"",
    "sort \"\"",
    "grep a \"\"",
    "grep -r a \"\"",
    "sed s/a/b/ \"\"",
    "sed -i s/a/b/ \"\"",
    "awk 1 \"\"",
    "jq . \"\"",
    "cut -c1 \"\"",
    "cp words.txt \"\"",
    "cp -r \"\" copy",
    "mv words.txt \"\"",
    "mv \"\" moved",
    "ln words.txt \"\"",
    "ln \"\" linked",
    "mkdir \"\"",
    "mkdir -p \"\"",
    "touch \"\"",
    "truncate -s 0 \"\"",
    "tee \"\" < /dev/null",
    "chmod +x \"\"",
    "du \"\"",
    "stat \"\"",
    "tree \"\"",
    "file \"\" | grep -q ': directory'",
    "tar cf - \"\" > /dev/null",
    "md5sum \"\"",
    "diff \"\" words.txt",
    "cmp \"\" words.txt",
    "od \"\"",
    "xxd \"\"",
    "zip -r - \"\" > /dev/null",
    "split \"\"",
    "gzip \"\"",
    "readlink -e \"\"",
    "realpath -e \"\"",
    "[ -d \"\" ]",
    "[ -e \"\" ]",
    "test -r \"\"",
    "[ ! -s words.txt -o -d \"\" ]",
    "[ \"\" -nt words.txt ]",
];

#[test]
fn an_empty_operand_is_no_directory() {
    let cases: Vec<Case> = EMPTY.iter().map(|it| Case::new(it, it)).collect();
    for (case, made) in cases.iter().zip(run_all(&cases, &component)) {
        assert_ne!(made.exit, 0, "{}: {}", case.command(), made.output);
        assert!(made.files.is_empty(), "{}: {:?}", case.command(), made.files);
    }
    // With `-f` a missing file is not an error.
    let made = run_all(&[Case::new("force", "rm -rf \"\"; rm -rf -- \"\" \"\"")], &component);
    assert!(made[0].files.is_empty(), "{:?}", made[0]);
    // An empty argument that is not a file stays empty.
    let command = "grep -c '' words.txt; [ -z '' ] && [ ! -n '' ] && printf '%s\\n' '' && echo '' \
                   | tr -d '\\n'; find . -name '' ; paste -d '' tabs.txt | head -1; expr '' = ''";
    let made = run_all(&[Case::new("empty", command)], &component).remove(0);
    assert_eq!((made.exit, made.output.as_str()), (0, "6\n\na\tb\n1"));
}

#[test]
fn commands_of_text_refuse_what_is_not_utf_8() {
    let programs = [
        "sort",
        "sed s/a/b/",
        "sed -i s/a/b/",
        "awk 1",
        "cut -c1-3",
        "uniq",
        "tac",
        "paste",
        "rev",
        "nl",
        "fold",
        "fmt",
    ];
    let mut cases = Vec::new();
    for program in programs {
        cases.push(Case::new(program, &format!("{program} big.bin")));
        if !program.contains("-i") {
            cases.push(Case::new(
                program,
                &format!("set -o pipefail; cat big.bin | {program} | cat"),
            ));
        }
    }
    for (case, made) in cases.iter().zip(run_all(&cases, &component)) {
        let is_named = made.output.contains("UTF-8") && !made.output.contains('\u{fffd}');
        assert!(made.exit != 0 && is_named, "{}: {}", case.command(), made.output);
        assert!(made.files.is_empty(), "{}: {:?}", case.command(), made.files);
    }
    let kept = "cat big.bin | cmp - big.bin && tr a a < big.bin | cmp - big.bin && echo same";
    let made = run_all(&[Case::new("kept", kept)], &component).remove(0);
    assert_eq!((made.exit, made.output.as_str()), (0, "same"));
}

/// Records the answer of GNU bash to each case.
#[test]
#[ignore = "changes the record"]
fn record() {
    assert!(has_gnu(), "the record is of GNU bash 5, coreutils and jq");
    let cases = cases();
    fidelity::record(&cases, &run_all(&cases, &|case, dir| reference("bash", case, dir)));
}
