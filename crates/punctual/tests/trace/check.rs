//! `punctual trace check`.

use crate::{Directory, ended, line, lines_of, trace};

#[test]
fn a_trace_is_named_and_its_figures_are_printed() {
    let directory = Directory::new();
    let file = directory.file("up", "7\n8\n8\n8\n8\n8\n14\n");
    let printed = trace(["check", &file]);
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""));
    let expected = format!(
        "file     {file}\n\
         format   mahimahi: Mahimahi packet delivery: a time in ms a line, one opportunity each\n\
         span     0.014 s, then begins anew\n\
         entries  7 opportunities at 3 times, 1504 bytes each, 4 per packet\n\
         mean     6.016 Mbit/s\n\
         peak     6.016 Mbit/s over 14ms\n\
         outage   0.007 s at 0.000 s, the longest\n\
         step     1ms, the smallest\n"
    );
    assert_eq!(printed.stdout, expected);
}

/// 2.5 ms were told as 0.002 s, 1,999 bit/s as 0.001 Mbit/s.
#[test]
fn figures_are_told_to_the_digit() {
    let directory = Directory::new();
    let text = "# span=1500700us\ntime,rate,delay\n0s,1999,10ms\n1ms,0,12.0005ms\n3.5ms,1999,\n";
    let file = directory.file("own", text);
    let printed = trace(["check", &file]);
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""));
    for told in [
        "span     1.5007 s, then ends, unless told to repeat\n",
        "entries  3 steps\n",
        "mean     1.995 kbit/s\n",
        "peak     1.999 kbit/s\n",
        "outage   0.0025 s at 0.001 s, the longest\n",
        "delay    11.999 ms on average, 10.000 ms to 12.0005 ms\n",
    ] {
        assert!(printed.stdout.contains(told), "{told}: {}", printed.stdout);
    }
    for (end, told) in [
        ("59999999999ns", "span     59.999999999 s,"),
        ("640ns", "span     640ns,"),
        ("1ms", "span     0.001 s,"),
    ] {
        let file = directory.file("span", format!("# span={end}\ntime,rate\n0s,1mbit\n"));
        let text = trace(["check", &file]).stdout;
        assert!(text.contains(told) && text.contains("entries  1 step\n"), "{text}");
    }
}

#[test]
fn one_line_is_one_line() {
    let directory = Directory::new();
    let rows = "a,0,1,s,4,tcp,100000000,1\na,60,61,s,4,tcp,,1\na,120,121,s,4,tcp,5,1\n";
    let header = "site_name,timestamp_start,timestamp_end,server,ip,protocol,download,upload\n";
    let file = directory.file("iperf", format!("{header}{rows}"));
    let text = trace(["check", "--direction", "down", &file]).stdout;
    assert!(text.contains("\nwarning  1 line has no value; the value before holds\n"), "{text}");
    for (format, text, told) in [
        ("cellreplay", "0 5 1\n", "1 line, expected at least 3"),
        ("theaterq", "1\n", "1 column, expected 5: "),
        ("theaterq-extended", "1\n", "1 column, expected 8 to 10: "),
        ("punctual", "time_ns,rate_bps\n5\n", "1 column, expected 2 as in the header"),
        (
            "ntrace",
            r#"{"version":1,"entries":[{"entryNo":1,"dateTime":"2023-11-14T22:18:20Z"}]}"#,
            "1 entry, expected at least two",
        ),
    ] {
        let file = directory.file("one", text);
        let refused = trace(["check", "--format", format, "--direction", "up", &file]);
        assert!(refused.refusal().contains(told), "{format}: {}", refused.stderr);
    }
}

#[test]
fn figures_are_json_with_units_in_their_names() {
    let directory = Directory::new();
    let text =
        "# span_ns=10000000000\ntime,rate,delay,loss\n0s,8mbit,10ms,0%\n5s,0,,\n6s,4mbit,20ms,1%\n";
    let file = directory.file("own", text);
    let json = trace(["check", "--json", &file]).json();
    for (key, value) in [
        ("span_ns", 10_000_000_000_u64),
        ("entries", 3),
        ("mean_bps", 5_600_000),
        ("peak_bps", 8_000_000),
        ("outage_ns", 1_000_000_000),
        ("outage_at_ns", 5_000_000_000),
        ("smallest_step_ns", 1_000_000_000),
    ] {
        assert_eq!(json[key], value, "{key}: {json}");
    }
    assert_eq!((&json["schema"], &json["course"]), (&"punctual.trace/1".into(), &"steps".into()));
    assert_eq!(json["delay"]["mean_ns"], 14_000_000);
    assert_eq!(json["loss"]["max"], "1%");
    assert_eq!(json["warnings"], serde_json::json!([]));
}

