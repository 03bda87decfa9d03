//! Statistics and report arithmetic; nothing here reads a clock or a socket.

#![forbid(unsafe_code)]
