//! The documents of the control block, its C header and the program say the same.

#![expect(clippy::unwrap_used, reason = "these functions are tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use punctual_linux::control::SetValue;
use punctual_linux::control::layout::{
    CONTROL, CONTROL_MAGIC, CONTROL_SIDES, DROP_WORDS, Field, HEADER, SIZE, STATS, STATS_MAGIC,
    STATS_SIDES, VERSION,
};

#[test]
fn the_c_header_has_every_word_where_the_program_has_it() {
    let mut expected: Vec<(String, u64)> = Vec::new();
    let blocks = [
        ("control", &CONTROL[..], CONTROL_SIDES, CONTROL_MAGIC, "PUNCTUAL_CONTROL_MAGIC"),
        ("stats", &STATS, STATS_SIDES, STATS_MAGIC, "PUNCTUAL_STATS_MAGIC"),
    ];
    for (block, fields, sides, magic, name) in blocks {
        let at = |member: &str| format!("offsetof(struct punctual_{block}, {member})");
        for Field { name, offset } in HEADER {
            expected.push((at(&format!("header.{name}")), wide(offset)));
        }
        for (side, start) in ["up", "down"].into_iter().zip(sides) {
            for Field { name, offset } in fields {
                expected.push((at(&format!("{side}.{name}")), wide(start + offset)));
            }
        }
        expected.push((format!("sizeof(struct punctual_{block})"), wide(SIZE)));
        expected.push((name.to_owned(), magic));
    }
    let drops = "sizeof(((struct punctual_stats *)0)->up.dropped) / 8";
    expected.push((drops.to_owned(), wide(DROP_WORDS)));
    expected.push(("PUNCTUAL_VERSION".to_owned(), VERSION));
    let bits = ["RATE", "DELAY", "JITTER", "LOSS", "LIMIT_PACKETS", "LIMIT_BYTES"];
    for (name, value) in bits.into_iter().zip(SetValue::ALL) {
        expected.push((format!("PUNCTUAL_SET_{name}"), value.bit()));
    }
    let print = |(what, _): &(String, u64)| {
        format!("    printf(\"%s %llu\\n\", \"{what}\", (unsigned long long)({what}));\n")
    };
    let lines = expected.iter().map(print).collect::<Vec<_>>().concat();
    let program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"punctual_control.h\"\n\
         int main(void)\n{{\n{lines}    return 0;\n}}\n"
    );
    let printed = run_c(&program);
    let expected: Vec<_> = expected.iter().map(|(what, n)| format!("{what} {n}")).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_document_has_every_word_where_the_program_has_it() {
    let text = fs::read_to_string(documents().join("control-block.md")).unwrap();
    let tables = text.split("\n## `stats`\n").collect::<Vec<_>>();
    let [control, stats] = tables[..] else { panic!("the document has two blocks") };
    for (text, fields) in [(control, &CONTROL[..]), (stats, &STATS), (control, &HEADER)] {
        for Field { name, offset } in fields {
            let row = format!("\n| {offset} | `{name}` |");
            assert_eq!(text.matches(&row).count(), 1, "{row}");
        }
    }
    for start in [CONTROL_SIDES, STATS_SIDES] {
        let [up, down] = start;
        assert!(text.contains(&format!("begins at {up}, that of `down` at {down}")));
    }
    for (name, words) in [("control", &CONTROL[..]), ("stats", &STATS)] {
        let sorted = words.is_sorted_by_key(|field| field.offset);
        assert!(sorted && words.iter().all(|field| field.offset % 8 == 0), "{name}");
    }
}

#[test]
fn the_examples_refuse_other_words_and_other_files() {
    let examples = documents().join("control-block/examples");
    let directory = env::temp_dir().join(format!("punctual-examples-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let compiled = ["set_rate", "set_values"].map(|name| {
        let program = directory.join(name);
        compile(&["-std=c99", "-pedantic"], &examples.join(format!("{name}.c")), &program);
        program
    });
    let other = directory.join("other");
    fs::write(&other, [0; 4096]).unwrap();
    let other = other.to_str().unwrap();
    let shell = examples.join("set_rate.sh");
    let code = |program: &Path, words: &[&str]| {
        let output = Command::new(program).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        output.status.code()
    };
    for program in [&compiled[0], &shell] {
        for words in [
            &[other, "up"][..],
            &[other, "sideways", "5"],
            &[other, "up", "20mbit"],
            &[other, "up", ""],
        ] {
            assert_eq!(code(program, words), Some(2), "{} {words:?}", program.display());
        }
        assert_eq!(code(program, &[other, "up", "5"]), Some(1), "{}", program.display());
        assert_eq!(code(program, &["/nowhere", "up", "5"]), Some(1), "{}", program.display());
    }
    for words in [
        ["sideways", "5", "5"],
        ["up", "endless", "5"],
        ["up", "18446744073709551616", "5"],
        ["up", "5", "5ms"],
        ["up", "5", "unlimited"],
    ] {
        assert_eq!(code(&compiled[1], &[&[other], &words[..]].concat()), Some(2), "{words:?}");
    }
    assert_eq!(code(&compiled[1], &[other, "down", "5", "5"]), Some(1));
    let python = Command::new("python3").arg("--version").output();
    for (name, words) in [
        ("set_rate.py", &["up", "20mbit"][..]),
        ("set_rate.py", &["sideways", "5"]),
        ("set_rate.py", &["up"]),
        ("set_rate.py", &["up", "unlimited"]),
        ("watch.py", &["sideways"]),
        ("watch.py", &["up"]),
    ] {
        if python.is_ok() {
            let script = examples.join(name);
            let words = [&[script.to_str().unwrap(), other], words].concat();
            assert_eq!(code(Path::new("python3"), &words), Some(1), "{words:?}");
        }
    }
    assert_eq!(fs::read(other).unwrap(), [0; 4096]);
    fs::remove_dir_all(&directory).unwrap();
}

fn compile(options: &[&str], source: &Path, program: &Path) {
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(documents().join("control-block"))
        .args(options)
        .arg("-o")
        .arg(program)
        .arg(source)
        .output()
        .expect("cc links this test, so it is there");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// What a C program prints; a warning is an error.
fn run_c(program: &str) -> String {
    let directory = env::temp_dir().join(format!("punctual-header-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let source = directory.join("layout.c");
    fs::write(&source, program).unwrap();
    compile(&["-std=gnu99"], &source, &directory.join("layout"));
    let output = Command::new(directory.join("layout")).output().unwrap();
    fs::remove_dir_all(&directory).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn wide(number: usize) -> u64 {
    number.try_into().unwrap()
}
