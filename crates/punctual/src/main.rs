//! `punctual`: see the library.

fn main() {}
