//! What the command is asked for.

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: ratios [--json FILE] [--plots DIR]

Measures the guards beside the floor and the peers, in under a minute, on a redis-server of its own.
Prints a table on standard output, and on standard error how far it is.

  --json FILE   write the figures as JSON, too
  --plots DIR   measure more, and draw pictures (SVG); takes some minutes
  --help        print this";

/// What the command is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) json: Option<PathBuf>,
    pub(crate) plots: Option<PathBuf>,
    pub(crate) help: bool,
}

impl Arguments {
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut this = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let option = word.to_string_lossy();
            let value = match &*option {
                "--json" => &mut this.json,
                "--plots" => &mut this.plots,
                "--help" | "-h" => {
                    this.help = true;
                    continue;
                }
                _ => return Err(format!("unknown argument {option:?}")),
            };
            if value.is_some() {
                return Err(format!("{option} is given twice"));
            }
            match words.next() {
                Some(path) if !path.is_empty() => *value = Some(path.into()),
                _ => return Err(format!("{option} needs a value")),
            }
        }
        Ok(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, String> {
        Arguments::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn options_are_taken_in_any_order() {
        let arguments = parse(&["--plots", "p", "--json", "j"]).unwrap();
        assert_eq!(arguments.json, Some("j".into()));
        assert_eq!(arguments.plots, Some("p".into()));
        assert!(parse(&["--help"]).unwrap().help);
        assert_eq!(parse(&[]), Ok(Arguments::default()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, said) in [
            (&["--jsn", "a"][..], "unknown argument \"--jsn\""),
            (&["file"], "unknown argument \"file\""),
            (&["--json"], "--json needs a value"),
            (&["--plots", ""], "--plots needs a value"),
            (&["--json", "a", "--json", "b"], "--json is given twice"),
        ] {
            assert_eq!(parse(words), Err(said.to_owned()));
        }
    }
}
