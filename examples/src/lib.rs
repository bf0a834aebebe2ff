//! The examples have targets of their own; here the code in the README is compiled and run.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
