//! Known words: the one a wrong word was meant to be.

/// The known word nearest to `word`, when it is at most two single-character edits away.
///
/// A word that would have to be replaced from end to end is no suggestion. Of equally near words
/// the first one wins.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
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
    fn the_nearest_word_is_found_and_far_words_are_not() {
        let known = ["rate", "delay", "jitter", "ms"];
        assert_eq!(nearest("dealy", known), Some("delay"));
        assert_eq!(nearest("RATE", known), Some("rate"));
        assert_eq!(nearest("bandwidth", known), None);
        assert_eq!(nearest("xy", known), None, "nothing of `ms` would be left");
    }
}
