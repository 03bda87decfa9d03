//! Virtual time: sources, wake-up models, links and sinks around the same scheduler.

#![forbid(unsafe_code)]
