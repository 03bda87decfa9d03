//! The page on changes and the parameters say the same.

use punctual_sched::{Live, parameters};

const PAGE: &str = include_str!("../../../../docs/changes.md");

#[test]
fn the_page_on_changes_has_a_row_for_each_parameter_that_says_whether_it_can_change() {
    for row in parameters() {
        let expected = match row.live {
            Live::Yes => "live",
            Live::WithQueue(_) => "with `queue`",
            Live::No(_) => "fixed",
        };
        let beginning = format!("| `{}` | {expected} |", row.name);
        let rows = PAGE.lines().filter(|line| line.starts_with(&beginning)).count();
        assert_eq!(rows, 1, "{beginning}");
    }
}

#[test]
fn the_page_on_changes_says_why_a_parameter_is_fixed_while_its_queue_stays() {
    for row in parameters() {
        let Live::WithQueue(reason) = row.live else { continue };
        let line = PAGE.lines().find(|line| line.starts_with(&format!("| `{}` |", row.name)));
        let line = line.unwrap();
        assert!(line.contains(reason) || line.ends_with("| likewise |"), "{line}: {reason}");
    }
}
