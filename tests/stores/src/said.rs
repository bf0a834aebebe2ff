//! What errors say.

use std::error::Error;
use std::fmt::Write as _;

/// Whatever an error and its causes say, to users and to developers.
#[must_use]
pub fn everything_said(error: &dyn Error) -> String {
    let mut text = format!("{error}\n{error:?}\n{error:#?}\n");
    let mut cause = error.source();
    while let Some(error) = cause {
        writeln!(text, "{error}\n{error:?}\n{error:#?}").expect("a string takes all");
        cause = error.source();
    }
    text
}