#[test]
fn an_outage_of_78_seconds_is_fine_and_named() {
    let directory = Directory::new();
    let file = directory.file("up", "1\n500000\n578319\n600000\n");
    let json = trace(["check", "--json", &file]).json();
    assert_eq!(json["outage_ns"], 499_999_000_000_u64);
    let file = directory.file("down", "1\n5000\n83319\n84000\n");
    let json = trace(["check", "--json", &file]).json();
    assert_eq!(
        (&json["outage_ns"], &json["outage_at_ns"]),
        (&78_319_000_000_u64.into(), &5_000_000_000_u64.into())
    );
    let warning = "nothing passes for 78.319 s from 5.000 s on: applications time out";
    assert_eq!(json["warnings"], serde_json::json!([warning]));
}

/// Taken for a link that hangs (mahimahi#170).
#[test]
fn a_packet_in_500_seconds_is_told_as_its_rate_and_warned_of() {
    let directory = Directory::new();
    let file = directory.file("slow", "500000\n");
    let text = trace(["check", &file]).stdout;
    for line in [
        "span     500.000 s, then begins anew",
        "entries  1 opportunity at 1 time, 1504 bytes each, 4 per packet",
        "mean     24 bit/s",
        "outage   500.000 s at 0.000 s, the longest",
        "warning  nothing passes for 500.000 s from 0.000 s on: applications time out",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
}

/// Random pieces of a drive that begin or end in a tunnel made players fail, and nothing said why.
#[test]
fn a_dead_start_and_every_long_outage_are_listed() {
    let directory = Directory::new();
    let file = directory.file("drive", "1500\n1501\n20000\n20400\n98719\n98720\n");
    let text = trace(["check", &file]).stdout;
    let expected = "outage   78.319 s at 20.400 s, the longest\n\
                    start    1.500 s, before which nothing passes\n\
                    outages  3 of 1 s and more, 98.318 s in all:\n         \
                    1.500 s at 0.000 s\n         18.499 s at 1.501 s\n         \
                    78.319 s at 20.400 s\n";
    assert!(text.contains(expected), "{text}");
    let json = trace(["check", "--json", &file]).json();
    assert_eq!(json["dead_start_ns"], 1_500_000_000);
    let each = [(0, 1_500), (1_501, 18_499), (20_400, 78_319)].map(|(at, time): (u64, u64)| {
        serde_json::json!({ "at_ns": at * 1_000_000, "time_ns": time * 1_000_000 })
    });
    let outages = serde_json::json!({
        "least_ns": 1_000_000_000, "count": 3, "time_ns": 98_318_000_000_u64, "longest": each,
    });
    assert_eq!(json["outages"], outages);
    let warnings = [
        "nothing passes in the first 1.500 s: what begins at once waits",
        "nothing passes for 78.319 s from 20.400 s on: applications time out",
    ];
    assert_eq!(json["warnings"], serde_json::json!(warnings));
}

#[test]
fn outages_of_steps_are_listed_as_those_of_deliveries() {
    let directory = Directory::new();
    let text = "# span=60s\ntime,rate,loss\n0s,8mbit,0%\n0s,0,\n2s,8mbit,\n5s,,100%\n6s,0,0%\n\
                9s,8mbit,\n9500ms,0,\n10s,8mbit,\n59s,0,\n";
    let file = directory.file("own", text);
    let json = trace(["check", "--json", &file]).json();
    assert_eq!(json["dead_start_ns"], 2_000_000_000);
    let outages = json["outages"]["longest"].as_array().unwrap();
    let seconds = |value: &serde_json::Value| value.as_u64().unwrap() / 1_000_000_000;
    let all: Vec<_> =
        outages.iter().map(|one| (seconds(&one["at_ns"]), seconds(&one["time_ns"]))).collect();
    // Loss of all and a rate of 0 are one; half a second is none of them.
    assert_eq!(all, [(0, 2), (5, 4), (59, 1)]);
}

#[test]
fn of_many_outages_the_ten_longest_are_printed() {
    let directory = Directory::new();
    let file = directory.file("bus", lines_of((1..=30).map(|n| 1_000 * n * n)));
    let text = trace(["check", &file]).stdout;
    assert!(
        text.contains("outages  30 of 1 s and more, 900.000 s in all; the 10 longest:\n"),
        "{text}"
    );
    let shown: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("         ")).collect();
    assert_eq!((shown.len(), shown[0]), (10, "41.000 s at 400.000 s"));
}

