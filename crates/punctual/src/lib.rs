//! The program: command line, configuration, report. One file per subcommand.
