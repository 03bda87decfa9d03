//! Known words: the one a wrong word was meant to be.

/// The known word nearest to `word`, when it is at most two single-character edits away.
///
/// A word that would have to be replaced from end to end is no suggestion. Of equally near words
/// the first one wins.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nothing known is so long, and the distance takes time by the product of lengths.
    let word = if word.len() > LONGEST_WORD { "" } else { word }.to_ascii_lowercase();
    known
        .into_iter()
        .map(|candidate| (edit_distance(&word, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= 2 && distance < candidate.chars().count())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The tail of an error message: the word that was meant, or all that would have been accepted.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(candidate) => format!("did you mean \"{candidate}\"?"),
        None => format!("expected one of {}", join(known)),
    }
}

/// Words as a comma list.
pub(crate) fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// `text` as a message echoes it: of a word longer than [`LONGEST_WORD`] characters the beginning,
/// of all of it the beginning and the end when it is longer than [`LONGEST`].
pub fn brief(text: &str) -> String {
    shortened(text, LONGEST_WORD)
}

/// [`brief`] with words of up to `longest_word` characters whole.
pub fn shortened(text: &str, longest_word: usize) -> String {
    let cut = |word: &str| {
        let bare = word.trim_end();
        if bare.chars().nth(longest_word).is_none() {
            return word.to_owned();
        }
        let kept: String = bare.chars().take(KEPT).collect();
        format!("{kept}...{}", &word[bare.len()..])
    };
    let words: String = text.split_inclusive(char::is_whitespace).map(cut).collect();
    let characters = words.chars().count();
    if characters <= LONGEST {
        return words;
    }
    let head: String = words.chars().take(LONGEST / 2).collect();
    let tail: String = words.chars().skip(characters - LONGEST / 4).collect();
    format!("{head} ... {tail}")
}

/// The longest word of our own, which is the usage of `loss`, is shorter.
pub const LONGEST_WORD: usize = 100;
/// Characters that stay of a longer one.
const KEPT: usize = 60;
/// Of a message, characters: all names of parameters fit.
pub const LONGEST: usize = 1_600;

/// Levenshtein distance in characters: insertions, deletions, replacements.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_edits() {
        for (a, b, distance) in
            [("", "abc", 3), ("kitten", "sitting", 3), ("rate", "rate", 0), ("dealy", "delay", 2)]
        {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }

    #[test]
    fn what_is_echoed_has_a_bound() {
        assert_eq!(brief("rate=20mbit delay=30ms"), "rate=20mbit delay=30ms");
        let long = "x".repeat(900_000);
        assert_eq!(
            brief(&format!("\"{long}\" is no rate")),
            format!("\"{}... is no rate", "x".repeat(59))
        );
        assert_eq!(brief(&"\u{fc}".repeat(101)), format!("{}...", "\u{fc}".repeat(60)));
        let many = brief(&format!("{} is no rate, expected 20mbit", "a ".repeat(450_000)));
        assert!(many.chars().count() < LONGEST && many.ends_with("expected 20mbit"), "{many}");
        assert_eq!(nearest(&long, ["x", "xxx"]), None);
    }

    #[test]
    fn our_own_words_are_not_cut() {
        for parameter in crate::parameters() {
            let usage = format!("{}={}", parameter.name, parameter.takes);
            assert_eq!(brief(&usage), usage);
        }
    }

    #[test]
    fn the_nearest_word_is_found_and_far_words_are_not() {
        let known = ["rate", "delay", "jitter", "ms"];
        assert_eq!(nearest("dealy", known), Some("delay"));
        assert_eq!(nearest("RATE", known), Some("rate"));
        assert_eq!(nearest("bandwidth", known), None);
        assert_eq!(nearest("xy", known), None, "nothing of `ms` would be left");
    }
}
