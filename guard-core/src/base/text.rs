//! Text of others: what may be shown of it, and whether it says anything.

/// The longest piece of them that is shown, in characters.
const LONGEST: usize = 500;

/// The words of a server or of another program as they may stand in a log line: on one line, with nothing that moves
/// the cursor or turns the direction of writing, and not without end.
#[must_use]
pub fn printable(text: &str) -> String {
    let moves = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len().min(LONGEST));
    for (count, character) in text.chars().enumerate() {
        if count == LONGEST {
            shown.push('…');
            break;
        }
        if moves(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether the reference's runtime (`String.isBlank` of Java) calls `text` blank.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\u{85}' | '\u{A0}' | '\u{2007}' | '\u{202F}' => false,
        '\u{1C}'..='\u{1F}' => true,
        c => c.is_whitespace(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_forge_no_line() {
        assert_eq!(printable("a\r\nb\u{1b}[2Jc"), "a\\r\\nb\\u{1b}[2Jc");
        assert_eq!(printable("\u{202e}ab\u{2028}"), "\\u{202e}ab\\u{2028}");
        assert_eq!(printable("pod-α \"7\""), "pod-α \"7\"");
        assert_eq!(printable(&"x".repeat(600)).chars().count(), LONGEST + 1);
    }
}
