//! The program: command line, configuration, report. One file per subcommand.

pub mod log;
pub mod traffic;
pub mod verify;
