//! The owner's label as the name of a session, of which the server keeps 63 bytes, and only ASCII.

/// As much of a name as the server keeps.
const MAX_BYTES: usize = 63;

/// The label with what is not ASCII percent-encoded, as far as whole characters fit.
pub(crate) fn encoded(label: &str) -> String {
    let mut name = String::new();
    for character in label.chars() {
        let piece = match character {
            ' '..='~' if character != '%' => character.to_string(),
            _ => {
                let mut bytes = [0; 4];
                let bytes = character.encode_utf8(&mut bytes).bytes();
                bytes.map(|byte| format!("%{byte:02X}")).collect()
            }
        };
        if name.len() + piece.len() > MAX_BYTES {
            break;
        }
        name.push_str(&piece);
    }
    name
}

/// The label again. The name of a session that is not ours need not be encoded, and is told as it is.
pub(crate) fn decoded(name: &str) -> String {
    let mut pieces = name.split('%');
    let mut label: Vec<u8> = pieces.next().unwrap_or_default().into();
    for piece in pieces {
        let byte = piece.get(..2).map(|digits| u8::from_str_radix(digits, 16));
        let Some(Ok(byte)) = byte else {
            return name.to_owned();
        };
        label.push(byte);
        label.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(label).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_comes_back_as_far_as_the_server_keeps_it() {
        for label in ["worker-7", "worker 7 / pod-α", "100 %", "%41", "\u{1F600}"] {
            assert!(
                encoded(label)
                    .bytes()
                    .all(|byte| (b' '..=b'~').contains(&byte))
            );
            assert_eq!(decoded(&encoded(label)), label);
        }
        let long = encoded(&"α".repeat(60));
        assert!(long.len() <= MAX_BYTES);
        assert_eq!(decoded(&long), "α".repeat(10));
    }

    #[test]
    fn a_foreign_name_is_told_as_it_is() {
        for name in ["100%", "%zz", "a%4", "%FF", "%α", "psql"] {
            assert_eq!(decoded(name), name);
        }
    }
}