/// Times of deliveries and pairs of times and rates are taken for one another.
#[test]
fn one_column_and_two_columns_are_told_apart() {
    let directory = Directory::new();
    let one = directory.file("one", "7\n8\n14\n");
    let two = directory.file("two", "0 65\n1 5\n");
    assert_eq!(trace(["check", "--json", &one]).json()["format"], "mahimahi");
    let json = trace(["check", "--json", "--unit", "mbit", &two]).json();
    assert_eq!((&json["format"], &json["mean_bps"]), (&"pairs".into(), &35_000_000.into()));
    let refused = trace(["check", "--format", "pairs", "--unit", "mbit", &one]);
    let expected = format!(
        "{one}:1: expected two numbers: a time in seconds and a rate; one column of times in ms is \
         mahimahi"
    );
    assert_eq!(refused.refusal(), expected);
    let refused = trace(["check", "--format", "mahimahi", &two]);
    let expected = format!(
        "{two}:1: \"0 65\" is no number, expected a time in ms; two columns are pairs (seconds and \
         throughput)"
    );
    assert_eq!(refused.refusal(), expected);
    let mixed = directory.file("mixed", "7\n8 5\n");
    assert!(trace(["check", &mixed]).refusal().contains(":2: \"8 5\" is no number"));
}

/// Sets differ by a factor of 1,000, and both look right.
#[test]
fn kbit_and_mbit_are_never_guessed_from_the_numbers() {
    let directory = Directory::new();
    for (text, unit, bps) in
        [("0.0 5537\n1.0 5537\n", "kbit", 5_537_000), ("0 65.0\n1 65.0\n", "mbit", 65_000_000)]
    {
        let file = directory.file("cooked", text);
        let refused = trace(["check", &file]);
        let expected = format!(
            "{file}: is time-throughput pairs, which do not say their unit, expected one of bit, \
             kbit, mbit, byte, kbyte, mbyte (per second); say --unit"
        );
        assert_eq!(refused.refusal(), expected);
        let json = trace(["check", "--json", "--unit", unit, &file]).json();
        assert_eq!(json["mean_bps"], bps, "{text}");
    }
}

#[test]
fn achieved_throughput_and_steps_of_a_second_are_warned_of() {
    let directory = Directory::new();
    let row = |n: u32| {
        format!("{} {} 59.851754 10.781778 248069 1008\n", 1_289_406_399 + n, 549_692 + n * 1_008)
    };
    let file = directory.file("bus", (0..10).map(row).collect::<String>());
    let json = trace(["check", "--json", &file]).json();
    assert_eq!((&json["format"], &json["achieved"]), (&"hsdpa".into(), &true.into()));
    let warnings = json["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].as_str().unwrap().contains("achieved, not capacity"));
    assert!(warnings[1].as_str().unwrap().contains("one value every 1.008 s"));
    let text = trace(["check", &file]).stdout;
    assert_eq!(text.matches("\nwarning  ").count(), 2, "{text}");
}

#[test]
fn what_the_file_leaves_open_is_asked_for_by_the_option() {
    let directory = Directory::new();
    for (text, options, tail) in [
        ("0 5\n1 6\n", "--unit mbit", "; say --unit"),
        ("1705744800.5,91.8\n1705744801.5,92\n", "--format lens-ping", "; say --format"),
        (
            "timestamp,rtt,uplink,downlink\n1705744800626565141,3,2,1\n1705744800636565141,3,2,1\n",
            "--direction up",
            "; say --direction",
        ),
        ("what is this?\n", "", "; say --format"),
    ] {
        let file = directory.file("file", text);
        let refused = trace(["check", &file]);
        assert!(refused.refusal().ends_with(tail), "{}", refused.stderr);
        if !options.is_empty() {
            let words = ["check", &file].into_iter().chain(options.split(' '));
            assert_eq!(trace(words).status, 0);
        }
    }
}

#[test]
fn standard_input_is_read_and_deliveries_become_rates() {
    let directory = Directory::new();
    let file = directory.file("up", "5\n10\n15\n20\n");
    let input = std::fs::File::open(file).unwrap();
    let mut command = crate::command();
    let json = ended(command.args(["check", "--json", "--fluid=20ms", "-"]).stdin(input)).json();
    assert_eq!((&json["course"], &json["mean_bps"]), (&"steps".into(), &2_406_400.into()));
}

#[test]
fn help_lists_every_format() {
    let help = line("check --help").stdout;
    for format in <punctual::trace::Format as clap::ValueEnum>::value_variants() {
        assert!(help.contains(&format.name()), "{format}: {help}");
    }
}
