//! Texts that configure or change a link: an error or a configuration that reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_sched::{Change, Instant, Link, LinkConfig};

fuzz_target!(|text: &str| {
    match LinkConfig::parse(text, "--up") {
        Ok(config) => {
            let entries = config.all_entries();
            let entries = entries.iter().map(|(name, value)| (*name, value.as_str()));
            let again = LinkConfig::from_entries(entries).expect("what is printed can be read");
            assert_eq!(config, again);
            let link = Link::new(&config, 1, Instant::ZERO).expect("what was read is valid");
            assert_eq!(link.next_event(), None);
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("--up") && !line.contains('\n'), "{line}");
        }
    }
    let _ = Change::from_words(text, "set");
});
