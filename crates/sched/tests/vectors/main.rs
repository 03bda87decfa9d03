//! What a real kernel decided, and what we decide.
//!
//! Each file under `data/` is one arrival schedule that went through a qdisc of Linux 7.3.4 (of
//! Linux 6.12.117 for `jens/`) under user-mode Linux with time travel: the kernel's own code in
//! virtual time, where reading the clock or a system call moves it by 128 to 256 ns and nothing
//! else does. The files are this project's own recordings; `data/README.md` says how to read them.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod codel;
mod compare;
mod device;
mod distribution;
mod dualpi2;
mod fifo;
mod file;
mod fq;
mod fq_codel;
mod jens;
mod netem;
mod show;
mod tbf;
