//! `punctual trace make`.

use crate::{Directory, line, trace};

#[test]
fn what_is_made_is_read_as_its_own_format_and_repeats() {
    let directory = Directory::new();
    for kind in [
        "constant --rate 20mbit",
        "square --low 5mbit --high 20mbit --period 2s",
        "saw --low 5mbit --high 20mbit --period 2s",
        "sine --low 1mbit --high 50mbit --period 10s --step 20ms",
        "walk --low 2mbit --high 40mbit --by 1mbit --step 50ms --seed 7",
        "markov --state 30mbit:2s --state 4mbit:500ms --state 0:100ms",
        "slotted --rate 50mbit --slot 500us --pattern DDDSU --direction up",
    ] {
        let made = line(&format!("make {kind}"));
        assert_eq!((made.status, made.stderr.as_str()), (0, ""), "{kind}");
        assert_eq!(line(&format!("make {kind}")).stdout, made.stdout, "{kind}");
        let file = directory.file("made", &made.stdout);
        let json = trace(["check", "--json", &file]).json();
        assert_eq!(
            (&json["format"], &json["repeats"]),
            (&"punctual".into(), &true.into()),
            "{kind}"
        );
        assert_eq!(json["span_ns"], 60_000_000_000_u64, "{kind}");
        assert_eq!(trace(["convert", &file]).stdout, made.stdout, "{kind}");
    }
}

#[test]
fn a_period_that_breaks_off_at_the_seam_is_told() {
    for kind in ["square", "saw", "sine"] {
        let with = |rest: &str| line(&format!("make {kind} --low 1mbit --high 9mbit {rest}"));
        let made = with("--period 7s");
        let expected = "punctual: warning: --duration 60s is no multiple of --period 7s: the \
                        last period breaks off where the trace begins anew\n";
        assert_eq!((made.status, made.stderr.as_str()), (0, expected), "{kind}");
        assert!(made.stdout.starts_with("# punctual trace, version 1\n"), "{kind}");
        assert_eq!(with("--period 7s --duration 21s").stderr, "", "{kind}");
    }
}

#[test]
fn it_is_written_where_it_shall_be() {
    let directory = Directory::new();
    let out = directory.path("out");
    let made = line(&format!("make constant --rate 1mbit --duration 2s -o {}", out.display()));
    assert_eq!((made.status, made.stdout.as_str()), (0, ""));
    let expected = "# punctual trace, version 1\n# span_ns=2000000000 repeat=yes\ntime_ns,rate_bps\n0,1000000\n";
    assert_eq!(std::fs::read_to_string(out).unwrap(), expected);
}

#[test]
fn what_cannot_be_made_is_bad_usage_in_one_line() {
    for (kind, part) in [
        ("saw --low 2mbit --high 1mbit --period 1s", "--low 2mbit is above --high 1mbit"),
        ("markov --state 1mbit", "expected RATE:TIME, such as 20mbit:2s"),
        ("slotted --rate 1mbit --pattern DXU", "'X' in a pattern, expected D, U or S"),
        ("constant --rate=-1", "is negative"),
        ("triangle", "unrecognized subcommand 'triangle'"),
    ] {
        let ended = line(&format!("make {kind}"));
        assert!(ended.refusal().contains(part), "{kind}: {}", ended.stderr);
    }
}
